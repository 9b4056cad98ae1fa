# cython: boundscheck=False
"""Lines of `binlake mysqlbinlog` that are made of an event's header or bytes: places, times, base64."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy
from libc.time cimport localtime_r, strftime, time_t, tm

from binlake.core.events.format_constants cimport (
    CHECKSUM_BYTES,
    LOG_POS_AT,
    SERVER_ID_AT,
    TIMESTAMP_AT,
)
from binlake.core.memory.reader cimport load32
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    TextBuffer,
    hex_digit,
    put_byte,
    put_digits,
    put_text,
    reserve,
)

cdef enum:
    BASE64_BYTES = 57  # in a line of 76 characters

cdef const char* BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint16_t[4096] _BASE64_PAIRS  # the two characters of 12 bits, as they lie in memory


cdef void _fill_pairs() noexcept:
    cdef int bits
    cdef char[2] pair
    for bits in range(4096):
        pair[0] = BASE64[bits >> 6]
        pair[1] = BASE64[bits & 63]
        memcpy(&_BASE64_PAIRS[bits], pair, 2)


_fill_pairs()


def base64_lines(const uint8_t[::1] data):
    """Lines of base64, as a BINLOG statement has them."""
    cdef TextBuffer text = TextBuffer()
    if data.shape[0] and put_base64(&text.out, &data[0], data.shape[0]):
        raise MemoryError
    return bytes(text)


cdef void start_clock(Clock* clock) noexcept nogil:
    """Nothing was written yet."""
    clock.second = 0
    clock.text[0] = 0
    clock.commit_second = -1


cdef int put_base64(Output* out, const uint8_t* data, int64_t size) noexcept nogil:
    """Lines of base64, each with its newline."""
    cdef int64_t at = 0, end
    cdef uint32_t three
    cdef char* to
    if reserve(out, (size + 2) // 3 * 4 + size // BASE64_BYTES + 2):
        return NO_MEMORY
    to = out.data + out.used
    while at < size:
        end = at + BASE64_BYTES if size - at > BASE64_BYTES else size
        while end - at >= 3:
            three = <uint32_t>data[at] << 16 | <uint32_t>data[at + 1] << 8 | data[at + 2]
            memcpy(to, &_BASE64_PAIRS[three >> 12], 2)
            memcpy(to + 2, &_BASE64_PAIRS[three & 4095], 2)
            to += 4
            at += 3
        if at < end:
            three = <uint32_t>data[at] << 16
            if end - at == 2:
                three |= <uint32_t>data[at + 1] << 8
            to[0] = BASE64[three >> 18]
            to[1] = BASE64[three >> 12 & 63]
            to[2] = BASE64[three >> 6 & 63] if end - at == 2 else c"="
            to[3] = c"="
            to += 4
            at = end
        to[0] = c"\n"
        to += 1
    out.used = to - out.data
    return OK


cdef int put_at(Output* out, int64_t offset) noexcept nogil:
    if put_text(out, "# at ") or put_digits(out, <uint64_t>offset, False):
        return NO_MEMORY
    return put_byte(out, c"\n")


cdef int put_header(Output* out, Clock* clock, const uint8_t* event, int64_t length) noexcept nogil:
    """`#261122 10:05:53 server id 1  end_log_pos 127 CRC32 0xb4bc1b4d `."""
    cdef uint32_t timestamp = load32(event + TIMESTAMP_AT)
    cdef time_t seconds
    cdef tm local
    if timestamp != clock.second or not clock.text[0]:
        seconds = timestamp
        localtime_r(&seconds, &local)
        snprintf(
            clock.text, 64, "#%02d%02d%02d %2d:%02d:%02d server id ",
            local.tm_year % 100, local.tm_mon + 1, local.tm_mday,
            local.tm_hour, local.tm_min, local.tm_sec,
        )
        clock.second = timestamp
    if put_text(out, clock.text) or put_digits(out, load32(event + SERVER_ID_AT), False):
        return NO_MEMORY
    if put_text(out, "  end_log_pos ") or put_digits(out, load32(event + LOG_POS_AT), False):
        return NO_MEMORY
    if put_text(out, " CRC32 0x") or _put_hex32(out, load32(event + length - CHECKSUM_BYTES)):
        return NO_MEMORY
    return put_byte(out, c" ")


cdef inline int _put_hex32(Output* out, uint32_t value) noexcept nogil:
    cdef int i
    if reserve(out, 8):
        return NO_MEMORY
    for i in range(8):
        out.data[out.used + i] = <char>hex_digit(value >> (28 - 4 * i) & 15)
    out.used += 8
    return OK


cdef int put_commit(Output* out, Clock* clock, const char* which, uint64_t microseconds) noexcept nogil:
    """`# original_commit_timestamp=… (2026-11-22 10:05:53.752248 UTC)`."""
    cdef time_t seconds = <time_t>(microseconds // 1000000)
    cdef tm local
    if seconds != clock.commit_second:
        localtime_r(&seconds, &local)
        strftime(clock.commit_text, 64, "%Y-%m-%d %H:%M:%S", &local)
        strftime(clock.zone, 64, "%Z", &local)
        clock.commit_second = seconds
    if put_text(out, "# ") or put_text(out, which) or put_text(out, "_commit_timestamp="):
        return NO_MEMORY
    if put_digits(out, microseconds, False) or put_text(out, " ("):
        return NO_MEMORY
    if put_text(out, clock.commit_text) or put_byte(out, c"."):
        return NO_MEMORY
    if _put_six_digits(out, <uint32_t>(microseconds % 1000000)) or put_byte(out, c" "):
        return NO_MEMORY
    return NO_MEMORY if put_text(out, clock.zone) else put_text(out, ")\n")


cdef inline int _put_six_digits(Output* out, uint32_t value) noexcept nogil:
    cdef int i
    if reserve(out, 6):
        return NO_MEMORY
    for i in range(6):
        out.data[out.used + 5 - i] = <char>(48 + value % 10)
        value //= 10
    out.used += 6
    return OK
