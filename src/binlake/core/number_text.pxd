# The C view of number_text.py, for the compiled modules that cimport it.

from binlake.core.buffers cimport ByteBuffer

cpdef int write_number(ByteBuffer out, unsigned long long value) except -1
cpdef int write_double(ByteBuffer out, double value) except -1
