"""Values of SQL types in binary JSON documents, as the server prints them.

Decimals are numbers. Dates and times are strings with six fractional digits. All others are
"base64:type<code>:…".

All functions return 0, or -1 and describe the failure.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlake.core.values.decimals cimport (
    Decimal,
    DecimalShape,
    read_decimal,
    shape_decimal,
    write_decimal,
)
from binlake.core.memory.failure cimport JSON_BEYOND, JSON_DATE, JSON_DIGITS, NOT_A_DECIMAL, fail
from binlake.core.memory.growing cimport Bytes, append, mark, room
from binlake.core.values.json_document cimport read_length, refuse
from binlake.core.values.number_text cimport put_number
from binlake.core.memory.reader cimport Reader, load64
from binlake.core.values.temporal_text cimport TEMPORAL_ROOM, write_date, write_time
from binlake.core.values.temporal_wire cimport MAX_HOUR, YEARS

cdef enum:
    # the SQL types that an opaque value is printed as itself; all others are base64
    _SQL_TIMESTAMP = 7
    _SQL_DATE = 10
    _SQL_TIME = 11
    _SQL_DATETIME = 12
    _SQL_NEWDECIMAL = 246
    _BASE64_LINE = 76  # characters between the line feeds that the server puts in

cdef const char* _BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int render_opaque(
    Document* d, int sql_type, const uint8_t* at, const uint8_t* end
) noexcept nogil:
    """Render a value of an SQL type that JSON lacks; its length is at `at`. It ends before `end`."""
    cdef int64_t size
    cdef const uint8_t* data = read_length(d, at, end, &size)
    if data == NULL:
        return -1
    if sql_type == _SQL_NEWDECIMAL:
        return _decimal(d, data, size)
    if size == 8 and (
        sql_type == _SQL_DATE
        or sql_type == _SQL_TIME
        or sql_type == _SQL_DATETIME
        or sql_type == _SQL_TIMESTAMP
    ):
        return _temporal(d, sql_type, data)
    return _base64(d, sql_type, data, size)


cdef int _base64(Document* d, int sql_type, const uint8_t* data, int64_t size) noexcept nogil:
    """Render bytes as `"base64:type<code>:…"`, with line feeds."""
    cdef Bytes* out = d.out
    cdef int64_t characters = (size + 2) // 3 * 4
    cdef int64_t done = 0
    cdef uint64_t three
    if room(out, characters + characters // _BASE64_LINE * 2 + 64, d.failure):
        return -1
    if append(out, <const uint8_t*>b'"base64:type', 12, d.failure):
        return -1
    put_number(out, <uint64_t>sql_type)
    mark(out, c":")
    while size > 0:
        if done and done % _BASE64_LINE == 0:
            mark(out, c"\\")
            mark(out, c"n")
        three = <uint64_t>data[0] << 16
        if size > 1:
            three |= <uint64_t>data[1] << 8
        if size > 2:
            three |= data[2]
        mark(out, _BASE64[three >> 18])
        mark(out, _BASE64[three >> 12 & 63])
        mark(out, _BASE64[three >> 6 & 63] if size > 1 else c"=")
        mark(out, _BASE64[three & 63] if size > 2 else c"=")
        data += 3 if size > 2 else size
        size -= 3
        done += 4
    mark(out, c'"')
    return 0


cdef int _decimal(Document* d, const uint8_t* data, int64_t size) noexcept nogil:
    """Render a DECIMAL: precision u8, scale u8, and its wire bytes."""
    cdef DecimalShape shape
    cdef Decimal number
    cdef Reader r
    if size < 2:
        return refuse(d, data, JSON_BEYOND, 0)
    if shape_decimal(&shape, data[0], data[1]):
        return fail(d.failure, NOT_A_DECIMAL, data - d.start, data[0], data[1])
    if shape.width != size - 2:
        return refuse(d, data, JSON_DIGITS, 0)
    r.start = d.start
    r.pos = data + 2
    r.end = data + size
    r.failure = d.failure
    if read_decimal(&shape, &r, &number):
        return -1
    return write_decimal(&shape, &number, d.out, d.failure)


cdef int _temporal(Document* d, int sql_type, const uint8_t* data) noexcept nogil:
    """Render a packed date or time (core/values/temporal_wire.pxd), i64, with six digits."""
    cdef int64_t packed = <int64_t>load64(data)
    cdef bint is_time = sql_type == _SQL_TIME
    cdef Bytes* out = d.out
    cdef int64_t hour
    cdef bint negative = is_time and packed < 0
    if packed < 0:
        if not is_time or -(packed + 1) >> 46:
            return refuse(d, data, JSON_DATE, 0)
        packed = -packed
    # TIME has its hours, up to 838, where the others have days and hours
    hour = packed >> 36 if is_time else packed >> 36 & 31
    if (
        hour > (MAX_HOUR if is_time else 23)
        or packed >> 30 & 63 > 59
        or packed >> 24 & 63 > 59
        or packed & 0xFFFFFF > 999_999
        or packed >> 46 >= YEARS * 13
    ):
        return refuse(d, data, JSON_DATE, 0)
    if room(out, 2 * TEMPORAL_ROOM, d.failure):
        return -1
    mark(out, c'"')
    if negative:
        mark(out, c"-")
    if not is_time:
        write_date(out, packed)
    if sql_type == _SQL_DATETIME or sql_type == _SQL_TIMESTAMP:
        mark(out, c" ")
    if sql_type != _SQL_DATE:
        write_time(out, packed if is_time else packed & ((<int64_t>1 << 41) - 1), 6)
    mark(out, c'"')
    return 0
