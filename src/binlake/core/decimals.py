"""Kernels of DECIMAL: to decimal128, or to the server's text.

Wire, big-endian: the digits before and after the point in groups of 9, each in 4 bytes; a
shorter first group before the point, and a shorter last one after it, take 1 to 4 bytes. The
first bit is flipped; in a negative number all bits are inverted besides.
Source: strings/decimal.cc (decimal2bin, bin2decimal).
"""

from __future__ import annotations

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.core.sink import Sink128, VarSink
from binlake.errors import MalformedError

__all__ = ["Decimal128", "DecimalText", "decimal_width"]

MAX_DIGITS = 81  # 9 groups. A column has at most 65, but JSON counts leading zeros too
_GROUPS = 16  # room for the groups of a number: 81 digits make at most 10
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of a group of 0 to 9 digits
_ALL_32 = cython.declare(cython.uint, 0xFFFFFFFF)
_FIRST_BIT = cython.declare(cython.uint, 0x80000000)
_ROOM = cython.declare(cython.Py_ssize_t, MAX_DIGITS + 4)  # "-0." and the digits
_LOW_HALF = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def decimal_width(precision: int, scale: int) -> int:
    """Wire bytes of DECIMAL(precision, scale)."""
    whole = precision - scale
    return 4 * (whole // 9) + _GROUP_BYTES[whole % 9] + 4 * (scale // 9) + _GROUP_BYTES[scale % 9]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _load(c: Cursor, p: cython.Py_ssize_t) -> cython.uint:
    """The four bytes at `p`, big-endian; those beyond the end are 0."""
    value: cython.uint = 0
    if c.end - p >= 4:
        if cython.compiled:
            memcpy(cython.address(value), cython.address(c.data[p]), 4)  # noqa: F821 - cimported
            return value << 24 | (value >> 8 & 0xFF) << 16 | (value >> 16 & 0xFF) << 8 | value >> 24
        else:  # noqa: RET505 - only one branch is compiled
            return int.from_bytes(c.view[p : p + 4], "big")
    i: cython.Py_ssize_t
    for i in range(c.end - p):
        value |= cython.cast(cython.uint, c.data[p + i]) << (24 - 8 * i)
    return value


@cython.final
@cython.cclass
class DecimalReader:
    """The groups of DECIMAL(precision, scale), and their values in the number read last.

    `digits[i]` decimal digits of group i were in `widths[i]` bytes; `groups[i]` is their value.
    `low` is the whole number without point and sign, if it has at most 18 digits.
    """

    def __init__(self, precision: cython.int, scale: cython.int) -> None:
        if not (0 <= scale <= precision <= MAX_DIGITS):
            raise MalformedError(f"DECIMAL({precision},{scale}) does not exist")
        whole = precision - scale
        sizes = [whole % 9] if whole % 9 else []
        sizes += [9] * (whole // 9)
        self.whole = len(sizes)
        sizes += [9] * (scale // 9)
        sizes += [scale % 9] if scale % 9 else []
        self.count = len(sizes)
        self.width = decimal_width(precision, scale)
        self.negative = False
        self.low = 0
        self.digits = memoryview(bytearray(sizes))
        self.widths = memoryview(bytearray(_GROUP_BYTES[n] for n in sizes))
        self.bounds = memoryview(bytearray(4 * _GROUPS)).cast("I")
        self.groups = memoryview(bytearray(4 * _GROUPS)).cast("I")
        for i, n in enumerate(sizes):
            self.bounds[i] = 10**n

    def read(self, c: Cursor) -> cython.int:
        """Read one number. Raises TruncatedError, MalformedError for digits that cannot be."""
        p: cython.Py_ssize_t = c.pos
        if c.end - p < self.width:
            c.need(self.width)
        if self.width == 0:
            return 0
        self.negative = c.data[p] < 0x80
        inverted: cython.uint = _ALL_32 if self.negative else 0
        flip: cython.uint = _FIRST_BIT  # of the first group
        low: cython.ulonglong = 0
        width: cython.int
        value: cython.uint
        i: cython.int
        for i in range(self.count):
            width = self.widths[i]
            value = (_load(c, p) ^ flip ^ inverted) >> (32 - 8 * width)
            if value >= self.bounds[i]:
                raise MalformedError(
                    f"{value} is not a group of {self.digits[i]} decimal digits",
                    offset=c.pos - c.start,
                )
            self.groups[i] = value
            low = low * self.bounds[i] + value
            flip = 0
            p += width
        self.low = low
        c.pos = p
        return 0

    def write(self, out: ByteBuffer) -> cython.int:
        """Append the number as the server writes it."""
        out.reserve(_ROOM)
        at: cython.Py_ssize_t = out.size
        if self.negative:
            out.view[at] = 45
            at += 1
        start: cython.Py_ssize_t = at
        i: cython.int
        for i in range(self.whole):
            at = self._group(out, i, at, at == start)
        if at == start:
            out.view[at] = 48
            at += 1
        if self.whole < self.count:
            out.view[at] = 46
            at += 1
            for i in range(self.whole, self.count):
                at = self._group(out, i, at, False)
        out.size = at
        return 0

    def _group(
        self, out: ByteBuffer, i: cython.int, at: cython.Py_ssize_t, leading: cython.bint
    ) -> cython.Py_ssize_t:
        """Write group i at `at`, without leading zeros if it leads; where the next one goes."""
        value: cython.uint = self.groups[i]
        width: cython.int = self.digits[i]
        if leading:
            bound: cython.ulonglong = 1
            width = 0
            while bound <= value:
                bound *= 10
                width += 1
        end: cython.Py_ssize_t = at + width
        at = end
        _k: cython.int
        for _k in range(width):
            at -= 1
            out.view[at] = cython.cast(cython.uchar, 48 + value % 10)
            value //= 10
        return end


@cython.final
@cython.cclass
class Decimal128(Sink128):
    """DECIMAL of up to 38 digits to a 128-bit two's complement number, unscaled."""

    wire: DecimalReader
    narrow: cython.bint  # at most 18 digits: 64 bits are enough to compute with

    def __init__(self, precision: cython.int, scale: cython.int) -> None:
        Sink128.__init__(self)
        if precision > 38:
            raise MalformedError(f"decimal128 cannot hold {precision} digits")
        self.wire = DecimalReader(precision, scale)
        self.narrow = precision <= 18

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.wire.read(c)
        low: cython.ulonglong = 0
        high: cython.ulonglong = 0
        carry: cython.ulonglong
        scale: cython.ulonglong
        i: cython.int
        if self.narrow:
            low = self.wire.low
        else:
            for i in range(self.wire.count):
                # (high, low) * scale + group, in 32-bit steps so that nothing overflows
                scale = self.wire.bounds[i]
                carry = (low & _LOW_HALF) * scale + self.wire.groups[i]
                part: cython.ulonglong = (low >> 32) * scale + (carry >> 32)
                low = (part & _LOW_HALF) << 32 | (carry & _LOW_HALF)
                high = high * scale + (part >> 32)
        if self.wire.negative and (low | high) != 0:
            low = ((low ^ _ALL_ONES) + 1) & _ALL_ONES
            high ^= _ALL_ONES
            if low == 0:
                high += 1
        self.values[2 * row] = low
        self.values[2 * row + 1] = high
        return 0


@cython.final
@cython.cclass
class DecimalText(VarSink):
    """DECIMAL as the server writes it: `-0.50`, all digits of the scale, no more zeros."""

    wire: DecimalReader

    def __init__(self, precision: cython.int, scale: cython.int) -> None:
        VarSink.__init__(self)
        self.wire = DecimalReader(precision, scale)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        self.fill(row)
        self.wire.read(c)
        self.wire.write(self.out)
        return self.fill(row + 1)
