"""The Python object of one column: its kernel by its plan, and the Arrow buffers that it becomes.

Fixed-width values are kept as bit patterns, the two's complement and IEEE bits that Arrow wants.
Strings, bytes and JSON come with a length of 1 to 4 bytes; CHAR and BINARY without their padding,
BINARY gets it back.
"""

from typing import NamedTuple

from libc.stdint cimport INT64_MIN, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from binlake.core.values.decimals cimport DecimalShape, shape_decimal
from binlake.core.memory.failure cimport NO_FAULT, Failure, error_of
from binlake.core.memory.growing cimport detach, hand_over, release, resize
from binlake.core.memory.reader cimport Reader, left
from binlake.core.columns.column cimport (
    ALWAYS_NULL,
    BIG_TO_64,
    BIG_TO_128,
    BYTES,
    CANNOT,
    COPY_8,
    COPY_16,
    COPY_32,
    COPY_64,
    DATE_TO_DAYS,
    DATE_TO_TEXT,
    DATETIME2_TO_TEXT,
    DATETIME2_TO_US,
    DATETIME_OLD_TO_TEXT,
    DATETIME_OLD_TO_US,
    DECIMAL_TO_128,
    DECIMAL_TO_TEXT,
    JSON_TO_TEXT,
    LATIN_TO_TEXT,
    LITTLE_TO_128,
    SIGNED_24_TO_32,
    SKIP_FIXED,
    SKIP_PREFIXED,
    SMALL_DECIMAL_TO_128,
    TIME2_TO_TEXT,
    TIME2_TO_US,
    TIME_OLD_TO_TEXT,
    TIME_OLD_TO_US,
    TIMESTAMP2_TO_TEXT,
    TIMESTAMP2_TO_US,
    TIMESTAMP_OLD_TO_TEXT,
    TIMESTAMP_OLD_TO_US,
    UNSIGNED_8_TO_16,
    UNSIGNED_16_TO_32,
    UNSIGNED_24_TO_32,
    UNSIGNED_TO_64,
    YEAR_TO_16,
    Column,
    Latin,
    reserve,
    take_validity,
)
from binlake.core.columns.row_values cimport put_value

from binlake.errors import MalformedError
from binlake.values.plan import Kernel

cimport cython


cdef uint8_t _NO_BYTES = 0  # where an empty buffer is


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


# -- from a plan to a column ---------------------------------------------------------------------

# by fractional digits; more than none of them only MariaDB has
_TIME_OLD_BYTES = (3, 4, 4, 5, 5, 5, 6)
_DATETIME_OLD_BYTES = (8, 6, 6, 7, 7, 7, 8)

# By wire bytes and whether the integer is unsigned: the step that decodes it, and the bytes of a value in the buffer.
_INTEGERS = {
    (1, False): (COPY_8, 1),
    (2, False): (COPY_16, 2),
    (3, False): (SIGNED_24_TO_32, 4),
    (4, False): (COPY_32, 4),
    (8, False): (COPY_64, 8),
    (1, True): (UNSIGNED_8_TO_16, 2),
    (2, True): (UNSIGNED_16_TO_32, 4),
    (3, True): (UNSIGNED_24_TO_32, 4),
    (4, True): (UNSIGNED_TO_64, 8),
}
# Kernels of a fixed width on the wire: the decoding step, wire bytes, bytes of a value in the buffer (0: text).
_FIXED = {
    Kernel.UINT64: (COPY_64, 8, 8),
    Kernel.UINT64_DECIMAL: (LITTLE_TO_128, 8, 16),
    Kernel.FLOAT: (COPY_32, 4, 4),
    Kernel.DOUBLE: (COPY_64, 8, 8),
    Kernel.BIT_DECIMAL: (BIG_TO_128, 8, 16),
    Kernel.YEAR: (YEAR_TO_16, 1, 2),
    Kernel.DATE: (DATE_TO_DAYS, 3, 4),
    Kernel.DATE_TEXT: (DATE_TO_TEXT, 3, 0),
}
# The same for kernels whose plan contains the number of fractional digits. The wire bytes do not include the fraction.
_WITH_FRACTION = {
    Kernel.TIME2: (TIME2_TO_US, 3, 8),
    Kernel.TIME2_TEXT: (TIME2_TO_TEXT, 3, 0),
    Kernel.DATETIME2: (DATETIME2_TO_US, 5, 8),
    Kernel.DATETIME2_TEXT: (DATETIME2_TO_TEXT, 5, 0),
    Kernel.TIMESTAMP2: (TIMESTAMP2_TO_US, 4, 8),
    Kernel.TIMESTAMP2_TEXT: (TIMESTAMP2_TO_TEXT, 4, 0),
    Kernel.TIME_OLD: (TIME_OLD_TO_US, _TIME_OLD_BYTES, 8),
    Kernel.TIME_OLD_TEXT: (TIME_OLD_TO_TEXT, _TIME_OLD_BYTES, 0),
    Kernel.DATETIME_OLD: (DATETIME_OLD_TO_US, _DATETIME_OLD_BYTES, 8),
    Kernel.DATETIME_OLD_TEXT: (DATETIME_OLD_TO_TEXT, _DATETIME_OLD_BYTES, 0),
    Kernel.TIMESTAMP_OLD: (TIMESTAMP_OLD_TO_US, 4, 8),
    Kernel.TIMESTAMP_OLD_TEXT: (TIMESTAMP_OLD_TO_TEXT, 4, 0),
}
_PREFIXED = {
    Kernel.BYTES: BYTES,
    Kernel.LATIN: LATIN_TO_TEXT,
    Kernel.JSON: JSON_TO_TEXT,
}


cdef int _describe(Column* column, object plan, bint wanted) except -1:
    """Set kind, width and item of a column that is decoded."""
    kernel, p0, p1 = plan.kernel, plan.p0, plan.p1
    if kernel is None:
        column.kind = CANNOT
    elif kernel is Kernel.NULL:
        column.kind = ALWAYS_NULL
    elif kernel is Kernel.INT:
        if (p0, bool(p1)) not in _INTEGERS:
            raise ValueError(f"no integer kernel for {p0} bytes, unsigned {bool(p1)}")
        column.width = p0
        column.kind, column.item = _INTEGERS[p0, bool(p1)]
    elif kernel in _FIXED:
        column.kind, column.width, column.item = _FIXED[kernel]
    elif kernel in (Kernel.BIT, Kernel.FIXED_UINT):
        if not 1 <= p0 <= 8:
            raise ValueError(f"no number has {p0} bytes")
        column.kind = BIG_TO_64 if kernel is Kernel.BIT else UNSIGNED_TO_64
        column.width = p0
        column.item = 8
    elif kernel in _WITH_FRACTION:
        if not 0 <= p0 <= 6:
            raise MalformedError(f"no value has {p0} fractional digits")
        column.kind, widths, column.item = _WITH_FRACTION[kernel]
        column.width = widths[p0] if isinstance(widths, tuple) else widths + (p0 + 1) // 2
        column.fsp = p0
    elif kernel in (Kernel.DECIMAL, Kernel.DECIMAL_TEXT):
        _describe_decimal(column, kernel, p0, p1)
    else:
        if not 1 <= p0 <= 4:
            raise ValueError(f"no length has {p0} bytes")
        column.kind = _PREFIXED[kernel]
        column.width = p0
        column.padded = p1 if kernel is Kernel.BYTES else 0
        if kernel is Kernel.LATIN and wanted:
            _describe_latin(column, plan.table or ())
    return 0


cdef int _describe_decimal(Column* column, object kernel, object precision, object scale) except -1:
    column.decimal = <DecimalShape*>calloc(1, sizeof(DecimalShape))
    if column.decimal == NULL:
        raise MemoryError
    if shape_decimal(column.decimal, precision, scale):
        raise MalformedError(f"DECIMAL({precision},{scale}) does not exist")
    column.width = column.decimal.width
    column.kind = DECIMAL_TO_TEXT
    if kernel is Kernel.DECIMAL:
        if precision > 38:
            raise MalformedError(f"decimal128 cannot hold {precision} digits")
        column.kind = DECIMAL_TO_128
        column.item = 16
        if precision <= 18 and 0 < column.width <= 8:
            column.kind = SMALL_DECIMAL_TO_128
    return 0


cdef int _describe_latin(Column* column, object table) except -1:
    cdef int i
    cdef bytes entry
    if len(table) != 256 or any(entry is not None and len(entry) > 4 for entry in table):
        raise ValueError("a table of 256 characters is needed")
    column.latin = <Latin*>calloc(1, sizeof(Latin))
    if column.latin == NULL:
        raise MemoryError
    for i in range(256):
        entry = table[i] or b""
        column.latin.sizes[i] = <uint8_t>len(entry)
        memcpy(column.latin.entries + 4 * i, <const char*>entry, <size_t>len(entry))
    return 0


@cython.final
cdef class ColumnSink:
    """One column of a table: decoding if it is wanted, else only stepping over values.

    Raises MalformedError for numbers that no column can have.
    """

    def __cinit__(self):
        self.column.last_days = INT64_MIN

    def __dealloc__(self):
        free(self.column.values)
        free(self.column.offsets)
        free(self.column.validity)
        free(self.column.decimal)
        free(self.column.latin)
        release(&self.column.data)

    cdef object finish(self, int64_t count, int64_t capacity):
        """Hand over the buffers of rows 0 to `count - 1`, without a copy, and start again.

        `reserve` has to be called before the next row.
        """
        cdef Column* column = &self.column
        cdef Failure failure
        offsets = None
        if column.item == 0 and column.kind > ALWAYS_NULL:
            if column.offsets == NULL:  # no row was ever reserved
                if resize(<void**>&column.offsets, 4, &failure):
                    raise error_of(&failure, None)
                column.offsets[0] = 0
            column.data.count = column.offsets[count]  # a value that failed may have left some
            offsets = hand_over(<void**>&column.offsets, 4 * (count + 1), 4 * (capacity + 1))
            data = detach(&column.data)
        else:
            data = hand_over(
                <void**>&column.values, column.item * count, column.item * capacity
            )
        nulls, zero_dates = column.null_count, column.zero_dates
        column.null_count = column.zero_dates = 0
        validity = take_validity(&column.validity, count, capacity)
        return SinkBuffers(count, nulls, validity, offsets, data, zero_dates)

    def decode(self, const uint8_t[::1] data, int64_t count):
        """Decode `count` values that lie back to back in `data`; they must be all of it.

        Raises FormatError, UnsupportedError.
        """
        cdef Failure failure
        cdef Reader r
        cdef int failed
        failure.fault = NO_FAULT
        r.start = r.pos = r.end = &_NO_BYTES
        if data.shape[0]:
            r.start = r.pos = &data[0]
            r.end = r.pos + data.shape[0]
        r.failure = &failure
        with nogil:
            failed = _decode(&self.column, &r, count)
        if failed:
            self.finish(0, count)
            raise error_of(&failure, {self.column.ordinal: self.plan})
        if left(&r):
            self.finish(0, count)
            raise MalformedError(f"{left(&r)} bytes are left over after {count} values")
        return self.finish(count, count)


cdef int _decode(Column* column, Reader* r, int64_t count) noexcept nogil:
    cdef int64_t row
    if column.kept and reserve(column, 0, count, r.failure):
        return -1
    for row in range(count):
        if put_value(column, r, row, count):
            return -1
    return 0


cdef ColumnSink sink_of(object plan, bint wanted):
    cdef ColumnSink sink = ColumnSink.__new__(ColumnSink)
    cdef Column* column = &sink.column
    sink.plan = plan
    column.ordinal = plan.definition.ordinal
    _describe(column, plan, wanted)
    column.kept = wanted
    column.compressed = wanted and plan.compressed
    if not wanted and column.kind != CANNOT:
        column.kind = (
            SKIP_PREFIXED
            if column.kind == BYTES or column.kind == LATIN_TO_TEXT or column.kind == JSON_TO_TEXT
            else SKIP_FIXED
        )
        column.item = 0
    return sink


def make_sink(plan):
    """The sink of one column: decoding if it is wanted, else only stepping over values.

    Raises MalformedError for numbers that no column can have.
    """
    return sink_of(plan, plan.wanted)


def make_skip(plan):
    """A sink that steps over the values of a column and keeps nothing."""
    return sink_of(plan, False)
