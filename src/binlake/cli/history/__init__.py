"""The command `binlake history`."""

from binlake.cli.history.command import history

__all__ = ["history"]
