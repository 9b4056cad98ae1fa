"""The command `binlake ui`."""

from binlake.cli.ui.command import ui

__all__ = ["ui"]
