# Values of columns as text, in the forms that the lines of `rows` and of the servers' tools need.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.text.text_output cimport Output

# The form in which a value is written; text_rows.ValueForm describes each form.
cdef enum:
    RAW = 0
    JSON_TEXT = 1
    HEX = 2
    INTEGER = 3
    MYSQL_TEXT = 4
    MARIADB_TEXT = 5
    BOTH_SIGNS = 6
    BITS = 7
    SET_BITS = 8
    REAL = 9
    UNIX_TIME = 10

# The errors of a value; text_output.pxd defines OK and NO_MEMORY.
cdef enum:
    BAD_INDEX = 2
    BAD_OFFSET = 3

cdef struct Column:
    int form
    int width  # bytes of an integer
    bint is_signed
    int bits
    int offset_bytes  # 4 or 8
    int64_t first  # of the values in the buffers
    int64_t count
    const uint8_t* validity
    const uint8_t* offsets
    const uint8_t* data
    int64_t data_bytes

cdef int put_value(Output* out, const Column* column, int64_t place) noexcept nogil
