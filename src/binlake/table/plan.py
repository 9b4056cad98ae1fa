"""From what the log tells of a table to how its columns are decoded and typed.

`TableTypes` is made once per table definition and target: the plan for the compiled core, the
Arrow schema, and the column types that turn the core's buffers into arrays.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from binlake.table.types.base import ColumnContext, ColumnType, Target
from binlake.table.types.registry import column_type
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition, TablePlan

__all__ = ["TableFilter", "TableTypes"]


class TableFilter:
    """The options table and exclude_table: which tables are wanted."""

    def __init__(self, options: ReadOptions) -> None:
        self._wanted = options.table
        self._excluded = options.exclude_table

    def wants(self, database: str, table: str) -> bool:
        """Whether `database.table` matches a wanted pattern (or there is none) and no excluded one."""
        name = f"{database}.{table}"
        if any(_matches(name, pattern) for pattern in self._excluded):
            return False
        return not self._wanted or any(_matches(name, pattern) for pattern in self._wanted)


def _matches(name: str, pattern: str) -> bool:
    """A glob over `database.table`; one without a dot names a table of any database."""
    return fnmatch.fnmatchcase(name, pattern if "." in pattern else f"*.{pattern}")


@dataclass(frozen=True, slots=True)
class TableTypes:
    """A table definition, ready to decode for one target.

    `columns` are the wanted ones; `ordinals` their places in the definition and in `plan`.
    """

    definition: TableDefinition
    target: Target
    plan: TablePlan
    columns: tuple[ColumnType, ...]
    ordinals: tuple[int, ...]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, definition: TableDefinition, options: ReadOptions, target: Target) -> TableTypes:
        """Decide every column. Raises OptionError for a bad assume_charset."""
        warnings: dict[str, None] = {}  # ordered, each once
        wanted = _wanted_names(options)
        context = ColumnContext(definition, options, target, warnings.setdefault)
        silent = replace(context, warn=_ignore)  # of a column that nobody reads
        types = [
            column_type(column, context if wanted(column.name) else silent)
            for column in definition.columns
        ]
        chosen = [i for i, column in enumerate(definition.columns) if wanted(column.name)]
        keep = frozenset(chosen)
        plans = tuple(replace(kind.plan, wanted=i in keep) for i, kind in enumerate(types))
        plan = TablePlan(definition, plans, target is Target.TEXT, tuple(warnings))
        columns = tuple(types[i] for i in chosen)
        return cls(definition, target, plan, columns, tuple(chosen), tuple(warnings))

    @property
    def names(self) -> list[str]:
        """Names of the wanted columns, in order."""
        return [kind.column.name for kind in self.columns]

    def schema(self) -> pa.Schema:
        """Arrow schema of the wanted columns; the metadata names the table and its key."""
        definition = self.definition
        key = [definition.columns[i].name for i in definition.primary_key if i < len(definition.columns)]
        metadata = {
            "binlake.table": definition.full_name,
            "binlake.flavour": definition.flavour,
            "binlake.name_source": definition.name_source,
            "binlake.primary_key": json.dumps(key, ensure_ascii=False),
        }
        return pa.schema([kind.field() for kind in self.columns], metadata=metadata)


def _wanted_names(options: ReadOptions) -> Callable[[str], bool]:
    if not options.columns:
        return lambda _name: True
    return frozenset(options.columns).__contains__


def _ignore(_sentence: str) -> None:
    return None
