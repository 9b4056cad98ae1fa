# The C view of plain_groups.py, for the compiled modules that cimport it.

from binlake.core.events.frames cimport FrameBlock
from binlake.core.events.gtid cimport GtidFields
from binlake.core.events.steps cimport StepRules, Steps

cpdef long long commit_time_us(long long immediate_commit_us, long long timestamp) noexcept nogil

cdef class PlainGroups:
    cdef readonly Py_ssize_t count
    cdef readonly FrameBlock block
    cdef readonly long long[::1] first
    cdef readonly long long[::1] last
    cdef readonly long long[::1] commit_us
    cdef readonly long long[::1] begun_us
    cdef readonly long long[::1] thread_id
    cdef readonly long long[::1] number
    cdef readonly long long[::1] domain_id
    cdef readonly long long[::1] sid_at
    cdef readonly unsigned char[::1] gtid_kind

    cdef Steps steps
    cdef GtidFields _gtid
    cdef bytes _text_sid
    cdef str _sid_text

    cpdef Py_ssize_t at(self, Py_ssize_t frame) except? -1
    cpdef Py_ssize_t around(self, Py_ssize_t frame) except? -1
    cpdef Py_ssize_t run(self, Py_ssize_t group) except -1
    cpdef Py_ssize_t start(self, Py_ssize_t group) except? -1
    cpdef Py_ssize_t end(self, Py_ssize_t group) except? -1
    cpdef bytes sid(self, Py_ssize_t group)
    cdef Py_ssize_t _checked(self, Py_ssize_t group) except -1
    cdef bint _same_sid(self, Py_ssize_t one, Py_ssize_t other) except -1
    cdef Py_ssize_t _most(self, Steps steps) except -1
    cdef int _find(self, Steps steps, StepRules rules, FrameBlock block) except -1 nogil
    cdef Py_ssize_t _end_of(self, Steps steps, Py_ssize_t frame, int step) except? -1 nogil
    cdef bint _note(
        self, Steps steps, StepRules rules, FrameBlock block, Py_ssize_t first, Py_ssize_t last
    ) except -1 nogil
    cdef Py_ssize_t _thread_of(
        self, Steps steps, StepRules rules, FrameBlock block, Py_ssize_t frame
    ) except? -1 nogil

cdef class GroupMask:
    cdef readonly PlainGroups groups
    cdef readonly Py_ssize_t low
    cdef readonly Py_ssize_t high
    cdef unsigned char[::1] _keep

    cdef int _choose_gtids(self, mysql, mariadb, bint wanted) except -1
    cdef bint _accepts(self, mysql, mariadb, Py_ssize_t g) except -1
