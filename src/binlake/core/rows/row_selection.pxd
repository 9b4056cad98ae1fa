# Single row changes that a walk decodes, out of those of many rows events.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.growing cimport Bytes, append

# `count` changes in the order of the log, from number `next` on those that are still to come. Of each: the
# position of its rows event in the file, its ordinal in that event, and where in the body of the
# event (of a compressed one: in the inflated rows) its images start.
cdef struct SelectedRows:
    int64_t count
    int64_t next
    const int64_t* pos
    const int32_t* row
    const uint32_t* start

cdef class RowSelection:
    cdef SelectedRows selected
    cdef object columns

# Changes that match a condition, as columns of SelectedRows, and the transactions of the run that they are in.
cdef struct FoundRows:
    Bytes pos
    Bytes row
    Bytes start
    Bytes groups
    int64_t last_group

cdef class FoundSink:
    cdef FoundRows found

    cdef object finish(self)


cdef inline int add_found(
    FoundRows* found, int64_t pos, int32_t row, uint32_t start, int64_t group, Failure* failure
) noexcept nogil:
    if group != found.last_group:
        found.last_group = group
        if append(&found.groups, <const uint8_t*>&group, 8, failure):
            return -1
    if append(&found.pos, <const uint8_t*>&pos, 8, failure):
        return -1
    if append(&found.row, <const uint8_t*>&row, 4, failure):
        return -1
    return append(&found.start, <const uint8_t*>&start, 4, failure)


cdef inline bint has_selected(SelectedRows* selected, int64_t event_pos) noexcept nogil:
    """Whether a change of the rows event at `event_pos` is still to come; those of events before it are dropped."""
    while selected.next < selected.count and selected.pos[selected.next] < event_pos:
        selected.next += 1
    return selected.next < selected.count and selected.pos[selected.next] == event_pos
