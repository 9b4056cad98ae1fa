"""Rows of the binary protocol's results, into the column buffers that row images use.

A row is one packet (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html):

    3      length of what follows, little-endian
    1      sequence number
    1      0x00
    n      null bitmap, (columns + 9) / 8 bytes, whose first two bits mean nothing
    …      the values that are not null

Integers and IEEE numbers are little-endian. Dates, times and strings carry their length. DECIMAL is
text, BIT a big-endian string. Every value goes to the buffer, and through the conversions, that the same
value of a row image takes. That is why a snapshot and a log cannot give different values.
"""

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from binlake.core.values.decimals cimport (
    Decimal,
    DecimalShape,
    widen_decimal,
    write_decimal,
)
from binlake.core.memory.failure cimport (
    CUT_OFF,
    LEFT_OVER,
    NO_FAULT,
    NOT_A_BIT_STRING,
    NOT_A_DATETIME,
    NOT_A_ROW,
    NOT_A_TIME,
    NOT_DECIMAL_TEXT,
    Failure,
    error_of,
    fail,
)
from binlake.core.memory.growing cimport append, room
from binlake.core.images.image cimport ImageSink, begin_row, roll_back
from binlake.core.images.layouts cimport Image
from binlake.core.memory.reader cimport (
    Reader,
    left,
    load,
    load16,
    load32,
    load_big,
    read_lenenc,
    take,
    unlikely,
)
from binlake.core.columns.row_values cimport put_latin, put_temporal_text
from binlake.core.columns.column cimport (
    BIG_TO_64,
    BIG_TO_128,
    BYTES,
    COPY_8,
    DATE_TO_DAYS,
    DATE_TO_TEXT,
    DATETIME2_TO_TEXT,
    DATETIME2_TO_US,
    DECIMAL_TO_128,
    DECIMAL_TO_TEXT,
    JSON_TO_TEXT,
    LATIN_TO_TEXT,
    LITTLE_TO_128,
    SMALL_DECIMAL_TO_128,
    TIME2_TO_TEXT,
    TIME2_TO_US,
    TIMESTAMP2_TO_TEXT,
    TIMESTAMP2_TO_US,
    UNSIGNED_TO_64,
    YEAR_TO_16,
    Column,
    Kind,
    put_null,
    put_us,
)
from binlake.core.values.temporal cimport days, time_us

cimport cython

cpdef enum:
    # The form in which the server sends a column: 1, 2, 4 or 8 bytes, or one of these.
    STRING = 16
    MOMENT = 17
    DURATION = 18
    # Why `feed` returned.
    MORE = 0  # the next packet is not wholly in the data
    FULL = 1  # the batch is as large as wanted
    SPECIAL = 2  # the next packet is not a row, or a row of more than one packet

cdef enum:
    _HEADER_BYTES = 4
    _LARGEST = 0xFFFFFF  # a packet of this length goes on in the next
    _MAX_HOUR = 838
    _MOST_DIGITS = 81  # of DECIMAL


@cython.final
cdef class BinaryRows:
    """Decodes rows by the plans of their columns; `wires` says what the server sends for each.

    `most_rows` and `most_bytes` (of packets) bound a batch. Raises ValueError where a column's plan
    cannot take what the server sends.
    """

    cdef ImageSink sink
    cdef bytes wires
    cdef tuple plans
    cdef int64_t most_rows
    cdef int64_t most_bytes
    cdef int64_t taken

    def __init__(self, plans, wires, int64_t most_rows, int64_t most_bytes):
        cdef int64_t i
        self.plans = tuple(plans)
        self.wires = bytes(wires)
        if len(self.wires) != len(self.plans):
            raise ValueError(f"{len(self.wires)} columns for {len(self.plans)} plans")
        self.sink = ImageSink(self.plans, [True] * len(self.plans))
        self.most_rows = most_rows
        self.most_bytes = most_bytes
        for i in range(len(self.plans)):
            if not _fits(self.sink.image.columns[i], self.wires[i]):
                raise ValueError(
                    f"column {self.plans[i].definition.name}: the server sends another type than "
                    "the table's definition has"
                )

    @property
    def rows(self):
        """How many rows are held."""
        return self.sink.image.rows

    def feed(self, const uint8_t[::1] data, int64_t pos, int64_t end):
        """Take the rows whose packets are wholly in `data[pos:end]`.

        Returns (next pos, why it stopped): MORE, FULL or SPECIAL. Raises FormatError, UnsupportedError;
        IndexError for a range outside of the data.
        """
        cdef Failure failure
        cdef const uint8_t* wires = self.wires
        cdef int64_t count = len(self.wires)
        cdef int reason
        if not 0 <= pos <= end <= data.shape[0]:
            raise IndexError(f"[{pos}, {end}) of {data.shape[0]} bytes")
        if pos == end:
            return pos, MORE
        failure.fault = NO_FAULT
        failure.offset = -1
        with nogil:
            reason = self._take(&data[0], &pos, end, wires, count, &failure)
        if reason < 0:
            raise error_of(&failure, self.plans)
        return pos, reason

    def feed_row(self, const uint8_t[::1] payload):
        """Take one row from its payload, which came in several packets. Raises as `feed`."""
        cdef Failure failure
        cdef const uint8_t* wires = self.wires
        cdef int64_t count = len(self.wires)
        cdef int failed
        if not payload.shape[0]:
            raise IndexError("a row has no byte")
        failure.fault = NO_FAULT
        failure.offset = -1
        with nogil:
            failed = _row(
                &self.sink.image, wires, count, &payload[0], payload.shape[0], &failure
            )
        if failed:
            raise error_of(&failure, self.plans)
        self.taken += payload.shape[0]

    def finish(self):
        """Hand over all rows as `ImageBuffers`, without a copy, and start again."""
        self.taken = 0
        return self.sink.finish()

    cdef int _take(
        self,
        const uint8_t* data,
        int64_t* pos,
        int64_t end,
        const uint8_t* wires,
        int64_t count,
        Failure* failure,
    ) noexcept nogil:
        cdef Image* image = &self.sink.image
        cdef const uint8_t* at
        cdef int64_t size
        while True:
            if image.rows >= self.most_rows or self.taken >= self.most_bytes:
                return FULL
            if end - pos[0] < _HEADER_BYTES:
                return MORE
            at = data + pos[0]
            size = <int64_t>load(at, 3)
            if end - pos[0] - _HEADER_BYTES < size:
                return MORE
            if size == 0 or size == _LARGEST or at[_HEADER_BYTES] != 0:
                return SPECIAL
            if _row(image, wires, count, at + _HEADER_BYTES, size, failure):
                return -1
            self.taken += size
            pos[0] += _HEADER_BYTES + size


cdef bint _fits(const Column* column, int wire):
    """Whether a column takes what the server sends; `_value` relies on it."""
    cdef Kind kind = column.kind
    if wire == STRING:
        return kind in (
            BYTES, LATIN_TO_TEXT, JSON_TO_TEXT, SMALL_DECIMAL_TO_128, DECIMAL_TO_128, DECIMAL_TO_TEXT,
            BIG_TO_64, BIG_TO_128,
        )
    if wire == MOMENT:
        return kind in (
            DATE_TO_DAYS, DATE_TO_TEXT, DATETIME2_TO_US, DATETIME2_TO_TEXT, TIMESTAMP2_TO_US,
            TIMESTAMP2_TO_TEXT,
        )
    if wire == DURATION:
        return kind == TIME2_TO_US or kind == TIME2_TO_TEXT
    if kind == YEAR_TO_16:
        return wire == 2
    if kind == UNSIGNED_TO_64:  # INT UNSIGNED; ENUM and SET as numbers, which may be sent wider
        return wire == 4 or wire == 8
    if COPY_8 <= kind <= LITTLE_TO_128 and kind != BIG_TO_64:
        # 3 bytes of a row image are 4 in a result
        return wire == (4 if column.width == 3 else column.width)
    return False


cdef int _row(
    Image* image,
    const uint8_t* wires,
    int64_t count,
    const uint8_t* payload,
    int64_t size,
    Failure* failure,
) noexcept nogil:
    """Decode one row. A row that fails leaves nothing behind."""
    cdef Reader r
    cdef const uint8_t* nulls
    cdef int64_t row = image.rows
    cdef int64_t i
    r.start = r.pos = payload
    r.end = payload + size
    r.failure = failure
    if payload[0] != 0:
        return fail(failure, NOT_A_ROW, 0, payload[0], 0)
    r.pos += 1
    nulls = take(&r, (count + 9) >> 3)
    if nulls == NULL or begin_row(image, failure):
        return -1
    for i in range(count):
        if nulls[(i + 2) >> 3] >> ((i + 2) & 7) & 1:
            if put_null(image.columns[i], row, image.capacity, failure):
                return -1
        elif unlikely(_value(image.columns[i], wires[i], &r, row, image.capacity)):
            roll_back(image, row)
            return -1
    if unlikely(left(&r) != 0):
        roll_back(image, row)
        return fail(failure, LEFT_OVER, -1, left(&r), 0)
    image.rows += 1
    image.filled = image.rows
    return 0


cdef inline int _value(
    Column* column, int wire, Reader* r, int64_t row, int64_t capacity
) noexcept nogil:
    """Decode the value at the reader, which steps over it, as the value of `row`."""
    cdef const uint8_t* at
    cdef uint64_t bits
    if wire == STRING:
        return _string(column, r, row)
    if wire == MOMENT:
        return _moment(column, r, row, capacity)
    if wire == DURATION:
        return _duration(column, r, row)
    at = take(r, wire)
    if unlikely(at == NULL):
        return -1
    bits = load(at, wire)
    if column.item == 4:
        (<uint32_t*>column.values)[row] = <uint32_t>bits
    elif column.item == 8:
        (<uint64_t*>column.values)[row] = bits
    elif column.item == 2:
        (<uint16_t*>column.values)[row] = <uint16_t>bits
    elif column.item == 1:
        column.values[row] = <uint8_t>bits
    else:
        (<uint64_t*>column.values)[2 * row] = bits
        (<uint64_t*>column.values)[2 * row + 1] = 0
    return 0


cdef int _string(Column* column, Reader* r, int64_t row) noexcept nogil:
    cdef Kind kind = column.kind
    cdef const uint8_t* at
    cdef uint64_t told = 0
    cdef int64_t size
    if read_lenenc(r, &told):
        return -1
    if told > <uint64_t>left(r):
        return fail(r.failure, CUT_OFF, r.pos - r.start, <int64_t>(told >> 1), left(r) >> 1)
    size = <int64_t>told
    if kind == LATIN_TO_TEXT:
        return put_latin(column, r, size, row)
    at = take(r, size)
    if kind == DECIMAL_TO_128 or kind == SMALL_DECIMAL_TO_128 or kind == DECIMAL_TO_TEXT:
        return _decimal(column, at, size, row, r.failure)
    if kind == BIG_TO_64 or kind == BIG_TO_128:
        if size > 8:
            return fail(r.failure, NOT_A_BIT_STRING, at - r.start, size, 0)
        if kind == BIG_TO_64:
            (<uint64_t*>column.values)[row] = load_big(at, <int>size)
        else:
            (<uint64_t*>column.values)[2 * row] = load_big(at, <int>size)
            (<uint64_t*>column.values)[2 * row + 1] = 0
        return 0
    # BYTES, and JSON, which the server has rendered
    if append(&column.data, at, size, r.failure):
        return -1
    if size < column.padded:
        size = column.padded - size
        if room(&column.data, size, r.failure):
            return -1
        memset(column.data.at + column.data.count, 0, <size_t>size)
        column.data.count += size
    column.offsets[row + 1] = <uint32_t>column.data.count
    return 0


cdef int _decimal(
    Column* column, const uint8_t* text, int64_t size, int64_t row, Failure* failure
) noexcept nogil:
    """The server's text of a DECIMAL, as `read_decimal` reads it from a row image."""
    cdef Decimal number
    cdef int64_t value
    if _parse_decimal(column.decimal, text, size, &number):
        return fail(failure, NOT_DECIMAL_TEXT, -1, 0, 0)
    if column.kind == DECIMAL_TO_TEXT:
        if write_decimal(column.decimal, &number, &column.data, failure):
            return -1
        column.offsets[row + 1] = <uint32_t>column.data.count
    elif column.kind == SMALL_DECIMAL_TO_128:  # at most 18 digits
        value = <int64_t>number.low
        value = -value if number.negative else value
        (<int64_t*>column.values)[2 * row] = value
        (<int64_t*>column.values)[2 * row + 1] = -1 if value < 0 else 0
    else:
        widen_decimal(column.decimal, &number, <uint64_t*>column.values + 2 * row)
    return 0


cdef int _parse_decimal(
    const DecimalShape* shape, const uint8_t* text, int64_t size, Decimal* number
) noexcept nogil:
    """Digits of a text to groups: all digits of the scale, and as many others as fit; else -1."""
    cdef uint8_t digits[_MOST_DIGITS]
    cdef const uint8_t* end = text + size
    cdef const uint8_t* point
    cdef int whole = 0, scale = 0, at = 0, i, j
    cdef uint32_t group
    for i in range(shape.count):
        if i < shape.whole:
            whole += shape.digits[i]
        else:
            scale += shape.digits[i]
    number.negative = text < end and text[0] == c"-"
    if number.negative:
        text += 1
    if text >= end:
        return -1
    while end - text > 1 and text[0] == c"0" and text[1] != c".":  # of ZEROFILL
        text += 1
    point = text
    while point < end and point[0] != c".":
        point += 1
    if text < point and text[0] == c"0" and point - text == 1 and whole == 0:
        text += 1  # the 0 before the point of a DECIMAL without digits there
    if point - text > whole or (end - point - 1 if point < end else 0) != scale:
        return -1
    for i in range(whole - <int>(point - text)):
        digits[at] = 0
        at += 1
    while text < end:
        if text != point:
            if not c"0" <= text[0] <= c"9":
                return -1
            digits[at] = text[0] - <uint8_t>c"0"
            at += 1
        text += 1
    number.low = 0
    at = 0
    for i in range(shape.count):
        group = 0
        for j in range(shape.digits[i]):
            group = group * 10 + digits[at]
            at += 1
        number.groups[i] = group
        number.low = number.low * shape.bounds[i] + group
    return 0


cdef int _moment(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """DATE, DATETIME, TIMESTAMP: year (2), month, day; hour, minute, second; microseconds (4)."""
    cdef Kind kind = column.kind
    cdef const uint8_t* at = take(r, 1)
    cdef int64_t packed = 0
    cdef int size
    if at == NULL:
        return -1
    size = at[0]
    if size != 0 and size != 4 and size != 7 and size != 11:
        return fail(r.failure, NOT_A_DATETIME, at - r.start, 0, 0)
    at = take(r, size)
    if at == NULL:
        return -1
    if size:
        if load16(at) > 9999 or at[2] > 12 or at[3] > 31:
            return fail(r.failure, NOT_A_DATETIME, at - r.start, 0, 0)
        packed = (<int64_t>load16(at) * 13 + at[2]) << 46 | <int64_t>at[3] << 41
    if size > 4:
        if at[4] > 23 or at[5] > 59 or at[6] > 59:
            return fail(r.failure, NOT_A_DATETIME, at - r.start, 0, 0)
        packed |= <int64_t>at[4] << 36 | <int64_t>at[5] << 30 | <int64_t>at[6] << 24
    if size > 7:
        if load32(at + 7) > 999_999:
            return fail(r.failure, NOT_A_DATETIME, at - r.start, 0, 0)
        packed |= load32(at + 7)
    if column.item == 0:
        return put_temporal_text(column, packed, row, r.failure)
    if kind != DATE_TO_DAYS:
        return put_us(column, packed, row, capacity, r.failure)
    packed = days(packed)
    if packed == INT64_MIN:
        column.zero_dates += 1
        return put_null(column, row, capacity, r.failure)
    (<int32_t*>column.values)[row] = <int32_t>packed
    return 0


cdef int _duration(Column* column, Reader* r, int64_t row) noexcept nogil:
    """TIME: negative, days (4), hour, minute, second; microseconds (4)."""
    cdef const uint8_t* at = take(r, 1)
    cdef int64_t packed = 0
    cdef int64_t hour
    cdef bint negative = False
    cdef int size
    if at == NULL:
        return -1
    size = at[0]
    if size != 0 and size != 8 and size != 12:
        return fail(r.failure, NOT_A_TIME, at - r.start, 0, 0)
    at = take(r, size)
    if at == NULL:
        return -1
    if size:
        negative = at[0] != 0
        hour = <int64_t>load32(at + 1) * 24 + at[5]
        if hour > _MAX_HOUR or at[6] > 59 or at[7] > 59:
            return fail(r.failure, NOT_A_TIME, at - r.start, 0, 0)
        packed = hour << 36 | <int64_t>at[6] << 30 | <int64_t>at[7] << 24
    if size > 8:
        if load32(at + 8) > 999_999:
            return fail(r.failure, NOT_A_TIME, at - r.start, 0, 0)
        packed |= load32(at + 8)
    if column.item == 0:
        return put_temporal_text(column, -packed if negative else packed, row, r.failure)
    (<int64_t*>column.values)[row] = -time_us(packed) if negative else time_us(packed)
    return 0
