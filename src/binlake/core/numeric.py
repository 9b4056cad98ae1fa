"""Kernels of integers, floats, bit fields and YEAR.

Integers and floats are little-endian on the wire and stored as they are; an unsigned integer
is stored in the next wider signed type, so widening is all the arithmetic there is. BIT is
big-endian. DECIMAL has a module of its own.
"""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.core.sink import Sink, Sink8, Sink16, Sink32, Sink64, Sink128

__all__ = ["Big128", "BigEndian64", "Int8", "Int16", "Int32", "Int64", "Little128", "Null", "Year"]

_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
def _le16(c: Cursor) -> cython.ushort:
    """Two bytes at the cursor, which steps over them."""
    p: cython.Py_ssize_t = c.pos
    value: cython.ushort = 0
    if c.end - p < 2:
        c.need(2)
    c.pos = p + 2
    if cython.compiled:
        memcpy(cython.address(value), cython.address(c.data[p]), 2)  # noqa: F821 - cimported
        return value
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[p : p + 2], "little")


@cython.cfunc
@cython.inline
def _le24(c: Cursor) -> cython.uint:
    """Three bytes at the cursor, which steps over them."""
    value: cython.uint = _le16(c)
    return value | cython.cast(cython.uint, c.u8()) << 16


@cython.cfunc
@cython.inline
def _le32(c: Cursor) -> cython.uint:
    """Four bytes at the cursor, which steps over them."""
    p: cython.Py_ssize_t = c.pos
    value: cython.uint = 0
    if c.end - p < 4:
        c.need(4)
    c.pos = p + 4
    if cython.compiled:
        memcpy(cython.address(value), cython.address(c.data[p]), 4)  # noqa: F821 - cimported
        return value
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[p : p + 4], "little")


@cython.cfunc
@cython.inline
def _le64(c: Cursor) -> cython.ulonglong:
    """Eight bytes at the cursor, which steps over them."""
    p: cython.Py_ssize_t = c.pos
    value: cython.ulonglong = 0
    if c.end - p < 8:
        c.need(8)
    c.pos = p + 8
    if cython.compiled:
        memcpy(cython.address(value), cython.address(c.data[p]), 8)  # noqa: F821 - cimported
        return value
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[p : p + 8], "little")


@cython.final
@cython.cclass
class Int8(Sink8):
    """One byte, as it is."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        p: cython.Py_ssize_t = c.pos
        if c.end - p < 1:
            c.need(1)
        c.pos = p + 1
        self.values[row] = c.data[p]
        return 0


@cython.final
@cython.cclass
class Int16(Sink16):
    """2 bytes as they are, or 1 byte unsigned."""

    width: cython.int

    def __init__(self, width: cython.int) -> None:
        Sink16.__init__(self)
        self.width = width

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.width == 2:
            self.values[row] = cython.cast(cython.ushort, _le16(c))
        else:
            self.values[row] = cython.cast(cython.ushort, c.u8())
        return 0


@cython.final
@cython.cclass
class Int32(Sink32):
    """4 bytes as they are, 3 bytes signed or unsigned, or 2 bytes unsigned.

    `sign` is the sign bit that 3 signed bytes extend, else 0.
    """

    width: cython.int
    sign: cython.uint

    def __init__(self, width: cython.int, sign: cython.uint) -> None:
        Sink32.__init__(self)
        self.width = width
        self.sign = sign

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.width == 4:
            self.values[row] = _le32(c)
        elif self.width == 3:
            value: cython.longlong = _le24(c)
            value = (value ^ self.sign) - self.sign
            self.values[row] = cython.cast(cython.uint, value & _LOW_32)
        else:
            self.values[row] = _le16(c)
        return 0


@cython.final
@cython.cclass
class Int64(Sink64):
    """8 bytes as they are, or 1 to 4 bytes unsigned."""

    width: cython.int

    def __init__(self, width: cython.int) -> None:
        Sink64.__init__(self)
        self.width = width

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.width == 8:
            self.values[row] = _le64(c)
        elif self.width == 4:
            self.values[row] = _le32(c)
        elif self.width == 1:
            self.values[row] = c.u8()
        else:
            self.values[row] = c.le_uint(self.width)
        return 0


@cython.final
@cython.cclass
class BigEndian64(Sink64):
    """1 to 8 bytes big-endian: BIT."""

    width: cython.int

    def __init__(self, width: cython.int) -> None:
        Sink64.__init__(self)
        self.width = width

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.values[row] = c.be_uint(self.width)
        return 0


@cython.final
@cython.cclass
class Little128(Sink128):
    """8 bytes unsigned, in a decimal128: BIGINT UNSIGNED."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.values[2 * row] = _le64(c)
        return 0


@cython.final
@cython.cclass
class Big128(Sink128):
    """8 bytes big-endian, in a decimal128: BIT(64)."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.values[2 * row] = c.be_uint(8)
        return 0


@cython.final
@cython.cclass
class Year(Sink16):
    """One byte: 0 is the year 0000, otherwise years since 1900."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        value: cython.int = c.u8()
        self.values[row] = cython.cast(cython.ushort, value + 1900 if value else 0)
        return 0


@cython.final
@cython.cclass
class Null(Sink):
    """A column of type NULL: no bytes, always null."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.append_null(row)

    @cython.cfunc
    def take_data(self, count: cython.Py_ssize_t) -> object:
        """As Sink: no bytes."""
        return memoryview(b"")
