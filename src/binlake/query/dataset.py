"""A table as DuckDB scans it: an Arrow dataset whose rows are made when they are asked for.

DuckDB calls `scanner` once for each place of a statement that names the table, with the columns that it
needs there and a filter, and does not apply the filter again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from binlake.query.conditions import Asked
from binlake.query.scans import QueryTable, Scan


class LogDataset(ds.Dataset):  # type: ignore[misc]
    """A dataset over a table. `begun` is called with each scan, and `failed` with its error,
    because DuckDB passes on only the text of an error.
    """

    def __init__(
        self,
        table: QueryTable,
        begun: Callable[[Scan], object],
        failed: Callable[[BaseException], object],
        *kept: object,
    ) -> None:
        # the constructor of the base class refuses to be called, and there is nothing to construct
        self._table = table
        self._begun = begun
        self._failed = failed
        self._kept = kept  # objects that must live as long as the table can be read

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        """Return a scanner of these columns, for the rows that pass the filter."""
        names = self.schema.names if columns is None else columns
        asked = Asked.of(filter)
        needed = self.schema.names
        if asked.columns is not None:
            needed = list(dict.fromkeys((*names, *sorted(asked.columns))))
        scan = self._table.plan(needed, asked)
        self._begun(scan)
        schema = pa.schema([self.schema.field(name).remove_metadata() for name in names])
        return _Scanner(schema, self._batches(scan, schema, filter))

    def _batches(
        self, scan: Scan, schema: pa.Schema, condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._table.batches(scan):
                rows = pa.Table.from_batches([batch])
                if condition is not None:
                    rows = rows.filter(condition)
                chosen = [rows.column(name) for name in schema.names]
                yield from pa.Table.from_arrays(chosen, schema=schema).to_batches()
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed(error)
            raise


class _Scanner:
    """The part of an Arrow scanner that DuckDB uses."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.projected_schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches; they can be read once."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches)
