"""The command `binlake query`."""

from binlake.cli.query.command import query

__all__ = ["query"]
