"""The row changes of one table: their images, and per change where and in what it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import cython

from binlake.core.cursor import Cursor
from binlake.core.image import ImageBuffers, ImageSink
from binlake.core.partial import PartialImages
from binlake.core.rows_header import RowsHeader
from binlake.core.sink import Sink8, Sink32, Sink64
from binlake.errors import MalformedError
from binlake.values.plan import ColumnPlan

__all__ = [
    "DELETE",
    "INSERT",
    "UPDATE",
    "BothImages",
    "CurrentRow",
    "EventFacts",
    "StoredImages",
    "TableBuffers",
    "TableSink",
]

INSERT = 0
UPDATE = 1
DELETE = 2

_INSERT = cython.declare(cython.int, INSERT)
_UPDATE = cython.declare(cython.int, UPDATE)
_DELETE = cython.declare(cython.int, DELETE)
_FACTS_BYTES = cython.declare(cython.Py_ssize_t, 1 + 3 * 8 + 3 * 4)  # of op … server_id
_FEWEST_ROWS = cython.declare(cython.Py_ssize_t, 64)


class TableBuffers(NamedTuple):
    """Finished row changes of one table, in commit order; one entry per change in each.

    `op` u8: INSERT, UPDATE, DELETE. `pos`, `end_pos` i64: the event's place in the file. `row`
    u32: ordinal of the change in that top-level event. `txn` u32: index into the transactions
    finished with this batch. `seq` i64: order over all tables. `server_id` u32. What `before`
    and `after` hold is said by the TableSink that made them. `unknown_documents` values of
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
    before: ImageBuffers
    after: ImageBuffers
    unknown_documents: int = 0


@cython.final
@cython.cclass
class EventFacts:
    """What the changes of one rows event have in common; `row` and `seq` are of its first."""

    def __init__(self) -> None:
        self.pos = 0
        self.end_pos = 0
        self.row = 0
        self.seq = 0
        self.txn = 0
        self.server_id = 0


@cython.cclass
class TableSink:
    """Takes the rows events of one table. A subclass says which image goes where.

    `plans` are the column plans of all columns of the table, `before_plans` those for the
    before-images where they differ. `operations` are the wanted ones; events of the others
    are passed over.
    """

    def __init__(
        self,
        plans: Sequence[ColumnPlan],
        before_plans: Sequence[ColumnPlan] | None = None,
        operations: Sequence[int] = (INSERT, UPDATE, DELETE),
    ) -> None:
        self.after = ImageSink(plans)
        self.before = ImageSink(plans if before_plans is None else before_plans)
        self.passed = ImageSink(unwanted(plans))
        self.partial = PartialImages()
        self.is_partial = False
        self.operations = 0
        for operation in operations:
            self.operations |= 1 << operation
        self.row_bytes = _FACTS_BYTES + self.before.row_bytes + self.after.row_bytes
        self.largest = 0
        self.rows = 0
        self.capacity = 0
        self.first = _FEWEST_ROWS
        self.counts = memoryview(bytearray(3 * 8)).cast("q")
        self.op = Sink8()
        self.pos = Sink64()
        self.end_pos = Sink64()
        self.seq = Sink64()
        self.row = Sink32()
        self.txn = Sink32()
        self.server_id = Sink32()

    def wants(self, op: cython.int) -> bool:
        """Whether changes of this operation are kept."""
        return (self.operations >> op & 1) != 0

    def select(self, c: Cursor, header: RowsHeader, op: cython.int) -> int:
        """Choose the columns of both images by the bitmaps of the head."""
        raise NotImplementedError

    def begin(self, c: Cursor, header: RowsHeader, op: cython.int) -> int:
        """The rows that follow belong to this head, which lies in the cursor's buffer."""
        self.is_partial = header.is_partial
        if self.is_partial:
            self.passed.select(c, header.present, header.width)
        return self.select(c, header, op)

    def change(self, c: Cursor, op: cython.int) -> int:
        """Decode one row change into `before` and `after`."""
        raise NotImplementedError

    def precede(self, c: Cursor) -> int:
        """Decode the before-image of an update."""
        raise NotImplementedError

    def change_partially(self, c: Cursor) -> int:
        """Decode one row change of PARTIAL_UPDATE_ROWS."""
        image: cython.Py_ssize_t = c.pos
        documents = self.partial.documents(self.passed, c)
        c.pos = image
        self.precede(c)
        return self.partial.append(self.after, c, documents)

    def add(self, c: Cursor, op: cython.int, facts: EventFacts) -> int:
        """Decode all row changes up to the end of the cursor; how many they are.

        `begin` has to be called before. Raises FormatError.
        """
        start: cython.Py_ssize_t = self.rows
        row: cython.Py_ssize_t = start
        pos: cython.Py_ssize_t
        while True:
            pos = c.pos
            if self.is_partial:
                self.change_partially(c)
            else:
                self.change(c, op)
            if row == self.capacity:
                self.grow()
            self.op.values[row] = cython.cast(cython.uchar, op)
            self.pos.values[row] = facts.pos
            self.end_pos.values[row] = facts.end_pos
            self.seq.values[row] = facts.seq + row - start
            self.row.values[row] = cython.cast(cython.uint, facts.row + row - start)
            self.txn.values[row] = cython.cast(cython.uint, facts.txn)
            self.server_id.values[row] = cython.cast(cython.uint, facts.server_id)
            row += 1
            self.rows = row
            if c.pos >= c.end:
                break
            if c.pos == pos:
                raise MalformedError("rows without columns cannot have bytes", field="rows")
        self.counts[op] += row - start
        return row - start

    def pass_over(self, head: Cursor, header: RowsHeader, c: Cursor, op: cython.int) -> int:
        """Step over all row changes up to the end of `c` and keep nothing; how many they are.

        `header` lies in the buffer of `head`. Raises FormatError.
        """
        count: cython.Py_ssize_t = 0
        pos: cython.Py_ssize_t
        while True:
            pos = c.pos
            self.passed.select(head, header.present, header.width)
            self.passed.append(c)
            if op == _UPDATE:
                self.passed.select(head, header.present_after, header.width)
                if header.is_partial:
                    self.partial.append(self.passed, c, {})
                else:
                    self.passed.append(c)
            count += 1
            if c.pos >= c.end:
                break
            if c.pos == pos:
                raise MalformedError("rows without columns cannot have bytes", field="rows")
        self.passed.finish()
        return count

    def grow(self) -> int:
        """Make room for more rows."""
        self.capacity = max(self.first, 2 * self.capacity)
        self.op.reserve(self.capacity)
        self.pos.reserve(self.capacity)
        self.end_pos.reserve(self.capacity)
        self.seq.reserve(self.capacity)
        self.row.reserve(self.capacity)
        self.txn.reserve(self.capacity)
        self.server_id.reserve(self.capacity)
        return 0

    def held(self) -> int:
        """Bytes held by the changes so far; sets `largest`, the most that one column holds."""
        total: cython.Py_ssize_t = self.rows * _FACTS_BYTES + self.before.held() + self.after.held()
        self.largest = max(self.before.largest, self.after.largest)
        return total

    def taken(self) -> tuple[int, int, int]:
        """How many inserts, updates and deletes were taken since the last call of this."""
        inserts, updates, deletes = self.counts
        self.counts[0] = self.counts[1] = self.counts[2] = 0
        return inserts, updates, deletes

    def finish(self) -> TableBuffers:
        """Hand over all changes, without a copy, and start again."""
        count: cython.Py_ssize_t = self.rows
        unknown = self.partial.take_unknown()
        done = TableBuffers(
            count,
            self.op.finish(count).data,
            self.pos.finish(count).data,
            self.end_pos.finish(count).data,
            self.row.finish(count).data,
            self.txn.finish(count).data,
            self.seq.finish(count).data,
            self.server_id.finish(count).data,
            self.before.finish(),
            self.after.finish(),
            unknown,
        )
        self.rows = 0
        self.capacity = 0
        self.first = max(count + (count >> 4), _FEWEST_ROWS)
        return done


@cython.cclass
class BothImages(TableSink):
    """`before`: before-images of updates and deletes; `after`: after-images of inserts and
    updates; the other side of an insert or delete is missing.
    """

    def select(self, c: Cursor, header: RowsHeader, op: cython.int) -> int:
        """As TableSink."""
        if op != _INSERT:
            self.before.select(c, header.present, header.width)
        if op == _INSERT:
            self.after.select(c, header.present, header.width)
        elif op == _UPDATE:
            self.after.select(c, header.present_after, header.width)
        return 0

    def change(self, c: Cursor, op: cython.int) -> int:
        """As TableSink."""
        if op == _INSERT:
            self.before.append_missing()
        else:
            self.before.append(c)
        if op == _DELETE:
            self.after.append_missing()
        else:
            self.after.append(c)
        return 0

    def precede(self, c: Cursor) -> int:
        """As TableSink."""
        return self.before.append(c)


@cython.final
@cython.cclass
class StoredImages(BothImages):
    """As BothImages, but JSON differences stay what they are, also where the before-image has
    the document that they change.
    """

    def change_partially(self, c: Cursor) -> int:
        """As TableSink."""
        self.precede(c)
        return self.partial.append(self.after, c, {})


@cython.final
@cython.cclass
class CurrentRow(TableSink):
    """`after`: of each change the row as it is now, or, of a delete, as it was last; `before`:
    before-images of updates, missing for the others.

    A column that an update did not assign may be in its before-image only: it did not change,
    so the row has its value from there.
    """

    def select(self, c: Cursor, header: RowsHeader, op: cython.int) -> int:
        """As TableSink."""
        if op == _UPDATE:
            self.before.select(c, header.present, header.width)
            self.after.select_over(c, header.present, header.width, self.passed)
        else:
            self.after.select(c, header.present, header.width)
        return 0

    def change(self, c: Cursor, op: cython.int) -> int:
        """As TableSink."""
        if op == _UPDATE:
            self.precede(c)
        else:
            self.before.append_missing()
        self.after.append(c)
        return 0

    def precede(self, c: Cursor) -> int:
        """As TableSink."""
        image: cython.Py_ssize_t = c.pos
        self.before.append(c)
        if self.after.carries():
            c.pos = image
            self.after.carry(c)
        return 0


def unwanted(plans: Sequence[ColumnPlan]) -> tuple[ColumnPlan, ...]:
    """The same columns, none of them wanted."""
    return tuple(replace(plan, wanted=False) for plan in plans)
