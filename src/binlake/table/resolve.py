"""Resolve the body of a TABLE_MAP event to the types of its table: the one way there.

Decoders, counters and searches for a table's columns must agree on the definition of a table, so
they all use this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from binlake.events.common.table_map import table_map_of
from binlake.table.plan import ColumnsOf, TableTypes, TypesOfTables
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter


def silent(_sentence: str) -> None:
    """A `warn` for searches: the decoder reports the warnings."""


class ResolvesTables(Protocol):
    """The interface that decides how the rows of a table are decoded: a `TableResolver`."""

    def types(self, body: bytes, fmt: EventFormat) -> TableTypes | None: ...


class TableResolver:
    """Resolves the tables of a log for one target.

    `history` completes facts that TABLE_MAP lacks; without it, only the option schema does. `warn`
    takes a sentence for every unknown fact. `columns` are those to decode, instead of the option
    columns. `unwanted` are the tables met that the options exclude. Raises SchemaError, SourceError
    for a bad schema file.
    """

    def __init__(
        self,
        options: ReadOptions,
        target: Target,
        warn: Callable[[str], None],
        history: SchemaHistory | None = None,
        columns: ColumnsOf | None = None,
    ) -> None:
        self.history = history or SchemaHistory(declared_schema(options))
        self._types = TypesOfTables(options, target, warn, columns)
        self._warn = warn
        self._wanted = TableFilter(options)
        self.unwanted: set[str] = set()

    def types(self, body: bytes, fmt: EventFormat) -> TableTypes | None:
        """Return the types of the table that a TABLE_MAP body describes; None if it is not wanted.

        Raises FormatError, OptionError.
        """
        event = table_map_of(body, fmt)
        if not self._wanted.wants(event.database, event.table):
            self.unwanted.add(f"{event.database}.{event.table}")
            return None
        definition, problems = self.history.complete(event.definition())
        for problem in problems:
            self._warn(problem)
        return self._types.types(definition)


class MetTables:
    """Resolves tables as another resolver does; `met` receives the types of each wanted one."""

    def __init__(self, tables: ResolvesTables, met: Callable[[TableTypes], object]) -> None:
        self._tables = tables
        self._met = met

    def types(self, body: bytes, fmt: EventFormat) -> TableTypes | None:
        """Return the types, as `TableResolver.types`."""
        types = self._tables.types(body, fmt)
        if types is not None:
            self._met(types)
        return types
