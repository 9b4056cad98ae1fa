"""Text columns as a whole: whether their bytes are UTF-8, and texts that many rows share.

Nothing here holds the interpreter's lock while it works.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from binlake.core.memory.failure cimport NO_FAULT, Failure, error_of
from binlake.core.memory.growing cimport Bytes, detach, release, room
from binlake.core.memory.reader cimport load32, load64, unlikely

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef uint64_t _HIGH_BITS = 0x8080808080808080

cdef enum:
    _AT_ONCE = 64  # bytes of a text that are copied without asking how many they are


def is_ascii(const uint8_t[::1] data):
    """Whether all bytes are below 0x80."""
    cdef const uint8_t* at
    cdef const uint8_t* end
    if data.shape[0] == 0:
        return True
    at = &data[0]
    end = at + data.shape[0]
    with nogil:
        at = _past_ascii(at, end)
    return at == end


def is_utf8(const uint8_t[::1] data, const uint8_t[::1] offsets, int64_t count, int most_bytes):
    """Whether `count` texts are UTF-8 whose characters have at most `most_bytes` (3 or 4) bytes.

    Text i is `data[offset i:offset i + 1]`; `offsets` are `count + 1` numbers of 4 bytes,
    little-endian. Raises ValueError if the last one is behind the end of `data`.
    """
    cdef const uint8_t* text = &data[0] if data.shape[0] else NULL
    cdef int64_t size = data.shape[0]
    cdef const uint8_t* starts
    cdef bint valid
    if count < 0 or offsets.shape[0] < 4 * (count + 1):
        raise ValueError(f"{offsets.shape[0]} bytes are no offsets of {count} texts")
    starts = &offsets[0]
    if load32(starts + 4 * count) > size:
        raise ValueError(f"the bytes of the texts end at {size}, before the last text")
    size = load32(starts + 4 * count)
    if size == 0:
        return True
    with nogil:
        valid = _are_utf8(text, size, starts, count, most_bytes)
    return valid


def spread(
    const uint8_t[::1] data, const uint8_t[::1] offsets, const uint8_t[::1] index, int64_t count
):
    """Text `index[i]` for each row i below `count`: its offsets and its bytes, as `is_utf8` has them.

    `index` are numbers of `len(index) / count` bytes (1, 4 or 8), little-endian. Raises IndexError for a
    number that no text has, UnsupportedError for more than 2 GiB.
    """
    cdef int64_t texts = offsets.shape[0] // 4 - 1
    cdef const uint8_t* text = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* starts
    cdef const uint8_t* numbers = &index[0] if index.shape[0] else NULL
    cdef Bytes ends, values
    cdef Failure failure
    cdef int64_t i, bad
    cdef int width = <int>(index.shape[0] // count) if 0 < count <= index.shape[0] else 1
    if count < 0 or index.shape[0] != width * count or width not in (1, 4, 8):
        raise ValueError(f"{index.shape[0]} bytes are no index of {count} rows")
    if texts < 0:
        raise ValueError("there are no offsets")
    starts = &offsets[0]
    for i in range(texts):
        if load32(starts + 4 * i) > load32(starts + 4 * i + 4):
            raise ValueError("the offsets do not grow")
    if load32(starts + 4 * texts) > data.shape[0]:
        raise ValueError(f"the bytes of the texts end at {data.shape[0]}, before the last text")
    failure.fault = NO_FAULT
    ends.at = values.at = NULL
    ends.count = ends.capacity = ends.first = 0
    values.count = values.capacity = values.first = 0
    with nogil:
        bad = _spread(text, data.shape[0], starts, texts, numbers, width, count, &ends, &values, &failure)
    if bad >= 0:
        release(&ends)
        release(&values)
        if failure.fault != NO_FAULT:
            raise error_of(&failure, None)
        raise IndexError(f"row {bad}: no text has its number")
    return detach(&ends), detach(&values)


cdef inline const uint8_t* _past_ascii(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The first byte from `at` on that is not ASCII; `end` if there is none."""
    while end - at >= 64:
        if (
            load64(at) | load64(at + 8) | load64(at + 16) | load64(at + 24)
            | load64(at + 32) | load64(at + 40) | load64(at + 48) | load64(at + 56)
        ) & _HIGH_BITS:
            break
        at += 64
    while end - at >= 8:
        if load64(at) & _HIGH_BITS:
            return at + (__builtin_ctzll(load64(at) & _HIGH_BITS) >> 3)
        at += 8
    while at < end and at[0] < 0x80:
        at += 1
    return at


cdef bint _are_utf8(
    const uint8_t* text, int64_t size, const uint8_t* starts, int64_t count, int most_bytes
) noexcept nogil:
    """All bytes together are UTF-8, and no text begins inside of a character."""
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + size
    cdef int64_t i, start
    cdef int width
    cdef bint plain = True
    while True:
        at = _past_ascii(at, end)
        if at == end:
            break
        plain = False
        width = _width_of(at, end)
        if width == 0 or width > most_bytes:
            return False
        at += width
    if plain:
        return True
    for i in range(count):
        start = load32(starts + 4 * i)
        if start < size and text[start] & 0xC0 == 0x80:
            return False
    return True


cdef inline int _width_of(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Bytes of the character beyond ASCII at `at`; 0 if it is not UTF-8."""
    cdef int first = at[0]
    cdef int lowest, highest
    if first < 0xC2 or first > 0xF4 or end - at < 2:
        return 0
    if first < 0xE0:
        return 2 if at[1] & 0xC0 == 0x80 else 0
    # longer than needed, a surrogate, beyond U+10FFFF
    lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if at[1] < lowest or at[1] > highest or end - at < 3 or at[2] & 0xC0 != 0x80:
        return 0
    if first < 0xF0:
        return 3
    return 4 if end - at >= 4 and at[3] & 0xC0 == 0x80 else 0


cdef inline uint64_t _number(const uint8_t* numbers, int width, int64_t row) noexcept nogil:
    if width == 1:
        return numbers[row]
    return load32(numbers + 4 * row) if width == 4 else load64(numbers + 8 * row)


cdef int64_t _spread(
    const uint8_t* text,
    int64_t size,
    const uint8_t* starts,
    int64_t texts,
    const uint8_t* numbers,
    int width,
    int64_t count,
    Bytes* ends,
    Bytes* values,
    Failure* failure,
) noexcept nogil:
    """Fill `ends` and `values`; -1, or the row where that failed."""
    cdef uint64_t number
    cdef int64_t total = 0
    cdef int64_t row, start, length
    cdef uint32_t* end
    cdef uint8_t* to
    if room(ends, 4 * (count + 1), failure):
        return 0
    ends.count = 4 * (count + 1)
    end = <uint32_t*>ends.at
    end[0] = 0
    for row in range(count):
        number = _number(numbers, width, row)
        if unlikely(number >= <uint64_t>texts):
            return row
        total += load32(starts + 4 * number + 4) - load32(starts + 4 * number)
        end[row + 1] = <uint32_t>total
    if room(values, total + _AT_ONCE, failure):
        return 0
    to = values.at
    for row in range(count):
        number = _number(numbers, width, row)
        start = load32(starts + 4 * number)
        length = load32(starts + 4 * number + 4) - start
        if length <= _AT_ONCE and size - start >= _AT_ONCE:
            # copies of fixed sizes; later writes replace the bytes behind the text
            memcpy(to, text + start, 16)
            if length > 16:
                memcpy(to + 16, text + start + 16, 48)
        elif length:
            memcpy(to, text + start, <size_t>length)
        to += length
    values.count = total
    return -1
