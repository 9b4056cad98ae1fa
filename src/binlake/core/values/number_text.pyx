# distutils: language = c++
"""Numbers as MySQL's JSON prints them.

A double has the shortest digits that read back as the same double, in the notation of the
server's my_gcvt. Source: strings/dtoa.cc; measured on MySQL 9.7 (tests/server/test_json.py).
"""

from libc.math cimport fabs
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from binlake.core.memory.growing cimport mark
from binlake.core.memory.reader cimport load64

cdef extern from "Python.h":
    double PyOS_string_to_double(const char*, char**, object) except? -1.0

cdef extern from *:
    """
    #include <charconv>
    static inline char* binlake_digits(char* at, char* end, uint64_t value) {
        return std::to_chars(at, end, value).ptr;
    }
    static inline char* binlake_shortest(char* at, char* end, double value) {
        return std::to_chars(at, end, value, std::chars_format::scientific).ptr;
    }
    """
    char* binlake_digits(char* at, char* end, uint64_t value) noexcept nogil
    char* binlake_shortest(char* at, char* end, double value) noexcept nogil

cdef double _TWO_ROUNDINGS = 2.0 ** -50

cdef enum:
    _FIXED_DIGITS = 15  # of a whole number, or places up to the first digit; more take an exponent
    _MOST_PLACES = 6
    _EXACT_DIGITS = 15  # so many always read back from a double
    _INTEGER_DIGITS = 18  # so many always fit a BIGINT


cdef void put_number(Bytes* out, uint64_t value) noexcept nogil:
    """Append decimal digits; the room is reserved."""
    out.count = write_digits(out.at + out.count, value) - out.at


cdef uint8_t* write_many_digits(uint8_t* to, uint64_t value) noexcept nogil:
    """`write_digits` of any number."""
    return <uint8_t*>binlake_digits(<char*>to, <char*>to + 20, value)


cdef void put_double(Bytes* out, double value) noexcept nogil:
    """Append a finite number that is not negative; the room is reserved."""
    if value >= 1e15 or not _put_few_places(out, value):
        _put_shortest(out, value)


cdef bint _put_few_places(Bytes* out, double value) noexcept nogil:
    """Append a number with at most 15 digits, up to 6 of them after the point.

    Two decimals of 15 digits never read as the same double, so the first decimal found
    that reads back as `value` has the shortest digits. False: there is none, nothing is appended.
    """
    cdef double power = 1.0
    cdef double scaled
    cdef int64_t digits
    cdef int places
    for places in range(_MOST_PLACES + 1):
        scaled = value * power
        if scaled >= 1e15:
            return False
        digits = <int64_t>(scaled + 0.5)
        # A decimal that reads as `value` is two roundings away from `scaled` at most. The first
        # condition saves most of the divisions.
        if fabs(scaled - <double>digits) <= scaled * _TWO_ROUNDINGS and <double>digits / power == value:
            _put_fixed(out, <uint64_t>digits, places)
            return True
        power *= 10.0
    return False


cdef void _put_fixed(Bytes* out, uint64_t digits, int places) noexcept nogil:
    """Append `digits` with a point before the last `places` of them, at least `.0`."""
    cdef uint64_t scale = 1
    cdef int _i
    for _i in range(places):
        scale *= 10
    put_number(out, digits // scale)
    mark(out, c".")
    digits %= scale
    while scale > 10 and digits < scale // 10:
        mark(out, c"0")
        scale //= 10
    put_number(out, digits)


cdef void _put_shortest(Bytes* out, double value) noexcept nogil:
    """Append a number as the server's my_gcvt writes it."""
    cdef char text[NUMBER_ROOM]  # d.ddd…e±dd
    cdef char digits[NUMBER_ROOM]
    cdef char* end = binlake_shortest(text, text + NUMBER_ROOM, value)
    cdef char* at = text
    cdef int count = 0
    cdef int exponent = 0
    cdef int point, i
    cdef bint negative
    while at < end and at[0] != c"e":
        if at[0] != c".":
            digits[count] = at[0]
            count += 1
        at += 1
    at += 1
    negative = at < end and at[0] == c"-"
    at += 1
    while at < end:
        exponent = exponent * 10 + (at[0] - c"0")
        at += 1
    # the point stands after this many digits
    point = (-exponent if negative else exponent) + 1
    # digits after the point keep it in place, however many are before it
    if point <= -_FIXED_DIGITS or point > max(<int>_FIXED_DIGITS, count - 1):
        mark(out, digits[0])
        if count > 1:
            mark(out, c".")
            _put_digits(out, digits + 1, count - 1)
        mark(out, c"e")
        if point < 1:
            mark(out, c"-")
        put_number(out, <uint64_t>(1 - point if point < 1 else point - 1))
    elif point <= 0:
        mark(out, c"0")
        mark(out, c".")
        for i in range(-point):
            mark(out, c"0")
        _put_digits(out, digits, count)
    elif point < count:
        _put_digits(out, digits, point)
        mark(out, c".")
        _put_digits(out, digits + point, count - point)
    else:
        _put_digits(out, digits, count)
        for i in range(point - count):
            mark(out, c"0")
        mark(out, c".")
        mark(out, c"0")


cdef void _put_digits(Bytes* out, const char* digits, int count) noexcept nogil:
    memcpy(out.at + out.count, digits, <size_t>count)
    out.count += count


def double_text(value: float) -> str:
    """The text of a finite number that is not negative."""
    cdef uint8_t space[NUMBER_ROOM]
    cdef Bytes out
    out.at = space
    out.count = 0
    out.capacity = NUMBER_ROOM
    if not 0 <= value < float("inf"):
        raise ValueError(f"{value} is not a finite number of 0 or more")
    put_double(&out, value)
    return space[: out.count].decode("ascii")


def read_back_the_same(const uint8_t[::1] data, const uint8_t[::1] offsets, int64_t count):
    """For each of `count` documents a byte: 1 if a server that parses the text has the same numbers.

    A parser makes a DOUBLE of each number with a fraction, so the digits of a DECIMAL (1.50, or 65 of
    them) may be lost. Document i is `data[offset i:offset i + 1]`, as the server writes JSON;
    `offsets` are `count + 1` numbers of 8 bytes, little-endian. Raises ValueError if they do not lie
    in `data`.
    """
    cdef const uint8_t* text = &data[0] if data.shape[0] else <const uint8_t*>b""
    cdef const uint8_t* starts
    cdef int64_t i, start, end
    cdef bytearray found
    cdef uint8_t[::1] same
    if count < 0 or offsets.shape[0] < 8 * (count + 1):
        raise ValueError(f"{offsets.shape[0]} bytes are no offsets of {count} documents")
    found = bytearray(max(count, 1))
    same = found
    starts = &offsets[0]
    for i in range(count):
        start = <int64_t>load64(starts + 8 * i)
        end = <int64_t>load64(starts + 8 * i + 8)
        if not 0 <= start <= end <= data.shape[0]:
            raise ValueError(f"document {i} does not lie in the data")
        same[i] = _reads_back(text + start, text + end)
    return memoryview(found)[:count]


cdef bint _reads_back(const uint8_t* at, const uint8_t* end) except -1:
    """Whether all numbers of a document read back the same."""
    cdef const uint8_t* first
    while at < end:
        if at[0] == c'"':
            at = _behind_string(at + 1, end)
        elif c"0" <= at[0] <= c"9":  # the sign before it does not matter
            first = at
            while at < end and _is_of_number(at[0]):
                at += 1
            if not _survives(first, at - first):
                return False
        else:
            at += 1
    return True


cdef inline const uint8_t* _behind_string(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Behind the quote that ends a string."""
    while at < end and at[0] != c'"':
        at += 2 if at[0] == c"\\" else 1
    return at + 1 if at < end else end


cdef inline bint _is_of_number(uint8_t byte) noexcept nogil:
    return c"0" <= byte <= c"9" or byte == c"." or byte == c"e" or byte == c"-" or byte == c"+"


cdef bint _survives(const uint8_t* number, int64_t size) except -1:
    """Whether a number without its sign reads back the same."""
    cdef int64_t i, point = -1, places
    cdef bint has_exponent = False
    for i in range(size):
        if number[i] == c".":
            point = i
        elif not c"0" <= number[i] <= c"9":
            has_exponent = True
    if has_exponent:
        return _is_double(number, size)
    if point < 0:
        return size <= _INTEGER_DIGITS or _is_bigint(number, size)
    places = size - point - 1
    if places > 1 and number[size - 1] == c"0":
        return False  # a DOUBLE has no zero there
    return size - 1 <= _EXACT_DIGITS or _is_double(number, size)


cdef bint _is_bigint(const uint8_t* number, int64_t size) except -1:
    """Whether digits fit a BIGINT, of which sign ever."""
    return size <= 20 and int(number[:size]) < 1 << 63


cdef bint _is_double(const uint8_t* number, int64_t size) except -1:
    """Whether a number is written as the DOUBLE that a parser makes of it."""
    cdef uint8_t space[NUMBER_ROOM]
    cdef Bytes out
    cdef bytes token
    cdef double value
    if size >= NUMBER_ROOM:
        return False
    token = number[:size]
    value = PyOS_string_to_double(token, NULL, OverflowError)
    out.at = space
    out.count = 0
    out.capacity = NUMBER_ROOM
    put_double(&out, value)
    return out.count == size and memcmp(space, number, <size_t>size) == 0
