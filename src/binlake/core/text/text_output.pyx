# cython: boundscheck=False
"""Text that compiled kernels write: a growing buffer, which Python code receives without a copy."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free

from binlake.core.values.civil cimport Civil, civil_of


cdef class TextBuffer:
    """Bytes that were written, for everything that takes a buffer. They are not copied."""

    def __cinit__(self):
        self.out.data = NULL
        self.out.used = 0
        self.out.room = 0

    def __dealloc__(self):
        free(self.out.data)

    def __len__(self):
        return self.out.used

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # an empty buffer needs an address, too
        PyBuffer_FillInfo(
            buffer, self, self.out.data if self.out.used else <char*>b"", self.out.used, 1, flags
        )


cdef class TextWriter:
    """Base of the classes that write text; `write` of a subclass adds to it."""

    def __cinit__(self):
        self.text = TextBuffer()

    def take(self):
        """Return the text written so far, and start again with an empty buffer."""
        text = self.text
        self.text = TextBuffer()
        return text


cdef int put_hex(Output* out, const uint8_t* data, int64_t size) noexcept nogil:
    """Two lower-case digits for each byte."""
    cdef int64_t i
    cdef uint8_t* to
    if reserve(out, 2 * size):
        return NO_MEMORY
    to = <uint8_t*>out.data + out.used
    for i in range(size):
        to[2 * i] = hex_digit(data[i] >> 4)
        to[2 * i + 1] = hex_digit(data[i] & 15)
    out.used += 2 * size
    return OK


cdef int put_uuid(Output* out, const uint8_t* data) noexcept nogil:
    """The 16 bytes of a UUID as its text."""
    cdef int i
    if reserve(out, 36):
        return NO_MEMORY
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            put_byte(out, c"-")
        put_byte(out, <char>hex_digit(data[i] >> 4))
        put_byte(out, <char>hex_digit(data[i] & 15))
    return OK


cdef int put_json_text(Output* out, const uint8_t* data, int64_t size) noexcept nogil:
    """Text as JSON has it between quotes (RFC 8259, section 7): UTF-8 stays as it is."""
    cdef int64_t i = 0
    cdef uint64_t word, quote, backslash
    cdef uint8_t byte
    cdef char* to
    if reserve(out, 6 * size):
        return NO_MEMORY
    to = out.data + out.used
    while i < size:
        # eight bytes at once, as long as none of them is a quote, a backslash or a control
        while i + 8 <= size:
            memcpy(&word, data + i, 8)
            quote = word ^ <uint64_t>0x2222222222222222
            backslash = word ^ <uint64_t>0x5C5C5C5C5C5C5C5C
            if (
                ((quote - <uint64_t>0x0101010101010101) & ~quote)
                | ((backslash - <uint64_t>0x0101010101010101) & ~backslash)
                | ((word - <uint64_t>0x2020202020202020) & ~word)
            ) & <uint64_t>0x8080808080808080:
                break
            memcpy(to, &word, 8)
            to += 8
            i += 8
        if i == size:
            break
        byte = data[i]
        i += 1
        if byte >= 32 and byte != 34 and byte != 92:
            to[0] = <char>byte
            to += 1
            continue
        to[0] = c"\\"
        if byte >= 32:
            to[1] = <char>byte
            to += 2
        elif short_escape(byte):
            to[1] = short_escape(byte)
            to += 2
        else:
            memcpy(to + 1, "u00", 3)
            to[4] = <char>hex_digit(byte >> 4)
            to[5] = <char>hex_digit(byte & 15)
            to += 6
    out.used = to - out.data
    return OK


cdef int put_utc(Output* out, uint32_t timestamp) noexcept nogil:
    """Seconds since 1970 as `2026-11-21T07:09:00Z`."""
    cdef Civil date = civil_of(timestamp // 86400)
    cdef int second = timestamp % 86400
    if put_digits(out, <uint64_t>date.year, False) or put_byte(out, c"-"):
        return NO_MEMORY
    if put_two(out, <int>date.month) or put_byte(out, c"-") or put_two(out, <int>date.day):
        return NO_MEMORY
    if put_byte(out, c"T") or put_two(out, second // 3600) or put_byte(out, c":"):
        return NO_MEMORY
    if put_two(out, second // 60 % 60) or put_byte(out, c":") or put_two(out, second % 60):
        return NO_MEMORY
    return put_byte(out, c"Z")
