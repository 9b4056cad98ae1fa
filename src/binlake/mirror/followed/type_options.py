"""The options that decide the types of columns: a table that was copied with other ones cannot be followed with these.

A column `d DATE` is a date in the lake, and text with `zero_date=text`. Without this check at the start, the next change of
each table with such a column would quarantine it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa

from binlake.errors import SchemaError, UnsupportedError
from binlake.mirror.apply.lake_types import widens
from binlake.mirror.columns.names import caseless
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.options import MIRROR_OPTIONS, MirrorOptions
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.snapshot.definition import definition_of
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.declared import DeclaredTable
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

_DECIDING = ("zero_date", "time")
_CHOICES = {option.name: option.choices for option in MIRROR_OPTIONS if option.name in _DECIDING}
#: How the SQL types begin whose Arrow types depend on these options: date, datetime, time and timestamp.
_TEMPORAL = ("date", "time")


def has_such_columns(declared: DeclaredTable) -> bool:
    """Whether a table has columns whose types these options decide."""
    return bool(_names(declared))


def changed_type_option(
    declared: DeclaredTable,
    flavour: str,
    lake: pa.Schema,
    options: MirrorOptions,
    rules: ColumnRules,
) -> tuple[str, str]:
    """The option that gives a column another type than it has in the lake, and a sentence about it; "" and "" if none does.

    `rules` also contain the columns that the lake keeps as text. A type that differs for another reason is ignored.
    """
    read = options.read_options()
    names = _names(declared)
    there = {caseless(field.name): field.type for field in lake if caseless(field.name) in names}
    few = tuple(column for column in declared.columns if column.lower_name in names)
    try:
        definition = definition_of(replace(declared, columns=few, primary_key=()), flavour)
        wrong = _wrong_columns(definition, there, read, rules)
        for changed in (*((name,) for name in _DECIDING), _DECIDING) if wrong else ():
            for values in product(*(_CHOICES[name] for name in changed)):
                others = dict(zip(changed, values, strict=True))
                if not _wrong_columns(definition, there, _with(read, others), rules):
                    return changed[0], _sentence(wrong, others, read)
    except (SchemaError, UnsupportedError):
        pass  # whatever it is, the next change of the table reports it
    return "", ""


def _names(declared: DeclaredTable) -> set[str]:
    return {c.lower_name for c in declared.columns if c.sql.startswith(_TEMPORAL)}


def _with(read: ReadOptions, others: Mapping[str, str]) -> ReadOptions:
    changed: dict[str, Any] = dict(others)
    return replace(read, **changed)


def _sentence(
    wrong: Mapping[str, tuple[pa.DataType, pa.DataType]],
    others: Mapping[str, str],
    read: ReadOptions,
) -> str:
    column, (there, here) = next(iter(wrong.items()))
    copied = " and ".join(f"option {name} {value!r}" for name, value in others.items())
    given = " and ".join(f"option {name} {getattr(read, name)!r}" for name in others)
    return f"column {column} is {there} in the lake, as with {copied}, but would be {here} with {given}"


def _wrong_columns(
    definition: TableDefinition,
    there: Mapping[str, pa.DataType],
    read: ReadOptions,
    rules: ColumnRules,
) -> dict[str, tuple[pa.DataType, pa.DataType]]:
    """The columns whose types do not fit those that they have `there`, by lower-case name, in the lake: both types."""
    types = TableTypes.of(definition, read, Target.TYPED, silent)
    shown = rules.lake_schema(definition.database, definition.table, types.schema)
    found = [field for field in shown if caseless(field.name) in there]
    stored = storage_schema(iceberg_schema(pa.schema(found)))
    pairs = {field.name: (there[caseless(field.name)], field.type) for field in stored}
    return {
        name: (lake, logged)
        for name, (lake, logged) in pairs.items()
        if not (lake == logged or widens(logged, lake))
    }
