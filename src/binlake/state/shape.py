"""The shape of a table's rows: its stored columns, their types, and the key of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from binlake.format import column_types as ct
from binlake.format.charsets import BINARY
from binlake.format.collations import COLLATIONS, MARIADB_NAMES
from binlake.snapshot.definition import definition_of
from binlake.source.arrays import array
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.create_table import is_column
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.sql_tokens import Token, closing, split, statement_tokens
from binlake.table.types.base import ColumnType, Target
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, TableDefinition

#: Values of the server's text by the name of their column.
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class TableShape:
    """A declared table. `key` are the columns that identify a row; () for a table without such a key.

    Generated columns are left out: the server computes them. `is_rounded`: rows from outside of the
    log have a FLOAT in six digits only, as servers print it. `unnamed` are text columns whose character set the
    declaration does not name: only the rows of the log tell it.
    """

    declared: DeclaredTable
    definition: TableDefinition
    types: TableTypes
    key: tuple[str, ...]
    is_rounded: bool
    collations: Mapping[str, int]
    unnamed: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        declared: DeclaredTable,
        flavour: str,
        key: tuple[str, ...],
        options: ReadOptions,
        collations: Mapping[str, int],
        *,
        is_rounded: bool,
    ) -> TableShape:
        """The shape of a declared table. `collations` are those of columns, as far as they are known.
        Raises UnsupportedError, SchemaError.
        """
        definition = definition_of(declared, flavour)
        columns = (_collated(column, collations) for column in definition.columns)
        definition = replace(definition, columns=tuple(columns))
        stored = tuple(column.name for column in definition.columns if not column.generated)
        types = TableTypes.of(definition, options, Target.TEXT, silent, lambda _: stored)
        spelled = {name.lower(): name for name in stored}
        found = tuple(spelled.get(name.lower(), "") for name in key)
        return cls(declared, definition, types, found if all(found) else (), is_rounded, collations)

    def named(self, charsets: Mapping[str, str]) -> TableShape:
        """The shape with the character sets of `unnamed` columns."""
        columns = [
            replace(column, charset=charsets.get(column.name, column.charset))
            for column in self.declared.columns
        ]
        declared = replace(self.declared, columns=tuple(columns))
        return replace(self, declared=declared, unnamed=frozenset())

    def under(self, database: str, table: str) -> TableShape:
        """The shape of the table under another name."""
        if (database, table) == (self.definition.database, self.definition.table):
            return self
        definition = replace(self.definition, database=database, table=table)
        return replace(
            self,
            declared=replace(self.declared, database=database, table=table),
            definition=definition,
            types=replace(self.types, definition=definition),
        )

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return self.definition.full_name

    @cached_property
    def kinds(self) -> Mapping[str, ColumnType]:
        """The stored columns by name, in order."""
        return {kind.column.name: kind for kind in self.types.columns}

    @cached_property
    def names(self) -> list[str]:
        """The names of the stored columns."""
        return list(self.kinds)

    @cached_property
    def generated(self) -> frozenset[str]:
        """The names of the columns that are left out."""
        return frozenset(c.name for c in self.definition.columns if c.generated)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.types.schema

    @cached_property
    def _plain(self) -> Mapping[str, Callable[[Any], Any]]:
        """Return a function that makes the values of some columns comparable."""
        found: dict[str, Callable[[Any], Any]] = {}
        for name, kind in self.kinds.items():
            if pa.types.is_list(kind.arrow_type):
                found[name] = tuple
            elif pa.types.is_floating(kind.arrow_type):
                single = kind.column.type_code == ct.MYSQL_TYPE_FLOAT
                found[name] = "{:.6g}".format if single and self.is_rounded else repr
        return found

    def comparable(self, name: str, value: Any) -> Any:
        """A value such that equal ones are the same value of the column, and hashable."""
        plain = self._plain.get(name)
        return value if plain is None or value is None else plain(value)

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """The key of a row that has all its columns."""
        return tuple([self.comparable(name, row[name]) for name in self.key])

    def identity(self, row: Mapping[str, Any]) -> Key:
        """All values of a row: its identity in a table without a key."""
        return tuple([self.comparable(name, row[name]) for name in self.names])

    def batch(self, rows: list[Row]) -> pa.RecordBatch:
        """Rows as a batch."""
        columns = [
            array([row[name] for row in rows], kind.arrow_type) for name, kind in self.kinds.items()
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def shown_key(self, key: Key) -> str:
        """A key for messages: `id = 4711`."""
        parts = (f"{n} = {v!r}" for n, v in zip(self.key, key, strict=True))
        return ", ".join(parts)


def key_of(sql: str, declared: DeclaredTable) -> tuple[str, ...]:
    """Return the columns of the primary key that a CREATE TABLE declares, or of its first unique key
    over whole columns that are NOT NULL.
    """
    if declared.primary_key:
        return declared.primary_key
    tokens = statement_tokens(sql)
    opening = next(i for i, token in enumerate(tokens) if token.word == "(")
    filled = {c.name.lower() for c in declared.columns if c.nullable is False}
    for item in split(tokens[opening + 1 : closing(tokens, opening, declared.table)]):
        words = [token.word for token in item]
        if is_column(item) or "UNIQUE" not in words[:3] or "(" not in words:
            continue
        parts = split(item[words.index("(") + 1 : closing(item, words.index("("), declared.table)])
        names = tuple(part[0].text for part in parts)
        whole = all(
            token.word in ("", "ASC", "DESC") or not i
            for part in parts
            for i, token in enumerate(part)
        )
        if whole and filled.issuperset(name.lower() for name in names):
            return names
    return ()


def collations_in(sql: str, flavour: str) -> dict[str, int]:
    """Return the collations that a CREATE TABLE names, by column: its own, or that of the table if the
    column has the table's character set.
    """
    tokens = statement_tokens(sql)
    opening = next(i for i, token in enumerate(tokens) if token.word == "(")
    end = closing(tokens, opening, "")
    numbers = {collation.name: number for number, collation in COLLATIONS.items()}
    if flavour == "mariadb":
        numbers |= {name: number for number, name in MARIADB_NAMES.items()}
    of_table = _collation(tokens[end + 1 :])
    found = {}
    for item in split(tokens[opening + 1 : end]):
        if is_column(item):
            own = _collation(item[1:])
            has_charset = any(token.word in ("CHARSET", "CHARACTER") for token in item[1:])
            name = own or ("" if has_charset else of_table)
            if name in numbers:
                found[item[0].text] = numbers[name]
    return found


def _collation(tokens: Sequence[Token]) -> str:
    words = [token.word for token in tokens]
    if "COLLATE" not in words:
        return ""
    rest = [token.text for token in tokens[words.index("COLLATE") + 1 :] if token.word != "="]
    return rest[0].lower() if rest else ""


def _collated(column: ColumnDefinition, collations: Mapping[str, int]) -> ColumnDefinition:
    if column.collation_id is None and column.members is not None:  # ENUM, SET
        return replace(column, collation_id=collations.get(column.name))
    if column.collation_id is None or COLLATIONS[column.collation_id].charset == BINARY:
        return column
    known = collations.get(column.name)
    if known is None or COLLATIONS[known].charset != COLLATIONS[column.collation_id].charset:
        return replace(column, is_collation_known=False)
    return replace(column, collation_id=known)
