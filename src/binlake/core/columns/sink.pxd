# The Python object that owns a column.

from libc.stdint cimport int64_t

from binlake.core.columns.column cimport Column

cdef class ColumnSink:
    cdef Column column
    cdef object plan

    cdef object finish(self, int64_t count, int64_t capacity)

cdef ColumnSink sink_of(object plan, bint wanted)
