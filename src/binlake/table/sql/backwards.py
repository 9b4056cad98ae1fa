"""Chunks of bytes in a temporary file, for reading in reverse order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa

from binlake.errors import SourceError


class BackwardsFile:
    """Takes chunks in order and returns them last first; the content of a chunk stays unchanged.

    A chunk comes back in pieces of at most `read_bytes`. The file has no name and is removed when this is closed. Raises SourceError when it cannot be
    written.
    """

    def __init__(self, read_bytes: int = 1 << 20) -> None:
        self._read_bytes = read_bytes
        self._file = tempfile.TemporaryFile(prefix="binlake-")  # noqa: SIM115
        self._ends = [0]

    def __enter__(self) -> BackwardsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, chunk: pa.Buffer | bytes) -> None:
        """Add a chunk."""
        try:
            self._file.write(chunk)
        except OSError as error:
            raise SourceError(
                f"cannot write a temporary file in {tempfile.gettempdir()}: {error.strerror}",
                hint="set TMPDIR to a folder with more room",
                errno=error.errno,
            ) from None
        self._ends.append(self._ends[-1] + len(memoryview(chunk)))

    def backwards(self) -> Iterator[bytes]:
        """Yield the chunks, last first, each in pieces that fit into memory."""
        for start, end in zip(self._ends[-2::-1], self._ends[:0:-1], strict=True):
            self._file.seek(start)
            left = end - start
            while left:
                piece = self._file.read(min(left, self._read_bytes))
                yield piece
                left -= len(piece)
