"""Find the values of a few columns in an image, without a step for each other column."""

from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from binlake.core.memory.failure cimport UNDECODABLE, fail
from binlake.core.memory.growing cimport resize
from binlake.core.memory.reader cimport load, load16, load32, take, unlikely
from binlake.core.columns.column cimport ALWAYS_NULL, CANNOT, SKIP_PREFIXED

cdef enum:
    # A place for each is chosen by a hash. Tables have few patterns of nulls that are frequent.
    _KEPT = 16
    _HASH_BITS = 4


cdef int begin_strides(Strides* strides, int64_t wanted_count) except -1:
    """Make room; the caller sets `wanted`."""
    strides.wanted_count = wanted_count
    strides.kept = <Stride*>calloc(_KEPT, sizeof(Stride))
    strides.wanted = <Column**>calloc(wanted_count + 1, sizeof(Column*))
    strides.places = <const uint8_t**>calloc(wanted_count + 1, sizeof(uint8_t*))
    if strides.kept == NULL or strides.wanted == NULL or strides.places == NULL:
        raise MemoryError
    return 0


cdef void free_strides(Strides* strides) noexcept nogil:
    cdef int64_t i
    if strides.kept != NULL:
        for i in range(_KEPT):
            free(strides.kept[i].nulls)
            free(strides.kept[i].leaps)
            free(strides.kept[i].spots)
    free(strides.kept)
    free(strides.wanted)
    free(<void*>strides.places)


cdef void forget_strides(Strides* strides) noexcept nogil:
    """The layouts are gone."""
    cdef int64_t i
    for i in range(_KEPT):
        strides.kept[i].layout = NULL


cdef void clear_places(Strides* strides) noexcept nogil:
    """There is no image on this side."""
    cdef int64_t i
    for i in range(strides.wanted_count):
        strides.places[i] = NULL


cdef int stride_over(Strides* strides, const Layout* layout, Reader* r) noexcept nogil:
    """Step over the image at the reader, and set `places`."""
    cdef const uint8_t* nulls = take(r, layout.image.null_bytes)
    cdef const uint8_t* pos = r.pos
    cdef const Stride* stride
    cdef const Leap* leap
    cdef int64_t size = 0
    cdef int64_t i, k
    if unlikely(nulls == NULL):
        return -1
    stride = _stride_of(strides, layout, nulls, r.failure)
    if unlikely(stride == NULL):
        return -1
    for i in range(strides.wanted_count):
        strides.places[i] = NULL
    for i in range(stride.leap_count):
        leap = &stride.leaps[i]
        if unlikely(leap.bytes > r.end - pos):
            size = leap.bytes
            break
        for k in range(leap.first, leap.last):
            strides.places[stride.spots[k].number] = pos + stride.spots[k].at
        pos += leap.bytes
        if leap.prefix == 0:
            break
        if leap.prefix == 1:
            size = pos[-1]
        elif leap.prefix == 2:
            size = load16(pos - 2)
        elif leap.prefix == 4:
            size = load32(pos - 4)
        else:
            size = <int64_t>load(pos - leap.prefix, <int>leap.prefix)
        if unlikely(size > r.end - pos):
            break
        pos += size
        size = 0
    r.pos = pos
    return -1 if unlikely(take(r, size) == NULL) else 0


cdef inline const Stride* _stride_of(
    Strides* strides, const Layout* layout, const uint8_t* nulls, Failure* failure
) noexcept nogil:
    """The stride for a null bitmap; NULL: a failure."""
    cdef int64_t null_bytes = layout.image.null_bytes
    cdef uint64_t key
    cdef Stride* stride
    if null_bytes == 1:
        key = nulls[0]
    elif null_bytes == 2:
        key = load16(nulls)
    else:
        key = load(nulls, <int>min(null_bytes, <int64_t>8))
    stride = &strides.kept[(key ^ layout.hash) * <uint64_t>0x9E3779B97F4A7C15 >> (64 - _HASH_BITS)]
    if (
        stride.layout == layout
        and stride.key == key
        and (null_bytes <= 8 or memcmp(stride.nulls, nulls, <size_t>null_bytes) == 0)
    ):
        return stride
    stride.layout = NULL
    if _make(strides, stride, layout, nulls, failure):
        return NULL
    stride.key = key
    stride.layout = layout
    return stride


cdef int _make(
    Strides* strides, Stride* stride, const Layout* layout, const uint8_t* nulls, Failure* failure
) noexcept nogil:
    """Work out a stride."""
    cdef int64_t count = layout.image.count
    cdef int64_t null_bytes = layout.image.null_bytes
    cdef int64_t spots = 0
    cdef Column* column
    cdef Leap* leap
    cdef int64_t i
    if count >= stride.room:
        if (
            resize(<void**>&stride.nulls, null_bytes + 1, failure)
            or resize(<void**>&stride.leaps, (count + 1) * <int64_t>sizeof(Leap), failure)
            or resize(<void**>&stride.spots, (strides.wanted_count + 1) * <int64_t>sizeof(Spot), failure)
        ):
            return -1
        stride.room = count + 1
    memcpy(stride.nulls, nulls, <size_t>null_bytes)
    leap = stride.leaps
    leap.bytes = leap.prefix = leap.first = 0
    for i in range(count):
        column = layout.image.columns[i]
        if nulls[i >> 3] >> (i & 7) & 1 or column.kind == ALWAYS_NULL:
            continue
        if column.kind == CANNOT:
            failure.column = column.ordinal
            return fail(failure, UNDECODABLE, -1, 0, 0)
        if column.kept:
            spots += _add_spot(strides, &stride.spots[spots], column, leap.bytes)
        leap.bytes += column.width
        if column.kind == SKIP_PREFIXED:
            leap.prefix = column.width
            leap.last = spots
            leap += 1
            leap.bytes = leap.prefix = 0
            leap.first = spots
    leap.last = spots
    stride.leap_count = leap - stride.leaps + 1
    return 0


cdef int _add_spot(Strides* strides, Spot* spot, Column* column, int64_t at) noexcept nogil:
    """How many were added: 0 for a column that is not wanted."""
    cdef int64_t number
    for number in range(strides.wanted_count):
        if strides.wanted[number] == column:
            spot.number = number
            spot.at = at
            return 1
    return 0
