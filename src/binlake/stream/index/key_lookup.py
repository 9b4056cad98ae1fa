"""Which blocks of a log the option `where` needs, by the key index beside it.

Only the parts of a condition that compare a key column with constants count: the others can only
make the result smaller. Blocks of a table are skipped only where the condition can be decided as
without an index,
so that a read reports the same about columns that are missing or cannot be compared.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_

from binlake.stream.index.key_forms import BYTES, INTEGER
from binlake.stream.index.key_index import KeyColumn, KeyIndex, KeyTable
from binlake.stream.index.key_pairs import Blocks
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter
from binlake.values.where import (
    MIRRORED,
    Both,
    ColumnName,
    Comparison,
    Condition,
    Either,
    Literal,
    column_names,
    parse_where,
)

_INTEGER = re.compile(r"[+-]?\d{1,20}")


class LooksUpBlocks(ABC):
    """Finds the blocks that a read needs of each table that it wants."""

    def __init__(self, options: ReadOptions) -> None:
        self._tables = TableFilter(options)
        self._has_schema = options.schema is not None

    def blocks(self, index: KeyIndex) -> dict[str, Blocks]:
        """For each table that the log changes and the read wants, return the blocks that may have a row to
        show. Raises ValueError for a damaged index.
        """
        wanted = (name for name in index.tables if self._tables.wants(*name.split(".", 1)))
        return {name: self._blocks_of(index, name) & index.blocks.all for name in wanted}

    def _blocks_of(self, index: KeyIndex, name: str) -> Blocks:
        table = index.tables[name]
        if self._has_schema and not table.is_described:
            return (
                index.blocks.all
            )  # the schema may have other names than the one at the time of indexing
        found = self._found(table, index.columns(name))
        return index.blocks.all if found is None else found

    @abstractmethod
    def _found(self, table: KeyTable, columns: dict[str, KeyColumn]) -> Blocks | None:
        """The blocks that a table needs; None for all. `columns` are the columns of its key."""


class KeyLookup(LooksUpBlocks):
    """Looks up what the option `where` of a read needs."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        assert options.where is not None
        self._condition = parse_where(options.where)
        self._names = {name.name.casefold() for name in column_names(self._condition)}

    @property
    def can_help(self) -> bool:
        """Whether the condition compares anything with a constant such that a lookup could help."""
        return _restricts(self._condition)

    def _found(self, table: KeyTable, columns: dict[str, KeyColumn]) -> Blocks | None:
        if not self._names <= {column.casefold() for column in table.columns}:
            return None
        return _needed(self._condition, columns)


class RowLookup(LooksUpBlocks):
    """Looks up the changes of the row with a key, and all changes of keys. `columns` are those of the key; without,
    those of the primary key.
    """

    def __init__(
        self, options: ReadOptions, values: Sequence[object], columns: Sequence[str]
    ) -> None:
        super().__init__(options)
        self._values = values
        self._columns = columns

    def _found(self, table: KeyTable, columns: dict[str, KeyColumn]) -> Blocks | None:
        names = [name.casefold() for name in self._columns or table.key]
        of_key = {name.casefold() for name in table.key}
        if len(names) != len(self._values) or not of_key.issuperset(names):
            return None  # whether another column has been changed is not known
        each = [
            column.equal(_constant(column, value))
            for name, value in zip(names, self._values, strict=True)
            if (column := columns.get(name)) is not None
        ]
        known = [blocks for blocks in each if blocks is not None]
        return reduce(and_, known) | table.moved if known else None


def _constant(column: KeyColumn, value: object) -> object:
    """The value of a key, which may be given as text, as a constant of the column's type."""
    if column.form == INTEGER and isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else None
    if column.form == BYTES and not isinstance(value, bytes):
        return None  # text may mean its bytes or their digits
    return value


def _needed(condition: Condition, columns: dict[str, KeyColumn]) -> Blocks | None:
    """The blocks in which the condition can be true; None if that is unknown."""
    match condition:
        case Both(parts):
            known = [found for part in parts if (found := _needed(part, columns)) is not None]
            return reduce(and_, known) if known else None
        case Either(parts):
            each = [_needed(part, columns) for part in parts]
            return None if None in each else reduce(or_, (found or 0 for found in each), 0)
        case Comparison(sign, ColumnName() as column, Literal() as literal):
            return _compared(sign, columns.get(column.name.casefold()), literal)
        case Comparison(sign, Literal() as literal, ColumnName() as column):
            sign = MIRRORED.get(sign, sign)
            return _compared(sign, columns.get(column.name.casefold()), literal)
    return None


def _compared(sign: str, column: KeyColumn | None, literal: Literal) -> Blocks | None:
    value = literal.value
    if column is None or value is None or literal.is_moment:
        return None
    if sign in ("=", "<=>"):
        return column.equal(value)
    if sign in ("<", "<="):
        return column.within(None, value)
    return column.within(value, None) if sign in (">", ">=") else None


def _restricts(condition: Condition) -> bool:
    match condition:
        case Both(parts):
            return any(map(_restricts, parts))
        case Either(parts):
            return all(map(_restricts, parts))
        case Comparison(sign, left, right):
            kinds: Iterable[type] = (type(left), type(right))
            return sign != "<>" and set(kinds) == {ColumnName, Literal}
    return False
