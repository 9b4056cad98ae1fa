"""The command `binlake inspect`."""

from binlake.cli.inspect.command import inspect

__all__ = ["inspect"]
