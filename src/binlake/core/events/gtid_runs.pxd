# gtid_runs.py is the implementation.

cimport cython
from binlake.core.events.format_constants cimport HEADER_BYTES
from binlake.core.events.frames cimport FrameBlock

cpdef list gtid_runs(const unsigned char[::1] data, long long base, FrameBlock block)
cdef bint _continues(
    const unsigned char[::1] data,
    Py_ssize_t before,
    Py_ssize_t at,
    FrameBlock block,
    Py_ssize_t last,
    Py_ssize_t index,
) except -1
cdef unsigned long long _u64(const unsigned char[::1] data, Py_ssize_t at) except? 0
