"""SELECTs of whole tables or parts of them, as Arrow batches of the table's own types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from binlake.core.images.image import ImageBuffers
from binlake.errors import BinlogError, ServerError, UnsupportedError
from binlake.format import column_types as ct
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.prepared import BatchLimits, query_rows
from binlake.table.plan import TableTypes
from binlake.table.types.base import ColumnType, var_width
from binlake.table.types.network import NETWORK_BYTES
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

_AS_NUMBERS = (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET)


class RowSelect:
    """Reads rows of one table. Counts what it read: `rows`, `bytes` as sent, and `zero_dates`, by column the zero
    and partial dates that became null. `types` are those of the columns to read, default all as
    `log.changes` has them. Raises UnsupportedError for a column of unknown type.
    """

    def __init__(
        self, table: SourceTable, limits: BatchLimits, types: TableTypes | None = None
    ) -> None:
        self.table = table
        self.rows = 0
        self.bytes = 0
        self.zero_dates: Counter[str] = Counter()
        self._limits = limits
        self._types = types or table.types
        for kind in self._types.columns:
            if kind.plan.kernel is None:
                raise UnsupportedError(kind.plan.why)

    def batches(self, server: ServerConnection, condition: str = "") -> Iterator[pa.RecordBatch]:
        """The rows that meet a condition (SQL; all without). The session must send raw text.

        Raises ServerError, MalformedError and UnsupportedError for values that the types cannot hold.
        """
        for buffers in self._buffers(server, condition):
            yield self._batch(buffers)

    def batches_to_the_end(
        self, server: ServerConnection, condition: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `batches` yields. An error of a value is raised when all rows have been received, so the session, and its
        snapshot, can be used further.
        """
        rows = self._buffers(server, condition)
        for buffers in rows:
            try:
                batch = self._batch(buffers)
            except BinlogError:
                for _ in rows:
                    pass
                raise
            yield batch

    def _buffers(self, server: ServerConnection, condition: str) -> Iterator[ImageBuffers]:
        """The rows that meet a condition."""
        columns = self._types.columns
        sql = f"SELECT {', '.join(map(_selected, columns))} FROM {self.table.sql_name}"
        if condition:
            sql += f" WHERE {condition}"
        plans = [kind.plan for kind in columns]
        for buffers, received in query_rows(server, sql, plans, self._limits):
            self.rows += buffers.count
            self.bytes += received
            yield buffers

    def _batch(self, buffers: ImageBuffers) -> pa.RecordBatch:
        arrays = []
        for kind, values in zip(self._types.columns, buffers.columns, strict=True):
            assert values is not None, "every selected column is wanted"
            if values.zero_dates:
                self.zero_dates[kind.column.name] += values.zero_dates
            try:
                arrays.append(kind.finish(values))
            except BinlogError as error:
                raise error.at(field=kind.column.name) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._types.schema)


def text_rows(
    server: ServerConnection, sql: str, columns: int, most_bytes: int = 64 << 20
) -> list[tuple[str, ...]]:
    """The rows of a query that takes the server long; every column must be text, NULL becomes "".

    Raises ServerError, also for rows of more than `most_bytes`.
    """
    plan = ColumnPlan(ColumnDefinition(0, "text", ct.MYSQL_TYPE_VARCHAR), Kernel.BYTES, 4)
    rows: list[tuple[str, ...]] = []
    left = most_bytes
    for buffers, received in query_rows(server, sql, [plan] * columns, BatchLimits()):
        left -= received
        if left < 0:
            raise ServerError(
                f"{server.where} answers {sql[:80]} with more than {most_bytes >> 20} MB: refused"
            )
        found = [
            var_width(pa.binary(), column).to_pylist()
            for column in buffers.columns
            if column is not None
        ]
        rows += [
            tuple((one or b"").decode(errors="replace") for one in row)
            for row in zip(*found, strict=True)
        ]
    return rows


def _selected(kind: ColumnType) -> str:
    """The SQL expression for a column: the value in the form of a row image."""
    column = kind.column
    if column.type_code in _AS_NUMBERS:
        return f"CAST({kind.sql_name} AS UNSIGNED)"
    if column.declared in NETWORK_BYTES:
        return f"CAST({kind.sql_name} AS BINARY({NETWORK_BYTES[column.declared]}))"
    return kind.sql_name
