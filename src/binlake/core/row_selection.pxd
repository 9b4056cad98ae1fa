# Single row changes that a walk decodes, out of those of many rows events.

from libc.stdint cimport int32_t, int64_t, uint32_t

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


cdef inline bint has_selected(SelectedRows* selected, int64_t event_pos) noexcept nogil:
    """Whether a change of the rows event at `event_pos` is still to come; those of events before it are dropped."""
    while selected.next < selected.count and selected.pos[selected.next] < event_pos:
        selected.next += 1
    return selected.next < selected.count and selected.pos[selected.next] == event_pos
