"""The images of PARTIAL_UPDATE_ROWS: updates whose JSON values may be differences.

The before-image is an ordinary one. The after-image begins with

    value options   lenenc; bit 0: the bitmap follows
    partial bitmap  one bit for each JSON column of the *table*, present or not: is a difference

and continues like other images, except that a marked value is a difference (json_diff.py). Such events
are rare, so these loops hold the interpreter's lock, and the loop for all other images (image.pyx)
does not handle them.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from binlake.core.memory.cursor cimport Cursor
from binlake.core.memory.failure cimport error_of
from binlake.core.memory.growing cimport append
from binlake.core.images.image cimport begin_row, step_over
from binlake.core.images.layouts cimport Image, Layout, choose
from binlake.core.memory.reader cimport load32, read_lenenc, take
from binlake.core.columns.row_values cimport put_value
from binlake.core.columns.column cimport Column, put_null
from binlake.core.rows.table_sink cimport append_before

from binlake.core.values.json_binary import render
from binlake.core.values.json_diff import apply_differences, differences_text, read_differences
from binlake.errors import UnsupportedError
from binlake.values.plan import Kernel

cdef enum:
    _PARTIAL_JSON = 1  # bit of the value options


cdef int _check(TableSink sink, Reader* r, bint failed) except -1:
    """Raise the error of a step that failed at the reader."""
    if failed:
        raise error_of(r.failure, sink.plans)
    return 0


cdef int change_partially(
    TableSink sink, Reader* r, const RowsHead* head, object data, const uint8_t* base
) except -1:
    """Decode one row change at the reader, which is in the buffer `data` that starts at `base`.

    Raises FormatError; `drop_unfinished` has to follow. A difference whose document is not in the
    before-image is counted, and its value is its text, marked.
    """
    cdef const uint8_t* image = r.pos
    documents = {}
    if sink.applies_differences:
        documents = _documents(sink, r, head, base)
        r.pos = image
    _check(sink, r, append_before(&sink.table, r))
    _append_after(sink, sink.table.after, r, documents, data, base)
    sink.table.after.rows += 1
    sink.table.after.filled = sink.table.after.rows
    return 0


cdef int pass_partially(TableSink sink, Reader* r, const RowsHead* head) except -1:
    """Step over one row change. Raises FormatError."""
    cdef Layout* layout = choose(sink.table.passed, head.present, NULL, r.failure)
    _check(sink, r, layout == NULL or step_over(&layout.image, r))
    _check(sink, r, choose(sink.table.passed, head.present + head.bitmap_bytes, NULL, r.failure) == NULL)
    _append_after(sink, sink.table.passed, r, {}, None, NULL)
    return 0


cdef object _documents(TableSink sink, Reader* r, const RowsHead* head, const uint8_t* base):
    """Step over the before-image at the reader; by column, where in the buffer each of its JSON
    documents starts and ends.
    """
    cdef Layout* layout = choose(sink.table.passed, head.present, NULL, r.failure)
    cdef const uint8_t* nulls
    cdef const uint8_t* start
    cdef Column* column
    cdef int64_t i
    _check(sink, r, layout == NULL)
    nulls = take(r, layout.image.null_bytes)
    _check(sink, r, nulls == NULL)
    found = {}
    for i in range(layout.image.count):
        column = layout.image.columns[i]
        if nulls[i >> 3] >> (i & 7) & 1:
            continue
        start = r.pos
        _check(sink, r, put_value(column, r, 0, 0))
        if sink.plans[column.ordinal].kernel is Kernel.JSON:
            found[column.ordinal] = (start + column.width - base, r.pos - base)
    return found


cdef int _append_after(
    TableSink sink, Image* image, Reader* r, object documents, object data, const uint8_t* base
) except -1:
    """Decode the after-image at the reader as the next row, which is not finished by this."""
    cdef Layout* layout = image.layout
    cdef const uint8_t* nulls
    cdef Column* column
    cdef int64_t row = image.rows
    cdef int64_t i
    partial = _partial_columns(sink, r)
    nulls = take(r, layout.image.null_bytes)
    _check(sink, r, nulls == NULL or begin_row(image, r.failure))
    for i in range(layout.image.count):
        column = layout.image.columns[i]
        if nulls[i >> 3] >> (i & 7) & 1:
            _check(sink, r, put_null(column, row, image.capacity, r.failure))
        elif column.ordinal not in partial:
            _check(sink, r, put_value(column, r, row, image.capacity))
        else:
            _put_difference(sink, column, r, row, documents.get(column.ordinal), data, base)
    for i in range(layout.absent_count):
        _check(sink, r, put_null(layout.absent[i], row, image.capacity, r.failure))
    return 0


cdef object _partial_columns(TableSink sink, Reader* r):
    """The columns whose values are differences, as listed in the head of an after-image."""
    cdef const uint8_t* bits
    cdef int64_t offset = r.pos - r.start
    cdef uint64_t options = 0
    _check(sink, r, read_lenenc(r, &options))
    if options & ~<uint64_t>_PARTIAL_JSON:
        raise UnsupportedError(f"no value options {options:#x} are known", offset=offset)
    if not options:
        return ()
    columns = [i for i, plan in enumerate(sink.plans) if plan.kernel is Kernel.JSON]
    bits = take(r, (len(columns) + 7) >> 3)
    _check(sink, r, bits == NULL)
    return {column for i, column in enumerate(columns) if bits[<int>i >> 3] >> (<int>i & 7) & 1}


cdef int _put_difference(
    TableSink sink,
    Column* column,
    Reader* r,
    int64_t row,
    object before,
    object data,
    const uint8_t* base,
) except -1:
    """The document after the differences at the reader, or these if it is not known."""
    cdef const uint8_t* at = take(r, 4)
    cdef const uint8_t* value = NULL
    cdef Cursor cursor
    cdef bytes text
    if at != NULL:
        value = take(r, load32(at))
    _check(sink, r, value == NULL)
    if not column.kept:
        return 0
    cursor = Cursor(data)
    cursor.enter(r.start - base, r.pos - base)
    cursor.pos = at - base
    differences = read_differences(cursor)
    if before is None:
        sink.unknown_documents += 1
        text = differences_text(differences).encode()
    else:
        document = render(data, before[0], before[1], r.start - base).decode()
        text = apply_differences(document, differences).encode()
    _check(sink, r, append(&column.data, <const uint8_t*><const char*>text, len(text), r.failure))
    column.offsets[row + 1] = <uint32_t>column.data.count
    return 0
