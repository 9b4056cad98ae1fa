"""The steps that bring the columns of a lake table from one definition of the server's table to the next.

A column of the new definition continues the old column that the statement keeps or renames, by its field id.
All others are new, also one that gets the name of a column that the same statement drops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.format.flags import MODE_NO_AUTO_VALUE_ON_ZERO
from binlake.mirror.apply.lake_types import widens
from binlake.mirror.columns.names import caseless, spelled, why_same
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl.new_columns import existing_value
from binlake.mirror.followed.table import Followed
from binlake.mirror.tables.change import Step, in_order
from binlake.mirror.tables.formats import why_ambiguous, why_reserved
from binlake.mirror.tables.schema import iceberg_schema, storage_schema, with_initial_default
from binlake.snapshot.definition import definition_of
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.alter import (
    altered_columns,
    dropped_columns,
    numbered_columns,
    renamed_columns,
)
from binlake.table.schema.ddl_effects import (
    computed_from,
    why_text_may_change,
    why_values_may_change,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable
from binlake.table.schema.sql_tokens import Token
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions


@dataclass(frozen=True, slots=True)
class _Pairs:
    """How the columns of two definitions belong together.

    `renames`: new names by old ones. `was`: old columns by the names that they have now. `removed`: the names of
    columns that are dropped. The keys are `caseless`.
    """

    renames: dict[str, str]
    was: dict[str, DeclaredColumn]
    removed: tuple[str, ...]

    @classmethod
    def of(cls, items: Sequence[Sequence[Token]], old: DeclaredTable, new: DeclaredTable) -> _Pairs:
        """The pairs of the definitions before and after the items of an ALTER TABLE."""
        dropped = dropped_columns(items)
        kept = [column for column in old.columns if column.lower_name not in dropped]
        named = {caseless(a): caseless(b) for a, b in renamed_columns(items)}
        was = {named.get(column.lower_name, column.lower_name): column for column in kept}
        # a statement may change only the case of a name
        pairs = [(was[c.lower_name], c) for c in new.columns if c.lower_name in was]
        renames = {a.lower_name: b.name for a, b in pairs if a.name != b.name}
        removed = tuple(column.name for column in old.columns if column.lower_name in dropped)
        return cls(renames, was, removed)

    def now(self, name: str) -> str:
        """The name, without case, that an old column has now."""
        return caseless(self.renames.get(caseless(name), name))


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes of a lake table after an ALTER TABLE.

    `steps`: in groups done one after the other. `texts`: the columns that it keeps as text after them.
    """

    steps: tuple[tuple[Step, ...], ...]
    texts: tuple[str, ...]


def column_changes(
    ddl: DdlStatement,
    new: DeclaredTable,
    table: Followed,
    options: ReadOptions,
    rules: ColumnRules,
) -> ColumnChanges:
    """The changes to the definition that a table has after an ALTER TABLE.

    Raises UnsupportedError with the reason if the statement's effect on the existing rows is unknown, or if the lake
    table cannot have it.
    """
    items = items_of(ddl)
    pairs = _Pairs.of(items, table.declared, new)
    texts = _texts_after(pairs, table)
    if why := _why_not_renamed(table, pairs.renames, rules):
        raise UnsupportedError(why)
    rules = rules.with_texts(*table.id, texts)
    shown = [c for c in new.columns if rules.treatment(*table.id, c.name) != "left out"]
    _check_names(table, shown)
    _check_key(table, new, pairs)
    drops, renaming = _drops(table, pairs, rules), _renaming(table, pairs, rules)
    types = TableTypes.of(definition_of(new, table.flavour), options, Target.TYPED, silent)
    redefined = {column.lower_name for column in altered_columns(items, table.id[1])}
    numbered = set() if ddl.sql_mode & MODE_NO_AUTO_VALUE_ON_ZERO else numbered_columns(items)
    changed = _Changed(ddl, table, types, rules, pairs, redefined, numbered)
    if why := why_ambiguous(changed.schema, table.lake.format):
        raise UnsupportedError(why)
    steps_of_columns = changed.steps(shown)
    changed.check_computed(new.columns, shown)
    is_moved = not table.shard_column and _is_moved(new, pairs)
    order = tuple(in_order([column.name for column in shown])) if is_moved else ()
    steps = tuple(group for group in (drops, renaming, steps_of_columns, order) if group)
    return ColumnChanges(steps, texts)


def _texts_after(pairs: _Pairs, table: Followed) -> tuple[str, ...]:
    """The columns that the lake table keeps as text, by the names that they have after a statement."""
    old = set(map(caseless, table.text_columns))
    return tuple(name for name, column in pairs.was.items() if column.lower_name in old)


def _check_names(table: Followed, shown: Sequence[DeclaredColumn]) -> None:
    """Refuse columns whose names the lake needs itself, or that its readers cannot tell apart."""
    names = [column.name for column in shown]
    if why := (
        why_same(names) or table.mode.taken(names) or why_reserved(names, table.lake.format)
    ):
        raise UnsupportedError(why)
    kept = set(map(caseless, table.kept_columns))
    if clash := next((c.name for c in shown if c.lower_name in kept), None):
        raise UnsupportedError(f"the lake table has earlier values in a column of the name {clash}")


def _check_key(table: Followed, new: DeclaredTable, pairs: _Pairs) -> None:
    """Refuse a statement after which rows are identified in another way."""
    before = [pairs.now(part) for part in table.declared.primary_key]
    if before != list(map(caseless, new.primary_key)):
        raise UnsupportedError("the primary key changes")
    if not table.key and table.mode.holds_rows:
        raise UnsupportedError(
            "the table has no key, and binlake identifies its rows by all columns"
        )
    removed = set(map(caseless, pairs.removed))
    if set(map(caseless, table.key)) & (removed | pairs.renames.keys()):
        raise UnsupportedError("a column of the key is dropped or renamed")
    if table.shard_column and (removed or pairs.renames):
        raise UnsupportedError(
            "the statement drops or renames a column that other shards of the lake table may still have"
        )


def why_not_renamed(ddl: DdlStatement, table: Followed, rules: ColumnRules) -> str | None:
    """Return the reason why a table must not follow the renames of columns in a statement, also if the table is copied again; None if
    there is none, or if the statement is no ALTER TABLE that can be read.
    """
    try:
        renamed = renamed_columns(items_of(ddl))
    except UnsupportedError:
        return None
    names = {column.lower_name for column in table.declared.columns}
    renames = {caseless(a): b for a, b in renamed if caseless(a) in names}
    return _why_not_renamed(table, renames, rules)


def _why_not_renamed(table: Followed, renames: Mapping[str, str], rules: ColumnRules) -> str | None:
    """A new name that is left out or hashed differently from the old one: the lake has no values for it."""
    for a, b in sorted(renames.items()):
        before, after = rules.treatment(*table.id, a), rules.treatment(*table.id, b)
        if before != after != "left out":
            return f"column {a}, which was {before}, is renamed to {b}, which should be {after}"
    return None


def _drops(table: Followed, pairs: _Pairs, rules: ColumnRules) -> tuple[Step, ...]:
    """Drop the columns that the server drops, and those whose new names are left out."""
    in_lake = set(map(caseless, table.lake.schema.names))
    hidden = [a for a, b in sorted(pairs.renames.items()) if _is_left_out(table, b, rules)]
    names = [_spelled(table, n) for n in (*pairs.removed, *hidden) if caseless(n) in in_lake]
    if dropped := sorted(table.lake.partition_columns & set(names)):
        raise UnsupportedError(
            f"the statement removes column {dropped[0]}, by which the lake table is partitioned"
        )
    return tuple({"do": "drop", "name": name} for name in names)


def _renaming(table: Followed, pairs: _Pairs, rules: ColumnRules) -> tuple[Step, ...]:
    return tuple(
        {"do": "rename", "name": _spelled(table, a), "to": b}
        for a, b in sorted(pairs.renames.items())
        if not _is_left_out(table, b, rules)
    )


def _is_left_out(table: Followed, name: str, rules: ColumnRules) -> bool:
    return rules.treatment(*table.id, name) == "left out"


class _Changed:
    """The columns that a statement adds or widens. `redefined`: those whose definitions it contains; `numbered`: those that
    are AUTO_INCREMENT afterwards. The server replaces 0 in them unless they were before, which definitions do not tell.
    """

    def __init__(
        self,
        ddl: DdlStatement,
        table: Followed,
        types: TableTypes,
        rules: ColumnRules,
        pairs: _Pairs,
        redefined: set[str],
        numbered: set[str],
    ) -> None:
        self.ddl, self.table, self.types, self.rules, self.pairs = ddl, table, types, rules, pairs
        self.redefined, self.numbered = redefined, numbered
        self.schema = rules.lake_schema(*table.id, types.schema)
        self.stored = storage_schema(iceberg_schema(self.schema))

    def steps(self, columns: Sequence[DeclaredColumn]) -> tuple[Step, ...]:
        """The steps for the columns of the new definition. Raises UnsupportedError."""
        found: list[Step] = []
        for column in columns:
            before = self.pairs.was.get(column.lower_name)
            found += self._added(column) if before is None else self._widened(before, column)
        return tuple(found)

    def _added(self, column: DeclaredColumn) -> list[Step]:
        name = column.name
        value = existing_value(self.ddl, column, self.types, self.table, self.rules)
        there = _in_lake(self.table, name) if self.table.shard_column else None
        if there is None:
            one = with_initial_default(self._one(name), value)
            return [{"do": "add", "name": name, "schema": one}]
        if not _holds(there, self.stored.field(name).type):
            raise UnsupportedError(
                f"column {name} is {there} in the lake table, because of other shards"
            )
        return []

    def _widened(self, before: DeclaredColumn, column: DeclaredColumn) -> list[Step]:
        name = column.name
        if (why := why_values_may_change(before, column)) is not None:
            raise UnsupportedError(why)
        here = _in_lake(self.table, before.name)
        if here is None:
            raise UnsupportedError(f"the lake table has no column {before.name}")
        if column.lower_name in self.redefined and _loses_nulls(before, column, self.table):
            raise UnsupportedError(
                f"column {before.name} becomes NOT NULL, and the server replaces NULL by another value"
            )
        if column.lower_name in self.numbered and self._may_have_zero(before):
            raise UnsupportedError(
                f"column {before.name} is AUTO_INCREMENT afterwards, and the server may replace 0 by another number"
            )
        there = self.stored.field(name).type
        if _equal(here, there) or (self.table.shard_column and widens(there, here)):
            return []
        if not widens(here, there):
            raise UnsupportedError(f"column {name} changes from {here} to {there}")
        return [{"do": "widen", "name": name, "schema": self._one(name)}]

    def check_computed(
        self, columns: Sequence[DeclaredColumn], shown: Sequence[DeclaredColumn]
    ) -> None:
        """Refuse a change of a column after which the server may compute values of generated columns of the lake again: it logs
        none of them. Raises UnsupportedError.

        `steps` refuses the statement if the values of columns that the lake has may change. Here it has no values to look for.
        """
        if not self.table.mode.holds_rows:
            return
        old = self.table.declared.columns
        names = {column.lower_name for column in shown}
        self._check_retaken(columns, names)
        for after in columns:
            before = self.pairs.was.get(after.lower_name)
            if before is None or after.lower_name not in self.redefined:
                continue
            why = why_text_may_change(before, after)
            if after.lower_name not in names:
                why = why or self._why_values_may_change(before, after)
            if why is None:
                continue
            for column in computed_from(before.name, old):
                if caseless(self.pairs.now(column.name)) in names:
                    raise UnsupportedError(
                        f"{why}, and the server computes the values of column {column.name} from it again"
                    )

    def _check_retaken(self, columns: Sequence[DeclaredColumn], names: set[str]) -> None:
        """Refuse a new column that gets the name of a dropped one, if a generated column of the lake uses this name. `names`: those of
        the lake's columns.
        """
        removed = set(map(caseless, self.pairs.removed))
        for taken in (column for column in columns if column.lower_name in removed):
            for column in computed_from(taken.name, self.table.declared.columns):
                if (
                    column.lower_name not in removed
                    and caseless(self.pairs.now(column.name)) in names
                ):
                    raise UnsupportedError(
                        f"column {taken.name} is dropped, and another one gets its name, and the server computes the values of"
                        f" column {column.name} from it again"
                    )

    def _why_values_may_change(self, before: DeclaredColumn, after: DeclaredColumn) -> str | None:
        """Return the reason why values of a redefined column may change that the lake does not have, or None."""
        if (why := why_values_may_change(before, after)) is not None:
            return why
        if before.nullable is not False and not _may_be_null(after):
            return f"column {before.name} becomes NOT NULL"
        if after.lower_name in self.numbered:
            return f"column {before.name} is AUTO_INCREMENT afterwards"
        return None

    def _may_have_zero(self, column: DeclaredColumn) -> bool:
        """Return whether the lake may have 0 in a column of numbers."""
        if not self.table.mode.holds_rows:
            return False
        if self.rules.treatment(*self.table.id, column.name) == "hashed":
            return True
        name = _spelled(self.table, column.name)
        return any(_has_zero(rows[name]) for rows in self.table.lake.scan([name]))

    def _one(self, name: str) -> Step:
        return iceberg_schema(pa.schema([self.schema.field(name)]))


def _loses_nulls(before: DeclaredColumn, after: DeclaredColumn, table: Followed) -> bool:
    """Return whether the lake has NULL in a column whose new definition may not allow it.

    A server that is strict refuses the statement.
    """
    if _may_be_null(after) or before.nullable is False or not table.mode.holds_rows:
        return False
    name = _spelled(table, before.name)
    return any(rows[name].null_count for rows in table.lake.scan([name]))


def _may_be_null(column: DeclaredColumn) -> bool:
    """Return whether a definition certainly allows NULL: a setting of the server decides whether a TIMESTAMP may be NULL by default."""
    return column.nullable or (column.nullable is None and not column.sql.startswith("timestamp"))


def _has_zero(numbers: pa.ChunkedArray) -> bool:
    """Return whether a number is 0, also if the lake keeps the numbers as text."""
    zero = pa.scalar("0" if pa.types.is_string(numbers.type) else 0, numbers.type)
    return bool(pc.any(pc.equal(numbers, zero)).as_py())


def _equal(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two stored types are equal, ignoring field ids."""
    return one == other or (pa.types.is_nested(one) and str(one) == str(other))


def _spelled(table: Followed, name: str) -> str:
    """A column's name as the lake has it."""
    return spelled(name, table.lake.schema.names) or name


def _in_lake(table: Followed, name: str) -> pa.DataType | None:
    """The type of a column of the lake table; None: there is none."""
    at = table.lake.schema.get_field_index(_spelled(table, name))
    return None if at < 0 else table.lake.schema.field(at).type


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    return _equal(wide, narrow) or widens(narrow, wide)


def _is_moved(new: DeclaredTable, pairs: _Pairs) -> bool:
    """Return whether the columns need to be moved. They do not if the remaining columns keep their order and the new ones follow."""
    names = [column.lower_name for column in new.columns]
    kept = list(pairs.was)
    return names != kept + [name for name in names if name not in kept]
