# Values of SQL types in binary JSON documents.

from libc.stdint cimport uint8_t

from binlake.core.values.json_document cimport Document

cdef int render_opaque(Document* d, int sql_type, const uint8_t* at, const uint8_t* end) noexcept nogil
