"""The effect of a DDL statement of the log on a mirrored table.

An effect that the lake can follow without reading rows is a change of the Iceberg schema: columns
are added, dropped, renamed, moved, or widened, by their field ids. The value that a new column has in
existing rows becomes its initial default (see `ddl.new_columns`). Statements that change no row and no
column have none. All others are refused: the table is quarantined or, by option, copied again from the server.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from binlake.errors import BinlogError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl.new_columns import existing_value
from binlake.mirror.followed.table import Followed, widens
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.source.definition import definition_of
from binlake.mirror.tables.schema import iceberg_schema, storage_schema, with_initial_default
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.alter import altered_columns, renamed_columns
from binlake.table.schema.ddl_effects import (
    altered_table,
    changes_index,
    check_retaken_names,
    concerns_certainly,
    creates_if_new,
    drops,
    moves_partitions,
    new_name,
    replaces,
    truncates,
    why_not_followed,
    why_values_may_change,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable
from binlake.table.schema.schema_text import create_table_text
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions

__all__ = ["Effect", "departure_of", "effect_of"]

_UNCERTAIN = "it is not certain which tables the statement names"


@dataclass(frozen=True, slots=True)
class Effect:
    """The action: nothing (all empty), empty the table, change its schema, copy it again because of
    `recopied`, leave it because it is `gone` (the reason; its rows are deleted if the server has
    `dropped` it); or `refused`, the reason why it cannot follow.
    """

    steps: tuple[tuple[dict[str, Any], ...], ...] = ()
    create_table: str | None = None
    truncate: bool = False
    dropped: bool = False
    gone: str = ""
    recopied: str = ""
    refused: str = ""

    @property
    def is_none(self) -> bool:
        """Whether the lake table stays as it is."""
        return self == Effect()


def effect_of(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    """The effect of a statement that `concerns` a table."""
    sql = ddl.sql
    if creates_if_new(sql):
        return Effect()
    if truncates(sql):
        return Effect(truncate=True) if concerns_certainly(ddl) else Effect(refused=_UNCERTAIN)
    if (departure := departure_of(ddl, table)) is not None:
        return departure
    if moves_partitions(sql) and table.mode.name == MIRROR:
        return Effect(recopied="rows of partitions come or go without row events")
    if table.key and {part.lower() for part in table.key} != {
        part.lower() for part in table.declared.primary_key
    }:
        return Effect(refused="its key is a unique index, which the statement may change")
    if changes_index(sql):
        return Effect()
    if why := why_not_followed(sql):
        return Effect(refused=why)
    try:
        return _altered(ddl, table, options, rules)
    except BinlogError as error:
        return Effect(refused=error.message)


def departure_of(ddl: DdlStatement, table: Followed) -> Effect | None:
    """The effect of a statement that `concerns` a table and drops, replaces or renames it; None: it does not."""
    if creates_if_new(ddl.sql):
        return None
    if drops(ddl.sql) or replaces(ddl.sql):
        certain = concerns_certainly(ddl)
        return Effect(gone="dropped", dropped=True) if certain else Effect(refused=_UNCERTAIN)
    try:
        name = new_name(ddl, *table.id)
    except BinlogError as error:
        return Effect(refused=error.message)
    return None if name is None else Effect(gone=f"renamed away to {'.'.join(name)}")


def _altered(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    old = table.declared
    new = altered_table(ddl, table.id, old)
    check_retaken_names(ddl, old, new)
    if new == old or (new.columns, new.primary_key) == (old.columns, old.primary_key):
        return Effect()
    return _compared(ddl, old, new, table, options, rules)


def _compared(
    ddl: DdlStatement,
    old: DeclaredTable,
    new: DeclaredTable,
    table: Followed,
    options: ReadOptions,
    rules: ColumnRules,
) -> Effect:
    """The steps from one set of columns to another."""
    items = items_of(ddl)
    renames = {a.lower(): b for a, b in renamed_columns(items)}
    redefined = {column.lower_name for column in altered_columns(items, table.id[1])}
    was = {renames.get(c.name.lower(), c.name).lower(): c for c in old.columns}
    kept = [c for c in new.columns if rules.treatment(*table.id, c.name) != "left out"]
    if taken := table.mode.taken(column.name for column in kept):
        return Effect(refused=taken)
    key = {part.lower() for part in table.key}
    kept_key = tuple(renames.get(part.lower(), part).lower() for part in old.primary_key)
    if kept_key != tuple(part.lower() for part in new.primary_key):
        return Effect(refused="the primary key changes")
    if not table.key and table.mode.holds_rows:
        return Effect(refused="the table has no key, and its rows are told apart by all columns")
    types = _types(new, table.flavour, options)
    schema = rules.lake_schema(*table.id, types.schema)
    stored = storage_schema(iceberg_schema(schema))
    removed = [c.name for c in old.columns if renames.get(c.name.lower(), c.name).lower() not in
               {n.name.lower() for n in new.columns}]  # fmt: skip
    if key & {name.lower() for name in removed} or key & renames.keys():
        return Effect(refused="a column of the key is dropped or renamed")
    if table.shard_column and (removed or renames):
        return Effect(
            refused="a column is dropped or renamed, which other shards of the lake table may still have"
        )
    shown = {name.lower() for name in table.lake.schema.names}
    renamed = [(a, b) for a, b in sorted(renames.items())
               if a in {c.name.lower() for c in old.columns}]  # fmt: skip
    if (why := _why_not_renamed(table, renamed, rules)) is not None:
        return Effect(refused=why)
    hidden = [a for a, b in renamed if rules.treatment(*table.id, b) == "left out"]
    drops = tuple({"do": "drop", "name": _spelled(table, name)} for name in [*removed, *hidden]
                  if name.lower() in shown)  # fmt: skip
    if dropped := sorted(table.lake.partition_columns & {step["name"] for step in drops}):
        return Effect(
            refused=f"column {dropped[0]} is dropped, by which the lake table is partitioned"
        )
    renaming = tuple({"do": "rename", "name": _spelled(table, a), "to": b} for a, b in renamed
                     if a not in hidden)  # fmt: skip
    changed: list[dict[str, Any]] = []
    for column in kept:
        before = was.get(column.name.lower())
        if before is None:
            value = existing_value(ddl, column, types, table, rules)
            there = _in_lake(table, column.name) if table.shard_column else None
            if there is None:
                one = with_initial_default(_one(schema, column.name), value)
                changed.append({"do": "add", "name": column.name, "schema": one})
            elif not _holds(there, stored.field(column.name).type):
                return Effect(
                    refused=f"column {column.name} is {there} in the lake table, by other shards"
                )
        elif (why := why_values_may_change(before, column)) is not None:
            return Effect(refused=why)
        elif column.lower_name in redefined and _loses_nulls(before, column, table):
            return Effect(
                refused=f"column {before.name} becomes NOT NULL, and the server replaces NULL by another value"
            )
        else:
            here = table.lake.schema.field(_spelled(table, before.name)).type
            there = stored.field(column.name).type
            if not _equal(here, there) and not (table.shard_column and widens(there, here)):
                if not widens(here, there):
                    return Effect(refused=f"column {column.name} changes from {here} to {there}")
                changed.append(
                    {"do": "widen", "name": column.name, "schema": _one(schema, column.name)}
                )
    is_moved = not table.shard_column and _is_moved(old, new, renames)
    order = _moves([c.name for c in kept]) if is_moved else ()
    groups = tuple(group for group in (drops, renaming, tuple(changed), order) if group)
    return Effect(steps=groups, create_table=create_table_text(new))


def _why_not_renamed(
    table: Followed, renamed: Sequence[tuple[str, str]], rules: ColumnRules
) -> str | None:
    """Return why a rename is impossible: the new name is left out or hashed differently from the old one, so the lake has no values for it."""
    for a, b in renamed:
        before, after = (rules.treatment(*table.id, name) for name in (a, b))
        if before != after != "left out":
            return f"column {a}, which was {before}, is renamed to {b}, which should be {after}"
    return None


def _loses_nulls(before: DeclaredColumn, after: DeclaredColumn, table: Followed) -> bool:
    """Return whether the lake has NULL in a column whose new definition may not allow it.

    A server that is strict refuses the statement.
    """
    # a setting of the server decides whether a TIMESTAMP may be NULL by default
    may_be_null = after.nullable or (
        after.nullable is None and not after.sql.startswith("timestamp")
    )
    if may_be_null or before.nullable is False or not table.mode.holds_rows:
        return False
    name = _spelled(table, before.name)
    return any(rows[name].null_count for rows in table.lake.scan([name]))


def _equal(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two stored types are equal, ignoring field ids."""
    return one == other or (pa.types.is_nested(one) and str(one) == str(other))


def _types(declared: DeclaredTable, flavour: str, options: ReadOptions) -> TableTypes:
    return TableTypes.of(definition_of(declared, flavour), options, Target.TYPED, silent)


def _spelled(table: Followed, name: str) -> str:
    """A column's name as the lake has it."""
    names = table.lake.schema.names
    return next((known for known in names if known.lower() == name.lower()), name)


def _in_lake(table: Followed, name: str) -> pa.DataType | None:
    """The type of a column of the lake table that another shard had before; None: there is none."""
    at = table.lake.schema.get_field_index(_spelled(table, name))
    return None if at < 0 else table.lake.schema.field(at).type


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    return _equal(wide, narrow) or widens(narrow, wide)


def _one(schema: pa.Schema, name: str) -> dict[str, Any]:
    return iceberg_schema(pa.schema([schema.field(name)]))


def _is_moved(old: DeclaredTable, new: DeclaredTable, renames: dict[str, str]) -> bool:
    """Return whether the columns need to be moved: the order differs from that of the remaining columns followed by the new ones."""
    names = [c.name.lower() for c in new.columns]
    kept = [renames.get(c.name.lower(), c.name).lower() for c in old.columns]
    kept = [name for name in kept if name in names]
    return names != kept + [name for name in names if name not in kept]


def _moves(names: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Steps that put the columns in this order."""
    first: dict[str, Any] = {"do": "first", "name": names[0]}
    rest = [
        {"do": "after", "name": name, "other": before} for before, name in itertools.pairwise(names)
    ]
    return (first, *rest)
