# zlib's crc32 by address: Python's own zlib.crc32 costs 60 ns a call more, and needs the GIL.

cdef extern from "zlib.h" nogil:
    unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned int size)

cimport cython
from binlake.core.frames cimport FrameBlock
