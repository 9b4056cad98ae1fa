"""A forward-only input behind the interface of random access: pipes and compressed files.

A stream keeps bytes from the lower of two marks on: the position of sequential reading (`release`)
and the first byte that may be read again (`retain`). It keeps them in memory up to SPILL_BYTES,
then in a temporary file. A compressed file can also be opened again and read from its beginning.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import IO, Any

from binlake.errors import BinlogError, SourceError
from binlake.source.inflate import MAGIC_BYTES, decompressor_for
from binlake.source.reader import ByteReader, source_error

#: Kept bytes above this go to a temporary file.
SPILL_BYTES = 64 << 20

_INPUT_BYTES = 256 << 10


class StreamReader(ByteReader):
    """Bytes of a stream that `open_source` opens; inflated if they begin with the magic of a
    compressed format.

    `open_source()` returns an object with `read(n)` (short reads are fine, b"" is the end) and
    `close()`. With `reopenable` it may be called again, to read bytes that were not kept.
    """

    seekable = False

    def __init__(
        self,
        name: str,
        open_source: Callable[[], Any],
        *,
        reopenable: bool,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        self.name = name
        self.size = None
        self.interactive = not reopenable
        self._open_source = open_source
        self._reopenable = reopenable
        self._lock = Lock()
        self._kept = _KeptBytes(spill_bytes)
        self._retained: int | None = None
        self._released = 0
        self._source: Any = None
        self._pieces: Iterator[bytes] | None = None
        self._packed: _Prefixed | None = None
        self._start()

    @property
    def packed_bytes(self) -> int | None:
        return None if self._packed is None else self._packed.count

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._pieces is None:
                raise SourceError(f"{self.name} is closed")
            if offset < self._kept.start:
                self._go_back(offset)
            while self._kept.end < offset + size and self._fill():
                # Bytes before both marks and this read are not needed any more.
                self._kept.drop(min(self._floor(), offset))
            return self._kept.read(offset, size)

    def retain(self, offset: int | None) -> None:
        with self._lock:
            self._retained = offset
            self._kept.drop(self._floor())

    def release(self, offset: int) -> None:
        with self._lock:
            self._released = offset
            self._kept.drop(self._floor())

    def close(self) -> None:
        with self._lock:
            self._pieces = None
            self._kept.close()
            if self._source is not None:
                self._source.close()
                self._source = None

    def _start(self) -> None:
        try:
            source = self._source = self._open_source()
            start = b""
            while len(start) < MAGIC_BYTES:
                piece = source.read(MAGIC_BYTES - len(start))
                if not piece:
                    break
                start += piece
        except OSError as error:
            raise source_error(self.name, error) from error
        decompress = decompressor_for(start)
        read = _Prefixed(start, source, self.name)
        self._packed = read if decompress else None
        self._pieces = (decompress or _as_it_is)(read)

    def _fill(self) -> bool:
        """Append the next piece; False at the end, which sets `size` and perhaps `damage`."""
        if self.size is not None or self._pieces is None:
            return False
        try:
            piece = next(self._pieces, None)
        except SourceError:
            raise
        except BinlogError as error:
            self.damage = error
            piece = None
        if piece is None:
            self.size = self._kept.end
            return False
        self._kept.append(bytes(piece))
        return True

    def _restart(self, source: Any, offset: int) -> None:
        """Continue with the bytes of another source, whose first byte is that at `offset`,
        unchanged.
        """
        if self._source is not None:
            self._source.close()
        self._source = source
        self._kept.clear(offset)
        self._released = offset
        self.size = None
        self.damage = None
        self._packed = None
        self._pieces = _as_it_is(_Prefixed(b"", source, self.name))

    def _floor(self) -> int:
        return self._released if self._retained is None else min(self._released, self._retained)

    def _go_back(self, offset: int) -> None:
        if not self._reopenable:
            raise SourceError(
                f"{self.name}: byte {offset} has already passed; only a file can be read twice",
                hint="write the stream to a file first",
            )
        self._kept.clear()
        self._released = min(self._released, offset)
        self.size = None
        self.damage = None
        if self._source is not None:
            self._source.close()
        self._start()


class _Prefixed:
    """A source whose first bytes have already been read, as a function of the size wanted.

    `count` is the number of bytes that were read.
    """

    def __init__(self, start: bytes, source: Any, name: str) -> None:
        self.count = len(start)
        self._start = start
        self._source = source
        self._name = name

    def __call__(self, size: int) -> bytes:
        if self._start:
            start, self._start = self._start, b""
            return start
        try:
            data: bytes = self._source.read(size)
        except (OSError, ValueError) as error:
            raise source_error(self._name, error) from error
        self.count += len(data)
        return data


def _as_it_is(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while data := read(_INPUT_BYTES):
        yield data


class _KeptBytes:
    """A window [start, end) of a stream: pieces in memory, older ones in a temporary file."""

    def __init__(self, spill_bytes: int) -> None:
        self.start = 0
        self.end = 0
        self._spill_bytes = spill_bytes
        self._pieces: deque[bytes] = deque()
        self._memory_start = 0
        self._file: IO[bytes] | None = None
        self._file_start = 0  # offset in the stream of the file's first byte

    def append(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.end += len(piece)
        if self.end - self._memory_start > self._spill_bytes:
            self._spill()

    def drop(self, offset: int) -> None:
        """Drop the bytes before `offset` (whole pieces of them)."""
        self.start = max(self.start, min(offset, self.end))
        if self._file is not None:
            if self.start < self._memory_start:
                return
            self._file.close()
            self._file = None
        pieces = self._pieces
        while pieces and self._memory_start + len(pieces[0]) <= self.start:
            self._memory_start += len(pieces.popleft())

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.end)
        if offset >= end:
            return b""
        parts: list[bytes] = []
        if self._file is not None and offset < self._memory_start:
            stop = min(end, self._memory_start)
            parts.append(os.pread(self._file.fileno(), stop - offset, offset - self._file_start))
            offset = stop
        at = self._memory_start
        for piece in self._pieces:
            if at >= end:
                break
            if at + len(piece) > offset:
                parts.append(piece[max(0, offset - at) : end - at])
            at += len(piece)
        return b"".join(parts)

    def clear(self, offset: int = 0) -> None:
        """Drop everything; the next append begins at `offset`."""
        self.close()
        self.start = self.end = self._memory_start = offset

    def close(self) -> None:
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="binlake-")  # noqa: SIM115 - closed by drop
            self._file_start = self._memory_start
        self._file.seek(self._memory_start - self._file_start)
        for piece in self._pieces:
            self._file.write(piece)
        self._file.flush()
        self._pieces.clear()
        self._memory_start = self.end
