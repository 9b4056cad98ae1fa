# One side of row changes: the images of many rows.

from libc.stdint cimport int64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.images.layouts cimport Image, Steps
from binlake.core.memory.reader cimport Reader

cdef enum:
    MOST_INFLATED = 1032  # bytes that deflate makes of one

cdef class ImageSink:
    cdef Image image
    cdef tuple plans
    cdef list sinks

    cdef object finish(self)
    cdef int list_absent(self, sizes) except -1
    cdef int list_present(self, texts) except -1

cdef int begin_run(Image* image, Failure* failure) noexcept nogil
cdef int step_over(const Steps* steps, Reader* r) noexcept nogil
cdef int append_image(Image* image, Reader* r) noexcept nogil
cdef int append_missing(Image* image, Failure* failure) noexcept nogil
cdef int carry(Image* image, Reader* r) noexcept nogil
cdef int begin_row(Image* image, Failure* failure) noexcept nogil
cdef void roll_back(Image* image, int64_t rows) noexcept nogil
cdef int64_t count_inflated(Image* image) noexcept nogil
cdef int64_t held_by_image(const Image* image, int64_t* largest) noexcept nogil
