"""The definitions under which the rows of tables are changed, found without decoding a value.

A result whose rows the filters exclude has the columns that it would have with them. So this reads the
rows without filters, to the end: the newest definition decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from binlake.errors import SourceError
from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain
from binlake.table.batches import Changes, typed_schema
from binlake.table.checks.column_check import ColumnCheck
from binlake.table.plan import TableTypes
from binlake.table.reading import read_changes
from binlake.table.resolve import silent
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.newest_names import ColumnRenames
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

#: No column has this name: rows are found, and none of their values is decoded.
NO_COLUMN = ("",)


@dataclass(frozen=True, slots=True)
class TableDefinitions:
    """The definitions of one table, by the last change of each: the newest is the last.

    `schemas` are those of the typed view, `columns` the names of all columns that the table has or had,
    `renames` the columns that each statement of the log renames.
    """

    name: str
    schemas: tuple[pa.Schema, ...]
    columns: frozenset[str]
    renames: Sequence[ColumnRenames]

    def empty_batches(self) -> list[pa.RecordBatch]:
        """Return a batch without rows for each definition."""
        return [_empty(schema) for schema in self.schemas]


def excluded_definitions(
    chains: Sequence[Chain], options: ReadOptions, schema: DeclaredSchema, found_instead: str
) -> list[TableDefinitions]:
    """Return the definitions of the tables that match the option table, after a read without any change of them.

    `found_instead` is the hint of the error: what the logs contain. Raises SourceError if the filters exclude no
    change of such a table, or if the logs cannot be read again.
    """
    problem = f"the read found no change of table {', '.join(options.table)}"
    found: list[TableDefinitions] = []
    if options.filters_given != ["table"]:
        if (pipe := pipe_in(path for chain in chains for path in chain.paths)) is not None:
            raise SourceError(
                f"{problem}, and {pipe} cannot be read again to find the table's columns",
                hint="write the log to a file first: the result is then empty if the filters exclude all changes",
            )
        found = _unfiltered_definitions(chains, options, schema)
    if not found:
        raise SourceError(problem, hint=found_instead)
    return found


def _unfiltered_definitions(
    chains: Sequence[Chain], options: ReadOptions, schema: DeclaredSchema
) -> list[TableDefinitions]:
    """Return the definitions of the tables that match the option table, whatever the other filters are, in the
    order of their last changes.

    binlake skips damage, since the filters may exclude it. Raises other BinlogErrors, also OptionError for a
    column of the option columns that no table has.
    """
    wanted = options.unfiltered()
    scope = replace(
        wanted,
        columns=NO_COLUMN,
        before=False,
        query=False,
        on_error="skip",
        on_unshown="count",
    )
    check, ledger = ColumnCheck(wanted), Ledger()
    found: dict[str, dict[TableDefinition, None]] = {}
    for definitions in read_changes(chains, scope, ledger, Target.TYPED, schema, _definitions):
        for definition in definitions:
            check.note(definition.full_name, [column.name for column in definition.columns])
            known = found.pop(definition.full_name, {})
            known.pop(definition, None)
            known[definition] = None  # the newest last
            found[definition.full_name] = known
    check.check_names()
    return [_of_table(list(definitions), wanted, ledger) for definitions in found.values()]


def _definitions(changes: Changes) -> list[TableDefinition]:
    return [table.types.definition for table in changes.newest_last()]


def _of_table(
    definitions: Sequence[TableDefinition], options: ReadOptions, ledger: Ledger
) -> TableDefinitions:
    newest = definitions[-1]
    return TableDefinitions(
        newest.full_name,
        tuple(
            typed_schema(TableTypes.of(definition, options, Target.TYPED, silent), options)
            for definition in definitions
        ),
        frozenset(column.name for definition in definitions for column in definition.columns),
        ledger.renames(newest.database, newest.table),
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)
