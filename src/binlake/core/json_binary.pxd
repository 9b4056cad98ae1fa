# Binary JSON as text, without the interpreter's lock.

from libc.stdint cimport int64_t

from binlake.core.growing cimport Bytes
from binlake.core.reader cimport Reader

cdef int render_json(Reader* r, int64_t size, Bytes* out) noexcept nogil
