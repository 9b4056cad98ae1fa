"""The memory of one column, while its values collect."""

from libc.stdlib cimport free

from binlake.core.memory.growing cimport hand_over, release, resize


cdef int reserve(Column* column, int64_t rows, int64_t capacity, Failure* failure) noexcept nogil:
    """Make room for rows up to `capacity`; what the first `rows` have is kept."""
    if column.item:
        if resize(<void**>&column.values, column.item * capacity, failure):
            return -1
    elif column.kind > ALWAYS_NULL:
        if resize(<void**>&column.offsets, 4 * (capacity + 1), failure):
            return -1
        if rows == 0:
            column.offsets[0] = 0
    if column.validity != NULL:
        if resize(<void**>&column.validity, (capacity + 7) >> 3, failure):
            return -1
        _set_bits(column.validity, rows, capacity)
    return 0


cdef void _set_bits(uint8_t* bits, int64_t first, int64_t last) noexcept nogil:
    """Set the bits from `first` on, up to the end of the byte of the one before `last`."""
    if first >= last:
        return
    if first & 7:
        bits[first >> 3] |= <uint8_t>(0xFF << (first & 7))
        first = (first | 7) + 1
    if first < last:
        memset(bits + (first >> 3), 0xFF, <size_t>(((last + 7) >> 3) - (first >> 3)))


cdef void forget_rows(Column* column) noexcept nogil:
    """Free the buffers of all rows. `reserve` has to be called before the next row."""
    free(column.values)
    free(column.offsets)
    free(column.validity)
    column.values = column.validity = NULL
    column.offsets = NULL
    column.null_count = 0
    release(&column.data)


cdef object take_validity(uint8_t** validity, int64_t count, int64_t capacity):
    """Hand over a bitmap, None if there is none."""
    if validity[0] == NULL:
        return None
    return hand_over(<void**>validity, (count + 7) >> 3, (capacity + 7) >> 3)


cdef void fill(Column* column, int64_t first, int64_t last) noexcept nogil:
    """Rows [first, last) have no image: their values are zero, or empty."""
    cdef int64_t row
    if column.item:
        memset(
            column.values + first * column.item, 0, <size_t>((last - first) * column.item)
        )
    elif column.kind > ALWAYS_NULL:
        for row in range(first, last):
            column.offsets[row + 1] = <uint32_t>column.data.count


cdef int64_t held_bytes(const Column* column, int64_t rows) noexcept nogil:
    """Bytes of the buffers that `rows` rows have so far."""
    cdef int64_t total = column.item * rows + column.data.count
    if column.item == 0 and column.kind > ALWAYS_NULL:
        total += 4 * (rows + 1)
    if column.validity != NULL:
        total += (rows + 7) >> 3
    return total
