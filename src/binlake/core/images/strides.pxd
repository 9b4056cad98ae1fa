# Images stepped over without a look at each column: where the values of a few columns are.
#
# Which bytes of an image have a fixed width follows from its layout and its null bitmap alone. Rows that follow each
# other mostly share both, so that is worked out once and kept.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.images.layouts cimport Layout
from binlake.core.memory.reader cimport Reader
from binlake.core.columns.column cimport Column

# `bytes` of a fixed width, then as many as the last `prefix` of these say. Among them are the values of the wanted columns
# that `spots` from number `first` to before `last` name.
cdef struct Leap:
    int64_t bytes
    int64_t prefix
    int64_t first
    int64_t last

# The value of a wanted column: its number among these, and how many bytes behind the start of a leap it is.
cdef struct Spot:
    int64_t number
    int64_t at

# How to step over the images of a layout with one null bitmap. `key` are its first bytes, `nulls` all of them.
cdef struct Stride:
    const Layout* layout
    uint64_t key
    uint8_t* nulls
    int64_t room
    int64_t leap_count
    Leap* leaps
    Spot* spots

# For the images of one side: some strides, and where the value of each wanted column was in the image that was stepped
# over last (NULL: it is null, or there was no image).
cdef struct Strides:
    Stride* kept
    int64_t wanted_count
    Column** wanted
    const uint8_t** places

cdef int begin_strides(Strides* strides, int64_t wanted_count) except -1
cdef void free_strides(Strides* strides) noexcept nogil
cdef void forget_strides(Strides* strides) noexcept nogil
cdef void clear_places(Strides* strides) noexcept nogil
cdef int stride_over(Strides* strides, const Layout* layout, Reader* r) noexcept nogil
