"""The changes of one table as one Arrow table, although its definition may change in the logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from binlake.errors import OptionError
from binlake.table.definitions import TableDefinitions
from binlake.table.schema.evolution import Evolution
from binlake.table.schema.newest_names import unnamed_renames


def split_version(table: str) -> tuple[str, int | None]:
    """Split `db.t@2` into ("db.t", 2); a name without such an end stays whole."""
    name, at, number = table.rpartition("@")
    return (name, int(number)) if name and at and number.isdecimal() else (table, None)


def schema_of_version(table: str, evolution: Evolution, number: int) -> pa.Schema:
    """Return the schema of `<table>@<number>`. Raises OptionError for a number that no definition has."""
    known = len(evolution.versions)
    if not 1 <= number <= known:
        raise OptionError(
            f"table {table} has {known} definitions in this range, but no @{number}",
            name="table",
            value=f"{table}@{number}",
        )
    return evolution.versions[number - 1]


def united(
    batches: Iterable[pa.RecordBatch], found: TableDefinitions, columns: Sequence[str]
) -> tuple[pa.Table, list[str]]:
    """Return the rows that fit the united schema, and a sentence for each column whose name or type changed.

    `columns`: the names of the option columns.
    """
    evolution = _evolution(found)
    rows = [evolution.conform(batch).fitting for batch in batches]
    unnamed = unnamed_renames(found.name, columns, found.renames, found.columns)
    return pa.Table.from_batches(rows, evolution.schema), [*evolution.notes, *unnamed]


def unfitting(batches: Iterable[pa.RecordBatch], found: TableDefinitions, number: int) -> pa.Table:
    """Return the rows of `<table>@<number>`: the rows of this definition that do not fit the united schema.

    Raises OptionError for a number that no definition has.
    """
    evolution = _evolution(found)
    schema = schema_of_version(found.name, evolution, number)
    misfits = (evolution.conform(batch).misfits for batch in batches)
    rows = [one for one in misfits if one is not None and one.schema.equals(schema)]
    return pa.Table.from_batches(rows, schema)


def _evolution(found: TableDefinitions) -> Evolution:
    return Evolution.of(found.name, found.schemas, found.renames)
