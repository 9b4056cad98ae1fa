# The C view of varlen.py, for the compiled modules that cimport it.

from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport VarSink

cdef class Text(VarSink):
    cdef int put(self, bytes text, Py_ssize_t row) except -1
