"""The command `binlake mirror`."""

from binlake.cli.mirror.command import mirror

__all__ = ["mirror"]
