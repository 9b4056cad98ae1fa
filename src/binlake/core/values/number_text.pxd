# Numbers as MySQL's JSON prints them.

from libc.stdint cimport uint8_t, uint64_t

from binlake.core.memory.growing cimport Bytes

cdef enum:
    NUMBER_ROOM = 40  # of an integer or double, with its sign

cdef uint8_t* write_many_digits(uint8_t* to, uint64_t value) noexcept nogil
cdef void put_number(Bytes* out, uint64_t value) noexcept nogil
cdef void put_double(Bytes* out, double value) noexcept nogil


cdef inline uint8_t* write_digits(uint8_t* to, uint64_t value) noexcept nogil:
    """Write decimal digits at `to`, where there is `NUMBER_ROOM`; returns where they end."""
    if value < 10:
        to[0] = <uint8_t>(c"0" + value)
        return to + 1
    if value < 100:
        to[0] = <uint8_t>(c"0" + value // 10)
        to[1] = <uint8_t>(c"0" + value % 10)
        return to + 2
    return write_many_digits(to, value)
