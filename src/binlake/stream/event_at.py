"""Decode single events of a window into typed objects: the slow way, for when a step is not
enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.errors import BinlogError
from binlake.events.base import Event
from binlake.events.registry import decode_event

if TYPE_CHECKING:
    from binlake.source.window import Window


def event_at(window: Window, index: int) -> Event:
    """Return the typed event of frame `index`. Raises FormatError or UnsupportedError, which name
    the file.
    """
    try:
        return decode_event(window.frame(index), window.body(index), window.format)
    except BinlogError as error:
        raise error.at(file=window.file.name) from None
