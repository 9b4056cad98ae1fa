from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport Sink32, Sink64
from binlake.core.temporal_wire cimport (
    read_date,
    read_datetime2,
    read_datetime_old,
    read_time2,
    read_time_old,
    read_timestamp2,
    read_timestamp_old,
)
