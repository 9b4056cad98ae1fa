# A condition over the columns of one table, evaluated for one row change after the other.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.images.layouts cimport Image
from binlake.core.columns.column cimport Column
from binlake.core.images.strides cimport Strides

# A step of a condition in postfix order: it takes operands from a stack and puts its result there. Results are
# false (0), true (1) and unknown (2). `ranges` are `count` pairs of least and greatest values, sorted, no two of
# which overlap.
cdef struct Step:
    int code
    int side
    int64_t cell
    int64_t count
    int64_t* ranges

# A column that steps name, in both images. `is_unsigned`: 64 bits without a sign, which are moved by 2**63 so that they
# compare as signed ones.
cdef struct Cell:
    Column* column[2]
    bint is_unsigned
    bint is_null[2]
    int64_t value[2]

cdef struct Condition:
    Step* steps
    int64_t step_count
    Cell* cells
    int64_t cell_count
    Strides strides[2]  # over before-images and after-images; their wanted columns are those of `cells`
    bint of_either  # an unqualified column is that of either image: the condition is evaluated for both

cdef class RowCondition:
    cdef Condition condition
    cdef dict cell_of

    cdef int attach(self, Image* before, Image* after) except -1
    cdef int _add(self, int64_t at, tuple step) except -1

cdef bint matches(Condition* condition, bint has_before, bint has_after) noexcept nogil
