"""The errors that end work of a mirror that is interrupted."""

from __future__ import annotations

from binlake.errors import BinlogError


class StoppedError(BinlogError):
    """The mirror was stopped before the work was complete."""


class PausedError(BinlogError):
    """The mirror is paused, so the work cannot begin, or was not completed."""
