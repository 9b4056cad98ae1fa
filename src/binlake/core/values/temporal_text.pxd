# Packed dates and times (temporal_wire.pxd) as the server's text.

from libc.stdint cimport int64_t

from binlake.core.memory.growing cimport Bytes

cdef enum:
    TEMPORAL_ROOM = 32  # "9999-12-31 23:59:59.999999" is 26, "-838:59:59.999999" 17

cdef int64_t pack_timestamp(int64_t us) noexcept nogil
cdef void write_date(Bytes* out, int64_t packed) noexcept nogil
cdef void write_time(Bytes* out, int64_t packed, int fsp) noexcept nogil
