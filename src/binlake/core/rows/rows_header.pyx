"""The head of a rows event: everything before the first row image.

Source: libs/mysql/binlog/event/rows_event.cpp (Rows_event::Rows_event).
Body, little-endian:
    size         name            meaning
    6 (4)        table_id        4 bytes when the format lists a post-header of 6 (5.1 alphas)
    2            flags           format.flags: STMT_END …
    2 + n        extra           version 2 only: u16 that counts itself, then chunks
    lenenc       width           columns of the table
    (width+7)/8  present         bit i: column i is in the (first) image
    (width+7)/8  present_after   updates only: the same for the after-image
    rest         rows            MariaDB's compressed events: compressed
"""

from libc.stdint cimport uint64_t

from binlake.core.memory.failure cimport EXTRA_HEADER, NO_FAULT, TOO_MANY_COLUMNS, Failure, error_of, fail
from binlake.core.memory.reader cimport load, load16, read_lenenc, take

cimport cython

cdef enum:
    _MAX_COLUMNS = 4096  # MAX_FIELDS of both servers


cdef int read_rows_head(
    Reader* r, int table_id_bytes, int version, int bitmaps, RowsHead* head
) noexcept nogil:
    """Read the head at the reader, which stands at the body; it is left at the rows.

    `table_id_bytes` 4 or 6; `version` of the rows event 0, 1 or 2; `bitmaps` 2 for updates, else 1.
    Returns 0, or -1 and describes the failure.
    """
    cdef const uint8_t* at = take(r, table_id_bytes)
    cdef uint64_t width = 0
    cdef int extra
    if at == NULL:
        return -1
    head.table_id = <int64_t>load(at, table_id_bytes)
    at = take(r, 2)
    if at == NULL:
        return -1
    head.flags = load16(at)
    head.extra = r.pos
    head.extra_bytes = 0
    if version == 2:
        at = take(r, 2)
        if at == NULL:
            return -1
        extra = load16(at)
        if extra < 2:
            return fail(r.failure, EXTRA_HEADER, at - r.start, extra, 0)
        head.extra = take(r, extra - 2)
        if head.extra == NULL:
            return -1
        head.extra_bytes = extra - 2
    if read_lenenc(r, &width):
        return -1
    if width > _MAX_COLUMNS:
        return fail(r.failure, TOO_MANY_COLUMNS, r.pos - r.start, <int64_t>width, 0)
    head.width = <int64_t>width
    head.bitmap_bytes = (head.width + 7) >> 3
    head.present = r.pos
    if take(r, head.bitmap_bytes) == NULL:
        return -1
    if bitmaps == 2 and take(r, head.bitmap_bytes) == NULL:
        return -1
    return 0


@cython.final
cdef class RowsHeader:
    """The fields of one head; one object is reused for many events.

    `extra_start`/`extra_end`, `present`, `present_after` (-1 when there is one bitmap) and
    `rows_start` are absolute indexes into the cursor's buffer; `bitmap_bytes` is the size of
    each bitmap, `width` the number of columns of the table.
    """

    def parse(self, Cursor cursor, int table_id_bytes, int version, int bitmaps):
        """Read the head at the cursor, which stands at the body; it is left at the rows.

        `table_id_bytes` 4 or 6; `version` of the rows event 0, 1 or 2; `bitmaps` 2 for updates,
        else 1. Raises TruncatedError, MalformedError.
        """
        cdef Failure failure
        cdef RowsHead head
        cdef Reader r
        cdef const uint8_t* data = NULL
        if cursor.data.shape[0]:
            data = &cursor.data[0]
        failure.fault = NO_FAULT
        r.start = data + cursor.start
        r.pos = data + cursor.pos
        r.end = data + cursor.end
        r.failure = &failure
        if read_rows_head(&r, table_id_bytes, version, bitmaps, &head):
            raise error_of(&failure, None)
        self.table_id = head.table_id
        self.flags = head.flags
        self.extra_start = head.extra - data
        self.extra_end = self.extra_start + head.extra_bytes
        self.width = head.width
        self.bitmap_bytes = head.bitmap_bytes
        self.present = head.present - data
        self.present_after = self.present + head.bitmap_bytes if bitmaps == 2 else -1
        self.rows_start = r.pos - data
        cursor.pos = self.rows_start
