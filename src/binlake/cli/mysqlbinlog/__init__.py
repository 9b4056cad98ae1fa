"""The command `binlake mysqlbinlog`."""

from binlake.cli.mysqlbinlog.command import mysqlbinlog

__all__ = ["mysqlbinlog"]
