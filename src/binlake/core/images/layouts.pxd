# The columns of an image, and the layouts that belong to bitmaps of present columns.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.growing cimport Bytes
from binlake.core.columns.column cimport Column

# The text that finishing a row adds beside its values: a list of the names of columns that its image lacks, or the
# text around the values of the columns that it has.
cdef enum Listing:
    NO_LIST
    ABSENT
    PRESENT

# Columns that an image holds, in order. From column i on `reach[i]` columns are only stepped over and
# have a fixed width, no more than up to the next multiple of 64; those before column i take `passed[i]`
# bytes together. `skips`: some columns are only stepped over.
cdef struct Steps:
    Column** columns
    int64_t count
    int64_t null_bytes
    bint skips
    uint8_t* reach
    int64_t* passed

# The effect of a present-columns bitmap (or of two, one for each image) on the columns. `key` contains the
# bitmaps, `hash` is their hash. `image` are the columns of the image itself. `carried` are the columns that the
# before-image supplies because the image lacks them. `absent` are the columns whose value neither image contains,
# and `present` is the bitmap of all others. `listed_bytes` is the size of the text that finishing a row adds
# (see `Listing`).
cdef struct Layout:
    uint64_t hash
    int64_t key_bytes
    uint8_t* key
    uint8_t* present
    Steps image
    Steps carried
    bint carries
    Column** absent
    int64_t absent_count
    int64_t listed_bytes

# The images of one side. `columns` are all columns of the table, of which `kept` are kept. `filled`
# rows have values in all columns; those up to `rows` have no image. `runs` are the rows from which
# on the images have the columns of a bitmap, int64 each; the bitmaps are in `run_bitmaps`.
# Finishing a row adds `finished_row_bytes` to its values, and to each row from `run_start` on a list
# of `run_listed_bytes`; the lists of the rows before take `listed_bytes`. What the values of the first
# `inflated_rows` rows inflate to takes `inflated_bytes`.
cdef struct Image:
    int64_t width
    int64_t bitmap_bytes
    Column** columns
    bint* virtual
    Column** kept
    int64_t kept_count
    int64_t kept_row_bytes
    int64_t finished_row_bytes
    int64_t compressed_count
    int64_t rows
    int64_t filled
    int64_t capacity
    int64_t first
    uint8_t* validity
    int64_t null_count
    Layout** layouts
    int64_t layout_count
    int64_t layout_room
    int64_t most_layouts
    Layout* layout
    Bytes runs
    Bytes run_bitmaps
    int64_t run_start
    int64_t run_listed_bytes
    int64_t listed_bytes
    Listing listing
    int64_t inflated_rows
    int64_t inflated_bytes

cdef void limit_layouts(Image* image) noexcept nogil
cdef bint trim_layouts(Image* image) noexcept nogil
cdef void free_layouts(Image* image) noexcept nogil
cdef Layout* choose(Image* image, const uint8_t* bitmaps, Image* passed, Failure* failure) noexcept nogil
