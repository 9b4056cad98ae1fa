"""What a DDL statement of the log does to a mirrored table.

An effect that the lake can follow without reading rows is a change of the Iceberg schema: columns
are added (without a default), dropped, renamed, moved, or widened, by their field ids. Statements that
change no row and no column have none. All else is refused: the table is quarantined, or, by
option, made anew from the server.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from binlake.errors import BinlogError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed import Followed, widens
from binlake.mirror.iceberg.schema import iceberg_schema, storage_schema
from binlake.mirror.source.definition import definition_of
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.alter import renamed_columns
from binlake.table.schema.catalogue import Catalogue
from binlake.table.schema.ddl import apply_ddl
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable, ForeignKey
from binlake.table.schema.schema_text import create_table_text
from binlake.table.schema.sql_tokens import split, statement_tokens
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions

__all__ = ["Effect", "changes_no_column", "concerns", "effect_of"]

_TEMPORARY = re.compile(r"\s*(?:CREATE|DROP)\s+(?:/\*!?\d*\s*)?TEMPORARY\b", re.IGNORECASE)
_TRUNCATE = re.compile(r"\s*TRUNCATE\b", re.IGNORECASE)
_INDEX = re.compile(r"\s*(?:CREATE|DROP)\s+(?:\w+\s+)?INDEX\b", re.IGNORECASE)
_ALTER = re.compile(r"\s*ALTER\s+(?:ONLINE\s+)?TABLE\b", re.IGNORECASE)
_CREATE_IF_NEW = re.compile(r"\s*CREATE\s+TABLE\s+IF\s+NOT\s+EXISTS\b", re.IGNORECASE)
_DROP_DATABASE = re.compile(r"\s*DROP\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
# changes of rows that no row event shows
_MOVES_ROWS = re.compile(
    r"\b(?:(?:TRUNCATE|DROP|EXCHANGE|IMPORT|DISCARD)\s+(?:PARTITION|SUBPARTITION|TABLESPACE)"
    r"|CONVERT\s+(?:PARTITION|TABLE))\b",
    re.IGNORECASE,
)
_RENAME_TABLE = re.compile(
    r"(?:^\s*RENAME\s+TABLE|\bRENAME\s+(?:TO\b|AS\b|=|(?!COLUMN\b|INDEX\b|KEY\b)[`\w]))",
    re.IGNORECASE,
)
_NEEDS_ROWS = re.compile(
    r"\b(?:DEFAULT|NOT\s+NULL|AUTO_INCREMENT|AS\s*\(|SERIAL|PRIMARY|ON\s+UPDATE)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What to do: nothing (all empty), empty the table, change its schema; or why not, `refused`."""

    steps: tuple[tuple[dict[str, Any], ...], ...] = ()
    create_table: str | None = None
    truncate: bool = False
    refused: str = ""

    @property
    def is_none(self) -> bool:
        """Whether the lake table stays as it is."""
        return not (self.steps or self.create_table or self.truncate or self.refused)


def concerns(ddl: DdlStatement, database: str, table: str) -> bool:
    """Whether a statement may be about a table. One that is not recognised is, if it names it."""
    if _TEMPORARY.match(ddl.sql):
        return False
    if _DROP_DATABASE.match(ddl.sql):
        return re.search(rf"(?<!\w){re.escape(database)}(?!\w)", ddl.sql, re.IGNORECASE) is not None
    names = changed_tables(ddl)
    if names is None:
        return table.lower() in ddl.sql.lower()
    return (database.lower(), table.lower()) in [(d.lower(), t.lower()) for d, t in names]


def changes_no_column(ddl: DdlStatement) -> bool:
    """Whether a statement surely leaves the columns of tables as they are."""
    return any(known.match(ddl.sql) for known in (_TRUNCATE, _INDEX, _CREATE_IF_NEW))


def effect_of(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    """The effect of a statement that `concerns` a table."""
    sql = ddl.sql
    if _CREATE_IF_NEW.match(sql):
        return Effect()
    if table.key and {part.lower() for part in table.key} != {
        part.lower() for part in table.declared.primary_key
    }:
        return Effect(refused="its key is a unique index, which the statement may change")
    if _INDEX.match(sql):
        return Effect()
    if _TRUNCATE.match(sql):
        return Effect(truncate=True)
    if not _ALTER.match(sql):
        return Effect(refused="the statement replaces, renames or drops it")
    text = _without_strings(sql)
    if _MOVES_ROWS.search(text):
        return Effect(refused="rows come or go without row events")
    if _RENAME_TABLE.search(text):
        return Effect(refused="the table is renamed")
    try:
        return _altered(ddl, table, options, rules)
    except BinlogError as error:
        return Effect(refused=error.message)


def _altered(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    old = table.declared
    catalogue = Catalogue(lambda *name: old if _same(name, table.id) else None)
    apply_ddl(catalogue, ddl)
    new = catalogue.entry(table.id)
    if new is None:
        spelled = [name for name in catalogue.changed if _same(name, table.id)]
        new = catalogue.entry(spelled[0]) if spelled else None
    if new is None:
        return Effect()
    if not new.columns:
        return Effect(refused=new.missing or "the statement is not understood")
    if any(_cascades(key) for key in set(new.foreign_keys) - set(old.foreign_keys)):
        return Effect(refused="a foreign key is added that changes rows")
    if new == old or (new.columns, new.primary_key) == (old.columns, old.primary_key):
        return Effect()
    return _compared(ddl, old, new, table, options, rules)


def _cascades(key: ForeignKey) -> bool:
    """Whether a foreign key changes rows, which not every server logs."""
    return bool({key.on_delete, key.on_update} - {"RESTRICT", "NO ACTION"})


def _same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return [part.lower() for part in one] == [part.lower() for part in other]


def _compared(
    ddl: DdlStatement,
    old: DeclaredTable,
    new: DeclaredTable,
    table: Followed,
    options: ReadOptions,
    rules: ColumnRules,
) -> Effect:
    """The steps from one set of columns to another."""
    renames = {a.lower(): b for a, b in renamed_columns(_items(ddl))}
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
    schema = rules.lake_schema(*table.id, _arrow(new, table.flavour, options))
    stored = storage_schema(iceberg_schema(schema))
    removed = [c.name for c in old.columns if renames.get(c.name.lower(), c.name).lower() not in
               {n.name.lower() for n in new.columns}]  # fmt: skip
    if key & {name.lower() for name in removed} or key & renames.keys():
        return Effect(refused="a column of the key is dropped or renamed")
    shown = {name.lower() for name in table.lake.schema.names}
    renamed = [(a, b) for a, b in sorted(renames.items())
               if a in {c.name.lower() for c in old.columns}]  # fmt: skip
    if (why := _why_not_renamed(table, renamed, rules)) is not None:
        return Effect(refused=why)
    hidden = [a for a, b in renamed if rules.treatment(*table.id, b) == "left out"]
    drops = tuple({"do": "drop", "name": _spelled(table, name)} for name in [*removed, *hidden]
                  if name.lower() in shown)  # fmt: skip
    renaming = tuple({"do": "rename", "name": _spelled(table, a), "to": b} for a, b in renamed
                     if a not in hidden)  # fmt: skip
    changed: list[dict[str, Any]] = []
    for column in kept:
        before = was.get(column.name.lower())
        if before is None:
            if table.mode.holds_rows and (why := _why_not_added(ddl, column)) is not None:
                return Effect(refused=why)
            changed.append({"do": "add", "name": column.name, "schema": _one(schema, column.name)})
        elif (why := _why_not_changed(before, column)) is not None:
            return Effect(refused=why)
        else:
            here = table.lake.schema.field(_spelled(table, before.name)).type
            there = stored.field(column.name).type
            if not _equal(here, there):
                if not widens(here, there):
                    return Effect(refused=f"column {column.name} changes from {here} to {there}")
                changed.append(
                    {"do": "widen", "name": column.name, "schema": _one(schema, column.name)}
                )
    order = _moves([c.name for c in kept]) if _is_moved(old, new, renames) else ()
    groups = tuple(group for group in (drops, renaming, tuple(changed), order) if group)
    return Effect(steps=groups, create_table=create_table_text(new))


def _why_not_renamed(
    table: Followed, renamed: Sequence[tuple[str, str]], rules: ColumnRules
) -> str | None:
    """The lake has no values for a new name that is left out or hashed otherwise than the old one."""
    for a, b in renamed:
        before, after = (rules.treatment(*table.id, name) for name in (a, b))
        if before != after != "left out":
            return f"column {a}, which was {before}, is renamed to {b}, which is to be {after}"
    return None


def _equal(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two stored types are one, whatever their field ids."""
    return one == other or (pa.types.is_nested(one) and str(one) == str(other))


def _arrow(declared: DeclaredTable, flavour: str, options: ReadOptions) -> pa.Schema:
    definition = definition_of(declared, flavour)
    return TableTypes.of(definition, options, Target.TYPED, silent).schema


def _spelled(table: Followed, name: str) -> str:
    """A column's name as the lake has it."""
    names = table.lake.schema.names
    return next((known for known in names if known.lower() == name.lower()), name)


def _one(schema: pa.Schema, name: str) -> dict[str, Any]:
    return iceberg_schema(pa.schema([schema.field(name)]))


def _is_moved(old: DeclaredTable, new: DeclaredTable, renames: dict[str, str]) -> bool:
    """Whether the columns that stay, and new ones at the end, do not stand as they would anyway."""
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


def _why_not_added(ddl: DdlStatement, column: DeclaredColumn) -> str | None:
    """A new column is NULL in all rows that are there, or its values are not known here."""
    part = _definition_in(ddl, column.name)
    if part is None:
        return f"the definition of column {column.name} is not understood"
    if column.generated or _NEEDS_ROWS.search(re.sub(r"(?i)\bDEFAULT\s+NULL\b", "", part)):
        return f"column {column.name} is added with values in the rows that are there"
    if column.nullable is False or "timestamp" in column.sql:
        return f"column {column.name} is added with values in the rows that are there"
    return None


def _why_not_changed(old: DeclaredColumn, new: DeclaredColumn) -> str | None:
    """Whether the values that are there may become others."""
    what = f"column {new.name} changes from {old.sql} to {new.sql}"
    if old.sql == new.sql and (old.charset, old.members, old.unsigned, old.generated) == (
        new.charset, new.members, new.unsigned, new.generated
    ):  # fmt: skip
        return None
    if (old.generated, old.special) != (new.generated, new.special):
        return what
    families = [_family(old), _family(new)]
    if families[0] is None or families[0] != families[1]:
        return what
    if old.members is not None or new.members is not None:
        grown = (new.members or ())[: len(old.members or ())]
        return None if old.sql[:3] == new.sql[:3] and grown == old.members else what
    if families[0] == "integer":
        return (
            None
            if old.unsigned == new.unsigned and _SIZES[_word(old)] <= _SIZES[_word(new)]
            else what
        )
    if families[0] in ("varchar", "varbinary"):
        return None if old.charset == new.charset and old.length <= new.length else what
    if families[0] == "text":
        same = old.charset == new.charset
        return None if same and _TEXTS[_word(old)] <= _TEXTS[_word(new)] else what
    if families[0] == "decimal":
        fits = old.decimals == new.decimals and old.length <= new.length
        return None if fits and old.unsigned == new.unsigned else what
    return what


_SIZES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "integer": 4, "bigint": 8}
_TEXTS = {
    "tinytext": 1,
    "text": 2,
    "mediumtext": 3,
    "longtext": 4,
    "tinyblob": 1,
    "blob": 2,
    "mediumblob": 3,
    "longblob": 4,
}


def _word(column: DeclaredColumn) -> str:
    return re.split(r"\W", column.sql, maxsplit=1)[0]


def _family(column: DeclaredColumn) -> str | None:
    """Types whose values stay what they are when the type grows."""
    word = _word(column)
    if word in _SIZES:
        return "integer"
    if word in _TEXTS:
        return "text"
    if word in ("varchar", "varbinary", "decimal", "enum", "set"):
        return word
    return "decimal" if word == "numeric" else None


def _items(ddl: DdlStatement) -> list[Any]:
    """The items of an ALTER TABLE, as tokens."""
    tokens = statement_tokens(ddl.sql)
    at = next(i for i, token in enumerate(tokens) if token.word == "TABLE") + 1
    if [token.word for token in tokens[at : at + 2]] == ["IF", "EXISTS"]:
        at += 2
    at += 3 if len(tokens) > at + 1 and tokens[at + 1].word == "." else 1
    return [item for item in split(tokens[at:]) if item]


def _definition_in(ddl: DdlStatement, column: str) -> str | None:
    """The text of the item that defines a new column."""
    for item in _items(ddl):
        words = [token.text for token in item]
        if column.lower() in [word.lower() for word in words]:
            return " ".join(words)
    return None


def _without_strings(sql: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`", "x", sql)
