# The C view of transactions.py, for the compiled modules that cimport it.

from binlake.core.gtid cimport GtidFields
from binlake.core.sink cimport Sink64, VarSink

cdef class TransactionSink:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Py_ssize_t first
    cdef VarSink gtid
    cdef Sink64 commit_us
    cdef Sink64 start
    cdef Sink64 thread_id

    cpdef Py_ssize_t add(
        self, Py_ssize_t commit_us, Py_ssize_t start, Py_ssize_t thread_id
    ) except -1
    cpdef int name(self, bytes gtid) except -1
    cdef int name_mysql(self, GtidFields gtid) except -1
    cdef int name_mariadb(self, GtidFields gtid, Py_ssize_t server_id) except -1
    cpdef Py_ssize_t held(self) noexcept
