"""Conditions over integers of row images, decided without the interpreter's lock."""

from libc.stdint cimport int8_t, int16_t, int32_t
from libc.stdlib cimport calloc, free

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.reader cimport Reader, load16, load32, load64
from binlake.core.columns.row_values cimport put_value
from binlake.core.columns.column cimport COPY_8, COPY_16, COPY_32, COPY_64, Kind
from binlake.core.images.strides cimport begin_strides, free_strides

cimport cython

cpdef enum:
    # The operations of a step. The first four name a column; the others use the results of earlier steps.
    IN_RANGES = 0
    IS_NULL = 1
    CHANGED = 2
    UNKNOWN = 3
    NOT = 4
    AND = 5
    OR = 6
    XOR = 7
    NEVER_NULL = 8
    # Whose image a step names: the side for which the condition is evaluated, or a certain one.
    OF_BEFORE = 0
    OF_AFTER = 1
    OF_ROW = 2

cdef enum:
    _MOST_HELD = 64  # results on the stack

cdef int64_t _SIGN = <int64_t>1 << 63


@cython.final
cdef class RowCondition:
    """A condition in postfix order, for one RowMatches.

    Each step is (code, side, ordinal of the column, ranges): `ranges` are pairs of the least and the greatest
    value, sorted, for IN_RANGES only. `unsigned_columns` are the ordinals of columns of 64 bits without a sign. With
    `of_either`, a change matches if the condition is true of its before-image or of its after-image. Raises ValueError for
    what needs too much memory.
    """

    def __cinit__(self, steps, unsigned_columns=frozenset(), of_either=True):
        cdef Condition* condition = &self.condition
        cdef int64_t held = 0
        cdef int64_t at
        self.cell_of = {}
        for code, _, ordinal, _ in steps:
            held += 1 if code <= UNKNOWN else 0 if code in (NOT, NEVER_NULL) else -1
            if not 0 < held <= _MOST_HELD:
                raise ValueError("a condition that is not in postfix order, or nested too deeply")
            if code < UNKNOWN:
                self.cell_of.setdefault(ordinal, len(self.cell_of))
        if held != 1:
            raise ValueError("a condition has one result")
        condition.of_either = of_either
        condition.cell_count = len(self.cell_of)
        condition.cells = <Cell*>calloc(condition.cell_count + 1, sizeof(Cell))
        condition.step_count = len(steps)
        condition.steps = <Step*>calloc(condition.step_count, sizeof(Step))
        if condition.cells == NULL or condition.steps == NULL:
            raise MemoryError
        begin_strides(&condition.strides[OF_BEFORE], condition.cell_count)
        begin_strides(&condition.strides[OF_AFTER], condition.cell_count)
        for ordinal, cell in self.cell_of.items():
            condition.cells[cell].is_unsigned = ordinal in unsigned_columns
        for at in range(condition.step_count):
            self._add(at, steps[at])

    def __dealloc__(self):
        cdef int64_t i
        if self.condition.steps != NULL:
            for i in range(self.condition.step_count):
                free(self.condition.steps[i].ranges)
        free(self.condition.steps)
        free(self.condition.cells)
        free_strides(&self.condition.strides[OF_BEFORE])
        free_strides(&self.condition.strides[OF_AFTER])

    cdef int _add(self, int64_t at, tuple step) except -1:
        cdef Step* made = &self.condition.steps[at]
        cdef int64_t i
        made.code, made.side, ordinal, ranges = step
        made.cell = self.cell_of.get(ordinal, 0)
        if made.code != IN_RANGES:
            return 0
        bias = 1 << 63 if self.condition.cells[made.cell].is_unsigned else 0
        made.count = len(ranges)
        made.ranges = <int64_t*>calloc(2 * made.count + 1, sizeof(int64_t))
        if made.ranges == NULL:
            raise MemoryError
        for i in range(made.count):
            low, high = ranges[i]
            made.ranges[2 * i], made.ranges[2 * i + 1] = low - bias, high - bias
        return 0

    cdef int attach(self, Image* before, Image* after) except -1:
        """Take the values from these images, which keep the columns."""
        cdef Cell* cell
        cdef Column* column
        for ordinal, number in self.cell_of.items():
            cell = &self.condition.cells[<int64_t>number]
            if not 0 <= ordinal < after.width:
                raise ValueError("a column that the table does not have")
            cell.column[OF_BEFORE] = before.columns[<int64_t>ordinal]
            cell.column[OF_AFTER] = after.columns[<int64_t>ordinal]
            for side in range(2):
                column = cell.column[<int>side]
                if not column.kept or column.item not in (1, 2, 4, 8):
                    raise ValueError("a column that is no integer")
                self.condition.strides[<int>side].wanted[<int64_t>number] = column
        return 0


cdef bint matches(Condition* condition, bint has_before, bint has_after) noexcept nogil:
    """Whether a change matches whose images were stepped over last; one that is missing has nulls."""
    cdef int64_t i
    for i in range(condition.cell_count):
        _load(&condition.cells[i], OF_BEFORE, condition.strides[OF_BEFORE].places[i])
        _load(&condition.cells[i], OF_AFTER, condition.strides[OF_AFTER].places[i])
    if not condition.of_either:
        return _result(condition, OF_ROW, has_before and has_after) == 1
    return (has_before and _result(condition, OF_BEFORE, has_after) == 1) or (
        has_after and _result(condition, OF_AFTER, has_before) == 1
    )


cdef inline void _load(Cell* cell, int side, const uint8_t* at) noexcept nogil:
    """Take the value at a place in an image, where it is whole; NULL: it is null."""
    cdef Kind kind = cell.column[side].kind
    cell.is_null[side] = at == NULL
    if at == NULL:
        cell.value[side] = 0
    elif kind == COPY_32:
        cell.value[side] = <int32_t>load32(at)
    elif kind == COPY_64:
        cell.value[side] = <int64_t>load64(at)
    elif kind == COPY_16:
        cell.value[side] = <int16_t>load16(at)
    elif kind == COPY_8:
        cell.value[side] = <int8_t>at[0]
    else:
        _load_other(cell, side, at)
    if cell.is_unsigned and at != NULL:
        cell.value[side] ^= _SIGN


cdef void _load_other(Cell* cell, int side, const uint8_t* at) noexcept nogil:
    """`_load` by way of the array of the column, as its row 0."""
    cdef Column* column = cell.column[side]
    cdef Failure failure
    cdef Reader r
    r.start = r.pos = at
    r.end = at + column.width
    r.failure = &failure
    cell.is_null[side] = put_value(column, &r, 0, 1) != 0  # an integer of a fixed width cannot fail
    if column.item == 4:
        cell.value[side] = (<int32_t*>column.values)[0]
    elif column.item == 8:
        cell.value[side] = (<int64_t*>column.values)[0]
    else:
        cell.value[side] = (<int16_t*>column.values)[0]


cdef int _result(Condition* condition, int row, bint is_update) noexcept nogil:
    """The result for the image `row`."""
    cdef uint8_t held[_MOST_HELD]
    cdef int top = -1
    cdef int one, other
    cdef Step* step
    cdef Cell* cell
    cdef int64_t i
    if condition.step_count == 1 and condition.steps[0].code == IN_RANGES:  # by far the most frequent
        step = condition.steps
        return _in_ranges(step, &condition.cells[step.cell], row if step.side == OF_ROW else step.side)
    for i in range(condition.step_count):
        step = &condition.steps[i]
        cell = &condition.cells[step.cell]
        if step.code == IN_RANGES:
            top += 1
            held[top] = _in_ranges(step, cell, row if step.side == OF_ROW else step.side)
        elif step.code == IS_NULL:
            top += 1
            held[top] = cell.is_null[row if step.side == OF_ROW else step.side]
        elif step.code == CHANGED:
            top += 1
            held[top] = is_update and (
                cell.is_null[0] != cell.is_null[1] or cell.value[0] != cell.value[1]
            )
        elif step.code == UNKNOWN:
            top += 1
            held[top] = 2
        elif step.code == NOT:
            held[top] = 2 if held[top] == 2 else 1 - held[top]
        elif step.code == NEVER_NULL:
            held[top] = held[top] == 1
        else:
            other = held[top]
            top -= 1
            one = held[top]
            held[top] = _joined(step.code, one, other)
    return held[0]


cdef inline uint8_t _joined(int code, int one, int other) noexcept nogil:
    if code == AND:
        if one == 0 or other == 0:
            return 0
        return 1 if one == 1 and other == 1 else 2
    if code == OR:
        if one == 1 or other == 1:
            return 1
        return 0 if one == 0 and other == 0 else 2
    return 2 if one == 2 or other == 2 else one != other


cdef inline uint8_t _in_ranges(const Step* step, const Cell* cell, int side) noexcept nogil:
    cdef int64_t value = cell.value[side]
    cdef int64_t low = 0
    cdef int64_t high = step.count
    cdef int64_t middle
    if cell.is_null[side]:
        return 2
    while low < high:  # the first range that does not end before the value
        middle = (low + high) >> 1
        if step.ranges[2 * middle + 1] < value:
            low = middle + 1
        else:
            high = middle
    return low < step.count and step.ranges[2 * low] <= value
