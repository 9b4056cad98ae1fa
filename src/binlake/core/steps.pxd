# The C view of steps.py: the cimports of the compiled modules it reads, and its attributes.

from binlake.core.cursor cimport Cursor
from binlake.core.frames cimport FrameBlock
from binlake.core.gtid cimport GtidFields

cdef class Steps:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t groups

    cdef const unsigned char[::1] _step_of
    cdef const unsigned char[::1] _rows_flags_at
    cdef Py_ssize_t _header_bytes
    cdef Py_ssize_t _checksum_bytes
    cdef Py_ssize_t _query_header
    cdef Py_ssize_t _base
    cdef FrameBlock _block
    cdef Cursor _cursor
    cdef const unsigned char[::1] _data
    cdef unsigned char[::1] _step
    cdef Py_ssize_t[::1] _group_first
    cdef unsigned char[::1] _keep
    cdef GtidFields _gtid

    cpdef Py_ssize_t plain(self, Py_ssize_t first, Py_ssize_t last) except -1
    cpdef Py_ssize_t calm(self, Py_ssize_t first, Py_ssize_t last) except -1
    cpdef Py_ssize_t commit_us(self, Py_ssize_t frame) except? -1
    cpdef Py_ssize_t thread_id(self, Py_ssize_t frame) except? -1
    cdef int _step_at(self, Py_ssize_t frame) except -1
    cdef int _rows_step(self, Py_ssize_t lo, Py_ssize_t hi, int type_code) except -1
    cdef int _gtid_step(self, Py_ssize_t lo, Py_ssize_t hi) except -1
    cdef int _query_step(self, Py_ssize_t frame) except -1
    cdef bint _enter_text(self, Py_ssize_t frame) except -1
    cpdef Py_ssize_t query_thread(self, Py_ssize_t frame) except -1
    cdef int _parse_gtid(self, Py_ssize_t frame) except -1
    cdef int _enter(self, Py_ssize_t frame) except -1
    cdef bint _says(self, bytes word) except -1
    cdef bint _gtid_in(self, Py_ssize_t frame, mysql, mariadb) except -1
