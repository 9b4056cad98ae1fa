"""One side of many row changes: the columns of their before- or after-images, as arrays.

An image may lack columns (binlog_row_image MINIMAL, NOBLOB, FULL_NODUP), which is not the same
as NULL (design D6). Most batches have one presence bitmap for all rows; where they differ, the
rows are handled pattern by pattern, of which there are few.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from binlake.table.json_text import join
from binlake.table.plan import TableTypes

__all__ = ["Image"]

_NAMES = pa.list_(pa.field("element", pa.string()))
_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True)
class Image:
    """The images of `count` rows on one side.

    `columns` are the wanted ones, in the order of `types.columns`. `patterns` are the distinct
    presence bitmaps, None for "no such image" (before an insert, after a delete);
    `pattern_of[row]` is the index of a row's pattern, or None where all rows have the first.
    """

    types: TableTypes
    count: int
    columns: Sequence[pa.Array]
    patterns: Sequence[bytes | None]
    pattern_of: pa.Array | None

    @classmethod
    def of_runs(
        cls,
        types: TableTypes,
        count: int,
        columns: Sequence[pa.Array],
        runs: Sequence[tuple[int, bytes | None]],
    ) -> Image:
        """From runs of (rows, presence bitmap), in row order."""
        patterns = list(dict.fromkeys(bitmap for _, bitmap in runs))
        if len(patterns) <= 1:
            return cls(types, count, columns, patterns, None)
        index = {bitmap: i for i, bitmap in enumerate(patterns)}
        ends = pc.cumulative_sum(pa.array([rows for rows, _ in runs], pa.int32()))
        values = pa.array([index[bitmap] for _, bitmap in runs], pa.int32())
        pattern_of = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
        return cls(types, count, columns, patterns, pattern_of)

    def filter(self, kept: pa.Array) -> Image:
        """Only the rows where `kept` (bool) is true."""
        columns = [column.filter(kept) for column in self.columns]
        pattern_of = None if self.pattern_of is None else self.pattern_of.filter(kept)
        count = pc.sum(kept, min_count=0).as_py()
        return replace(self, count=count, columns=columns, pattern_of=pattern_of)

    def has(self, bitmap: bytes, ordinal: int) -> bool:
        """Whether a presence bitmap (least significant bit first) has a column."""
        return ordinal >> 3 < len(bitmap) and bool(bitmap[ordinal >> 3] >> (ordinal & 7) & 1)

    def lacking(self, bitmap: bytes | None) -> list[str]:
        """Names of the wanted columns that an image lacks."""
        if bitmap is None:
            return []
        types = self.types
        return [
            name
            for name, ordinal in zip(types.names, types.ordinals, strict=True)
            if not self.has(bitmap, ordinal)
        ]

    def absent(self) -> pa.Array:
        """One list<string> per row: names of the columns that its image lacks; null when none."""
        lists = [self.lacking(bitmap) or None for bitmap in self.patterns]
        if not any(lists):
            return pa.nulls(self.count, _NAMES)
        if self.pattern_of is None:
            return pa.array(lists, _NAMES).take(pa.array([0] * self.count, pa.int32()))
        return pa.array(lists, _NAMES).take(self.pattern_of)

    def exists(self) -> pa.Array:
        """One bool per row: whether there is an image on this side."""
        there = pa.array([bitmap is not None for bitmap in self.patterns], pa.bool_())
        if self.pattern_of is None:
            value = bool(self.patterns) and self.patterns[0] is not None
            return pa.repeat(pa.scalar(value), self.count)
        return there.take(self.pattern_of)

    def struct(self) -> pa.Array:
        """The images as structs of all wanted columns, null where there is none."""
        fields = list(self.types.schema)
        missing = pc.invert(self.exists())
        return pa.StructArray.from_arrays(list(self.columns), fields=fields, mask=missing)

    def to_json(self) -> pa.Array:
        """The images as JSON objects (large_string), `null` where there is none."""
        if self.pattern_of is None:
            bitmap = self.patterns[0] if self.patterns else None
            return self._objects(bitmap, self.columns, self.count)
        texts: list[pa.Array] = []
        rows: list[pa.Array] = []
        for i, bitmap in enumerate(self.patterns):
            chosen = pc.indices_nonzero(pc.equal(self.pattern_of, i))
            columns = [column.take(chosen) for column in self.columns] if bitmap is not None else []
            rows.append(chosen)
            texts.append(self._objects(bitmap, columns, len(chosen)))
        back = pc.sort_indices(pa.concat_arrays(rows))
        return pa.concat_arrays(texts).take(back)

    def _objects(self, bitmap: bytes | None, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if bitmap is None:
            return pa.repeat(pa.scalar("null", _TEXT), count)
        pieces: list[pa.Array | str] = []
        lead = "{"
        for kind, ordinal, column in zip(
            self.types.columns, self.types.ordinals, columns, strict=True
        ):
            if self.has(bitmap, ordinal):
                pieces.append(f"{lead}{json.dumps(kind.column.name, ensure_ascii=False)}:")
                values = kind.to_json(column)
                pieces.append(values.fill_null("null") if values.null_count else values)
                lead = ","
        if not pieces:
            return pa.repeat(pa.scalar("{}", _TEXT), count)
        return join(*pieces, "}")
