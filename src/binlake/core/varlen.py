"""Kernels of values that carry their length: strings, bytes, JSON.

Wire: a length of 1 to 4 bytes little-endian, then the bytes. CHAR and BINARY come without
their padding; BINARY gets it back.
"""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.core.json_binary import JsonRenderer
from binlake.core.sink import VarSink
from binlake.errors import MalformedError

__all__ = ["Bytes", "JsonText", "Latin"]


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
class JsonText(VarSink):
    """MySQL's JSON: the binary document as the server's text."""

    prefix: cython.int
    renderer: JsonRenderer

    def __init__(self, prefix: cython.int) -> None:
        VarSink.__init__(self)
        self.prefix = prefix
        self.renderer = JsonRenderer()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.filled != row:
            self.fill(row)
        size: cython.Py_ssize_t = _length(c, self.prefix)
        self.renderer.render(c, size, self.out)
        self.offsets[row + 1] = cython.cast(cython.uint, self.out.size)
        self.filled = row + 1
        return 0


@cython.cfunc
@cython.inline
def _length(c: Cursor, prefix: cython.int) -> cython.Py_ssize_t:
    """The length at the cursor, which steps over it; not yet checked against what is left."""
    p: cython.Py_ssize_t = c.pos
    if c.end - p < prefix:
        c.need(prefix)
    c.pos = p + prefix
    length: cython.Py_ssize_t = c.data[p]
    if prefix > 1:
        length |= c.data[p + 1] << 8
    if prefix > 2:
        length |= cython.cast(cython.Py_ssize_t, c.data[p + 2]) << 16
    if prefix > 3:
        length |= cython.cast(cython.Py_ssize_t, c.data[p + 3]) << 24
    return length
