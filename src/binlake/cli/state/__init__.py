"""The command `binlake state`."""

from binlake.cli.state.command import state

__all__ = ["state"]
