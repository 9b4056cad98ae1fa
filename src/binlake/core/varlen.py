"""Kernels of values that carry their length: strings and bytes (formats.md §2.2).

Wire: a length of 1 to 4 bytes little-endian, then the bytes. CHAR and BINARY come without
their padding; BINARY gets it back.
"""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.core.sink import VarSink
from binlake.errors import MalformedError

__all__ = ["Bytes", "Latin", "Text"]


@cython.final
@cython.cclass
class Bytes(VarSink):
    """The bytes as they are, padded with 0x00 to `padded` bytes."""

    prefix: cython.int
    padded: cython.Py_ssize_t

    def __init__(self, prefix: cython.int, padded: cython.Py_ssize_t = 0) -> None:
        VarSink.__init__(self)
        self.prefix = prefix
        self.padded = padded

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.filled != row:
            self.fill(row)
        size: cython.Py_ssize_t = _length(c, self.prefix)
        self.out.copy(c, size)
        if size < self.padded:
            self.out.reserve(self.padded - size)
            while size < self.padded:
                self.out.view[self.out.size] = 0
                self.out.size += 1
                size += 1
        self.offsets[row + 1] = cython.cast(cython.uint, self.out.size)
        self.filled = row + 1
        return 0


@cython.final
@cython.cclass
class Latin(VarSink):
    """Text of a single-byte character set as UTF-8, through a table of its 256 characters.

    `table` maps each byte to its UTF-8 bytes. Raises MalformedError for a byte whose entry is
    None.
    """

    prefix: cython.int
    sizes: cython.uchar[::1]  # of each entry; 0: no such character
    entries: cython.uchar[::1]  # 4 bytes per entry

    def __init__(self, prefix: cython.int, table: tuple[bytes | None, ...]) -> None:
        VarSink.__init__(self)
        if len(table) != 256 or any(entry is not None and len(entry) > 4 for entry in table):
            raise ValueError("a table of 256 characters is needed")
        self.prefix = prefix
        self.sizes = memoryview(bytearray(len(entry or b"") for entry in table))
        self.entries = memoryview(bytearray(b"".join((e or b"").ljust(4, b"\0") for e in table)))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.fill(row)
        size: cython.Py_ssize_t = _length(c, self.prefix)
        c.need(size)
        self.out.reserve(4 * size)
        p: cython.Py_ssize_t = c.pos
        at: cython.Py_ssize_t = self.out.size
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        for i in range(p, p + size):
            byte: cython.int = c.data[i]
            width: cython.Py_ssize_t = self.sizes[byte]
            if width == 0:
                raise MalformedError(f"0x{byte:02X} is no character of its set", offset=i - c.start)
            for k in range(width):
                self.out.view[at + k] = self.entries[4 * byte + k]
            at += width
        self.out.size = at
        c.pos = p + size
        return self.fill(row + 1)


@cython.final
@cython.cclass
class Text(VarSink):
    """Text that does not come off the wire: see `put`."""

    def put(self, text: bytes, row: cython.Py_ssize_t) -> int:
        """`text` is the value of `row`."""
        self.fill(row)
        self.out.put(text)
        return self.fill(row + 1)


@cython.cfunc
@cython.inline
def _length(c: Cursor, prefix: cython.int) -> cython.Py_ssize_t:
    """The length at the cursor, which steps over it; not yet checked against what is left."""
    p: cython.Py_ssize_t = c.pos
    if prefix == 1 and c.end - p >= 1:
        c.pos = p + 1
        return c.data[p]
    if prefix == 2 and c.end - p >= 2:
        c.pos = p + 2
        return c.data[p] | c.data[p + 1] << 8
    return cython.cast(cython.Py_ssize_t, c.le_uint(prefix))
