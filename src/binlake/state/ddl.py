"""The effects of the log's statements on a table's rows, as far as their text determines them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import BinlogError, UnsupportedError
from binlake.format.flags import MODE_NO_AUTO_VALUE_ON_ZERO
from binlake.state.shape import Key, Row, TableShape
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.alter import numbered_columns, renamed_columns
from binlake.table.schema.ddl_effects import (
    altered_table,
    changes_index,
    check_foreign_keys,
    check_retaken_names,
    creates_if_new,
    why_not_followed,
    why_values_may_change,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable
from binlake.table.schema.new_columns import constant_of, value_of
from binlake.table.types.base import ColumnType
from binlake.values.options import ReadOptions

_INERT_ITEM = re.compile(
    r"ADD (?:INDEX|KEY|UNIQUE|FULLTEXT|SPATIAL|CHECK)\b|DROP (?:INDEX|KEY|CHECK)\b|RENAME (?:INDEX|KEY)\b"
    r"|(?:ENGINE|COMMENT|AUTO_INCREMENT|ROW_FORMAT|ALGORITHM|LOCK|ENABLE|DISABLE|FORCE|STATS_\w+)\b"
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """The new columns of a table, and how rows of the old ones become rows of them: `sources` has the
    old name of each column that was there, `added` the value of each new one.
    """

    shape: TableShape
    sources: Mapping[str, str]
    added: Mapping[str, Any] = field(default_factory=dict)

    def row(self, row: Row) -> Row:
        """A row, or the known part of one, in the new columns."""
        kept = {new: row[old] for new, old in self.sources.items() if old in row}
        return {**kept, **self.added}


@dataclass(frozen=True, slots=True)
class Numbering:
    """A statement after which columns are AUTO_INCREMENT. The server gives their rows with 0 other numbers, which the log does
    not contain, unless the columns were AUTO_INCREMENT before, which declarations do not tell.

    `shape`: the table after the statement. `settled` are the keys of rows that the log shows before it, and whose values
    in the columns are known. `refusal` is the error for a row with 0.
    """

    shape: TableShape
    columns: tuple[str, ...]
    settled: frozenset[Key]
    refusal: UnsupportedError

    def check(self, rows: pa.RecordBatch) -> None:
        """Take rows from before the log. Raises `refusal`."""
        for name in self.columns:
            values = rows.column(name)
            zero = pa.scalar("0" if pa.types.is_string(values.type) else 0, values.type)
            found = rows.filter(pc.equal(values, zero)).to_pylist()
            if any(not self.shape.key or self.shape.key_of(r) not in self.settled for r in found):
                raise self.refusal


def numbered_in(ddl: DdlStatement, shape: TableShape) -> tuple[str, ...]:
    """Return the columns of a table, as they are after a statement, whose 0 the statement may replace by other numbers."""
    if ddl.sql_mode & MODE_NO_AUTO_VALUE_ON_ZERO or why_not_followed(ddl.sql):
        return ()
    numbered = numbered_columns(items_of(ddl))
    return tuple(name for name in shape.names if name.lower() in numbered)


def is_inert(sql: str) -> bool:
    """Whether a statement on a table that exists changes no row and no column."""
    return changes_index(sql) or creates_if_new(sql)


def keeps_columns(ddl: DdlStatement) -> bool:
    """Return whether an ALTER TABLE certainly leaves rows, columns and keys unchanged."""
    return not why_not_followed(ddl.sql) and all(
        _INERT_ITEM.match(" ".join(token.word or "x" for token in item)) for item in items_of(ddl)
    )


def alteration_of(ddl: DdlStatement, shape: TableShape, options: ReadOptions) -> Alteration | None:
    """Return the effect of an ALTER TABLE on the columns; None if it changes no row. Raises
    UnsupportedError with the reason if the rows do not follow from the text.
    """
    if why := why_not_followed(ddl.sql):
        raise UnsupportedError(why)
    old = shape.declared
    try:
        new = altered_table(ddl, (shape.definition.database, shape.definition.table), old)
        check_foreign_keys(new, old)
        if new.system_versioned:
            raise UnsupportedError("the table becomes system-versioned")
        check_retaken_names(ddl, old, new)
        if (new.columns, new.primary_key) == (old.columns, old.primary_key):
            return None
        return _compared(ddl, shape, replace(new, database=old.database), options)
    except BinlogError as error:
        raise UnsupportedError(error.message) from None


def _compared(
    ddl: DdlStatement, shape: TableShape, new: DeclaredTable, options: ReadOptions
) -> Alteration:
    old = shape.declared
    renames = {a.lower(): b for a, b in renamed_columns(items_of(ddl))}
    was = {renames.get(c.name.lower(), c.name).lower(): c for c in old.columns}
    key = tuple(renames.get(name.lower(), name) for name in shape.key)
    lowered = [name.lower() for name in key]
    if [name.lower() for name in new.primary_key] != [
        renames.get(name.lower(), name).lower() for name in old.primary_key
    ]:
        raise UnsupportedError("the primary key changes")
    if key and not old.primary_key:
        raise UnsupportedError("the key is a unique index, which the statement may change")
    if any(name not in {c.name.lower() for c in new.columns} for name in lowered):
        raise UnsupportedError("a column of the key is dropped")
    collations = {renames.get(name.lower(), name): n for name, n in shape.collations.items()}
    flavour = shape.definition.flavour
    made = TableShape.of(new, flavour, key, options, collations, is_rounded=shape.is_rounded)
    sources: dict[str, str] = {}
    added: dict[str, Any] = {}
    for column in new.columns:
        if column.name not in made.kinds:
            continue
        before = was.get(column.name.lower())
        if before is None:
            added[column.name] = _added(column, ddl, made.kinds[column.name])
            continue
        why = why_values_may_change(before, column)
        if why is not None or before.generated:
            raise UnsupportedError(why or f"column {column.name} is no longer generated")
        if before.nullable is not False and column.nullable is False:
            raise UnsupportedError(f"column {column.name} becomes NOT NULL")
        sources[column.name] = before.name
    return Alteration(made, sources, added)


def _added(column: DeclaredColumn, ddl: DdlStatement, kind: ColumnType) -> Any:
    """The value of a new column in the existing rows. Raises UnsupportedError if the statement does not determine it."""
    constant = constant_of(ddl, column)
    return None if constant is None else value_of(kind, column, constant)
