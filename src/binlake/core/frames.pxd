# FrameBlock for compiled modules that cimport it; frames.py is the implementation.

cimport cython


@cython.final
cdef class FrameBlock:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t capacity
    cdef readonly long long[::1] offset
    cdef readonly unsigned char[::1] type_code
    cdef readonly unsigned int[::1] length
    cdef readonly unsigned int[::1] timestamp
    cdef readonly unsigned int[::1] server_id
    cdef readonly unsigned int[::1] log_pos
    cdef readonly unsigned short[::1] flags

    cdef object _allocate(self, Py_ssize_t capacity)
    cdef object _reserve(self)
