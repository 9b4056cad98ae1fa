# The values of a row: from the wire bytes of an image to the memory of its columns.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.reader cimport Reader
from binlake.core.columns.column cimport Column

cdef int put_values(Column** columns, int64_t count, const uint8_t* nulls, Reader* r, int64_t row, int64_t capacity) noexcept nogil
cdef int put_value(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil
cdef int put_latin(Column* column, Reader* r, int64_t size, int64_t row) noexcept nogil
cdef int put_temporal_text(Column* column, int64_t packed, int64_t row, Failure* failure) noexcept nogil
