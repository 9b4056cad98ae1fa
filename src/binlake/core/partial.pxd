# The C view of partial.py: the cimports of the compiled modules it uses, and its attributes.

from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor
from binlake.core.image cimport Columns, ImageSink, Layout
from binlake.core.json_binary cimport JsonRenderer
from binlake.core.sink cimport Sink, VarSink

cdef class PartialImages:
    cdef readonly Py_ssize_t unknown
    cdef JsonRenderer renderer

    cpdef dict documents(self, ImageSink passed, Cursor c)
    cpdef int append(self, ImageSink image, Cursor c, documents) except -1
