# The C view of checksum.py, and the CRC32 of the library that setup.py found: libdeflate, or zlib.

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdio.h>
    #ifdef BINLAKE_LIBDEFLATE
      #include <libdeflate.h>
      #define binlake_crc32(crc, data, size) libdeflate_crc32((crc), (data), (size))
      #define binlake_crc32_library() "libdeflate " LIBDEFLATE_VERSION_STRING
    #else
      #include <zlib.h>
      /* no event is longer than the 32 bits of zlib's sizes */
      #define binlake_crc32(crc, data, size) ((uint32_t)crc32((crc), (data), (uInt)(size)))
      static const char *binlake_crc32_library(void) {
        static char name[32];
        snprintf(name, sizeof name, "zlib %s", zlibVersion());
        return name;
      }
    #endif
    """
    unsigned int binlake_crc32(unsigned int crc, const unsigned char *data, size_t size) noexcept nogil
    const char *binlake_crc32_library() noexcept nogil

cimport cython
from binlake.core.events.format_constants cimport (
    CHECKSUM_BYTES,
    FLAGS_AT,
    FORMAT_DESCRIPTION_EVENT,
    HEADER_BYTES,
    LOG_EVENT_BINLOG_IN_USE_F,
    TYPE_AT,
)
from binlake.core.events.frames cimport FrameBlock

cpdef Py_ssize_t first_bad(
    const unsigned char[::1] data,
    long long base,
    FrameBlock block,
    Py_ssize_t first,
    Py_ssize_t last,
) except -2
cpdef unsigned int event_crc32(const unsigned char[::1] data) except? 0xFFFFFFFF
cpdef unsigned int stored_crc32(const unsigned char[::1] data) except? 0xFFFFFFFF

cdef unsigned int _stored(const unsigned char[::1] data, Py_ssize_t end) except? 0xFFFFFFFF nogil
cdef unsigned int _event_crc(
    const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
) except? 0xFFFFFFFF nogil
cdef unsigned int _crc_of_byte(unsigned int crc, unsigned int byte) noexcept nogil
cdef unsigned int _crc(
    unsigned int crc, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
) except? 0xFFFFFFFF nogil
