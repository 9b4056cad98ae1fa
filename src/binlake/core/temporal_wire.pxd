# The C view of temporal_wire.py, for the temporal kernels.

from libc.string cimport memcpy

from binlake.core.cursor cimport Cursor

cpdef Py_ssize_t read_date(Cursor c) except? -1
cpdef Py_ssize_t read_datetime2(Cursor c, int fsp) except? -1
cpdef Py_ssize_t read_datetime_old(Cursor c, int fsp) except? -1
cpdef Py_ssize_t read_time2(Cursor c, int fsp) except? -1
cpdef Py_ssize_t read_time_old(Cursor c, int fsp) except? -1
cpdef Py_ssize_t read_timestamp2(Cursor c, int fsp) except? -1
cpdef Py_ssize_t read_timestamp_old(Cursor c, int fsp) except? -1
