# The C view of crc32c.py.

cpdef unsigned int crc32c(
    const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
) except? 0xFFFFFFFF
cdef unsigned int _crc(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, const unsigned int[::1] tables
) except? 0xFFFFFFFF nogil
