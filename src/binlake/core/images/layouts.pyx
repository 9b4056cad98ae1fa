"""Which columns an image has: layouts, made of the bitmaps of present columns, and kept.

A rows event contains one bitmap for all its images, so a layout is chosen for each event.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from binlake.core.memory.failure cimport NO_MEMORY, fail
from binlake.core.memory.growing cimport resize
from binlake.core.columns.column cimport SKIP_FIXED, SKIP_PREFIXED

cdef enum:
    # No workload has so many layouts, nor so many columns in all layouts of a table.
    _MOST_LAYOUTS = 1024
    _MOST_LAID_OUT = 1 << 17
    _ROOM = 2  # layouts that one event needs


cdef void limit_layouts(Image* image) noexcept nogil:
    """Set how many layouts are kept. To be called once, when the width is known."""
    image.most_layouts = min(_MOST_LAID_OUT // (image.width + 1), <int64_t>_MOST_LAYOUTS)


cdef bint trim_layouts(Image* image) noexcept nogil:
    """Bound the memory; whether the layouts are gone. To be called before `choose`."""
    if image.layout_count < image.most_layouts:
        return False
    free_layouts(image)
    return True


cdef void free_layouts(Image* image) noexcept nogil:
    """Give the memory of all layouts back."""
    cdef int64_t i
    for i in range(image.layout_count):
        _free_layout(image.layouts[i])
    image.layout_count = 0
    image.layout = NULL


cdef void _free_layout(Layout* layout) noexcept nogil:
    free(layout.key)
    free(layout.present)
    _free_steps(&layout.image)
    _free_steps(&layout.carried)
    free(layout.absent)
    free(layout)


cdef void _free_steps(Steps* steps) noexcept nogil:
    free(steps.columns)
    free(steps.reach)
    free(steps.passed)


cdef Layout* choose(
    Image* image, const uint8_t* bitmaps, Image* passed, Failure* failure
) noexcept nogil:
    """The layout of a bitmap, which is then `image.layout`; NULL: a failure.

    With `passed`, both bitmaps are at `bitmaps`, the one of the before-images first: these show
    which columns the images lack. `passed` steps over the columns of those that are not needed.
    """
    cdef int64_t size = image.bitmap_bytes * (1 if passed == NULL else 2)
    cdef Layout* layout = image.layout
    cdef uint64_t hash = <uint64_t>0xCBF29CE484222325
    cdef int64_t i
    if layout != NULL and layout.key_bytes == size and memcmp(layout.key, bitmaps, <size_t>size) == 0:
        return layout
    for i in range(size):
        hash = (hash ^ bitmaps[i]) * <uint64_t>0x100000001B3
    for i in range(image.layout_count):
        layout = image.layouts[i]
        if (
            layout.hash == hash
            and layout.key_bytes == size
            and memcmp(layout.key, bitmaps, <size_t>size) == 0
        ):
            image.layout = layout
            return layout
    layout = NULL
    if image.layout_count < image.most_layouts + _ROOM and not _make_room(image, failure):
        layout = _lay_out(image, bitmaps, size, passed)
    if layout == NULL:
        fail(failure, NO_MEMORY, -1, 0, 0)
        return NULL
    layout.hash = hash
    image.layouts[image.layout_count] = layout
    image.layout_count += 1
    image.layout = layout
    return layout


cdef int _make_room(Image* image, Failure* failure) noexcept nogil:
    """Room for one more layout."""
    cdef int64_t room = 2 * image.layout_room + _ROOM
    if image.layout_count < image.layout_room:
        return 0
    if resize(<void**>&image.layouts, room * <int64_t>sizeof(Layout*), failure):
        return -1
    image.layout_room = room
    return 0


cdef inline bint _has(const uint8_t* bitmap, int64_t column) noexcept nogil:
    return bitmap[column >> 3] >> (column & 7) & 1


cdef Layout* _lay_out(
    Image* image, const uint8_t* bitmaps, int64_t size, Image* passed
) noexcept nogil:
    """Make a layout; NULL: there is no memory."""
    cdef const uint8_t* own = bitmaps if passed == NULL else bitmaps + image.bitmap_bytes
    cdef size_t pointers = <size_t>(image.width + 1) * sizeof(Column*)
    cdef Layout* layout = <Layout*>calloc(1, sizeof(Layout))
    cdef Column* column
    cdef bint here, before, told_before
    cdef int64_t i
    if layout == NULL:
        return NULL
    layout.key = <uint8_t*>malloc(<size_t>size + 1)
    layout.present = <uint8_t*>calloc(<size_t>image.bitmap_bytes + 1, 1)
    layout.image.columns = <Column**>malloc(pointers)
    layout.absent = <Column**>malloc(pointers)
    if passed != NULL:
        layout.carried.columns = <Column**>malloc(pointers)
    if (
        layout.key == NULL
        or layout.present == NULL
        or layout.image.columns == NULL
        or layout.absent == NULL
        or (passed != NULL and layout.carried.columns == NULL)
    ):
        _free_layout(layout)
        return NULL
    layout.key_bytes = size
    memcpy(layout.key, bitmaps, <size_t>size)
    for i in range(image.width):
        column = image.columns[i]
        here = _has(own, i)
        before = passed != NULL and _has(bitmaps, i)
        # the server may leave out a computed column although it changed
        told_before = before and not image.virtual[i]
        if here:
            _add_step(&layout.image, column)
        if before:
            if told_before and column.kept and not here:
                layout.carries = True
                _add_step(&layout.carried, column)
            else:
                _add_step(&layout.carried, passed.columns[i])
        if here or told_before:
            layout.present[i >> 3] |= <uint8_t>(1 << (i & 7))
            if column.kept and image.listing == PRESENT:
                layout.listed_bytes += column.listed_bytes
        elif column.kept:
            layout.absent[layout.absent_count] = column
            layout.absent_count += 1
            if image.listing == ABSENT:
                layout.listed_bytes += column.listed_bytes
    if _finish_steps(&layout.image) or _finish_steps(&layout.carried):
        _free_layout(layout)
        return NULL
    return layout


cdef int _finish_steps(Steps* steps) noexcept nogil:
    """Set what follows from the columns; -1: there is no memory."""
    cdef int64_t i
    cdef int64_t reach = 0
    steps.null_bytes = (steps.count + 7) >> 3
    steps.reach = <uint8_t*>malloc(<size_t>steps.count + 1)
    steps.passed = <int64_t*>malloc(<size_t>(steps.count + 1) * sizeof(int64_t))
    if steps.reach == NULL or steps.passed == NULL:
        return -1
    steps.passed[0] = 0
    for i in range(steps.count):
        steps.passed[i + 1] = steps.passed[i]
        if steps.columns[i].kind == SKIP_FIXED:
            steps.passed[i + 1] += steps.columns[i].width
    for i in range(steps.count - 1, -1, -1):
        if i & 63 == 63:
            reach = 0
        reach = reach + 1 if steps.columns[i].kind == SKIP_FIXED else 0
        steps.reach[i] = <uint8_t>reach
        if reach or steps.columns[i].kind == SKIP_PREFIXED:
            steps.skips = True
    return 0


cdef inline void _add_step(Steps* steps, Column* column) noexcept nogil:
    steps.columns[steps.count] = column
    steps.count += 1
