"""The output of `inspect`, piece by piece: from compiled kernels where possible, else from typed
events.

A kernel of `core/` writes the lines of ordinary events and stops before any other event, whose
line comes from its typed event. Kernels only get events whose checksum was verified: the bytes of
others may have any value, and the decoders of the typed events detect that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO, Protocol

from binlake.core.text.text_output import TextBuffer
from binlake.format.event_header import HEADER_BYTES
from binlake.stream.log_events import LogEvent, events_of_piece, first_bad_of
from binlake.stream.runs import Piece
from binlake.values.frame import BINLOG_CHECKSUM_ALG_CRC32

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_LIMIT = 1 << 62


class LineKernel(Protocol):
    """The interface of the compiled writers."""

    def write(self, data: Buffer, pos: int, end: int, counted: int, limit: int) -> tuple[int, int]:
        """Write lines from `data[pos]` on; return how many, and where they ended."""

    def take(self) -> TextBuffer:
        """Return the written bytes."""


class EventWriter(ABC):
    """Writes lines to `target`; `shown` counts the lines, `bad` the lines of events with a bad checksum.

    `encoding` and `errors` are those of the text stream that `target` belongs to.
    """

    def __init__(self, target: BinaryIO, encoding: str, errors: str, limit: int | None) -> None:
        self.shown = self.bad = 0
        self._target = target
        self._encoding, self._errors = encoding, errors
        self._left = _NO_LIMIT if limit is None else limit

    @abstractmethod
    def kernel_of(self, piece: Piece) -> LineKernel | None:
        """Return a writer for the ordinary events of a piece of verified events, or None."""

    @abstractmethod
    def line_of(self, event: LogEvent) -> str:
        """Return the line of one event. Raises FormatError, UnsupportedError."""

    def learn(self, event: LogEvent) -> None:
        """Take an event that the kernel left, after its line was made."""
        return

    @property
    def is_done(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def write(self, piece: Piece) -> None:
        """Write the lines of a piece. Raises FormatError, UnsupportedError."""
        window = piece.window
        block = window.block
        kernel = self.kernel_of(piece) if _is_verified(piece) else None
        at = piece.first
        while at < piece.last and self._left:
            if kernel is not None:
                start = int(block.frame(at).offset)
                end = int(block.end(piece.last - 1)) - window.base
                counted = start if piece.outer is None else piece.inner + at - piece.first
                count, _ = kernel.write(window.data, start - window.base, end, counted, self._left)
                if count:
                    self._target.write(kernel.take())
                    self._count(count)
                    at += count
                    continue
            for event in events_of_piece(piece.part(at, at + 1)):
                self._write_event(event)
                if kernel is not None:
                    self.learn(event)
            at += 1

    def encoded(self, text: str) -> bytes:
        """Return text in the encoding of the target."""
        return text.encode(self._encoding, self._errors)

    def _write_event(self, event: LogEvent) -> None:
        self._target.write(self.encoded(self.line_of(event) + "\n"))
        self.bad += event.checksum == "bad"
        self._count(1)

    def _count(self, lines: int) -> None:
        self.shown += lines
        self._left -= lines


def _is_verified(piece: Piece) -> bool:
    fmt = piece.window.format
    return (
        fmt.checksum_alg == BINLOG_CHECKSUM_ALG_CRC32
        and fmt.header_length >= HEADER_BYTES
        and first_bad_of(piece) < 0
    )
