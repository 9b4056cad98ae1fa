"""Tables whose columns are assumed from the beginning of the logs, until a read of all rows proves them.

SQL needs the columns of a table before it reads a row, and to find them takes a pass over the logs
(`definitions.find_tables`). Most tables have one definition. So a statement begins with the first one that the logs
have, and its own read of the rows notices if there is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa

from binlake.errors import BinlogError
from binlake.query.definitions import ChangedTable, first_definitions
from binlake.query.scans import Input, Scan, TypedTable
from binlake.source.log_file import Damage
from binlake.table.plan import TableTypes
from binlake.table.resolve import TableResolver
from binlake.values.frame import EventFormat
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition


class OtherDefinitionError(Exception):
    """The logs have another definition of a table than the assumed one."""


class AssumedTable(TypedTable):
    """A table with one definition, which a complete read proves: `is_proven` is then true.

    A read that meets another definition raises OtherDefinitionError.
    """

    def __init__(self, source: Input, found: ChangedTable, definition: TableDefinition) -> None:
        super().__init__(source, found)
        self.found = found
        self._definition = definition
        self.is_proven = False

    def batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        if self.is_proven:
            yield from super().batches(scan)
            return
        watched: list[_WatchedTables] = []

        def watch(tables: TableResolver) -> _WatchedTables:
            watched.append(_WatchedTables(tables, self._definition))
            return watched[-1]

        yield from self._read(scan, watch)
        name = self.name.casefold()
        others = (one for tables in watched for one in tables.unwanted)
        renames = scan.ledger.renames(self.found.database, self.found.table)
        if renames or any(other.casefold() == name for other in others):
            raise OtherDefinitionError
        if self._reads_all(scan.options):
            self.is_proven = True

    def _reads_all(self, options: ReadOptions) -> bool:
        """Whether a read with these options has every row of the table that the input has."""
        given = self.source.options
        return options.where is None and replace(given, table=options.table, columns=options.columns,
            before=options.before, query=options.query, thread_id=options.thread_id) == options  # fmt: skip


class _WatchedTables:
    """Resolves tables, and refuses other definitions of one table."""

    def __init__(self, tables: TableResolver, definition: TableDefinition) -> None:
        self._tables = tables
        self._definition = definition

    @property
    def unwanted(self) -> set[str]:
        return self._tables.unwanted

    def types(self, body: bytes, fmt: EventFormat) -> TableTypes | None:
        types = self._tables.types(body, fmt)
        if types is not None and types.definition != self._definition:
            raise OtherDefinitionError
        return types


def assumed_tables(
    source: Input, options: ReadOptions, names: Collection[str]
) -> list[AssumedTable]:
    """Return the tables of these names, spelled as in the logs; [] if one of them cannot be assumed.

    With filters of transactions, a look at the beginning could take as long as a search. `options` as for `find_tables`.
    """
    if set(options.filters_given) - {"table", "exclude_table"} or options.on_error == Damage.SKIP:
        return []
    try:
        found = first_definitions(source.chains, options, source.schema, names)
    except BinlogError:  # a complete search reports it better
        return []
    if not found.keys() >= set(names):
        return []
    return [AssumedTable(source, *found[name]) for name in names]
