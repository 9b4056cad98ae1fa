"""Single row changes that a walk decodes, out of those of many rows events."""

from binlake.core.memory.growing cimport detach, release

cimport cython


@cython.final
cdef class RowSelection:
    """Row changes in the order of the log: `pos` are the positions of their rows events, `row` their ordinals
    in these, `start` the places of their images in the event, as TableBuffers has them.

    A walker consumes the selection.
    """

    @property
    def count(self):
        """How many there are."""
        return self.selected.count

    def __init__(self, const int64_t[::1] pos, const int32_t[::1] row, const uint32_t[::1] start):
        cdef SelectedRows* selected = &self.selected
        if not pos.shape[0] == row.shape[0] == start.shape[0]:
            raise ValueError("the columns of a selection have one length")
        self.columns = (pos, row, start)
        selected.count = pos.shape[0]
        if selected.count:
            selected.pos = &pos[0]
            selected.row = &row[0]
            selected.start = &start[0]


@cython.final
cdef class FoundSink:
    """Collects the changes that match a condition."""

    def __cinit__(self):
        self.found.last_group = -1

    def __dealloc__(self):
        release(&self.found.pos)
        release(&self.found.row)
        release(&self.found.start)
        release(&self.found.groups)

    cdef object finish(self):
        """Hand over a RowSelection of what was found and the numbers of the transactions, and start again; None if
        there is nothing.
        """
        cdef FoundRows* found = &self.found
        found.last_group = -1
        if found.pos.count == 0:
            return None
        selection = RowSelection(
            detach(&found.pos).cast("q"),
            detach(&found.row).cast("i"),
            detach(&found.start).cast("I"),
        )
        return selection, detach(&found.groups).cast("q")
