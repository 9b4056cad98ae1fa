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

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.errors import MalformedError

__all__ = ["RowsHeader"]

_MAX_COLUMNS = cython.declare(cython.ulonglong, 4096)  # MAX_FIELDS of both servers


@cython.final
@cython.cclass
class RowsHeader:
    """The fields of one head; one object is reused for many events.

    `extra_start`/`extra_end`, `present`, `present_after` (-1 when there is one bitmap) and
    `rows_start` are absolute indexes into the cursor's buffer; `bitmap_bytes` is the size of
    each bitmap, `width` the number of columns of the table. `is_partial`, set by the owner: the
    event is a PARTIAL_UPDATE_ROWS.
    """

    def __init__(self) -> None:
        self.table_id = 0
        self.flags = 0
        self.extra_start = 0
        self.extra_end = 0
        self.width = 0
        self.bitmap_bytes = 0
        self.present = 0
        self.present_after = -1
        self.rows_start = 0
        self.is_partial = False

    def parse(
        self, cursor: Cursor, table_id_bytes: cython.int, version: cython.int, bitmaps: cython.int
    ) -> int:
        """Read the head at the cursor, which stands at the body; it is left at the rows.

        `table_id_bytes` 4 or 6; `version` of the rows event 0, 1 or 2; `bitmaps` 2 for updates,
        else 1. Returns 0. Raises TruncatedError, MalformedError.
        """
        self.table_id = cython.cast(cython.Py_ssize_t, cursor.le_uint(table_id_bytes))
        self.flags = cursor.u16()
        self.extra_start = self.extra_end = cursor.pos
        if version == 2:
            extra: cython.int = cursor.u16()
            if extra < 2:
                raise MalformedError(
                    f"the extra header of a rows event cannot be {extra} bytes",
                    offset=cursor.pos - 2 - cursor.start,
                    field="extra",
                )
            self.extra_start = cursor.pos
            cursor.skip(extra - 2)
            self.extra_end = cursor.pos
        width: cython.ulonglong = cursor.lenenc()
        if width > _MAX_COLUMNS:
            raise MalformedError(
                f"a table cannot have {width} columns",
                offset=cursor.pos - cursor.start,
                field="width",
            )
        self.width = cython.cast(cython.Py_ssize_t, width)
        self.bitmap_bytes = (self.width + 7) >> 3
        self.present = cursor.pos
        cursor.skip(self.bitmap_bytes)
        self.present_after = -1
        if bitmaps == 2:
            self.present_after = cursor.pos
            cursor.skip(self.bitmap_bytes)
        self.rows_start = cursor.pos
        return 0
