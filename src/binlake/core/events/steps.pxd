# The C view of steps.py: the cimports of the compiled modules it reads, and its attributes.

from binlake.core.memory.cursor cimport Cursor
from binlake.core.events.format_constants cimport LOG_EVENT_IGNORABLE_F, ROWS_STMT_END_F
from binlake.core.events.frames cimport FrameBlock

cdef extern from *:
    void __builtin_prefetch(const void* address) noexcept nogil

cdef class StepRules:
    cdef const unsigned char[::1] step_of
    cdef const unsigned char[::1] rows_flags_at
    cdef Py_ssize_t header_bytes
    cdef Py_ssize_t checksum_bytes
    cdef Py_ssize_t query_header_bytes

cdef class Steps:
    cdef readonly Py_ssize_t count
    cdef readonly FrameBlock block
    cdef StepRules rules
    cdef Cursor cursor
    cdef const unsigned char[::1] data
    cdef Py_ssize_t base
    cdef unsigned char[::1] code

    cpdef Py_ssize_t body_until(self, Py_ssize_t first, Py_ssize_t last) except -1
    cpdef Py_ssize_t query_thread(self, Py_ssize_t frame) except -1
    cdef Py_ssize_t body_start(
        self, StepRules rules, FrameBlock block, Py_ssize_t frame
    ) except? -1 nogil
    cdef Py_ssize_t body_end(
        self, StepRules rules, FrameBlock block, Py_ssize_t frame
    ) except? -1 nogil
    cdef Py_ssize_t _find(self, StepRules rules, FrameBlock block) except? -1 nogil
    cdef int _step_at(
        self, StepRules rules, FrameBlock block, Py_ssize_t frame, int step
    ) except -1 nogil
    cdef int _query_step(self, StepRules rules, FrameBlock block, Py_ssize_t frame) except -1 nogil
    cdef Py_ssize_t _text_at(
        self, StepRules rules, FrameBlock block, Py_ssize_t frame
    ) except? -1 nogil
    cdef bint _is_begin(self, Py_ssize_t at) except -1 nogil
    cdef bint _is_commit(self, Py_ssize_t at) except -1 nogil
    cdef bint _may_control(self, Py_ssize_t at, Py_ssize_t size) except -1 nogil
    cdef int _match_texts(self) except -1


cdef inline void fetch_early(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    """Start to load what is at `at`, if that is in the data: it is read soon."""
    if 0 <= at < data.shape[0]:
        __builtin_prefetch(&data[at])
