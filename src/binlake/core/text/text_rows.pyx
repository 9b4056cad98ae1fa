# cython: boundscheck=False
"""Rows of text from columns of values: the lines of `rows`, written without the interpreter.

A `RowTemplate` is a list of pieces, and each piece is a literal followed by a value of the row:

    template = RowTemplate(count)
    template.add(b'{"id":', ValueColumn(ValueForm.INTEGER, count, None, None, data, width=8))
    template.add(b'}\\n')
    write_rows([template], None)

A value is looked up by the row's number, or through `index` where many rows share one (the
GTID of a transaction). A piece with `variant_of` is only written for the rows whose entry is
`variant`: images with different columns have pieces of their own.

All sizes and indexes are checked when a value is read, against the buffers that were given.
"""

from cpython.buffer cimport PyBuffer_IsContiguous
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc

from binlake.core.text.text_output cimport NO_MEMORY, OK, Output, TextBuffer, put
from binlake.core.text.value_text cimport (
    BAD_INDEX,
    BITS,
    BOTH_SIGNS,
    INTEGER,
    REAL,
    SET_BITS,
    Column,
    put_value,
)

from enum import IntEnum


class ValueForm(IntEnum):
    """How a value is written."""

    RAW = 0  # the bytes as they are
    JSON_TEXT = 1  # escaped as JSON requires (RFC 8259 §7), without the quotes
    HEX = 2  # two lower-case digits for each byte
    INTEGER = 3  # decimal digits of a fixed-width integer
    # as the servers' mysqlbinlog writes values with -v:
    MYSQL_TEXT = 4  # bytes: control characters, quotes and backslashes are escaped
    MARIADB_TEXT = 5  # the same, but control characters have no letters
    BOTH_SIGNS = 6  # an integer, and behind a negative one the unsigned number of `bits` bits
    BITS = 7  # the lowest `bits` bits of an integer, the highest first
    SET_BITS = 8  # the same byte by byte, the lowest byte first
    REAL = 9  # %-20g of a single, %-.20g of a double
    UNIX_TIME = 10  # a TIMESTAMP's text as seconds since 1970, with its fraction


cdef struct Piece:
    const char* literal
    int64_t literal_bytes
    const char* before
    int64_t before_bytes
    const char* after
    int64_t after_bytes
    const char* null
    int64_t null_bytes
    const Column* column  # NULL: the literal is all
    const int32_t* index
    const int32_t* variant_of
    int32_t variant


cdef int put_row(Output* out, const Piece* pieces, int64_t count, int64_t row) noexcept nogil:
    cdef int64_t i, place
    cdef const Piece* piece
    cdef const Column* column
    cdef int failed
    for i in range(count):
        piece = pieces + i
        if piece.variant_of != NULL and piece.variant_of[row] != piece.variant:
            continue
        if put(out, piece.literal, piece.literal_bytes):
            return NO_MEMORY
        column = piece.column
        if column == NULL:
            continue
        place = row if piece.index == NULL else piece.index[row]
        if place < 0 or place >= column.count:
            return BAD_INDEX
        place += column.first
        if column.validity != NULL and not column.validity[place >> 3] >> (place & 7) & 1:
            failed = put(out, piece.null, piece.null_bytes)
        else:
            failed = put(out, piece.before, piece.before_bytes)
            if not failed:
                failed = put_value(out, column, place)
            if not failed:
                failed = put(out, piece.after, piece.after_bytes)
        if failed:
            return failed
    return OK


_FIXED_WIDTH = (INTEGER, BOTH_SIGNS, BITS, SET_BITS, REAL)


cdef class ValueColumn:
    """A column of values: `count` of them, beginning at value `first` of the buffers.

    The buffers are laid out as Arrow does: `validity` is a bitmap or None, `offsets` int32 or
    int64 (`offset_bytes` 4 or 8), or None for integers of `width` bytes. `before` and `after`
    are written around every value that is not null, `null` in the place of one that is.

    Raises ValueError when a buffer is too short for `first` + `count` values.
    """

    cdef Column column
    cdef object kept
    cdef bytes before
    cdef bytes after
    cdef bytes null

    def __init__(
        self,
        form,
        int64_t count,
        validity,
        offsets,
        data,
        *,
        int64_t first=0,
        int offset_bytes=4,
        int width=0,
        bint is_signed=True,
        int bits=0,
        bytes before=b"",
        bytes after=b"",
        bytes null=b"null",
    ):
        cdef int64_t end = first + count
        cdef int64_t size
        cdef bint is_number = form in _FIXED_WIDTH
        if count < 0 or first < 0 or (offset_bytes != 4 and offset_bytes != 8):
            raise ValueError("counts are not negative, offsets have 4 or 8 bytes")
        self.before, self.after, self.null = before, after, null
        self.column.form = int(form)
        self.column.width = width if is_number else 0
        self.column.is_signed = is_signed
        self.column.bits = bits
        self.column.offset_bytes = offset_bytes
        self.column.first = first
        self.column.count = count
        self.column.validity = NULL
        self.column.offsets = NULL
        self.column.data = NULL
        self.column.data_bytes = 0
        if validity is not None and count:
            self.column.validity = self._hold(validity, &size)
            if size < (end + 7) >> 3:
                raise ValueError(f"{size} bytes of validity for {end} values")
        if data is not None:
            self.column.data = self._hold(data, &self.column.data_bytes)
        if is_number:
            if width not in (1, 2, 4, 8) or (form == REAL and width < 4) or not 0 <= bits <= 64:
                raise ValueError(f"numbers of {width} bytes")
            if count and self.column.data_bytes < end * width:
                raise ValueError(f"{self.column.data_bytes} bytes of data for {end} numbers")
        elif count:
            self.column.offsets = self._hold(offsets, &size)
            if size < (end + 1) * offset_bytes:
                raise ValueError(f"{size} bytes of offsets for {end} values")

    cdef const uint8_t* _hold(self, data, int64_t* size) except? NULL:
        """The bytes of a buffer, which lives as long as this; NULL if it has none. A table has thousands of
        columns, and a typed memoryview takes several times as long.
        """
        held = PyMemoryView_FromObject(data)
        cdef Py_buffer* buffer = PyMemoryView_GET_BUFFER(held)
        if not PyBuffer_IsContiguous(buffer, b"C"):
            raise ValueError("the bytes of a buffer are not next to each other")
        self.kept = held if self.kept is None else (self.kept, held)
        size[0] = buffer.len
        return <const uint8_t*>buffer.buf if buffer.len else NULL


cdef class RowTemplate:
    """How the rows of one table are written: pieces in their order, for `count` rows."""

    cdef readonly int64_t count
    cdef Piece* pieces
    cdef int64_t used
    cdef int64_t room
    cdef list kept

    def __cinit__(self, int64_t count):
        self.count = count
        self.pieces = NULL
        self.used = 0
        self.room = 0
        self.kept = []

    def __dealloc__(self):
        free(self.pieces)

    def add(self, bytes literal, ValueColumn values=None, index=None, variant_of=None, int32_t variant=0):
        """Add a literal, and a value behind it.

        `index` (int32, one per row) says which of the values a row has, without it the row's
        number does. With `variant_of` (int32, one per row) only rows of this `variant` have the
        piece. Raises ValueError when one of them has fewer entries than there are rows.
        """
        cdef Piece* grown
        cdef Piece* piece
        if self.used == self.room:
            grown = <Piece*>realloc(self.pieces, (2 * self.room + 16) * sizeof(Piece))
            if grown == NULL:
                raise MemoryError
            self.pieces = grown
            self.room = 2 * self.room + 16
        piece = self.pieces + self.used
        piece.literal = literal
        piece.literal_bytes = len(literal)
        piece.column = NULL
        piece.index = self._entries(index)
        piece.variant_of = self._entries(variant_of)
        piece.variant = variant
        if values is not None:
            piece.column = &values.column
            piece.before, piece.before_bytes = <const char*>values.before, len(values.before)
            piece.after, piece.after_bytes = <const char*>values.after, len(values.after)
            piece.null, piece.null_bytes = <const char*>values.null, len(values.null)
        self.kept.append((literal, values))
        self.used += 1

    cdef const int32_t* _entries(self, given) except? NULL:
        cdef const uint8_t[::1] view
        if given is None or not self.count:
            return NULL
        view = memoryview(given).cast("B")
        if view.shape[0] < self.count * 4:
            raise ValueError(f"{view.shape[0]} bytes for {self.count} entries")
        self.kept.append(view)
        return <const int32_t*>&view[0]


def write_rows(templates, order=None, limit=None):
    """Write the rows of all templates into one TextBuffer.

    `order` (int64) names them in the order to write, counted through all templates; without it
    they come template by template. `limit`: at most so many rows are written.

    Raises IndexError for a row or a value that is not there.
    """
    cdef TextBuffer text = TextBuffer()
    _write(list(templates), order, limit, &text.out, NULL)
    return text


def write_values(templates, order=None):
    """Write each row as a value of its own: the text of all, and where each begins and the last
    ends, as int64 in a second TextBuffer. Arguments and errors are those of `write_rows`.
    """
    cdef TextBuffer text = TextBuffer()
    cdef TextBuffer offsets = TextBuffer()
    put(&offsets.out, <const char*>&text.out.used, 8)
    _write(list(templates), order, None, &text.out, &offsets.out)
    return text, offsets


cdef struct Source:
    Piece* pieces
    int64_t used
    int64_t first


cdef int _write(list templates, order, limit, Output* out, Output* ends) except -1:
    """Write rows to `out`, and where each ends to `ends` if that is not NULL."""
    cdef int count = len(templates)
    cdef int64_t total = sum(template.count for template in templates)
    cdef int64_t wanted = total if limit is None else min(total, limit)
    cdef const int64_t[::1] rows
    cdef const int64_t* ordered = NULL
    cdef Source* sources
    cdef int64_t i, first = 0
    cdef int failed
    cdef RowTemplate template
    if order is not None and total:
        rows = memoryview(order).cast("B").cast("q")
        if rows.shape[0] != total:
            raise ValueError(f"an order of {rows.shape[0]} for {total} rows")
        ordered = &rows[0]
    sources = <Source*>malloc((count + 1) * sizeof(Source))
    if sources == NULL:
        raise MemoryError
    for i in range(count):
        template = templates[i]
        sources[i] = Source(template.pieces, template.used, first)
        first += template.count
    with nogil:
        failed = _write_all(sources, count, total, ordered, wanted, out, ends)
    free(sources)
    if failed == NO_MEMORY:
        raise MemoryError
    if failed:
        raise IndexError("a row names a value that is not there")
    return 0


cdef int _write_all(
    const Source* sources,
    int count,
    int64_t total,
    const int64_t* ordered,
    int64_t wanted,
    Output* out,
    Output* ends,
) noexcept nogil:
    cdef int64_t i, row
    cdef int low = 0, high, middle
    cdef int failed
    for i in range(wanted):
        row = i if ordered == NULL else ordered[i]
        if row < 0 or row >= total:
            return BAD_INDEX
        # the last source that begins at or before the row; empty ones are skipped
        if ordered != NULL:
            low = 0
            high = count
            while high - low > 1:
                middle = (low + high) >> 1
                if sources[middle].first <= row:
                    low = middle
                else:
                    high = middle
        else:
            while low + 1 < count and sources[low + 1].first <= row:
                low += 1
        failed = put_row(out, sources[low].pieces, sources[low].used, row - sources[low].first)
        if failed:
            return failed
        if ends != NULL and put(ends, <const char*>&out.used, 8):
            return NO_MEMORY
    return OK
