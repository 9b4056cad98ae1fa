"""A growing buffer of text, for the kernels that write without the interpreter's lock."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, strlen

cdef enum:
    OK = 0
    NO_MEMORY = 1


cdef struct Output:
    char* data
    int64_t used
    int64_t room


cdef inline int reserve(Output* out, int64_t size) noexcept nogil:
    cdef int64_t wanted = out.used + size
    cdef int64_t room
    cdef char* grown
    if wanted <= out.room:
        return OK
    room = out.room * 2 if out.room * 2 > wanted else wanted + 4096
    grown = <char*>realloc(out.data, room)
    if grown == NULL:
        return NO_MEMORY
    out.data = grown
    out.room = room
    return OK


cdef inline int put(Output* out, const char* data, int64_t size) noexcept nogil:
    if size:
        if reserve(out, size):
            return NO_MEMORY
        memcpy(out.data + out.used, data, size)
        out.used += size
    return OK


cdef inline int put_byte(Output* out, char byte) noexcept nogil:
    if reserve(out, 1):
        return NO_MEMORY
    out.data[out.used] = byte
    out.used += 1
    return OK


cdef inline int put_digits(Output* out, uint64_t value, bint negative) noexcept nogil:
    """A number in decimal digits, `-` before it if it is negative."""
    cdef char[24] digits
    cdef int pos = 24
    while True:
        pos -= 1
        digits[pos] = <char>(48 + value % 10)
        value //= 10
        if value == 0:
            break
    if negative:
        pos -= 1
        digits[pos] = c"-"
    return put(out, digits + pos, 24 - pos)


cdef inline int put_signed(Output* out, int64_t value) noexcept nogil:
    return put_digits(out, <uint64_t>(-value if value < 0 else value), value < 0)


cdef inline int put_text(Output* out, const char* text) noexcept nogil:
    """A text that ends with a zero byte."""
    return put(out, text, strlen(text))


cdef inline int put_two(Output* out, int value) noexcept nogil:
    """A number below 100 with two digits."""
    if put_byte(out, <char>(48 + value // 10)):
        return NO_MEMORY
    return put_byte(out, <char>(48 + value % 10))


cdef inline uint8_t hex_digit(uint8_t value) noexcept nogil:
    """By arithmetic, so that the compiler can work on many at once."""
    return value + 48 + (39 if value > 9 else 0)


cdef inline char short_escape(uint8_t control) noexcept nogil:
    """The letter by which JSON, and the servers' tools, escape a control character; 0: it has none."""
    if control == 8:
        return c"b"
    if control == 9:
        return c"t"
    if control == 10:
        return c"n"
    if control == 12:
        return c"f"
    if control == 13:
        return c"r"
    return 0


cdef int put_hex(Output* out, const uint8_t* data, int64_t size) noexcept nogil
cdef int put_uuid(Output* out, const uint8_t* data) noexcept nogil
cdef int put_json_text(Output* out, const uint8_t* data, int64_t size) noexcept nogil
cdef int put_utc(Output* out, uint32_t timestamp) noexcept nogil


cdef inline int put_number(Output* out, const char* words, uint64_t value) noexcept nogil:
    """Words that end with a zero byte, and a number behind them."""
    return NO_MEMORY if put_text(out, words) else put_digits(out, value, False)


cdef inline int put_mysql_gtid(Output* out, const uint8_t* uuid, int64_t gno) noexcept nogil:
    """A GTID as MySQL spells it; only damage makes the number negative."""
    if put_uuid(out, uuid) or put_byte(out, c":"):
        return NO_MEMORY
    return put_signed(out, gno)


cdef inline int put_mariadb_gtid(
    Output* out, int64_t domain_id, uint32_t server_id, uint64_t seq_no
) noexcept nogil:
    """A GTID as MariaDB spells it."""
    if put_signed(out, domain_id) or put_byte(out, c"-"):
        return NO_MEMORY
    if put_digits(out, server_id, False) or put_byte(out, c"-"):
        return NO_MEMORY
    return put_digits(out, seq_no, False)


cdef class TextBuffer:
    cdef Output out


cdef class TextWriter:
    cdef TextBuffer text
