# The C view of gtid.py, for the compiled modules that cimport it.

from binlake.core.memory.cursor cimport Cursor

cdef Py_ssize_t _signed(unsigned long long value) noexcept nogil

cdef class GtidFields:
    cdef readonly int flags
    cdef readonly bytes sid
    cdef readonly Py_ssize_t gno
    cdef readonly int clock_type
    cdef readonly Py_ssize_t last_committed
    cdef readonly Py_ssize_t sequence_number
    cdef readonly Py_ssize_t immediate_commit_us
    cdef readonly Py_ssize_t original_commit_us
    cdef readonly unsigned long long transaction_length
    cdef readonly Py_ssize_t immediate_server_version
    cdef readonly Py_ssize_t original_server_version
    cdef readonly unsigned long long commit_group_ticket

    cdef readonly unsigned long long seq_no
    cdef readonly Py_ssize_t domain_id
    cdef readonly unsigned long long commit_id
    cdef readonly Py_ssize_t xid_format
    cdef readonly bytes xid_gtrid
    cdef readonly bytes xid_bqual
    cdef readonly int flags_extra
    cdef readonly int extra_engines
    cdef readonly unsigned long long start_alter_seq_no
    cdef readonly Py_ssize_t thread_id

    cdef readonly int reached
    cdef readonly Py_ssize_t sid_at
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end
    cdef Py_ssize_t _needed
    cdef Py_ssize_t _xid_at
    cdef int _gtrid_bytes
    cdef int _bqual_bytes

    cpdef int parse_mysql(self, Cursor cursor) except -1
    cpdef int parse_mariadb(self, Cursor cursor) except -1
    cdef int _raise_cut(self, Cursor cursor) except -1
    cdef int read_mysql(
        self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
    ) except -2 nogil
    cdef int read_mariadb(
        self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
    ) except -2 nogil
    cdef void _clear_mysql(self) noexcept nogil
    cdef int _read_commit_times(self, const unsigned char[::1] data) except -2 nogil
    cdef int _read_server_versions(self, const unsigned char[::1] data) except -2 nogil
    cdef int _read_length(self, const unsigned char[::1] data) except -2 nogil
    cdef bint _lacks(self, Py_ssize_t count) noexcept nogil
    cdef unsigned long long _uint(
        self, const unsigned char[::1] data, int width
    ) except? 0xEEEEEEEEEEEEEEEE nogil
