"""Where the frames of one transaction lie, and how to read them (again).

A transaction's frames are needed twice: to learn how it ends, then to decode its rows. Small
transactions stay in memory in between. For one larger than `held_bytes` the windows are dropped
and read again by byte range, so a transaction of any size, compressed or not, takes bounded
memory.

`at` identifies a byte by its ordinal among the transaction's own bytes, where the bytes of an
inflated payload take the place of the payload event. The ranges that ROLLBACK TO SAVEPOINT undid
use the same ordinals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlake.source.window import OpenLog
from binlake.stream.payload import inner_windows
from binlake.stream.runs import Piece
from binlake.values.frame import EventFormat, Frame

if TYPE_CHECKING:
    from binlake.source.window import Window

#: By default, the bytes of windows that one open transaction may hold.
HELD_BYTES = 64 << 20

_Held = list[tuple["Window", int, int]]


@dataclass(slots=True)
class _FrameRange:
    """Frames back to back in one file, bytes [start, stop); or, with `outer`, the events of the
    payload that the event `outer` holds (start and stop are then of the inflated payload).
    """

    file: OpenLog
    format: EventFormat
    start: int
    stop: int
    at: int
    held: _Held | None
    outer: Frame | None = None
    outer_held: tuple[Window, int] | None = None

    def outer_pieces(self) -> Iterator[Piece]:
        """The payload event itself, if this is one."""
        if self.outer_held is not None:
            window, index = self.outer_held
            yield Piece(window, index, index + 1)
        elif self.outer is not None:
            for window, first, last in self._read_again(self.outer.offset, self.outer.end):
                yield Piece(window, first, last)

    def windows(self) -> Iterable[tuple[Window, int, int]]:
        """The windows with the frames of this part, each with its first and last + 1."""
        if self.held is not None:
            return self.held
        if self.outer is not None:
            return self._inflate_again(self.outer)
        return self._read_again(self.start, self.stop)

    def _read_again(self, start: int, stop: int) -> Iterator[tuple[Window, int, int]]:
        with ExitStack() as opened:
            file = self.file
            if file.closed:  # the reader has passed it, and the caller comes back
                file = opened.enter_context(file.reopen(stop))
            # verified when it was read first
            for window in file.windows(start, stop, verify=False, format=self.format):
                yield window, 0, len(window)

    def _inflate_again(self, outer: Frame) -> Iterator[tuple[Window, int, int]]:
        for window, first, _ in self._read_again(outer.offset, outer.end):
            for inner in inner_windows(window, first):
                yield inner, 0, len(inner)


class TransactionFrames:
    """The frames of one transaction, in order. It holds at most `held_bytes` of windows."""

    __slots__ = ("_held_bytes", "_holding", "_most_held_bytes", "_ranges", "size")

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._most_held_bytes = held_bytes
        self.size = 0  # bytes so far: the `at` of the next
        self._ranges: list[_FrameRange] = []
        self._held_bytes = 0
        self._holding = True

    def add(self, window: Window, first: int, last: int) -> None:
        """Append frames [first, last) of a window of a file."""
        start, stop = window.frame(first).offset, window.block.end(last - 1)
        tail = self._ranges[-1] if self._ranges else None
        if tail is None or tail.outer or tail.file is not window.file or tail.stop != start:
            held: _Held | None = [] if self._holding else None
            tail = _FrameRange(window.file, window.format, start, start, self.size, held)
            self._ranges.append(tail)
        self._extend(tail, window, first, last, stop)

    def add_payload(self, window: Window, index: int) -> Iterator[Window]:
        """Append the payload event that is frame `index`: its inner windows, one by one.

        Each is appended as it is taken from the iterator. Raises FormatError.
        """
        outer = window.frame(index)
        held: _Held | None = [] if self._holding else None
        tail = _FrameRange(window.file, window.format, 0, 0, self.size, held, outer)
        tail.outer_held = (window, index) if self._holding else None
        self._ranges.append(tail)
        for inner in inner_windows(window, index):
            last = len(inner)
            self._extend(tail, inner, 0, last, inner.end)
            yield inner

    def _extend(self, tail: _FrameRange, window: Window, first: int, last: int, stop: int) -> None:
        self.size += stop - tail.stop
        tail.stop = stop
        if tail.held is None:
            return
        if tail.held and tail.held[-1][0] is window and tail.held[-1][2] == first:
            tail.held[-1] = (window, tail.held[-1][1], last)
            return
        tail.held.append((window, first, last))
        self._held_bytes += len(window.data)
        if self._held_bytes > self._most_held_bytes:
            self.release()

    def release(self) -> None:
        """Hold no more windows: frames are read again when they are needed."""
        self._holding = False
        self._held_bytes = 0
        for part in self._ranges:
            part.held = part.outer_held = None

    @property
    def is_held(self) -> bool:
        """Whether all windows are in memory; if not, `pieces` reads them again."""
        return self._holding

    def start_in(self, file: OpenLog) -> int | None:
        """Offset of the first byte in a file; None if no part lies in it."""
        for part in self._ranges:
            if part.file is file:
                return part.outer.offset if part.outer is not None else part.start
        return None

    def events(self) -> Iterator[Piece]:
        """Yield all frames for an event reader: each payload event before its content."""
        for part in self._ranges:
            yield from part.outer_pieces()
            inner = 0
            for window, first, last in part.windows():
                yield Piece(window, first, last, part.outer, inner)
                inner += last - first

    def pieces(self, undone: Sequence[tuple[int, int]]) -> Iterator[Piece]:
        """Yield all frames except those in the ranges `undone` (sorted, disjoint), in order.

        The payload event itself is not a piece; its inner events are.
        """
        for part in self._ranges:
            shift = part.at - part.start
            inner = 0
            for window, first, last in part.windows():
                for start, stop in _outside(window, first, last, shift, undone):
                    ordinal = inner + start - first
                    yield Piece(window, start, stop, part.outer, ordinal)
                inner += last - first


def _outside(
    window: Window, first: int, last: int, shift: int, undone: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Return the parts of frames [first, last) outside the undone ranges."""
    for low, high in undone:
        start = max(first, window.block.find(low - shift))
        stop = min(last, window.block.find(high - shift))
        if start >= stop:
            continue
        if first < start:
            yield first, start
        first = stop
    if first < last:
        yield first, last
