# The C view of transactions.py, for the compiled modules that cimport it.

from binlake.core.sink cimport Sink64
from binlake.core.varlen cimport Text

cdef class TransactionSink:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Py_ssize_t first
    cdef Text gtid
    cdef Sink64 commit_us
    cdef Sink64 start
    cdef Sink64 thread_id

    cpdef Py_ssize_t add(self, bytes gtid, Py_ssize_t commit_us, Py_ssize_t start, Py_ssize_t thread_id) except -1
    cpdef Py_ssize_t held(self) noexcept
