"""Decide how the columns of a table are decoded and typed, from its description in the log.

`TableTypes` is made once per table definition and target: the plan for the compiled core, the
Arrow schema, and the column types that turn the core's buffers into arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

import pyarrow as pa

from binlake.table.types.base import ColumnContext, ColumnType, Target
from binlake.table.types.missing_metadata import Missing, missing_sentence
from binlake.table.types.registry import column_type
from binlake.values.column_patterns import matches_column
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition, TablePlan

#: Returns the names of the columns of a table to decode.
ColumnsOf = Callable[[TableDefinition], tuple[str, ...]]

_MOST_KNOWN_COLUMNS = 16_384
_AROUND_A_VALUE = 8  # quotes, a colon, a comma; `null` where there is no value


@dataclass(frozen=True)
class TableTypes:
    """A table definition, ready to decode for one target.

    `columns` are the wanted ones; `ordinals` their places in the definition and in `plan`. `model` are
    the types of a table with the same columns, where these were made of them.
    """

    definition: TableDefinition
    target: Target
    plan: TablePlan
    columns: tuple[ColumnType, ...]
    ordinals: tuple[int, ...]
    _missing: dict[Missing, list[str]]
    model: TableTypes | None = None

    @classmethod
    def of(
        cls,
        definition: TableDefinition,
        options: ReadOptions,
        target: Target,
        warn: Callable[[str], None],
        columns: ColumnsOf | None = None,
    ) -> TableTypes:
        """Decide every column; `warn` receives a sentence for every unknown fact. `columns` are those
        to decode, instead of the option columns.

        Raises OptionError for a bad assume_charset.
        """
        context = ColumnContext(definition, options, target, warn)
        if columns is None:
            wanted = _wanted_names(options, definition)
        else:
            wanted = frozenset(name.casefold() for name in columns(definition))
        silent = replace(
            context, warn=lambda _sentence: None, missing={}
        )  # of a column that is not read
        types = [
            column_type(column, context if column.name.casefold() in wanted else silent)
            for column in definition.columns
        ]
        chosen = tuple(
            i for i, column in enumerate(definition.columns) if column.name.casefold() in wanted
        )
        if (sentence := missing_sentence(definition, context.missing)) is not None:
            warn(sentence)
        unwanted = set(range(len(types))).difference(chosen)
        plans = tuple(
            replace(kind.plan, wanted=False) if i in unwanted else kind.plan
            for i, kind in enumerate(types)
        )
        plan = TablePlan(definition, plans, target is Target.TEXT)
        decoded = tuple(types[i] for i in chosen)
        return cls(definition, target, plan, decoded, chosen, context.missing)

    def of_table(
        self, definition: TableDefinition, options: ReadOptions, warn: Callable[[str], None]
    ) -> TableTypes:
        """The types of another table that has the same columns: a fraction of the work of `of`."""
        context = ColumnContext(definition, options, self.target, warn, self._missing)
        if (sentence := missing_sentence(definition, self._missing)) is not None:
            warn(sentence)
        plan = TablePlan(definition, self.plan.columns, self.plan.text_target)
        columns = tuple([kind.of_table(context) for kind in self.columns])
        model = self.model or self
        return TableTypes(
            definition, self.target, plan, columns, self.ordinals, self._missing, model
        )

    @property
    def is_missing_some(self) -> bool:
        """Whether a warning lists what the log does not contain about the table."""
        return missing_sentence(self.definition, self._missing) is not None

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The Arrow fields of the wanted columns."""
        return self.model.fields if self.model else [kind.field() for kind in self.columns]

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the wanted columns. It is made on demand: it is half of the cost of
        this object, and text does not need it.
        """
        metadata = _schema_metadata(self.definition)
        if self.model:
            return self.model.schema.with_metadata(metadata)
        return pa.schema(self.fields, metadata=metadata)

    @cached_property
    def text_bytes(self) -> list[int]:
        """Bytes of text around a value of each column of the definition, in JSON and SQL: its name mostly."""
        if self.model:
            return self.model.text_bytes
        return [len(column.name.encode()) + _AROUND_A_VALUE for column in self.definition.columns]

    @cached_property
    def names(self) -> list[str]:
        """Names of the wanted columns, in order."""
        return self.model.names if self.model else [kind.column.name for kind in self.columns]


_Known = TypeVar("_Known")


class ByColumns(Generic[_Known]):
    """Column plans of tables, shared by tables with the same columns.

    The columns of such tables are the same objects, since equal descriptions are read once. It is
    emptied when it contains too many columns.
    """

    def __init__(self) -> None:
        self._known: dict[
            tuple[int, str, str, tuple[int, ...]], tuple[TableDefinition, _Known]
        ] = {}
        self._columns = 0

    def get(self, definition: TableDefinition) -> _Known | None:
        """Return the entry that `keep` stored for the columns of this definition."""
        found = self._known.get(_identity(definition))
        return None if found is None else found[1]

    def keep(self, definition: TableDefinition, made: _Known) -> None:
        """Store the types made for the columns of this definition. This also preserves the columns' identity."""
        count = len(definition.columns)
        if self._columns + count > _MOST_KNOWN_COLUMNS:
            self._known.clear()
            self._columns = 0
        self._known[_identity(definition)] = definition, made
        self._columns += count


def _identity(definition: TableDefinition) -> tuple[int, str, str, tuple[int, ...]]:
    key = definition.primary_key
    return id(definition.columns), definition.name_source, definition.flavour, key


class TypesOfTables:
    """Makes `TableTypes` with one set of options for one target.

    Tables that have the same columns (one table per customer, or per day) share the work.
    """

    def __init__(
        self,
        options: ReadOptions,
        target: Target,
        warn: Callable[[str], None],
        columns: ColumnsOf | None = None,
    ) -> None:
        self._columns = columns
        self._options = options
        self._target = target
        self._warn = warn
        self._known: ByColumns[TableTypes] = ByColumns()

    def types(self, definition: TableDefinition) -> TableTypes:
        """The types of a table. Raises OptionError for a bad assume_charset."""
        known = None if self._columns is not None else self._known.get(definition)
        if known is not None:
            return known.of_table(definition, self._options, self._warn)
        told = 0

        def warn(sentence: str) -> None:
            nonlocal told
            told += 1
            self._warn(sentence)

        types = TableTypes.of(definition, self._options, self._target, warn, self._columns)
        names_no_table = told == types.is_missing_some and all(
            plan.kernel for plan in types.plan.columns
        )
        # those left out may be one table's columns
        same_for_all = self._columns is None and not self._options.exclude_column
        if names_no_table and same_for_all:
            self._known.keep(definition, types)
        return types


def _schema_metadata(definition: TableDefinition) -> dict[str, str]:
    """The metadata of a table's Arrow schema, which names the table and its key."""
    columns = definition.columns
    key = [columns[i].name for i in definition.primary_key if i < len(columns)]
    return {
        "binlake.table": definition.full_name,
        "binlake.flavour": definition.flavour,
        "binlake.name_source": definition.name_source,
        "binlake.name_origin": definition.name_origin,
        "binlake.primary_key": json.dumps(key, ensure_ascii=False),
    }


def _wanted_names(options: ReadOptions, definition: TableDefinition) -> frozenset[str]:
    """The casefolded names of the wanted columns: to the servers, case is no difference."""
    database, table = definition.database, definition.table
    excluded = options.exclude_column
    wanted = frozenset(name.casefold() for name in options.columns)
    names = [column.name for column in definition.columns]
    return frozenset(
        name.casefold()
        for name in names
        if not wanted or name.casefold() in wanted
        if not excluded or not matches_column(excluded, database, table, name)
    )
