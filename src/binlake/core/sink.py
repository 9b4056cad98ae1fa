"""What every kernel inherits: where decoded values of one column collect.

A sink decodes one value per call from the cursor into the buffers of one Arrow array. All
sinks of an image count rows together, so a value is appended *at a row*, and rows that were
passed over (an image that is missing) need no call at all: their values stay zero or empty
and the image's own validity hides them.

Fixed-width values are kept as unsigned bit patterns, the two's complement and IEEE bits that
Arrow wants; so compiled and uncompiled code store the same bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.errors import MalformedError, UnsupportedError

__all__ = [
    "FixedSink",
    "Sink",
    "Sink8",
    "Sink16",
    "Sink32",
    "Sink64",
    "Sink128",
    "SinkBuffers",
    "SkipFixed",
    "SkipPrefixed",
    "Undecodable",
    "Validity",
    "VarSink",
]


class SinkBuffers(NamedTuple):
    """The buffers of one finished column: `count` values, laid out as Arrow does.

    `validity` (one bit per value, least significant first, 1 = valid) is None when nothing is
    null. `offsets` (`count + 1` int32) is None for fixed-width kernels. `data` are the values.
    `zero_dates` of the nulls are zero or partial dates, which the Arrow type cannot hold.
    All buffers are exactly as long as needed and own their memory.
    """

    count: int
    null_count: int
    validity: memoryview | None
    offsets: memoryview | None
    data: memoryview
    zero_dates: int = 0


@cython.final
@cython.cclass
class Validity:
    """A validity bitmap that takes no room, and no time, until the first null."""

    def __init__(self) -> None:
        self.null_count = 0
        self.capacity = 0
        self.raw = bytearray()
        self.bits = None

    def clear(self, row: cython.Py_ssize_t) -> int:
        """`row` is null."""
        if self.null_count == 0:
            self.raw = bytearray(b"\xff") * ((self.capacity + 7) >> 3)
            self.bits = memoryview(self.raw)
        self.bits[row >> 3] &= 0xFF ^ (1 << (row & 7))
        self.null_count += 1
        return 0

    def reserve(self, rows: cython.Py_ssize_t) -> int:
        """Make room for rows 0 to `rows - 1`."""
        self.capacity = rows
        if self.null_count:
            size = len(self.raw)
            self.raw = self.raw + bytearray(b"\xff") * (((rows + 7) >> 3) - size)
            self.bits = memoryview(self.raw)
        return 0

    def take(self, count: cython.Py_ssize_t) -> memoryview | None:
        """Hand over the bits of `count` rows, None if none is null, and start again."""
        taken = memoryview(self.raw)[: (count + 7) >> 3] if self.null_count else None
        self.null_count = 0
        self.capacity = 0
        self.raw = bytearray()
        self.bits = None
        return taken


@cython.cclass
class Sink:
    """One column. `append` and `append_null` are called with rising row numbers, each row at
    most once, after `reserve` has made room for the row.
    """

    def __init__(self) -> None:
        self.zero_dates = 0
        self.validity = Validity()

    def append(self, c: Cursor, row: cython.Py_ssize_t) -> int:
        """Decode the value at the cursor, which steps over it, as the value of `row`."""
        raise NotImplementedError

    def append_null(self, row: cython.Py_ssize_t) -> int:
        """`row` is null."""
        return self.validity.clear(row)

    def reserve(self, rows: cython.Py_ssize_t) -> int:
        """Make room for rows 0 to `rows - 1`."""
        return self.validity.reserve(rows)

    def var_bytes(self) -> int:
        """Bytes of variable-width data held."""
        return 0

    def row_bytes(self) -> int:
        """Bytes held per row beside those: value or offset, and validity, rounded up."""
        return 1

    def take_offsets(self, count: cython.Py_ssize_t) -> Any:
        """Hand over the offsets of `count` rows and start again; None without offsets."""
        return None

    def take_data(self, count: cython.Py_ssize_t) -> Any:
        """Hand over the values of `count` rows and start again."""
        raise NotImplementedError

    def finish(self, count: cython.Py_ssize_t) -> SinkBuffers:
        """Hand over the buffers of rows 0 to `count - 1`, without a copy, and start again.

        `reserve` has to be called before the next row.
        """
        offsets = self.take_offsets(count)
        data = self.take_data(count)
        nulls = self.validity.null_count
        zero_dates = self.zero_dates
        self.zero_dates = 0
        return SinkBuffers(count, nulls, self.validity.take(count), offsets, data, zero_dates)

    def decode(self, data: bytes, count: cython.Py_ssize_t) -> SinkBuffers:
        """Decode `count` values that lie back to back in `data`; they must be all of it."""
        cursor = Cursor(data)
        self.reserve(count)
        row: cython.Py_ssize_t
        for row in range(count):
            self.append(cursor, row)
        if cursor.left():
            raise MalformedError(f"{cursor.left()} bytes are left over after {count} values")
        return self.finish(count)


@cython.cclass
class FixedSink(Sink):
    """Values of `item_bytes` each. Those of null rows are zero.

    A subclass binds a typed view of `raw` in `bind`, and decodes in `append`.
    """

    def __init__(self, item_bytes: cython.Py_ssize_t) -> None:
        Sink.__init__(self)
        self.item_bytes = item_bytes
        self.raw = bytearray()

    def bind(self) -> int:
        """Make the typed view of `raw`, which has moved."""
        raise NotImplementedError

    def reserve(self, rows: cython.Py_ssize_t) -> int:
        """As Sink; what is there is kept."""
        Sink.reserve(self, rows)
        old = self.raw
        grown = bytearray(rows * self.item_bytes)
        grown[: len(old)] = memoryview(old)
        self.raw = grown
        self.bind()
        return 0

    def row_bytes(self) -> int:
        """As Sink."""
        return self.item_bytes + 1

    def take_data(self, count: cython.Py_ssize_t) -> Any:
        """As Sink."""
        taken = memoryview(self.raw)[: count * self.item_bytes]
        self.raw = bytearray()
        return taken


@cython.cclass
class Sink8(FixedSink):
    """Values of 8 bits."""

    def __init__(self) -> None:
        FixedSink.__init__(self, 1)

    def bind(self) -> int:
        """As FixedSink."""
        self.values = memoryview(self.raw)
        return 0


@cython.cclass
class Sink16(FixedSink):
    """Values of 16 bits."""

    def __init__(self) -> None:
        FixedSink.__init__(self, 2)

    def bind(self) -> int:
        """As FixedSink."""
        self.values = memoryview(self.raw).cast("H")
        return 0


@cython.cclass
class Sink32(FixedSink):
    """Values of 32 bits."""

    def __init__(self) -> None:
        FixedSink.__init__(self, 4)

    def bind(self) -> int:
        """As FixedSink."""
        self.values = memoryview(self.raw).cast("I")
        return 0


@cython.cclass
class Sink64(FixedSink):
    """Values of 64 bits."""

    def __init__(self) -> None:
        FixedSink.__init__(self, 8)

    def bind(self) -> int:
        """As FixedSink."""
        self.values = memoryview(self.raw).cast("Q")
        return 0


@cython.cclass
class Sink128(FixedSink):
    """Values of 128 bits (decimal128): two entries of `values` each, the low half first."""

    def __init__(self) -> None:
        FixedSink.__init__(self, 16)

    def bind(self) -> int:
        """As FixedSink."""
        self.values = memoryview(self.raw).cast("Q")
        return 0


@cython.cclass
class VarSink(Sink):
    """Values of any length: their bytes in `out`, and `offsets` of where each row's end.

    `append` begins with `fill(row)`, writes to `out`, and sets `offsets[row + 1]` and `filled`.
    Rows passed over, null ones among them, are empty: the next `fill` gives them their offset.
    """

    def __init__(self) -> None:
        Sink.__init__(self)
        self.out = ByteBuffer()
        self.raw = bytearray()
        self.offsets = None
        self.filled = 0  # offsets[0 .. filled] are right

    def fill(self, row: cython.Py_ssize_t) -> int:
        """Rows before `row` that have no value yet are empty."""
        while self.filled < row:
            self.filled += 1
            self.offsets[self.filled] = cython.cast(cython.uint, self.out.size)
        return 0

    def append_bytes(self, value: bytes, row: cython.Py_ssize_t) -> int:
        """`value`, decoded by someone else, is the value of `row`."""
        self.fill(row)
        self.out.put(value)
        return self.fill(row + 1)

    def reserve(self, rows: cython.Py_ssize_t) -> int:
        """As Sink."""
        Sink.reserve(self, rows)
        old = self.raw
        grown = bytearray((rows + 1) * 4)
        grown[: len(old)] = memoryview(old)
        self.raw = grown
        self.offsets = memoryview(grown).cast("I")
        return 0

    def var_bytes(self) -> int:
        """As Sink."""
        return self.out.size

    def row_bytes(self) -> int:
        """As Sink."""
        return 5

    def take_offsets(self, count: cython.Py_ssize_t) -> Any:
        """As Sink."""
        if not self.raw:
            self.reserve(count)  # no row was ever reserved
        self.fill(count)
        taken = memoryview(self.raw)[: (count + 1) * 4]
        self.raw = bytearray()
        self.filled = 0
        return taken

    def take_data(self, count: cython.Py_ssize_t) -> Any:
        """As Sink."""
        return self.out.detach()


@cython.final
@cython.cclass
class SkipFixed(Sink):
    """A column that nobody wants: `width` bytes per value are stepped over."""

    def __init__(self, width: cython.Py_ssize_t) -> None:
        Sink.__init__(self)
        self.width = width

    def append(self, c: Cursor, row: cython.Py_ssize_t) -> int:
        """As Sink."""
        if c.end - c.pos < self.width:
            c.need(self.width)
        c.pos += self.width
        return 0

    def append_null(self, row: cython.Py_ssize_t) -> int:
        """As Sink, but nothing is kept."""
        return 0

    def row_bytes(self) -> int:
        """As Sink."""
        return 0


@cython.final
@cython.cclass
class SkipPrefixed(Sink):
    """A column that nobody wants: a length of `prefix` bytes, and that many bytes."""

    def __init__(self, prefix: cython.int) -> None:
        Sink.__init__(self)
        self.prefix = prefix

    def append(self, c: Cursor, row: cython.Py_ssize_t) -> int:
        """As Sink."""
        size: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, c.le_uint(self.prefix))
        c.skip(size)
        return 0

    def append_null(self, row: cython.Py_ssize_t) -> int:
        """As Sink, but nothing is kept."""
        return 0

    def row_bytes(self) -> int:
        """As Sink."""
        return 0


@cython.final
@cython.cclass
class Undecodable(Sink):
    """A column of which only nulls can be read: `why` is said when a row holds a value."""

    def __init__(self, why: str) -> None:
        Sink.__init__(self)
        self.why = why

    def append(self, c: Cursor, row: cython.Py_ssize_t) -> int:
        """Always raises UnsupportedError."""
        raise UnsupportedError(self.why)

    def take_data(self, count: cython.Py_ssize_t) -> Any:
        """As Sink: only nulls, no bytes."""
        return memoryview(b"")
