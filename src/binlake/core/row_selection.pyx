"""Single row changes that a walk decodes, out of those of many rows events."""

cimport cython

__all__ = ["RowSelection"]


@cython.final
cdef class RowSelection:
    """Row changes in the order of the log: `pos` are the positions of their rows events, `row` their ordinals
    in these, `start` the places of their images in the event, as TableBuffers has them.

    The walker that takes a selection uses it up.
    """

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
