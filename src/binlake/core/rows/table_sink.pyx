"""The row changes of one table: their images, and per change its position and transaction."""

from dataclasses import replace
from typing import NamedTuple

from libc.stdlib cimport free
from libc.string cimport memset

from binlake.core.memory.failure cimport NO_COLUMNS, OTHER_WIDTH, fail
from binlake.core.memory.growing cimport hand_over, resize
from binlake.core.images.image cimport (
    append_image,
    append_missing,
    begin_row,
    begin_run,
    carry,
    count_inflated,
    held_by_image,
    roll_back,
    step_over,
)
from binlake.core.images.layouts cimport Layout, choose, trim_layouts
from binlake.core.images.row_condition cimport RowCondition, matches
from binlake.core.rows.row_selection cimport add_found
from binlake.core.images.strides cimport Strides, clear_places, forget_strides, stride_over

cdef enum:
    _FACTS_BYTES = 1 + 3 * 8 + 4 * 4  # of op … start
    _FEWEST_ROWS = 64


class TableBuffers(NamedTuple):
    """Finished row changes of one table, in commit order; one entry per change in each.

    `op` u8: INSERT, UPDATE, DELETE. `pos`, `end_pos` i64: the event's place in the file. `row`
    u32: ordinal of the change in that top-level event. `txn` u32: index into the transactions
    finished with this batch. `seq` i64: order over all tables. `server_id` u32. `start` u32: where
    the images start in the event's body, or in what a compressed event inflates to. The TableSink
    that made them defines the contents of `before` and `after`. `unknown_documents` values of
    `after` are JSON differences, as the log lacks the documents that they change.
    """

    count: int
    op: memoryview
    pos: memoryview
    end_pos: memoryview
    row: memoryview
    txn: memoryview
    seq: memoryview
    server_id: memoryview
    start: memoryview
    before: object
    after: object
    unknown_documents: int = 0


cdef class TableSink:
    """Takes the rows events of one table. A subclass defines the destination of each image.

    `plans` are the column plans of all columns of the table, `before_plans` those for the
    before-images where they differ; () keeps no column of them. `operations` are the selected ones; events of others
    are skipped. `purpose` is for the maker of the sink.
    """

    def __init__(self, plans, before_plans=None, operations=(INSERT, UPDATE, DELETE)):
        cdef Table* table = &self.table
        self.plans = tuple(plans)
        none = [False] * len(self.plans)
        self.after = ImageSink(self.plans, [plan.wanted for plan in self.plans])
        if before_plans == ():
            self.before = ImageSink(self.plans, none)
        else:
            before_plans = self.plans if before_plans is None else before_plans
            self.before = ImageSink(before_plans, [plan.wanted for plan in before_plans])
        self.passed = ImageSink(self.plans, none)
        self.applies_differences = True
        table.owner = <void*>self
        table.after = &self.after.image
        table.before = &self.before.image
        table.passed = &self.passed.image
        table.columns = max(
            self.before.image.kept_count + self.after.image.kept_count, len(self.plans)
        )
        table.first = _FEWEST_ROWS
        for operation in operations:
            table.operations |= 1 << operation

    def __dealloc__(self):
        free(self.table.op)
        free(self.table.pos)
        free(self.table.end_pos)
        free(self.table.seq)
        free(self.table.row)
        free(self.table.txn)
        free(self.table.server_id)
        free(self.table.start)

    def taken(self):
        """How many inserts, updates and deletes were taken since the last call of this."""
        cdef int64_t* counts = self.table.counts
        found = counts[INSERT], counts[UPDATE], counts[DELETE]
        counts[INSERT] = counts[UPDATE] = counts[DELETE] = 0
        return found

    cdef object finish_rows(self):
        """Hand over all changes, without a copy, and start again."""
        cdef Table* table = &self.table
        cdef int64_t rows = table.rows
        cdef int64_t capacity = table.capacity
        unknown = self.unknown_documents
        self.unknown_documents = 0
        done = TableBuffers(
            rows,
            hand_over(<void**>&table.op, rows, capacity),
            hand_over(<void**>&table.pos, 8 * rows, 8 * capacity),
            hand_over(<void**>&table.end_pos, 8 * rows, 8 * capacity),
            hand_over(<void**>&table.row, 4 * rows, 4 * capacity),
            hand_over(<void**>&table.txn, 4 * rows, 4 * capacity),
            hand_over(<void**>&table.seq, 8 * rows, 8 * capacity),
            hand_over(<void**>&table.server_id, 4 * rows, 4 * capacity),
            hand_over(<void**>&table.start, 4 * rows, 4 * capacity),
            self.before.finish(),
            self.after.finish(),
            unknown,
        )
        table.rows = table.capacity = 0
        table.is_active = False
        table.first = max(rows + (rows >> 4), <int64_t>_FEWEST_ROWS)
        return done


cdef class BothImages(TableSink):
    """`before`: before-images of updates and deletes; `after`: after-images of inserts and
    updates; the other side of an insert or delete is missing.

    `texts`: for each column, how many bytes of text the changes get around a value of it when they are
    written. They count as held.
    """

    def __init__(self, plans, before_plans=None, operations=(INSERT, UPDATE, DELETE), texts=None):
        TableSink.__init__(self, plans, before_plans, operations)
        self.table.mode = BOTH_IMAGES
        if texts is not None:
            self.before.list_present(texts)
            self.after.list_present(texts)


cdef class StoredImages(BothImages):
    """Both images with JSON differences as they were logged, even if the before-image has the document.
    """

    def __init__(self, plans, before_plans=None, operations=(INSERT, UPDATE, DELETE), texts=None):
        BothImages.__init__(self, plans, before_plans, operations, texts)
        self.applies_differences = False


cdef class CurrentRow(TableSink):
    """`after`: of each change the row as it is now, or, of a delete, as it was last; `before`:
    before-images of updates, missing for the others.

    A column that an update did not assign may be in its before-image only: it did not change,
    so the row has its value from there.

    `listed`: for each column, how many bytes it takes in a list of absent columns; by default those of its name.
    """

    def __init__(self, plans, before_plans=None, operations=(INSERT, UPDATE, DELETE), listed=None):
        TableSink.__init__(self, plans, before_plans, operations)
        self.table.mode = CURRENT_ROW
        self.after.list_absent(listed)


cdef class RowMatches(TableSink):
    """No images: `RowWalker.find_rows` finds the changes that match `condition`. Without a condition, it leaves runs
    with changes of the table undecided.
    """

    def __init__(self, plans, operations, RowCondition condition=None):
        TableSink.__init__(self, plans, None, operations)
        self.table.mode = MATCHES
        self.condition = condition
        if condition is not None:
            condition.attach(self.table.before, self.table.after)
            self.table.condition = &condition.condition


def unwanted(plans):
    """Return the columns with none of them wanted."""
    return tuple([replace(plan, wanted=False) for plan in plans])


# -- one event -------------------------------------------------------------------------------------


cdef int begin_event(
    Table* table, const RowsHead* head, int op, Failure* failure
) noexcept nogil:
    """The rows that follow belong to this head: choose the columns of both images."""
    cdef const uint8_t* present = head.present
    if head.width != table.after.width:
        return fail(failure, OTHER_WIDTH, -1, head.width, table.after.width)
    trim_layouts(table.before)
    trim_layouts(table.after)
    trim_layouts(table.passed)
    if op == UPDATE or (op == DELETE and table.mode == BOTH_IMAGES):
        if choose(table.before, present, NULL, failure) == NULL or begin_run(table.before, failure):
            return -1
    if op == UPDATE and table.mode == BOTH_IMAGES:
        present += head.bitmap_bytes
    if op != DELETE or table.mode == CURRENT_ROW:
        if (
            choose(
                table.after,
                present,
                table.passed if op == UPDATE and table.mode == CURRENT_ROW else NULL,
                failure,
            ) == NULL
            or begin_run(table.after, failure)
        ):
            return -1
    return 0


cdef int64_t row_bytes(const Table* table) noexcept nogil:
    """About how many bytes a change takes beside its strings."""
    return (
        _FACTS_BYTES
        + table.before.kept_row_bytes
        + table.before.finished_row_bytes
        + table.after.kept_row_bytes
        + table.after.finished_row_bytes
        + table.before.run_listed_bytes
        + table.after.run_listed_bytes
        + 1
    )


cdef bint inflates(const Table* table) noexcept nogil:
    """Whether finishing the rows inflates values."""
    return table.before.compressed_count + table.after.compressed_count > 0


cdef int64_t count_inflated_rows(Table* table) noexcept nogil:
    """The inflated size of the values of new rows; `held_by_table` counts it from now on."""
    return count_inflated(table.before) + count_inflated(table.after)


cdef int add_changes(
    Table* table,
    Reader* r,
    int op,
    const EventFacts* facts,
    int64_t most_rows,
    const uint8_t* stop,
) noexcept nogil:
    """Decode row changes up to the end of the event, or until `most_rows` are taken or the reader
    is at `stop` or behind. `begin_event` has to be called before; the event may have no rows left
    only where it has none at all.
    """
    cdef int64_t first = table.rows
    cdef const uint8_t* pos
    cdef int failed = 0
    while True:
        pos = r.pos
        if begin_change(table, r) or _change(table, r, op):
            failed = -1
            break
        table.rows += 1
        if r.pos >= r.end:
            break
        if r.pos == pos:
            failed = fail(r.failure, NO_COLUMNS, -1, 0, 0)
            break
        if table.rows - first >= most_rows or r.pos >= stop:
            break
    if failed:
        drop_unfinished(table)
    note_changes(table, first, op, facts)
    return failed


cdef Found find_changes(
    Table* table,
    const RowsHead* head,
    Reader* r,
    int op,
    int64_t pos,
    int64_t group,
    FoundRows* found,
) noexcept nogil:
    """Step over all changes of an event, at `pos` in the file, and add those that match. IN_DOUBT: an image lacks a
    column of the condition.
    """
    cdef Image* before = table.before
    cdef Image* after = table.after
    cdef Strides* strides
    cdef bint has_before = op != INSERT
    cdef bint has_after = op != DELETE
    cdef const uint8_t* start
    cdef int32_t row = 0
    if table.condition == NULL:
        return IN_DOUBT
    if head.width != after.width:
        fail(r.failure, OTHER_WIDTH, -1, head.width, after.width)
        return FAILED_TO_FIND
    strides = table.condition.strides
    clear_places(&strides[0])
    clear_places(&strides[1])
    if has_before and _choose_for_one(before, &strides[0], head.present, r.failure):
        return FAILED_TO_FIND
    if has_after and _choose_for_one(
        after, &strides[1], head.present + (head.bitmap_bytes if has_before else 0), r.failure
    ):
        return FAILED_TO_FIND
    if (has_before and before.layout.absent_count) or (has_after and after.layout.absent_count):
        return IN_DOUBT
    while True:
        start = r.pos
        if has_before and stride_over(&strides[0], before.layout, r):
            return FAILED_TO_FIND
        if has_after and stride_over(&strides[1], after.layout, r):
            return FAILED_TO_FIND
        if matches(table.condition, has_before, has_after) and add_found(
            found, pos, row, <uint32_t>(start - r.start), group, r.failure
        ):
            return FAILED_TO_FIND
        row += 1
        if r.pos >= r.end:
            return FOUND
        if r.pos == start:
            fail(r.failure, NO_COLUMNS, -1, 0, 0)
            return FAILED_TO_FIND


cdef int _choose_for_one(
    Image* image, Strides* strides, const uint8_t* present, Failure* failure
) noexcept nogil:
    """Choose the columns of an image, and make room for one row."""
    if trim_layouts(image):
        forget_strides(strides)
    if choose(image, present, NULL, failure) == NULL:
        return -1
    return begin_row(image, failure)


cdef inline int _change(Table* table, Reader* r, int op) noexcept nogil:
    """Decode one row change into both images."""
    if op == UPDATE:
        if append_before(table, r):
            return -1
        return append_image(table.after, r)
    if op == DELETE and table.mode == BOTH_IMAGES:
        if append_image(table.before, r):
            return -1
        return append_missing(table.after, r.failure)
    if append_missing(table.before, r.failure):
        return -1
    return append_image(table.after, r)


cdef int append_before(Table* table, Reader* r) noexcept nogil:
    """Decode the before-image of an update."""
    cdef const uint8_t* image = r.pos
    if append_image(table.before, r):
        return -1
    if table.mode == CURRENT_ROW and table.after.layout.carries:
        r.pos = image
        return carry(table.after, r)
    return 0


cdef void note_changes(Table* table, int64_t first, int op, const EventFacts* facts) noexcept nogil:
    """Say of the changes from number `first` on which they are."""
    if first < table.rows:
        _note(table, first, table.rows, op, facts[0])
    table.counts[op] += table.rows - first


cdef void _note(
    Table* table, int64_t first, int64_t last, int op, EventFacts facts
) noexcept nogil:
    """Say of rows [first, last) which they are."""
    cdef int64_t* pos = table.pos
    cdef int64_t* end_pos = table.end_pos
    cdef int64_t* seq = table.seq
    cdef uint32_t* number = table.row
    cdef uint32_t* txn = table.txn
    cdef uint32_t* server_id = table.server_id
    cdef int64_t row
    memset(table.op + first, op, <size_t>(last - first))
    for row in range(first, last):
        pos[row] = facts.pos
        end_pos[row] = facts.end_pos
        seq[row] = facts.seq + row - first
        number[row] = <uint32_t>(facts.row + row - first)
        txn[row] = <uint32_t>facts.txn
        server_id[row] = <uint32_t>facts.server_id


cdef int grow(Table* table, Failure* failure) noexcept nogil:
    """Make room for more changes."""
    cdef int64_t capacity = max(table.first, 2 * table.capacity)
    if (
        resize(<void**>&table.op, capacity, failure)
        or resize(<void**>&table.pos, 8 * capacity, failure)
        or resize(<void**>&table.end_pos, 8 * capacity, failure)
        or resize(<void**>&table.seq, 8 * capacity, failure)
        or resize(<void**>&table.row, 4 * capacity, failure)
        or resize(<void**>&table.txn, 4 * capacity, failure)
        or resize(<void**>&table.server_id, 4 * capacity, failure)
        or resize(<void**>&table.start, 4 * capacity, failure)
    ):
        return -1
    table.capacity = capacity
    return 0


cdef void drop_unfinished(Table* table) noexcept nogil:
    """Forget what the images hold beyond the changes that are whole."""
    roll_back(table.before, table.rows)
    roll_back(table.after, table.rows)


cdef int64_t pass_over(Table* table, const RowsHead* head, Reader* r, int op) noexcept nogil:
    """Step over all row changes up to the end of the event; how many they are, -1: a failure."""
    cdef Layout* first
    cdef Layout* second
    cdef const uint8_t* pos
    cdef int64_t count = 0
    if head.width != table.passed.width:
        return fail(r.failure, OTHER_WIDTH, -1, head.width, table.passed.width)
    trim_layouts(table.passed)
    first = choose(table.passed, head.present, NULL, r.failure)
    if first == NULL:
        return -1
    second = first
    if op == UPDATE:
        second = choose(table.passed, head.present + head.bitmap_bytes, NULL, r.failure)
        if second == NULL:
            return -1
    while True:
        pos = r.pos
        if step_over(&first.image, r):
            return -1
        if op == UPDATE and step_over(&second.image, r):
            return -1
        count += 1
        if r.pos >= r.end:
            return count
        if pos == r.pos:
            return fail(r.failure, NO_COLUMNS, -1, 0, 0)


cdef int64_t held_by_table(const Table* table, int64_t* largest) noexcept nogil:
    """Bytes of all buffers so far; raises `largest` to the most that one column's values have."""
    return (
        table.rows * _FACTS_BYTES
        + held_by_image(table.before, largest)
        + held_by_image(table.after, largest)
    )
