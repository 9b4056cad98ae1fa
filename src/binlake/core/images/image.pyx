"""One side of row changes: the images of many rows, decoded column by column.

An image is a null bitmap, one bit per *present* column, and the values of
the present columns that are not null. A rows event contains the bitmap of present columns once, for
all its images. layouts.pyx makes a Layout of each distinct bitmap.

The after-image of an update may lack a column that the before-image has (binlog_row_image
MINIMAL, NOBLOB, FULL_NODUP): the statement did not assign it, so its value is that of the
before-image. A reader of rows, rather than images, takes it from there (`choose` with `passed`,
`carry`).
"""

from typing import NamedTuple

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from binlake.core.memory.growing cimport append, clear_validity, release, resize
from binlake.core.images.layouts cimport ABSENT, PRESENT, Layout, free_layouts, limit_layouts
from binlake.core.memory.reader cimport load, read_prefix, take, unlikely
from binlake.core.columns.row_values cimport put_value, put_values
from binlake.core.columns.column cimport (
    SKIP_PREFIXED,
    Column,
    fill,
    forget_rows,
    held_bytes,
    put_null,
    reserve,
    take_validity,
)
from binlake.core.columns.sink cimport ColumnSink, sink_of

cimport cython

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    _LISTED_BYTES = 4  # of a name in a list of names: its offset
    _FIRST_VALUES = 1 << 13  # of all columns together, allocated with the first row of a table


class ImageBuffers(NamedTuple):
    """The finished images of one side, in row order.

    `columns[i]` belongs to column i of the plan, None for one that is not wanted, and for each if no
    row has an image on this side. `validity`
    (as in SinkBuffers) marks the `null_count` rows without an image on this side; the values of the
    columns in these rows are undefined. `presence` are runs: (first row, bitmap): from that row on
    the images had the columns whose bit is set (bit i % 8 of byte i // 8), or got them carried over.
    """

    count: int
    null_count: int
    validity: memoryview | None
    columns: tuple
    presence: tuple


@cython.final
cdef class ImageSink:
    """The images of one side of a table's changes, by the plans of its columns; it keeps the values
    of `wanted` columns only.
    """

    def __init__(self, plans, wanted):
        cdef Image* image = &self.image
        cdef ColumnSink sink
        cdef Column* column
        cdef int64_t i
        self.plans = tuple(plans)
        self.sinks = [sink_of(plan, kept) for plan, kept in zip(self.plans, wanted, strict=True)]
        image.width = len(self.plans)
        image.bitmap_bytes = (image.width + 7) >> 3
        image.columns = <Column**>calloc(image.width + 1, sizeof(Column*))
        image.kept = <Column**>calloc(image.width + 1, sizeof(Column*))
        image.virtual = <bint*>calloc(image.width + 1, sizeof(bint))
        if (
            image.columns == NULL
            or image.kept == NULL
            or image.virtual == NULL
        ):
            raise MemoryError
        for i in range(image.width):
            sink = self.sinks[i]
            column = &sink.column
            column.ordinal = i
            image.columns[i] = column
            image.virtual[i] = self.plans[i].definition.virtual
            if column.kept:
                image.kept[image.kept_count] = column
                image.kept_count += 1
                image.kept_row_bytes += (column.item or 4) + column.padded + 1
                image.finished_row_bytes += self.plans[i].finished_bytes
                image.compressed_count += column.compressed
        limit_layouts(image)
        self._start()

    def __dealloc__(self):
        free_layouts(&self.image)
        free(self.image.columns)
        free(self.image.kept)
        free(self.image.virtual)
        free(self.image.layouts)
        free(self.image.validity)
        release(&self.image.runs)
        release(&self.image.run_bitmaps)

    cdef object finish(self):
        """Hand over all rows, without a copy, and start again."""
        cdef Image* image = &self.image
        cdef ColumnSink sink
        cdef int64_t rows = image.rows
        cdef int64_t capacity = image.capacity
        cdef int64_t i
        if rows and image.filled == 0:
            for i in range(image.kept_count):
                forget_rows(image.kept[i])
            columns = (None,) * image.width
        else:
            _fill(image)
            finished = []
            for i in range(image.width):
                sink = self.sinks[i]
                finished.append(sink.finish(rows, capacity) if sink.column.kept else None)
            columns = tuple(finished)
        nulls = image.null_count
        validity = take_validity(&image.validity, rows, capacity)
        starts = [(<int64_t*>image.runs.at)[i] for i in range(image.runs.count // 8)]
        size = image.bitmap_bytes
        bitmaps = image.run_bitmaps.at[: image.run_bitmaps.count] if image.run_bitmaps.count else b""
        presence = tuple(
            [(start, bitmaps[i * size : (i + 1) * size]) for i, start in enumerate(starts)]
        )
        image.first = rows + (rows >> 4)
        self._start()
        return ImageBuffers(rows, nulls, validity, columns, presence)

    cdef int list_absent(self, sizes) except -1:
        """Count the memory of lists of absent columns: the given bytes for each column, or the
        length of its name if None. All rows get such a list.
        """
        cdef ColumnSink sink
        if sizes is None:
            sizes = [_LISTED_BYTES + len(plan.definition.name.encode()) for plan in self.plans]
        for sink, size in zip(self.sinks, sizes, strict=True):
            sink.column.listed_bytes = size
        self.image.listing = ABSENT
        return 0

    cdef int list_present(self, texts) except -1:
        """Count the text around the values of present columns: the given bytes for each column."""
        cdef ColumnSink sink
        for sink, size in zip(self.sinks, texts, strict=True):
            sink.column.listed_bytes = size
        self.image.listing = PRESENT
        return 0

    def _start(self):
        cdef Image* image = &self.image
        cdef int64_t least = max(_FIRST_VALUES // (image.kept_count + 1), <int64_t>1)
        image.first = max(image.first, min(least, <int64_t>64))
        image.rows = image.filled = image.capacity = image.null_count = 0
        image.runs.count = image.run_bitmaps.count = 0
        image.run_start = image.run_listed_bytes = image.listed_bytes = 0
        image.inflated_rows = image.inflated_bytes = 0


cdef int begin_run(Image* image, Failure* failure) noexcept nogil:
    """The next images have the columns of `image.layout`: note it where that is new."""
    cdef int64_t runs = image.runs.count >> 3
    cdef int64_t size = image.bitmap_bytes
    cdef int64_t* starts = <int64_t*>image.runs.at
    if runs and memcmp(
        image.run_bitmaps.at + (runs - 1) * size, image.layout.present, <size_t>size
    ) == 0:
        return 0
    if runs and starts[runs - 1] == image.rows:  # no image had that layout
        runs -= 1
        image.runs.count -= 8
        image.run_bitmaps.count -= size
        if runs and memcmp(
            image.run_bitmaps.at + (runs - 1) * size, image.layout.present, <size_t>size
        ) == 0:
            return 0
    image.listed_bytes += max(image.rows - image.run_start, <int64_t>0) * image.run_listed_bytes
    image.run_start = image.rows
    image.run_listed_bytes = image.layout.listed_bytes
    if append(&image.runs, <const uint8_t*>&image.rows, 8, failure):
        return -1
    return append(&image.run_bitmaps, image.layout.present, size, failure)


# -- rows ------------------------------------------------------------------------------------------


cdef inline int _decode(const Steps* steps, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """Decode the values of the image at the reader as those of a row."""
    cdef const uint8_t* nulls = take(r, steps.null_bytes)
    if unlikely(nulls == NULL):
        return -1
    if steps.skips:
        return _decode_some(steps, r, nulls, row, capacity)
    return put_values(steps.columns, steps.count, nulls, r, row, capacity)


cdef int _decode_some(
    const Steps* steps, Reader* r, const uint8_t* nulls, int64_t row, int64_t capacity
) noexcept nogil:
    """`_decode` behind the null bitmap, for images with runs of columns that are not selected."""
    cdef Column** columns = steps.columns
    cdef const uint8_t* reach = steps.reach
    cdef int64_t last = steps.count
    cdef uint64_t bits = 0
    cdef int64_t i = 0
    cdef int64_t count, size
    while i < last:
        if not i & 63:  # the bits of the next 64 columns
            bits = load(nulls + (i >> 3), <int>min(steps.null_bytes - (i >> 3), <int64_t>8))
        count = 1
        if bits & 1:
            if put_null(columns[i], row, capacity, r.failure):
                return -1
        elif reach[i]:
            count = reach[i]
            if bits:
                count = min(count, <int64_t>__builtin_ctzll(bits))
            if unlikely(take(r, steps.passed[i + count] - steps.passed[i]) == NULL):
                return -1
        elif columns[i].kind == SKIP_PREFIXED:
            size = read_prefix(r, columns[i].width)
            if unlikely(size < 0 or take(r, size) == NULL):
                return -1
        elif put_value(columns[i], r, row, capacity):
            return -1
        i += count
        bits = bits >> count if count < 64 else 0
    return 0


cdef int step_over(const Steps* steps, Reader* r) noexcept nogil:
    """Step over an image without keeping any column."""
    return _decode(steps, r, 0, 0)


cdef int begin_row(Image* image, Failure* failure) noexcept nogil:
    """Make room for the next row, which gets values. Its number is `image.rows`."""
    if unlikely(image.rows == image.capacity) and _grow(image, failure):
        return -1
    if unlikely(image.filled != image.rows):
        _fill(image)
    return 0


cdef int append_image(Image* image, Reader* r) noexcept nogil:
    """Decode the image at the reader as the next row."""
    cdef Layout* layout = image.layout
    cdef int64_t i
    if begin_row(image, r.failure) or _decode(&layout.image, r, image.rows, image.capacity):
        return -1
    for i in range(layout.absent_count):
        if put_null(layout.absent[i], image.rows, image.capacity, r.failure):
            return -1
    image.rows += 1
    image.filled = image.rows
    return 0


cdef int carry(Image* image, Reader* r) noexcept nogil:
    """Take the values that the next row's own image lacks from the before-image at the reader.

    `append_image` has to follow.
    """
    if begin_row(image, r.failure):
        return -1
    return _decode(&image.layout.carried, r, image.rows, image.capacity)


cdef int append_missing(Image* image, Failure* failure) noexcept nogil:
    """The next row has no image on this side."""
    cdef int64_t row = image.rows
    if row == image.capacity and _grow(image, failure):
        return -1
    if image.validity == NULL:
        if clear_validity(&image.validity, row, image.capacity, failure):
            return -1
    else:
        image.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
    image.null_count += 1
    image.rows = row + 1
    return 0


cdef int _grow(Image* image, Failure* failure) noexcept nogil:
    cdef int64_t capacity = max(image.first, 2 * image.capacity)
    cdef int64_t i
    for i in range(image.kept_count):
        if reserve(image.kept[i], image.rows, capacity, failure):
            return -1
    if image.validity != NULL:
        if resize(<void**>&image.validity, (capacity + 7) >> 3, failure):
            return -1
        _set_from(image.validity, image.rows, capacity)
    image.capacity = capacity
    return 0


cdef void _set_from(uint8_t* bits, int64_t first, int64_t last) noexcept nogil:
    """Set the bits from `first` on."""
    if first & 7:
        bits[first >> 3] |= <uint8_t>(0xFF << (first & 7))
        first = (first | 7) + 1
    if first < last:
        memset(bits + (first >> 3), 0xFF, <size_t>(((last + 7) >> 3) - (first >> 3)))


cdef void _fill(Image* image) noexcept nogil:
    """Rows without an image have zero or empty values, too."""
    cdef int64_t i
    if image.filled < image.rows:
        for i in range(image.kept_count):
            fill(image.kept[i], image.filled, image.rows)
        image.filled = image.rows


cdef void roll_back(Image* image, int64_t rows) noexcept nogil:
    """Forget rows from number `rows` on, one that is not finished among them."""
    cdef Column* column
    cdef int64_t i
    if image.filled > rows:
        image.filled = rows
    image.rows = rows
    _fill(image)
    image.null_count = _restore(image.validity, rows, image.capacity)
    for i in range(image.kept_count):
        column = image.kept[i]
        column.null_count = _restore(column.validity, rows, image.capacity)
        if column.offsets != NULL:
            column.data.count = column.offsets[rows]


cdef int64_t _restore(uint8_t* validity, int64_t rows, int64_t capacity) noexcept nogil:
    """The number of rows that are null before `rows`; those after are not null any more."""
    cdef int64_t nulls = 0
    cdef int64_t i
    if validity == NULL:
        return 0
    for i in range(rows):
        nulls += not validity[i >> 3] >> (i & 7) & 1
    _set_from(validity, rows, capacity)
    return nulls


cdef int64_t count_inflated(Image* image) noexcept nogil:
    """Return the sum of the inflated lengths that the values of new rows in compressed columns claim."""
    cdef int64_t total = 0
    cdef int64_t last = min(image.rows, image.filled)
    cdef int64_t i, row
    cdef Column* column
    if image.compressed_count == 0:
        return 0
    for i in range(image.kept_count):
        column = image.kept[i]
        if column.compressed and column.offsets != NULL:
            for row in range(image.inflated_rows, last):
                total += _claimed(
                    column.data.at + column.offsets[row], column.data.at + column.offsets[row + 1]
                )
    image.inflated_rows = max(last, image.inflated_rows)
    image.inflated_bytes += total
    return total


cdef int64_t _claimed(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The length that the head of a compressed value claims (table/types/compressed.py); 0 if it
    cannot be.
    """
    cdef int64_t most = (end - at) * MOST_INFLATED
    cdef int64_t claimed = 0
    cdef int width
    if at >= end or at[0] & 0xF0 != 0x80:
        return 0
    width = at[0] & 7
    if width >= end - at:
        return 0
    while width > 0 and claimed <= most:
        at += 1
        width -= 1
        claimed = claimed << 8 | at[0]
    return claimed if claimed <= most else 0


cdef int64_t held_by_image(const Image* image, int64_t* largest) noexcept nogil:
    """Bytes of all buffers so far; sets `largest` to the most that one column's values have."""
    cdef int64_t total = image.runs.count + image.run_bitmaps.count
    cdef int64_t i
    total += image.listed_bytes + image.inflated_bytes + image.rows * image.finished_row_bytes
    total += max(image.rows - image.run_start, <int64_t>0) * image.run_listed_bytes
    if image.validity != NULL:
        total += (image.rows + 7) >> 3
    for i in range(image.kept_count):
        total += held_bytes(image.kept[i], image.rows)
        if image.kept[i].data.count > largest[0]:
            largest[0] = image.kept[i].data.count
    return total
