"""The views of the data source: the schema of each, and the batches of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from binlake.errors import OptionError
from binlake.spark.ledger_view import LEDGER, ledger_rows
from binlake.spark.options import SourceOptions
from binlake.spark.partitions import LogPartition
from binlake.spark.typed import InferredView, PinnedView
from binlake.stream.views import View, check_statement_options, view_of
from binlake.table.counting.row_counts import view_batches
from binlake.table.row_json import change_batch, change_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.similar_names import did_you_mean


def view_schema(options: SourceOptions) -> pa.Schema:
    """Return the Arrow schema of a view that does not depend on a table. Raises OptionError."""
    if options.view == "changes":
        return change_schema(options.read)
    if options.view == "statements":
        check_statement_options(options.read)
    return _record_view(options.view, options.read).schema(options.read.columns)


def _record_view(name: str, options: ReadOptions) -> View:
    return LEDGER if name == LEDGER.name else view_of(name, options)


def view_columns(options: SourceOptions, names: Sequence[str]) -> list[str]:
    """Return columns of such a view by the names in the user's schema, in any case.

    Raises OptionError for an unknown name.
    """
    known = {name.lower(): name for name in view_schema(options).names}
    for name in names:
        if name.lower() not in known:
            raise OptionError(
                f".schema(…): the view {options.view} has no column {name!r}",
                name="schema",
                hint=did_you_mean(name, known.values()) or f"it has {', '.join(known.values())}",
            )
    return [known[name.lower()] for name in names]


class ViewReader:
    """Reads one view, with only the named columns.

    `inferred` is the typed view as planned, None if the user gave its schema. Then batches are as
    decoded, and the caller converts them to that schema.
    """

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        inferred: InferredView | PinnedView | None,
    ) -> None:
        self._view = options.view
        self._options = options.read
        self._names_one_table = options.names_one_table
        named = columns if options.view == "table" else view_columns(options, columns)
        self._columns = tuple(named)
        self._inferred = inferred

    def batches(self, partition: LogPartition, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition, as decoded. Raises BinlogError."""
        if self._view == "changes":
            for changes in partition.changes(self._options, Target.TEXT, ledger):
                yield change_batch(changes, self._options)
        elif self._view == "table":
            yield from self._typed(partition, ledger)
        elif self._view == LEDGER.name:
            target = Target.TYPED if self._names_one_table else Target.TEXT
            read = replace(
                self._options, columns=()
            )  # here these are the view's columns, not a table's
            yield from ledger_rows(partition, read, target, self._columns, ledger)
        else:
            yield from self._records(partition, ledger)

    def _typed(self, partition: LogPartition, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        for changes in partition.changes(self._options, Target.TYPED, ledger):
            for found in changes.table_batches(self._options):
                if self._inferred is None:
                    ledger.look_for(self._columns, found.batch.schema.names)
                batch = self._inferred.conform(found.batch) if self._inferred else found.batch
                if batch is not None:
                    yield batch

    def _records(self, partition: LogPartition, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        view = view_of(self._view, self._options)
        options = replace(
            self._options, columns=()
        )  # here these are the view's columns, not a table's
        for part in partition.by_chain():
            readers = part.readers(options, ledger)
            yield from view_batches(view, readers, self._columns, options, ledger, part.ddl_before)
