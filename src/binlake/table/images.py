"""One side of many row changes: the columns of their before- or after-images, as arrays.

An image may lack columns (binlog_row_image MINIMAL, NOBLOB, FULL_NODUP), which is not the same as
NULL. In most batches all rows have the same presence bitmap. If they differ, the rows are handled
pattern by pattern; there are few patterns.
"""

from __future__ import annotations

from array import array as places_array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.images.image import ImageBuffers
from binlake.core.text.text_rows import RowTemplate, ValueColumn
from binlake.source.arrays import array, runs, scalar
from binlake.table.metadata import NAMES, PLACES_OF_NAMES
from binlake.table.plan import TableTypes
from binlake.table.text.json_values import as_array, row_index
from binlake.table.types.base import Target


@dataclass(frozen=True, slots=True)
class Presence:
    """Which of `count` rows have an image on one side, and which columns each image has.

    `exists` is a bool per row, None when all rows have an image: an insert has none before, a
    delete none after. `patterns` are the distinct presence bitmaps; `pattern_of[row]` is the index
    of a row's pattern, or None where all rows have the first.
    """

    count: int
    exists: pa.Array | None
    patterns: Sequence[bytes]
    pattern_of: pa.Array | None

    @classmethod
    def of(cls, buffers: ImageBuffers) -> Presence:
        """Return the presence of the images that the core decoded."""
        exists = None
        if buffers.validity is not None:
            bits = pa.py_buffer(buffers.validity)
            exists = pa.Array.from_buffers(pa.bool_(), buffers.count, [None, bits])
        patterns = list(dict.fromkeys(bitmap for _, bitmap in buffers.presence))
        pattern_of = _spread(patterns, buffers) if len(patterns) > 1 else None
        return cls(buffers.count, exists, patterns, pattern_of)

    def pattern_index(self) -> Any:
        """The index of each row's pattern, -1 where there is no image, as a `RowTemplate` takes it;
        None where all rows have the first.
        """
        if self.exists is None and self.pattern_of is None:
            return None
        pattern_of = pa.repeat(scalar(0, pa.int32()), self.count)
        if self.pattern_of is not None:
            pattern_of = self.pattern_of.cast(pa.int32())
        if self.exists is not None:
            pattern_of = pc.if_else(self.exists, pattern_of, scalar(-1, pa.int32()))
        return row_index(pattern_of)


@dataclass(frozen=True)
class Image:
    """The images of `count` rows on one side.

    `columns` are the wanted ones, in the order of `types.columns`. The other attributes are those of
    `Presence`.
    """

    types: TableTypes
    count: int
    columns: Sequence[pa.Array]
    exists: pa.Array | None
    patterns: Sequence[bytes]
    pattern_of: pa.Array | None

    @classmethod
    def of(cls, types: TableTypes, buffers: ImageBuffers) -> Image:
        """Return the images that the core decoded. Raises MalformedError with the `row` in its
        context.
        """
        columns = []
        nulls: dict[int, pa.Array] = {}  # by the identity of their type
        for kind, ordinal in zip(types.columns, types.ordinals, strict=True):
            decoded = buffers.columns[ordinal]
            if decoded is not None:
                columns.append(kind.finish(decoded))
                continue
            assert buffers.null_count == buffers.count, "a wanted column has a sink"
            shared = nulls.get(id(kind.arrow_type))
            if shared is None:
                shared = nulls[id(kind.arrow_type)] = pa.nulls(buffers.count, kind.arrow_type)
            columns.append(shared)
        presence = Presence.of(buffers)
        return cls(
            types,
            buffers.count,
            columns,
            presence.exists,
            presence.patterns,
            presence.pattern_of,
        )

    def filter(self, kept: pa.Array) -> Image:
        """Return only the rows where `kept` (bool) is true."""
        return replace(
            self,
            count=pc.sum(kept, min_count=0).as_py(),
            columns=[column.filter(kept) for column in self.columns],
            exists=None if self.exists is None else self.exists.filter(kept),
            pattern_of=None if self.pattern_of is None else self.pattern_of.filter(kept),
        )

    def absent(self) -> pa.Array:
        """One list per row: names of the columns that its image lacks; null when none. See `names_type`."""
        kind = names_type(self.types.target)
        places = places_array("h")  # of names: patterns times columns may be millions
        ends: list[int | None] = []
        for bitmap in self.patterns:
            start = len(places)
            places.extend(self._lacking(bitmap))
            ends.append(
                start if len(places) > start else None
            )  # a list that begins with None is null
        if not places:
            return pa.nulls(self.count, kind)
        ends.append(len(places))
        names = array(self.types.names, pa.string())
        at = pa.Array.from_buffers(pa.int16(), len(places), [None, pa.py_buffer(places)])
        listed = (
            pa.DictionaryArray.from_arrays(at, names) if kind == PLACES_OF_NAMES else names.take(at)
        )
        lists = pa.ListArray.from_arrays(array(ends, pa.int32()), listed, type=kind)
        if self.pattern_of is None:
            return lists.take(pa.repeat(scalar(0, pa.int32()), self.count))
        return lists.take(self.pattern_of)

    def struct(self) -> pa.Array:
        """The images as structs of all wanted columns, null where there is none."""
        fields = list(self.types.schema)
        missing = None if self.exists is None else pc.invert(self.exists)
        if not fields:  # from_arrays takes the length from the first array
            return pa.array([{}] * self.count, pa.struct([]), mask=missing)
        return pa.StructArray.from_arrays(list(self.columns), fields=fields, mask=missing)

    def to_json(self) -> pa.Array:
        """The images as JSON objects (large_string), null where there is none."""
        template = RowTemplate(self.count)
        self.add_json(template, b"")
        return as_array(template, self.exists)

    def add_json(self, template: RowTemplate, lead: bytes) -> None:
        """Add the images to a template of all rows, as JSON objects after `lead`; `null` where
        there is none.
        """
        template.add(lead)
        pattern_of = Presence(
            self.count, self.exists, self.patterns, self.pattern_of
        ).pattern_index()
        if pattern_of is None:
            self._add_object(template, self.patterns[0] if self.patterns else b"", None, 0)
            return
        template.add(b"null", variant_of=pattern_of, variant=-1)
        for number, bitmap in enumerate(self.patterns):
            self._add_object(template, bitmap, pattern_of, number)

    def _add_object(
        self, template: RowTemplate, bitmap: bytes, pattern_of: Any, pattern: int
    ) -> None:
        lead = b"{"
        lacking = frozenset(self._lacking(bitmap))
        for place, (key, values) in enumerate(zip(self._keys, self._json_values, strict=True)):
            if place not in lacking:
                template.add(lead + key, values, variant_of=pattern_of, variant=pattern)
                lead = b","
        template.add(b"{}" if lead == b"{" else b"}", variant_of=pattern_of, variant=pattern)

    @cached_property
    def _json_values(self) -> list[ValueColumn]:
        pairs = zip(self.types.columns, self.columns, strict=True)
        return [kind.to_json(column) for kind, column in pairs]

    @cached_property
    def _keys(self) -> list[bytes]:
        return [f"{encode_basestring(name)}:".encode() for name in self.types.names]

    def _lacking(self, bitmap: bytes) -> Iterator[int]:
        """Yield the places of the wanted columns that a presence bitmap lacks."""
        every = (1 << len(self.types.definition.columns)) - 1
        if int.from_bytes(bitmap, "little") & every == every:
            return
        for place, ordinal in enumerate(self.types.ordinals):
            if not has_column(bitmap, ordinal):
                yield place


def names_type(target: Target) -> pa.DataType:
    """Return the type of lists of names for a target."""
    return PLACES_OF_NAMES if target is Target.EXPORTED else NAMES


def has_column(bitmap: bytes, ordinal: int) -> bool:
    """Whether a presence bitmap (least significant bit first) has a column."""
    return ordinal >> 3 < len(bitmap) and bool(bitmap[ordinal >> 3] >> (ordinal & 7) & 1)


def _spread(patterns: Sequence[bytes], buffers: ImageBuffers) -> pa.Array:
    """Index of the pattern of each row (int32), from the runs in which it does not change."""
    index = {bitmap: i for i, bitmap in enumerate(patterns)}
    starts = [first for first, _ in buffers.presence]
    return runs([*starts[1:], buffers.count], [index[bitmap] for _, bitmap in buffers.presence])
