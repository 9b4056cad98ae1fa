"""From what the log tells of a table to how its columns are decoded and typed.

`TableTypes` is made once per table definition and target: the plan for the compiled core, the
Arrow schema, and the column types that turn the core's buffers into arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from binlake.table.types.base import ColumnContext, ColumnType, Target
from binlake.table.types.missing_metadata import missing_sentence
from binlake.table.types.registry import column_type
from binlake.values.column_patterns import matches_column
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition, TablePlan

__all__ = ["TableTypes"]


@dataclass(frozen=True)
class TableTypes:
    """A table definition, ready to decode for one target.

    `columns` are the wanted ones; `ordinals` their places in the definition and in `plan`.
    """

    definition: TableDefinition
    target: Target
    plan: TablePlan
    columns: tuple[ColumnType, ...]
    ordinals: tuple[int, ...]

    @classmethod
    def of(
        cls,
        definition: TableDefinition,
        options: ReadOptions,
        target: Target,
        warn: Callable[[str], None],
    ) -> TableTypes:
        """Decide every column; `warn` takes a sentence for everything that nobody tells.

        Raises OptionError for a bad assume_charset.
        """
        wanted = _wanted_names(options, definition)
        context = ColumnContext(definition, options, target, warn)
        silent = replace(context, warn=_ignore, missing={})  # of a column that nobody reads
        types = [
            column_type(column, context if wanted(column.name) else silent)
            for column in definition.columns
        ]
        chosen = tuple(i for i, column in enumerate(definition.columns) if wanted(column.name))
        if (sentence := missing_sentence(definition, context.missing)) is not None:
            warn(sentence)
        unwanted = set(range(len(types))).difference(chosen)
        plans = tuple(
            replace(kind.plan, wanted=False) if i in unwanted else kind.plan
            for i, kind in enumerate(types)
        )
        plan = TablePlan(definition, plans, target is Target.TEXT)
        columns = tuple(types[i] for i in chosen)
        return cls(definition, target, plan, columns, chosen)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the wanted columns. Made when it is asked for: that costs as much as all
        the rest, and text has no use for it.
        """
        return _schema(self.definition, self.columns)

    @property
    def names(self) -> list[str]:
        """Names of the wanted columns, in order."""
        return [kind.column.name for kind in self.columns]


def _schema(definition: TableDefinition, columns: Sequence[ColumnType]) -> pa.Schema:
    """The Arrow schema of the wanted columns; the metadata names the table and its key."""
    names = [column.name for column in definition.columns]
    key = [names[i] for i in definition.primary_key if i < len(names)]
    metadata = {
        "binlake.table": definition.full_name,
        "binlake.flavour": definition.flavour,
        "binlake.name_source": definition.name_source,
        "binlake.name_origin": definition.name_origin,
        "binlake.primary_key": json.dumps(key, ensure_ascii=False),
    }
    return pa.schema([kind.field() for kind in columns], metadata=metadata)


def _wanted_names(options: ReadOptions, definition: TableDefinition) -> Callable[[str], bool]:
    if not (options.columns or options.exclude_column):
        return lambda _name: True
    database, table = definition.database, definition.table
    excluded = options.exclude_column
    wanted = frozenset(name.casefold() for name in options.columns)

    def is_wanted(name: str) -> bool:
        if wanted and name.casefold() not in wanted:  # to the servers, case is no difference
            return False
        return not matches_column(excluded, database, table, name)

    return is_wanted


def _ignore(_sentence: str) -> None:
    return None
