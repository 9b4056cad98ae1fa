"""Inserts that do not name all columns, in a log with binlog_row_image MINIMAL: the others have their defaults.

A server logs the columns that the statement or a trigger names, those with an AUTO_INCREMENT, a function or an expression,
and no others. The default of a column is that of the table's definition at this place of the log, so a round ends before
each statement that may change the definition (`mirror.rounds`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.columns.numpy_arrays import from_numpy
from binlake.source.arrays import array, scalar
from binlake.table.batches import OPERATIONS, TableChanges
from binlake.table.images import has_column
from binlake.table.metadata import NAMES
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.defaults import Unknown
from binlake.table.schema.new_columns import literal_value
from binlake.values.charset_text import lower_case

_INSERT = OPERATIONS.index("insert")


@dataclass(frozen=True, slots=True)
class InsertDefaults:
    """The defaults of the columns of a `table`. With `must_be_known`, an insert that needs an unknown one is refused."""

    table: DeclaredTable
    must_be_known: bool = True

    def completed(
        self, changes: TableChanges, absent: pa.Array
    ) -> tuple[Sequence[pa.Array], pa.Array]:
        """Return the columns of changes, in which omitted columns of inserts have their defaults, and the names that are still
        absent. `absent` has the columns that the images lack. Raises UnsupportedError.
        """
        columns = list(changes.after.columns)
        is_short = pc.and_(pc.equal(changes.facts.op, scalar(_INSERT)), pc.is_valid(absent))
        omitted = set(pc.unique(absent.filter(is_short).flatten()).to_pylist())
        unknown = set()
        for place, name in enumerate(changes.types.names):
            if name not in omitted:
                continue
            value = self._value(changes, place)
            if value is None:
                unknown.add(name)
            elif value.is_valid:
                rows = pc.and_(is_short, _lacks(changes, changes.types.ordinals[place]))
                columns[place] = pc.if_else(rows, value, columns[place])
        return columns, _left(absent, is_short, unknown) if omitted else absent

    def _value(self, changes: TableChanges, place: int) -> pa.Scalar | None:
        """The value of a column in the inserts that do not name it; None: it is not known. Raises UnsupportedError."""
        kind, name = changes.types.columns[place], changes.types.names[place]
        lower = lower_case(name)
        declared = next((one for one in self.table.columns if one.lower_name == lower), None)
        if declared is None:  # a hidden column, which the lake does not have
            return None
        default = declared.default
        if default is None:
            return scalar(None, kind.arrow_type)
        try:
            if isinstance(default, Unknown):
                raise ValueError(default.why)
            return array([literal_value(kind, declared, default)], kind.arrow_type)[0]
        except ValueError as error:
            if not self.must_be_known:
                return None
            raise UnsupportedError(
                f"{changes.types.definition.full_name}: the log has inserts without values of column {name}, and its "
                f"default is not known: {error}",
                hint="set binlog_row_image=FULL on the server, then `binlake mirror resync`",
            ) from None


def _lacks(changes: TableChanges, ordinal: int) -> pa.Array:
    """Whether the image of each row lacks a column."""
    after = changes.after
    lacking = array([not has_column(bitmap, ordinal) for bitmap in after.patterns], pa.bool_())
    places = after.pattern_of
    return lacking.take(pa.repeat(scalar(0, pa.int32()), after.count) if places is None else places)


def _left(absent: pa.Array, is_short: pa.Array, unknown: Collection[str]) -> pa.Array:
    """Return the names of absent columns, for inserts only of unknown ones; null where none is left."""
    if not unknown:
        rows = from_numpy(np.arange(len(absent)))
        return absent.take(pc.if_else(is_short, scalar(None, rows.type), rows))
    pairs = zip(absent.to_pylist(), is_short.to_pylist(), strict=True)
    left = [[n for n in names if n in unknown] if short else names for names, short in pairs]
    return array([names or None for names in left], NAMES)
