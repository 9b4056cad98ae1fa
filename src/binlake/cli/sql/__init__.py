"""The command `binlake sql`."""

from binlake.cli.sql.command import sql

__all__ = ["sql"]
