"""The one bounds-checked reader of event bytes; everything that decodes wire bytes uses it.

A Cursor stands at `pos` in a buffer and never reads at or after `end`. `start` is where the
current event body begins, so that errors can name an offset inside the body. All integers
are little-endian. A read that does not fit raises
TruncatedError and leaves the position where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.errors import MalformedError, TruncatedError

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview


@cython.final
@cython.cclass
class Cursor:
    """A position in `data`, bounded by `end`.

    `data` is any contiguous byte buffer; it is kept alive, not copied (`view` shows it). `end` < 0 means the
    end of the buffer. Raises ValueError for a range outside the buffer (a caller's mistake).
    """

    def __init__(
        self, data: Buffer, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1
    ) -> None:
        self.view = memoryview(data).cast("B")
        self.data = self.view
        self.start = 0
        self.pos = 0
        self.end = 0
        self.enter(pos, self.data.shape[0] if end < 0 else end)

    def enter(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Stand at the start of the body [start, end) of the same buffer; returns 0."""
        self.bound(start, end)
        self.start = start
        return 0

    def bound(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Go on at `pos`, bounded by `end`, in the same body; returns 0.

        Raises ValueError for a range outside the buffer.
        """
        if pos < 0 or end < pos or end > self.data.shape[0]:
            raise ValueError(f"range [{pos}, {end}) is outside the buffer")
        self.pos = pos
        self.end = end
        return 0

    def need(self, count: cython.Py_ssize_t) -> int:
        """Check that `count` bytes are left; returns 0.

        Raises TruncatedError, or MalformedError for a negative count.
        """
        have: cython.Py_ssize_t = self.end - self.pos
        if count > have or count < 0:
            if count < 0:
                raise MalformedError("a length is negative", offset=self.pos - self.start)
            raise TruncatedError(
                f"the event ends too early: {count} bytes needed, {have} left",
                need=count,
                have=have,
                offset=self.pos - self.start,
            )
        return 0

    def skip(self, count: cython.Py_ssize_t) -> int:
        """Step over `count` bytes; returns 0."""
        self.need(count)
        self.pos += count
        return 0

    def left(self) -> int:
        """How many bytes are left before `end`."""
        return self.end - self.pos

    def u8(self) -> int:
        """Unsigned, 1 byte."""
        self.need(1)
        value: cython.int = self.data[self.pos]
        self.pos += 1
        return value

    def u16(self) -> int:
        """Unsigned, 2 bytes."""
        self.need(2)
        p: cython.Py_ssize_t = self.pos
        self.pos = p + 2
        return self.data[p] | self.data[p + 1] << 8

    def u24(self) -> int:
        """Unsigned, 3 bytes."""
        self.need(3)
        p: cython.Py_ssize_t = self.pos
        self.pos = p + 3
        return self.data[p] | self.data[p + 1] << 8 | self.data[p + 2] << 16

    def u32(self) -> int:
        """Unsigned, 4 bytes."""
        return cython.cast(cython.Py_ssize_t, self.le_uint(4))

    def u64(self) -> int:
        """Unsigned, 8 bytes."""
        return self.le_uint(8)

    def le_uint(self, width: cython.int) -> int:
        """Unsigned, `width` bytes (0 to 8)."""
        p: cython.Py_ssize_t = self.pos
        value: cython.ulonglong = 0
        unused: cython.int = 64 - 8 * width
        if self.end - p < width or width < 0:
            self.need(width)
        self.pos = p + width
        if self.end - p >= 8 and 0 < width <= 8:
            # eight bytes at once, and off with those behind
            memcpy(cython.address(value), cython.address(self.data[p]), 8)  # noqa: F821 - cimported
            return value << unused >> unused
        i: cython.int
        for i in range(width):
            value |= cython.cast(cython.ulonglong, self.data[p + i]) << (8 * i)
        return value

    def lenenc(self) -> int:
        """A length-encoded integer (0-250 direct, 0xFC 2, 0xFD 3, 0xFE 8 bytes).

        Raises MalformedError for 0xFB and 0xFF, which no binary log integer begins with.
        """
        first: cython.int = self.u8()
        if first < 0xFB:
            return first
        width: cython.int
        if first == 0xFC:
            width = 2
        elif first == 0xFD:
            width = 3
        elif first == 0xFE:
            width = 8
        else:
            self.pos -= 1
            raise MalformedError(
                f"0x{first:02X} does not begin a length-encoded integer",
                offset=self.pos - self.start,
            )
        if self.end - self.pos < width:
            self.pos -= 1
            self.need(width + 1)
        return self.le_uint(width)

    def length(self) -> int:
        """A length-encoded integer that counts bytes which follow: checked to be there.

        The position is after the integer. Raises TruncatedError when fewer bytes are left, so
        a claimed length can size a buffer.
        """
        value: cython.ulonglong = self.lenenc()
        if value > cython.cast(cython.ulonglong, self.end - self.pos):
            raise TruncatedError(
                f"the event ends too early: {value} bytes needed, {self.end - self.pos} left",
                need=value,
                have=self.end - self.pos,
                offset=self.pos - self.start,
            )
        return cython.cast(cython.Py_ssize_t, value)

    def take(self, count: cython.Py_ssize_t) -> bytes:
        """The next `count` bytes, copied."""
        self.need(count)
        p: cython.Py_ssize_t = self.pos
        self.pos = p + count
        if count == 0:
            return b""
        return PyBytes_FromStringAndSize(  # noqa: F821 - cimported in cursor.pxd
            cython.cast(cython.p_char, cython.address(self.data[p])), count
        )
