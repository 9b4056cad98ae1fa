"""Verify event bodies without checksums by decoding them.

Servers before MySQL 5.6 and MariaDB 5.3 write no checksums, and newer ones can turn them off. Then
framing alone proves little: a body with flipped bits has the right length. So every event that has
a class is decoded, including those inside payloads. The table room checks the content of row
images (`ImageCheck`). Without a checksum, values cannot be proven right, only possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Never

from binlake.errors import BinlogError, UnsupportedError
from binlake.format.event_types import EVENT_TYPES, TRANSACTION_PAYLOAD_EVENT, event_name
from binlake.format.flags import LOG_EVENT_IGNORABLE_F
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.stream.verify.problems import Kind, Problem

if TYPE_CHECKING:
    from binlake.source.window import Window

#: Takes the windows of one log in order, and returns the errors of the row images in each, with
#: `event_pos`.
ImageCheck = Callable[["Window"], Iterator[BinlogError]]


def no_images(_window: Window) -> Iterator[Never]:
    """Checks no row image."""
    return iter(())


class BodyCheck:
    """Decodes the events of one log, window by window."""

    def __init__(self, images: ImageCheck) -> None:
        self._images = images

    def problems(self, window: Window) -> dict[int, Problem]:
        """Return the frames of a window that cannot be decoded, in order, and the reason."""
        found: dict[int, Problem] = {}
        for index in range(len(window)):
            try:
                self._decode(window, index)
            except BinlogError as error:
                found[index] = _problem(window, index, error)
        for wrong in self._images(window):
            index = window.block.find(wrong.event_pos)
            found.setdefault(index, _problem(window, index, wrong))
        return dict(sorted(found.items()))

    def _decode(self, window: Window, index: int) -> None:
        _decode_one(window, index)
        if window.frame(index).type_code != TRANSACTION_PAYLOAD_EVENT:
            return
        for inner in inner_windows(window, index):
            for at in range(len(inner)):
                _decode_one(inner, at)
            for error in self._images(inner):
                raise error


def _decode_one(window: Window, index: int) -> None:
    event_at(window, index)
    frame = window.frame(index)
    if frame.type_code not in EVENT_TYPES and not frame.flags & LOG_EVENT_IGNORABLE_F:
        raise UnsupportedError("its type is unknown and not marked as ignorable")


def _problem(window: Window, index: int, error: BinlogError) -> Problem:
    frame = window.frame(index)
    kind = Kind.UNSUPPORTED if isinstance(error, UnsupportedError) else Kind.BAD_EVENT
    name = error.event_type or event_name(frame.type_code)
    return Problem(frame.offset, kind, f"{name} cannot be decoded: {error.message}")
