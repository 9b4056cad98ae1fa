# Binary JSON as text, without the interpreter's lock.

from libc.stdint cimport int64_t

from binlake.core.memory.growing cimport Bytes
from binlake.core.memory.reader cimport Reader

cdef int render_json(Reader* r, int64_t size, Bytes* out) noexcept nogil
