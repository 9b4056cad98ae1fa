"""Write the rows of a state: JSON lines, SQL, or a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from binlake.cli.common.change_writer import TableWriter, table_writer
from binlake.core.text.text_rows import RowTemplate, write_rows
from binlake.state.filtering import image_of
from binlake.state.shape import TableShape
from binlake.table.sql.row_sql import SqlTable, SqlValues
from binlake.table.text.json_values import as_array
from binlake.table.text.sql_text import SESSION

#: The formats of `state`.
FORMATS = ("json", "sql", "csv", "csv-guarded", "arrow", "parquet")


class RowWriter(Protocol):
    """Writes rows batch by batch."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def row_writer(
    form: str, target: BinaryIO, shape: TableShape, metadata: Mapping[bytes, bytes]
) -> RowWriter:
    """Return a writer in one of `FORMATS`; Arrow and Parquet get the metadata. Raises UnsupportedError for a table that SQL cannot name."""
    if form == "json":
        return _JsonRows(target, shape)
    if form == "sql":
        return _SqlRows(target, shape)
    return _TableRows(form, target, shape, metadata)


class _JsonRows:
    def __init__(self, target: BinaryIO, shape: TableShape) -> None:
        self._target = target
        self._shape = shape

    def write(self, batch: pa.RecordBatch) -> None:
        template = RowTemplate(batch.num_rows)
        image_of(self._shape, batch).add_json(template, b"")
        template.add(b"\n")
        self._target.write(write_rows([template]))

    def close(self) -> None:
        return


class _SqlRows:
    def __init__(self, target: BinaryIO, shape: TableShape) -> None:
        self._target = target
        self._shape = shape
        self._table = SqlTable(shape.types, ())
        target.write("".join(f"{line}\n" for line in (*SESSION, "BEGIN;")).encode())

    def write(self, batch: pa.RecordBatch) -> None:
        row = {
            kind.column.ordinal: SqlValues(kind, column)
            for kind, column in zip(self._shape.types.columns, batch.columns, strict=True)
        }
        statements = self._table.insert(row, batch.num_rows)
        self._target.write("".join(statements.to_pylist()).encode())

    def close(self) -> None:
        self._target.write(b"COMMIT;\n")


class _TableRows:
    """Binary values in CSV are as in JSON: `0x` and digits."""

    def __init__(
        self, form: str, target: BinaryIO, shape: TableShape, metadata: Mapping[bytes, bytes]
    ) -> None:
        self._metadata = {**(shape.schema.metadata or {}), **metadata}
        self._shape = shape
        self._as_text = form.startswith("csv")
        self._writer: TableWriter = table_writer(form, target, self._schema())

    def write(self, batch: pa.RecordBatch) -> None:
        columns = []
        for kind, column in zip(self._shape.types.columns, batch.columns, strict=True):
            made = column
            if self._as_text and not _is_plain(kind.arrow_type):
                template = RowTemplate(batch.num_rows)
                template.add(b"", kind.to_json(column))
                made = pc.utf8_trim(as_array(template, column.is_valid()), '"')
            columns.append(made)
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema()))

    def close(self) -> None:
        self._writer.close()

    def _schema(self) -> pa.Schema:
        fields = [
            pa.field(field.name, pa.large_string())
            if self._as_text and not _is_plain(field.type)
            else field
            for field in self._shape.schema
        ]
        return pa.schema(fields, metadata=self._metadata)


def _is_plain(kind: pa.DataType) -> bool:
    return not (pa.types.is_binary(kind) or pa.types.is_list(kind))
