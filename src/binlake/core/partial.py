"""The images of PARTIAL_UPDATE_ROWS: updates whose JSON values may be differences.

The before-image is as ever. The after-image begins with

    value options   lenenc; bit 0: the bitmap follows
    partial bitmap  one bit for each JSON column of the *table*, present or not: is a difference

and goes on as ever, but a value that is a difference is one (json_diff.py). Rare, so that
these loops are simple, and the loop for all other images (image.py) knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.core.image import Columns, ImageSink, Layout
from binlake.core.json_binary import JsonRenderer
from binlake.core.json_diff import apply_differences, differences_text, read_differences
from binlake.core.sink import Sink, VarSink
from binlake.errors import UnsupportedError
from binlake.values.plan import Kernel

__all__ = ["PartialImages"]

_PARTIAL_JSON = cython.declare(cython.ulonglong, 1)  # bit of the value options


@cython.final
@cython.cclass
class PartialImages:
    """Decodes after-images over the documents of their before-images.

    `unknown` differences so far, whose document the before-image did not hold: their value is
    the text of the differences, marked.
    """

    def __init__(self) -> None:
        self.unknown = 0
        self.renderer = JsonRenderer()

    def take_unknown(self) -> int:
        """Hand over `unknown`, and start again."""
        taken = self.unknown
        self.unknown = 0
        return taken

    def documents(self, passed: ImageSink, c: Cursor) -> dict[int, tuple[int, int]]:
        """Step over the before-image at the cursor, by the sinks of `passed` for its columns;
        the index and size of each JSON document in it, by column.
        """
        layout: Layout = passed.layout
        columns: Columns = layout.image
        nulls = _bits(c, columns.count)
        found = {}
        k: cython.Py_ssize_t
        sink: Sink
        for k in range(columns.count):
            if nulls >> k & 1:
                continue
            column = columns.indexes[k]
            start: cython.Py_ssize_t = c.pos
            sink = passed.sinks[column]
            sink.append(c, 0)
            if passed.plans[column].kernel == Kernel.JSON:
                start += passed.plans[column].p0
                found[column] = (start, c.pos - start)
        return found

    def append(self, image: ImageSink, c: Cursor, documents: Mapping[int, tuple[int, int]]) -> int:
        """Decode the after-image at the cursor as the next row of `image`.

        Raises FormatError; the image is then unfinished and the sink must not be used on.
        """
        layout: Layout = image.layout
        columns: Columns = layout.image
        partial = self._partial_columns(image, c)
        nulls = _bits(c, columns.count)
        row: cython.Py_ssize_t = image.next_row()
        k: cython.Py_ssize_t
        sink: Sink
        for k in range(columns.count):
            column = columns.indexes[k]
            sink = image.sinks[column]
            if nulls >> k & 1:
                sink.append_null(row)
            elif column not in partial:
                sink.append(c, row)
            elif image.wanted[column]:
                text = self._document(c, documents.get(column))
                cython.cast(VarSink, sink).append_bytes(text.encode(), row)
            else:
                c.skip(c.u32())
        for sink in layout.absent:
            sink.append_null(row)
        return 0

    def _partial_columns(self, image: ImageSink, c: Cursor) -> set[int]:
        """The columns whose values are differences, as the head of an after-image tells."""
        at: cython.Py_ssize_t = c.pos - c.start
        options: cython.ulonglong = c.lenenc()
        if options & ~_PARTIAL_JSON:
            raise UnsupportedError(f"no value options {options:#x} are known", offset=at)
        if not options:
            return set()
        columns = [i for i, plan in enumerate(image.plans) if plan.kernel == Kernel.JSON]
        bits = _bits(c, len(columns))
        return {column for i, column in enumerate(columns) if bits >> i & 1}

    def _document(self, c: Cursor, before: tuple[int, int] | None) -> str:
        """The document after the differences at the cursor, or these if it is not known."""
        differences = read_differences(c, self.renderer)
        if before is None:
            self.unknown += 1
            return differences_text(differences)
        after: cython.Py_ssize_t = c.pos
        start, size = before
        c.pos = start
        out: ByteBuffer = ByteBuffer()
        self.renderer.render(c, size, out)
        c.pos = after
        return apply_differences(bytes(out.detach()).decode(), differences)


def _bits(c: Cursor, count: cython.Py_ssize_t) -> int:
    """A bitmap of `count` bits at the cursor, as a number."""
    return int.from_bytes(c.take((count + 7) >> 3), "little")
