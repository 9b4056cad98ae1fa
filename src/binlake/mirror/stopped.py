"""The error that ends work of a mirror that `Mirror.stop` interrupts."""

from __future__ import annotations

from binlake.errors import BinlogError


class StoppedError(BinlogError):
    """The mirror was stopped before the work was complete."""
