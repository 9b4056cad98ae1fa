from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport VarSink
from binlake.core.temporal_wire cimport (
    read_date,
    read_datetime2,
    read_datetime_old,
    read_time2,
    read_time_old,
    read_timestamp2,
    read_timestamp_old,
)

cpdef int write_date(ByteBuffer out, Py_ssize_t packed) except -1
cpdef int write_time(ByteBuffer out, Py_ssize_t packed, int fsp) except -1
