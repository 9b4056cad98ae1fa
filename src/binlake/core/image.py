"""One side of row changes: the images of many rows, decoded column by column into sinks.

An image (formats.md §2.1) is a null bitmap, one bit per *present* column, and the values of
the present columns that are not null. Which columns are present is said once per rows event;
a Layout is made per distinct bitmap and kept, so per value there is one virtual call.
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
    the images had the columns whose bit is set (bit i % 8 of byte i // 8).
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
class Layout:
    """What one present-columns bitmap means for the sinks of an image."""

    def __init__(self, raw: bytes, sinks: list[Sink], wanted: tuple[bool, ...]) -> None:
        self.key = ByteKey(raw)
        width = len(sinks)
        bits = int.from_bytes(raw, "little") & ((1 << width) - 1)  # servers set the spare ones
        self.present = bits.to_bytes(len(raw), "little")
        present = [sinks[i] for i in range(width) if bits >> i & 1]
        self.absent = [sinks[i] for i in range(width) if wanted[i] and not bits >> i & 1]
        self.count = len(present)
        self.steps = None
        for sink in reversed(present):
            self.steps = Step(sink, self.steps)
        self.null_bytes = (self.count + 7) >> 3


@cython.final
@cython.cclass
class ImageSink:
    """The images of one side of a table's changes; `rows` of them so far.

    `select` says which columns the following images have, then each row is one call of
    `append` or `append_missing`.
    """

    def __init__(self, plans: Sequence[ColumnPlan]) -> None:
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
        self.runs = []
        self.run = None
        self.run_start = 0

    def select(self, c: Cursor, bitmap: cython.Py_ssize_t, width: cython.Py_ssize_t) -> int:
        """The next images have the columns of the bitmap at index `bitmap` of the cursor's buffer.

        Raises MalformedError if the event's table has another number of columns.
        """
        if width != self.width:
            raise MalformedError(
                f"the rows have {width} columns, their table map {self.width}", field="width"
            )
        layout: Layout = self.layout
        if layout is None or not layout.key.at(c, bitmap):
            raw = bytes(c.view[bitmap : bitmap + ((width + 7) >> 3)])
            layout = self.layouts.get(raw)
            if layout is None:
                if len(self.layouts) >= _MOST_LAYOUTS:
                    self.layouts.clear()  # no workload has so many: bound the memory
                layout = Layout(raw, self.sinks, self.wanted)
                self.layouts[raw] = layout
            self.layout = layout
        if layout.present is not self.run:
            if self.runs and self.run_start == self.rows:
                self.runs.pop()  # no image had that layout
            self.run = layout.present
            self.run_start = self.rows
            self.runs.append((self.rows, layout.present))
        return 0

    def append(self, c: Cursor) -> int:
        """Decode the image at the cursor as the next row.

        Raises FormatError; the image is then unfinished and the sink must not be used on.
        """
        layout: Layout = self.layout
        row: cython.Py_ssize_t = self.rows
        if row == self.capacity:
            self.grow()
        nulls: cython.Py_ssize_t = c.pos
        if c.end - nulls < layout.null_bytes:
            c.need(layout.null_bytes)
        c.pos = nulls + layout.null_bytes
        step: Step = layout.steps
        left: cython.Py_ssize_t = layout.count
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
        sink: Sink
        for sink in layout.absent:
            sink.append_null(row)
        self.rows = row + 1
        return 0

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
