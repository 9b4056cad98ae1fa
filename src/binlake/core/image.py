"""One side of row changes: the images of many rows, decoded column by column into sinks.

An image is a null bitmap, one bit per *present* column, and the values of
the present columns that are not null. Which columns are present is said once per rows event;
a Layout is made per distinct bitmap and kept, so per value there is one virtual call.

The after-image of an update may lack a column that the before-image has (binlog_row_image
MINIMAL, NOBLOB, FULL_NODUP): it was not assigned, so its value is the one before. A sink that
wants rows rather than images takes it from there (`select_over`, `carry`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cython

from binlake.core.buffers import ByteKey
from binlake.core.cursor import Cursor
from binlake.core.sink import Sink, SinkBuffers, Validity
from binlake.core.sinks import make_sink
from binlake.errors import MalformedError
from binlake.values.plan import ColumnPlan

__all__ = ["ImageBuffers", "ImageSink"]

_FEWEST_ROWS = cython.declare(cython.Py_ssize_t, 64)
_MOST_LAYOUTS = cython.declare(cython.Py_ssize_t, 1024)


class ImageBuffers(NamedTuple):
    """The finished images of one side, in row order.

    `columns[i]` belongs to column i of the plan, None for one that is not wanted. `validity`
    (as in SinkBuffers) tells the `null_count` rows without an image on this side; what the
    columns hold there means nothing. `presence` are runs: (first row, bitmap): from that row on
    the images had the columns whose bit is set (bit i % 8 of byte i // 8), or got them carried over.
    """

    count: int
    null_count: int
    validity: memoryview | None
    columns: tuple[SinkBuffers | None, ...]
    presence: tuple[tuple[int, bytes], ...]


@cython.final
@cython.trashcan(True)  # a long chain is freed without recursion
@cython.cclass
class Step:
    """One present column: its sink, and the step of the column after it, None at the end.

    A chain, because the walk along it costs less than indexing a list.
    """

    def __init__(self, sink: Sink, after: Step | None) -> None:
        self.sink = sink
        self.after = after


@cython.final
@cython.cclass
class Columns:
    """The columns that an image holds, in order: their sinks as a chain, their indexes in the
    table, and how many they are.
    """

    def __init__(self, sinks: Sequence[Sink], indexes: Sequence[int]) -> None:
        self.indexes = list(indexes)
        self.count = len(sinks)
        self.null_bytes = (self.count + 7) >> 3
        self.steps = None
        for sink in reversed(sinks):
            self.steps = Step(sink, self.steps)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _decode(c: Cursor, columns: Columns, row: cython.Py_ssize_t) -> cython.int:
    """Decode the values of the image at the cursor into the sinks of its columns."""
    nulls: cython.Py_ssize_t = c.pos
    if c.end - nulls < columns.null_bytes:
        c.need(columns.null_bytes)
    c.pos = nulls + columns.null_bytes
    step: Step = columns.steps
    left: cython.Py_ssize_t = columns.count
    bits: cython.uint
    eight: cython.int
    while left > 0:
        bits = c.data[nulls]
        nulls += 1
        eight = min(left, 8)
        left -= eight
        while eight:
            if bits & 1:
                step.sink.append_null(row)
            else:
                step.sink.append(c, row)
            bits >>= 1
            step = step.after
            eight -= 1
    return 0


@cython.final
@cython.cclass
class Layout:
    """What one present-columns bitmap (`key`; or two, of both images) means for the sinks.

    `image` are the columns of the image itself. `carried` are those of the image before it, as
    far as it is needed to fill what the image lacks, else None. `absent` are the sinks of the
    columns of which neither tells a value, `present` is the bitmap of the others.
    """

    def __init__(
        self,
        key: bytes,
        image: Columns,
        carried: Columns | None,
        present: bytes,
        absent: list[Sink],
    ) -> None:
        self.key = ByteKey(key)
        self.image = image
        self.carried = carried
        self.present = present
        self.absent = absent


@cython.final
@cython.cclass
class ImageSink:
    """The images of one side of a table's changes; `rows` of them so far.

    `select` or `select_over` says which columns the following images have, then each row is one
    call of `append` or `append_missing`.
    """

    def __init__(self, plans: Sequence[ColumnPlan]) -> None:
        self.plans = tuple(plans)
        self.width = len(plans)
        self.wanted = tuple(plan.wanted for plan in plans)
        self.sinks = [make_sink(plan) for plan in plans]
        self.rows = 0
        self.capacity = 0
        self.first = _FEWEST_ROWS
        self.validity = Validity()
        self.variable = [s for s, keep in zip(self.sinks, self.wanted, strict=True) if keep]
        self.largest = 0
        self.row_bytes = 1
        sink: Sink
        for sink in self.variable:
            self.row_bytes += sink.row_bytes()
        self.layout = None
        self.layouts = {}
        self.presences = {}
        self.runs = []
        self.run = None
        self.run_start = 0

    def select(self, c: Cursor, bitmap: cython.Py_ssize_t, width: cython.Py_ssize_t) -> int:
        """The next images have the columns of the bitmap at index `bitmap` of the cursor's buffer.

        Raises MalformedError if the event's table has another number of columns.
        """
        return self.choose(c, bitmap, width, None)

    def select_over(
        self,
        c: Cursor,
        bitmaps: cython.Py_ssize_t,
        width: cython.Py_ssize_t,
        passed: ImageSink,
    ) -> int:
        """As `select`, for after-images whose missing columns are told by their before-images.

        At index `bitmaps` lie both bitmaps, the one of the before-images first. `passed` steps
        over the columns of those that are not needed. Each row is then a call of `carry`, if
        `carries`, and one of `append`.
        """
        return self.choose(c, bitmaps, width, passed)

    def choose(
        self,
        c: Cursor,
        bitmaps: cython.Py_ssize_t,
        width: cython.Py_ssize_t,
        passed: ImageSink | None,
    ) -> int:
        """Find or make the layout of one bitmap, or of two when there is a `passed`."""
        if width != self.width:
            raise MalformedError(
                f"the rows have {width} columns, their table map {self.width}", field="width"
            )
        size: cython.Py_ssize_t = (width + 7) >> 3
        if passed is not None:
            size *= 2
        layout: Layout = self.layout
        if layout is None or layout.key.size != size or not layout.key.at(c, bitmaps):
            raw = bytes(c.view[bitmaps : bitmaps + size])
            layout = self.layouts.get(raw)
            if layout is None:
                layout = self.lay_out(raw, passed)
            self.layout = layout
        if layout.present is not self.run:
            if self.runs and self.run_start == self.rows:
                self.runs.pop()  # no image had that layout
            self.run = layout.present
            self.run_start = self.rows
            self.runs.append((self.rows, layout.present))
        return 0

    def lay_out(self, raw: bytes, passed: ImageSink | None) -> Layout:
        """Make a layout, and keep it."""
        if len(self.layouts) >= _MOST_LAYOUTS:
            self.layouts.clear()  # no workload has so many: bound the memory
            self.presences.clear()
        own_bitmap: cython.Py_ssize_t = 0 if passed is None else len(raw) >> 1
        own = []
        own_at = []
        held = []  # by the image before
        held_at = []
        absent = []
        told = bytearray((self.width + 7) >> 3)
        carries: cython.bint = False
        here: cython.bint
        before: cython.bint
        told_before: cython.bint
        wanted: cython.bint
        i: cython.Py_ssize_t
        for i in range(self.width):
            sink = self.sinks[i]
            wanted = self.wanted[i]
            here = _has(raw, own_bitmap, i)
            if here:
                own.append(sink)
                own_at.append(i)
            before = False
            told_before = False
            if passed is not None:
                before = _has(raw, 0, i)
                # what the server computes it may leave out although it changed
                told_before = before and not self.plans[i].definition.virtual
                if before:
                    held_at.append(i)
                if told_before and wanted and not here:
                    carries = True
                    held.append(sink)
                elif before:
                    held.append(passed.sinks[i])
            if here or told_before:
                told[i >> 3] |= 1 << (i & 7)
            elif wanted:
                absent.append(sink)
        bitmap = bytes(told)
        # one object for equal bitmaps: where it changes, a new run begins
        present = self.presences.setdefault(bitmap, bitmap)
        carried = Columns(held, held_at) if carries else None
        layout = Layout(raw, Columns(own, own_at), carried, present, absent)
        self.layouts[raw] = layout
        return layout

    def carries(self) -> bool:
        """Whether the next rows need values of their before-images."""
        layout: Layout = self.layout
        return layout.carried is not None

    def carry(self, c: Cursor) -> int:
        """Take from the before-image at the cursor what the next row's own image lacks.

        `append` has to follow. Raises FormatError, as `append`.
        """
        layout: Layout = self.layout
        if self.rows == self.capacity:
            self.grow()
        return _decode(c, layout.carried, self.rows)

    def append(self, c: Cursor) -> int:
        """Decode the image at the cursor as the next row.

        Raises FormatError; the image is then unfinished and the sink must not be used on.
        """
        layout: Layout = self.layout
        row: cython.Py_ssize_t = self.next_row()
        _decode(c, layout.image, row)
        sink: Sink
        for sink in layout.absent:
            sink.append_null(row)
        return 0

    def next_row(self) -> int:
        """Begin the next row, whose values the caller gives to the sinks; its number."""
        row: cython.Py_ssize_t = self.rows
        if row == self.capacity:
            self.grow()
        self.rows = row + 1
        return row

    def append_missing(self) -> int:
        """The next row has no image on this side."""
        if self.rows == self.capacity:
            self.grow()
        self.validity.clear(self.rows)
        self.rows += 1
        return 0

    def held(self) -> int:
        """Bytes held by the rows so far; sets `largest`, the most that one column holds."""
        total: cython.Py_ssize_t = self.rows * self.row_bytes
        self.largest = 0
        sink: Sink
        for sink in self.variable:
            size: cython.Py_ssize_t = sink.var_bytes()
            total += size
            if size > self.largest:
                self.largest = size
        return total

    def grow(self) -> int:
        """Make room for more rows."""
        self.capacity = max(self.first, 2 * self.capacity)
        self.validity.reserve(self.capacity)
        sink: Sink
        for sink in self.sinks:
            sink.reserve(self.capacity)
        return 0

    def finish(self) -> ImageBuffers:
        """Hand over all rows, without a copy, and start again."""
        count: cython.Py_ssize_t = self.rows
        columns = tuple(
            [
                cython.cast(Sink, sink).finish(count) if keep else None
                for sink, keep in zip(self.sinks, self.wanted, strict=True)
            ]
        )
        nulls = self.validity.null_count
        done = ImageBuffers(count, nulls, self.validity.take(count), columns, tuple(self.runs))
        self.rows = 0
        self.capacity = 0
        self.first = max(count + (count >> 4), _FEWEST_ROWS)
        self.runs = []
        self.run = None
        return done


@cython.cfunc
def _has(bitmaps: bytes, start: cython.Py_ssize_t, column: cython.Py_ssize_t) -> cython.bint:
    """Whether the bitmap that starts at byte `start` has a column."""
    byte: cython.int = bitmaps[start + (column >> 3)]
    return (byte >> (column & 7) & 1) != 0
