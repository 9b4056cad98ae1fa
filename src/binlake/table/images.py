"""One side of many row changes: the columns of their before- or after-images, as arrays.

An image may lack columns (binlog_row_image MINIMAL, NOBLOB, FULL_NODUP), which is not the same
as NULL. Most batches have one presence bitmap for all rows; where they differ, the
rows are handled pattern by pattern, of which there are few.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.image import ImageBuffers
from binlake.table.json_text import join
from binlake.table.plan import TableTypes

__all__ = ["Image", "has_column"]

_NAMES = pa.list_(pa.field("element", pa.string()))
_TEXT = pa.large_string()
_NULL = pa.scalar("null", _TEXT)


@dataclass(frozen=True)
class Image:
    """The images of `count` rows on one side.

    `columns` are the wanted ones, in the order of `types.columns`. `exists` is a bool per row,
    None when all rows have an image: an insert has none before, a delete none after. `patterns`
    are the distinct presence bitmaps; `pattern_of[row]` is the index of a row's pattern, or
    None where all rows have the first.
    """

    types: TableTypes
    count: int
    columns: Sequence[pa.Array]
    exists: pa.Array | None
    patterns: Sequence[bytes]
    pattern_of: pa.Array | None

    @classmethod
    def of(cls, types: TableTypes, buffers: ImageBuffers) -> Image:
        """From what the core decoded. Raises MalformedError with the `row` in its context."""
        columns = []
        for kind, ordinal in zip(types.columns, types.ordinals, strict=True):
            decoded = buffers.columns[ordinal]
            assert decoded is not None, "a wanted column has a sink"
            columns.append(kind.finish(decoded))
        exists = None
        if buffers.validity is not None:
            bits = pa.py_buffer(buffers.validity)
            exists = pa.Array.from_buffers(pa.bool_(), buffers.count, [None, bits])
        patterns = list(dict.fromkeys(bitmap for _, bitmap in buffers.presence))
        pattern_of = None
        if len(patterns) > 1:
            pattern_of = _spread(patterns, buffers)
        return cls(types, buffers.count, columns, exists, patterns, pattern_of)

    def filter(self, kept: pa.Array) -> Image:
        """Only the rows where `kept` (bool) is true."""
        return replace(
            self,
            count=pc.sum(kept, min_count=0).as_py(),
            columns=[column.filter(kept) for column in self.columns],
            exists=None if self.exists is None else self.exists.filter(kept),
            pattern_of=None if self.pattern_of is None else self.pattern_of.filter(kept),
        )

    def absent(self) -> pa.Array:
        """One list<string> per row: names of the columns that its image lacks; null when none."""
        lists = [self._lacking(bitmap) or None for bitmap in self.patterns]
        if not any(lists):
            return pa.nulls(self.count, _NAMES)
        if self.pattern_of is None:
            return pa.array(lists, _NAMES).take(pa.repeat(pa.scalar(0, pa.int32()), self.count))
        return pa.array(lists, _NAMES).take(self.pattern_of)

    def struct(self) -> pa.Array:
        """The images as structs of all wanted columns, null where there is none."""
        fields = list(self.types.schema)
        missing = None if self.exists is None else pc.invert(self.exists)
        return pa.StructArray.from_arrays(list(self.columns), fields=fields, mask=missing)

    def to_json(self) -> pa.Array:
        """The images as JSON objects (large_string), null where there is none."""
        if self.exists is None:
            return self._all_to_json()
        there = self.filter(self.exists)._all_to_json()
        ordinal = pc.subtract(pc.cumulative_sum(self.exists.cast(pa.int32())), 1)
        return there.take(pc.if_else(self.exists, ordinal, None))

    def _all_to_json(self) -> pa.Array:
        if self.count == 0:
            return pa.array([], _TEXT)
        if self.pattern_of is None:
            return self._objects(self.patterns[0], self.columns, self.count)
        texts: list[pa.Array] = []
        rows: list[pa.Array] = []
        for i, bitmap in enumerate(self.patterns):
            chosen = pc.indices_nonzero(pc.equal(self.pattern_of, i))
            columns = [column.take(chosen) for column in self.columns]
            rows.append(chosen)
            texts.append(self._objects(bitmap, columns, len(chosen)))
        back = pc.sort_indices(pa.concat_arrays(rows))
        return pa.concat_arrays(texts).take(back)

    def _objects(self, bitmap: bytes, columns: Sequence[pa.Array], count: int) -> pa.Array:
        pieces: list[pa.Array | str] = []
        lead = "{"
        for kind, key, column in zip(self.types.columns, self._keys, columns, strict=True):
            if has_column(bitmap, kind.column.ordinal):
                values = kind.to_json(column)
                pieces += [lead + key, values.fill_null(_NULL) if values.null_count else values]
                lead = ","
        if not pieces:
            return pa.repeat(pa.scalar("{}", _TEXT), count)
        return join(*pieces, "}")

    @cached_property
    def _keys(self) -> list[str]:
        return [f"{json.dumps(name, ensure_ascii=False)}:" for name in self.types.names]

    def _lacking(self, bitmap: bytes) -> list[str]:
        types = self.types
        return [
            name
            for name, ordinal in zip(types.names, types.ordinals, strict=True)
            if not has_column(bitmap, ordinal)
        ]


def has_column(bitmap: bytes, ordinal: int) -> bool:
    """Whether a presence bitmap (least significant bit first) has a column."""
    return ordinal >> 3 < len(bitmap) and bool(bitmap[ordinal >> 3] >> (ordinal & 7) & 1)


def _spread(patterns: Sequence[bytes], buffers: ImageBuffers) -> pa.Array:
    """Index of the pattern of each row (int32), from the runs in which it does not change."""
    index = {bitmap: i for i, bitmap in enumerate(patterns)}
    starts = [first for first, _ in buffers.presence]
    ends = pa.array([*starts[1:], buffers.count], pa.int32())
    values = pa.array([index[bitmap] for _, bitmap in buffers.presence], pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
