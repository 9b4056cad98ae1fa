"""MySQL's binary JSON to the text that the server prints for it.

A document is a type byte and a value. A container holds, after its element count and its size,
fixed-width entries (keys, then values) that point at what follows by offsets from its start,
or hold a small value themselves. The text is that of `CAST(j AS CHAR)`: ", " and ": " between
things, and doubles in the shortest digits that read back the same. Values of SQL types are in
json_opaque.pyx.
Source: sql-common/json_binary.cc, json_dom.cc (wrapper_to_string), strings/dtoa.cc (my_gcvt).

Offsets come from outside and may lie. Each byte of a document belongs to one value, so a
rendering may use up as many bytes as the document has, and no more: a document whose values
overlap, which could otherwise grow without end, is malformed.

All functions without a docstring of their own return 0, or -1 and describe the failure.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from binlake.core.memory.failure cimport (
    CUT_OFF,
    JSON_BEYOND,
    JSON_DEPTH,
    JSON_KEY,
    JSON_LITERAL,
    JSON_NUMBER,
    JSON_OVERLAP,
    JSON_SIZE,
    JSON_TEXT,
    JSON_TYPE,
    JSON_VALUE,
    NO_FAULT,
    Failure,
    error_of,
    fail,
)
from binlake.core.memory.growing cimport append, detach, mark, release, room
from binlake.core.values.json_document cimport Document, read_length, refuse, use
from binlake.core.values.json_opaque cimport render_opaque
from binlake.core.values.number_text cimport NUMBER_ROOM, put_double, write_digits
from binlake.core.memory.reader cimport likely, load, load16, load32, load64, unlikely

cpdef enum:
    MAX_DEPTH = 100  # JSON_DOCUMENT_MAX_DEPTH: nested containers that a server accepts

cdef enum:
    # value types (json_binary.cc)
    _LARGE_OBJECT = 0x01
    _LARGE_ARRAY = 0x03
    _LITERAL = 0x04
    _INT16 = 0x05
    _UINT16 = 0x06
    _INT32 = 0x07
    _UINT32 = 0x08
    _INT64 = 0x09
    _UINT64 = 0x0A
    _DOUBLE = 0x0B
    _STRING = 0x0C
    _OPAQUE = 0x0F
    _SHORT = 16  # characters of a string that is rendered in one step
    # for the text after a string, its quotes, and the words that are written beyond its end
    _ROOM = 32
    # of an element: ", ", a short key, ": ", a number or short string
    _ELEMENT_ROOM = 2 + _ROOM + 2 + 40 + _ROOM

cdef const char* _ESCAPES = b"btn fr"  # of the characters 0x08 to 0x0D; 0x0B has none
cdef const char* _HEX = b"0123456789abcdef"

cdef int render_json(Reader* r, int64_t size, Bytes* out) noexcept nogil:
    """Append the text of the document in the next `size` bytes, stepping over them.

    An empty document is JSON's null, as the server has it. The text is valid UTF-8.
    """
    cdef Document d
    cdef const uint8_t* at = r.pos
    if unlikely(size > r.end - at or size < 0):
        return fail(r.failure, CUT_OFF, at - r.start, size, r.end - at)
    d.start = r.start
    d.readable = r.end
    d.left = size
    d.out = out
    d.failure = r.failure
    if size == 0:
        if append(out, <const uint8_t*>b"null", 4, r.failure):
            return -1
    elif _value(&d, at[0], at + 1, at + size, 0):
        return -1
    r.pos = at + size
    return 0


cdef inline int _width(int kind) noexcept nogil:
    """Bytes of a literal or integer; 0 for other types."""
    if kind == _LITERAL:
        return 1
    if kind == _INT16 or kind == _UINT16:
        return 2
    if kind == _INT32 or kind == _UINT32:
        return 4
    return 8 if kind == _INT64 or kind == _UINT64 else 0


cdef int _value(
    Document* d, int kind, const uint8_t* at, const uint8_t* end, int depth
) noexcept nogil:
    """Render the value of a type at `at`; it ends before `end`."""
    cdef const uint8_t* data
    cdef int64_t size
    cdef int width
    if likely(kind == _STRING):
        if likely(end > at and at[0] < 0x80):  # a length of one byte, as most are
            size = at[0]
            if use(d, at, end, size + 1):
                return -1
            return _long_string(d, at + 1, size)
        data = read_length(d, at, end, &size)
        if data == NULL:
            return -1
        return _long_string(d, data, size)
    if kind <= _LARGE_ARRAY:
        return _container(d, kind, at, end, depth)
    if kind == _DOUBLE:
        if use(d, at, end, 8):
            return -1
        return _double(d, at)
    if kind == _OPAQUE:
        if use(d, at, end, 1):
            return -1
        return render_opaque(d, at[0], at + 1, end)
    width = _width(kind)
    if width == 0:
        return refuse(d, at, JSON_TYPE, kind)
    if use(d, at, end, width) or room(d.out, NUMBER_ROOM, d.failure):
        return -1
    size = _put_scalar(kind, at, d.out.at + d.out.count)
    if size == 0:
        return refuse(d, at, JSON_LITERAL, at[0])
    d.out.count += size
    return 0


cdef inline int64_t _number(const uint8_t* at, int width) noexcept nogil:
    """A count, size or offset that is there."""
    return load16(at) if width == 2 else <int64_t>load32(at)


cdef int _container(
    Document* d, int kind, const uint8_t* start, const uint8_t* end, int depth
) noexcept nogil:
    """Render an object or array whose element count is at `start`.

    `to` is where the text goes on and `unused` how many bytes are not used up: in locals, because
    the compiler must assume that a stored character changes what a pointer leads to.
    """
    cdef bint is_object = kind <= _LARGE_OBJECT
    cdef int width = 4 if kind & 1 else 2  # of counts, sizes and offsets
    cdef int64_t key_entry = width + 2 if is_object else 0
    cdef int64_t value_entry = width + 1
    cdef int64_t count, size, head, offset, put, unused, i
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef const uint8_t* readable = d.readable
    cdef Bytes* out = d.out
    cdef uint8_t* to
    cdef uint8_t* full
    if depth >= MAX_DEPTH:
        return refuse(d, start, JSON_DEPTH, MAX_DEPTH)
    if end - start < 2 * width:
        return refuse(d, start, JSON_BEYOND, 0)
    count = _number(start, width)
    size = _number(start + width, width)
    head = 2 * width + count * (key_entry + value_entry)
    if size > end - start or head > size:
        return refuse(d, start, JSON_SIZE, 0)
    end = start + size
    if use(d, start, end, head):
        return -1
    key = start + 2 * width
    value = key + count * key_entry
    if room(out, _ELEMENT_ROOM, d.failure):
        return -1
    to = out.at + out.count
    full = out.at + out.capacity - _ELEMENT_ROOM
    unused = d.left
    to[0] = c"{" if is_object else c"["
    to += 1
    for i in range(count):
        if unlikely(to > full):  # an element needs this room, except for a long string
            out.count = to - out.at
            if room(out, _ELEMENT_ROOM, d.failure):
                return -1
            to = out.at + out.count
            full = out.at + out.capacity - _ELEMENT_ROOM
        if i:
            to[0] = c","
            to[1] = c" "
            to += 2
        if is_object:  # an entry of a key: offset, length u16
            offset = _number(key, width)
            size = load16(key + width)
            if unlikely(offset < head):
                return refuse(d, key, JSON_KEY, 0)
            if unlikely(offset > end - start):
                return refuse(d, key, JSON_BEYOND, 0)
            if unlikely(size > end - start - offset):
                return refuse(d, start + offset, JSON_BEYOND, 0)
            if unlikely(size > unused):
                return refuse(d, start + offset, JSON_OVERLAP, 0)
            unused -= size
            put = _put_short(start + offset, size, readable, to)
            if unlikely(put == 0):
                out.count = to - out.at
                if _long_string(d, start + offset, size) or room(out, _ELEMENT_ROOM, d.failure):
                    return -1
                to = out.at + out.count
                full = out.at + out.capacity - _ELEMENT_ROOM
            to += put
            to[0] = c":"
            to[1] = c" "
            to += 2
            key += key_entry
        # of a value: type u8, then the offset, or a value that fits there
        kind = value[0]
        if kind == _LITERAL or kind == _INT16 or kind == _UINT16 or (
            width == 4 and (kind == _INT32 or kind == _UINT32)
        ):
            put = _put_scalar(kind, value + 1, to)
            if unlikely(put == 0):
                return refuse(d, value + 1, JSON_LITERAL, value[1])
        else:
            offset = _number(value + 1, width)
            if unlikely(offset < head):
                return refuse(d, value, JSON_VALUE, 0)
            if unlikely(offset > end - start):
                return refuse(d, value, JSON_BEYOND, 0)
            put = 0
            if kind == _STRING and end - start > offset:
                size = start[offset]
                if size <= _SHORT and size < end - start - offset and size < unused:
                    put = _put_short(start + offset + 1, size, readable, to)
                    if put:
                        unused -= size + 1
            if put == 0:
                out.count = to - out.at
                d.left = unused
                if _value(d, kind, start + offset, end, depth + 1):
                    return -1
                unused = d.left
                if room(out, _ELEMENT_ROOM, d.failure):
                    return -1
                to = out.at + out.count
                full = out.at + out.capacity - _ELEMENT_ROOM
        to += put
        value += value_entry
    # an element leaves room for this
    to[0] = c"}" if is_object else c"]"
    out.count = to + 1 - out.at
    d.left = unused
    return 0


cdef inline int64_t _put_scalar(int kind, const uint8_t* at, uint8_t* to) noexcept nogil:
    """Write a literal or an integer, whose bytes are there, at `to`, where there is room for a number.

    Return how many bytes it takes; 0: there is no such literal.
    """
    cdef int width = _width(kind)
    cdef uint64_t bits = load(at, width)
    cdef uint64_t sign
    cdef uint8_t* first = to
    if kind == _LITERAL:
        if bits > 2:
            return 0
        memcpy(to, b"null" if bits == 0 else b"true" if bits == 1 else b"fals", 4)
        to[4] = c"e"
        return 4 + (bits == 2)
    if kind & 1:  # the signed types have odd numbers
        sign = <uint64_t>1 << (8 * width - 1)
        if bits & sign:
            to[0] = c"-"
            to += 1
            bits = (sign - 1 - (bits & (sign - 1))) + 1
    return write_digits(to, bits) - first


cdef inline uint64_t _special(uint64_t word) noexcept nogil:
    """The lowest bit set is the high bit of the first of eight characters, the least significant
    first, that cannot stand in a JSON string as it is: not ASCII, control, quote, backslash.
    """
    cdef uint64_t quotes = word ^ <uint64_t>0x2222222222222222
    cdef uint64_t slashes = word ^ <uint64_t>0x5C5C5C5C5C5C5C5C
    return (
        word
        | ((word - <uint64_t>0x2020202020202020) & ~word)
        | ((quotes - <uint64_t>0x0101010101010101) & ~quotes)
        | ((slashes - <uint64_t>0x0101010101010101) & ~slashes)
    ) & <uint64_t>0x8080808080808080


cdef inline int64_t _put_short(
    const uint8_t* at, int64_t size, const uint8_t* readable, uint8_t* to
) noexcept nogil:
    """Write a string of few and plain characters with its quotes at `to`, where there is `_ROOM`.

    Return how many bytes it takes; 0: it is no such string.
    """
    if size <= 8:
        if unlikely(size <= 0 or readable - at < 8):
            return 0
        if _special(load64(at)) << (64 - 8 * size):
            return 0
        memcpy(to + 1, at, 8)  # later writes replace the bytes beyond the string
    else:
        if size > _SHORT or readable - at < _SHORT:
            return 0
        if _special(load64(at)) or _special(load64(at + 8)) << (128 - 8 * size):
            return 0
        memcpy(to + 1, at, 16)
    to[0] = c'"'
    to[1 + size] = c'"'
    return size + 2


cdef int _long_string(Document* d, const uint8_t* at, int64_t size) noexcept nogil:
    """Render `size` bytes of UTF-8 as a JSON string, eight plain characters at a time."""
    cdef const uint8_t* end = at + size
    cdef const uint8_t* checked = at  # up to here it is UTF-8
    cdef const uint8_t* stop
    cdef uint8_t* to
    cdef int width
    # enough if nothing needs an escape
    if room(d.out, size + _ROOM, d.failure):
        return -1
    to = d.out.at + d.out.count
    to[0] = c'"'
    to += 1
    while at < end:
        stop = end if end - at < 8 else at + 8
        if d.readable - at >= 8:
            if _special(load64(at)) << (64 - 8 * (stop - at)) == 0:
                memcpy(to, at, 8)  # later writes replace the bytes beyond `stop`
                to += stop - at
                at = stop
                continue
        while at < stop:
            if at[0] >= 0x80 and at >= checked:
                width = _character(d, at, end)
                if width < 0:
                    return -1
                checked = at + width
            if at[0] >= 0x20 and at[0] != c'"' and at[0] != c"\\":
                to[0] = at[0]
                to += 1
            else:
                d.out.count = to - d.out.at
                if room(d.out, end - at + _ROOM, d.failure):
                    return -1
                _escape(d.out, at[0])
                to = d.out.at + d.out.count
            at += 1
    to[0] = c'"'
    d.out.count = to + 1 - d.out.at
    return 0


cdef void _escape(Bytes* out, int byte) noexcept nogil:
    """Render a quote, a backslash or a control character in at most 6, for which there is room."""
    mark(out, c"\\")
    if byte >= 0x20:
        mark(out, byte)
    elif 8 <= byte <= 13 and byte != 11:
        mark(out, _ESCAPES[byte - 8])
    else:
        mark(out, c"u")
        mark(out, c"0")
        mark(out, c"0")
        mark(out, _HEX[byte >> 4])
        mark(out, _HEX[byte & 15])


cdef int _character(Document* d, const uint8_t* at, const uint8_t* end) noexcept nogil:
    """How many bytes the character beyond ASCII at `at` has; -1 for what is not UTF-8."""
    cdef int first = at[0]
    cdef int width = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    cdef int lowest, highest, i
    if first < 0xC2 or first > 0xF4 or end - at < width:
        return refuse(d, at, JSON_TEXT, 0)
    # longer than needed, a surrogate, beyond U+10FFFF
    lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if at[1] < lowest or at[1] > highest:
        return refuse(d, at, JSON_TEXT, 0)
    for i in range(2, width):
        if at[i] & 0xC0 != 0x80:
            return refuse(d, at, JSON_TEXT, 0)
    return width


cdef int _double(Document* d, const uint8_t* at) noexcept nogil:
    """Render the double at `at`, whose 8 bytes are there."""
    cdef uint64_t bits = load64(at)
    cdef double value
    memcpy(&value, &bits, 8)
    if value - value != 0:
        return refuse(d, at, JSON_NUMBER, 0)
    if room(d.out, NUMBER_ROOM, d.failure):
        return -1
    if bits >> 63:
        mark(d.out, c"-")
        value = -value
    put_double(d.out, value)
    return 0


def render(const uint8_t[::1] data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t origin=-1):
    """The text of the binary document in bytes `start` to `end` of `data`, as UTF-8.

    Raises MalformedError, whose offset counts from `origin` (from `start`, if that is negative).
    """
    cdef Failure failure
    cdef Reader r
    cdef Bytes out
    cdef int failed
    if not 0 <= start <= end <= data.shape[0]:
        raise ValueError(f"range [{start}, {end}) is outside the buffer")
    if start == end:
        return b"null"
    if origin > start:
        raise ValueError(f"origin {origin} is behind {start}")
    failure.fault = NO_FAULT
    r.start = &data[0] + (start if origin < 0 else origin)
    r.pos = &data[0] + start
    r.end = &data[0] + end
    r.failure = &failure
    out.at = NULL
    out.count = out.capacity = out.first = 0
    with nogil:
        failed = render_json(&r, end - start, &out)
    if failed:
        release(&out)
        raise error_of(&failure, None)
    return bytes(detach(&out))
