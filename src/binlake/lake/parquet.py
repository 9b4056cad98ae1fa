"""Write Parquet files of many tables at the same time, as Spark itself writes them.

Spark stores its schema in the footer of its files. With the same entry in binlake's files, Spark
reads back the exact types of the data source (without it, a duration is a plain bigint).

A task reads its tables interleaved, so rows are held until a table has enough for a good row
group. The total size of held rows is limited, and so is the number of open files.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from binlake.spark.schema import Conformer, exact_schema, spark_schema_json

__all__ = ["DataFile", "ParquetFiles", "TableKey"]

ROW_GROUP_BYTES = 64 << 20
HELD_BYTES = 192 << 20
OPEN_FILES = 200
OPEN_COLUMNS = 1 << 14  # of all open files together

# What a column of a held batch, or of an open file, takes beside its values.
_COLUMN_BYTES = 4 << 10

_SAMPLE_ROWS = 8192

_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
# Any version from 3.0 on means: dates and timestamps are in the proleptic Gregorian calendar.
_SPARK_VERSION = b"org.apache.spark.version"


@dataclass(frozen=True, slots=True)
class TableKey:
    """A data set of the export: a table, or (`version`) rows set aside from it."""

    database: str
    table: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One finished Parquet file, and the Arrow schema of its rows."""

    key: TableKey
    name: str
    rows: int
    bytes: int
    schema: pa.Schema

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, to travel in a task's result."""
        # a schema of thousands of columns says nearly the same of each
        packed = zlib.compress(self.schema.serialize(), 1)
        schema = base64.b64encode(packed).decode("ascii")
        return {
            "table": [self.key.database, self.key.table, self.key.version],
            "name": self.name,
            "rows": self.rows,
            "bytes": self.bytes,
            "schema": schema,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DataFile:
        """Return the object of `to_json`'s result."""
        packed = base64.b64decode(value["schema"])
        schema = pa.ipc.read_schema(pa.py_buffer(zlib.decompress(packed)))
        key = TableKey(*value["table"])
        return cls(key, value["name"], value["rows"], value["bytes"], schema)


@dataclass(slots=True)
class _OpenFile:
    name: str
    decoded: pa.Schema
    conformer: Conformer
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    rows: int = 0


@dataclass(slots=True)
class _Held:
    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0


class ParquetFiles:
    """Writes batches of any tables to files in one directory, under unique names."""

    def __init__(
        self, fs: pafs.FileSystem, directory: str, prefix: str, target_file_bytes: int
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._prefix = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self._target_file_bytes = target_file_bytes
        self._held: dict[TableKey, _Held] = {}
        self._held_bytes = 0
        self._open: dict[TableKey, _OpenFile] = {}  # in order of last use
        self._open_columns = 0
        self._files: list[DataFile] = []
        self._count = 0

    def write(self, key: TableKey, batch: pa.RecordBatch) -> None:
        """Add rows to a table. A batch of another schema begins another file."""
        held = self._held.get(key)
        if held is not None and not held.schema.equals(batch.schema):
            self._flush(key)
            self._close(key)
            held = None
        if held is None:
            held = self._held[key] = _Held(batch.schema)
        held.batches.append(batch)
        size = batch.nbytes + batch.num_columns * _COLUMN_BYTES
        held.bytes += size
        self._held_bytes += size
        if held.bytes >= ROW_GROUP_BYTES:
            self._flush(key)
        if self._held_bytes > HELD_BYTES:
            self._flush_largest()

    def close(self) -> list[DataFile]:
        """Finish all files and return them."""
        for key in list(self._held):
            self._flush(key)
        for key in list(self._open):
            self._close(key)
        return self._files

    def abort(self) -> None:
        """Close open files without finishing them."""
        for opened in self._open.values():
            opened.writer.is_open = False  # else it writes a footer when it is collected
            with suppress(OSError):  # of a full disk
                opened.sink.close()
        self._open.clear()
        self._held.clear()

    def _flush_largest(self) -> None:
        """Flush tables until half of the limit is held: there may be thousands."""
        for key in sorted(self._held, key=lambda k: self._held[k].bytes, reverse=True):
            self._flush(key)
            if self._held_bytes <= HELD_BYTES // 2:
                return

    def _flush(self, key: TableKey) -> None:
        held = self._held.pop(key)
        self._held_bytes -= held.bytes
        opened = self._file(key, held)
        table = pa.Table.from_batches([opened.conformer.exact(b) for b in held.batches])
        opened.writer.write_table(table, row_group_size=max(1, table.num_rows))
        opened.rows += table.num_rows
        if opened.sink.tell() >= self._target_file_bytes:
            self._close(key)

    def _file(self, key: TableKey, held: _Held) -> _OpenFile:
        opened = self._open.get(key)
        if opened is not None and not opened.decoded.equals(held.schema):
            self._close(key)
            opened = None
        if opened is None:
            while self._open and self._has_too_many_open(len(held.schema)):
                self._close(next(iter(self._open)))
            opened = self._create(held)
            self._open_columns += len(held.schema)
        self._open.pop(key, None)
        self._open[key] = opened
        return opened

    def _has_too_many_open(self, columns: int) -> bool:
        """Whether a further file of so many columns is more than may be open."""
        return len(self._open) >= OPEN_FILES or self._open_columns + columns > OPEN_COLUMNS

    def _create(self, held: _Held) -> _OpenFile:
        schema = held.schema
        name = f"{self._prefix}-{self._count:04d}.parquet"
        self._count += 1
        conformer = Conformer(exact_schema(schema))
        footer = {
            **(schema.metadata or {}),
            _ROW_METADATA: spark_schema_json(schema).encode(),
            _SPARK_VERSION: b"4.1.0",
        }
        sink = self._fs.open_output_stream(f"{self._directory}/{name}")
        writer = pq.ParquetWriter(
            sink,
            conformer.schema.with_metadata(footer),
            compression="zstd",
            compression_level=1,
            use_dictionary=_repetitive(held.batches[0]),
        )
        return _OpenFile(name, schema, conformer, sink, writer)

    def _close(self, key: TableKey) -> None:
        opened = self._open.get(key)
        if opened is None:
            return
        opened.writer.close()
        size = opened.sink.tell()
        opened.sink.close()
        del self._open[key]  # what fails before is left to `abort`
        self._open_columns -= len(opened.decoded)
        self._files.append(DataFile(key, opened.name, opened.rows, size, opened.conformer.schema))


def _repetitive(batch: pa.RecordBatch) -> list[str]:
    """Columns whose values repeat enough for a dictionary; for others it costs half the speed."""
    sample = batch.slice(0, _SAMPLE_ROWS)
    return [
        field.name
        for field in batch.schema
        if not pa.types.is_nested(field.type)
        and len(sample.column(field.name).unique()) * 4 <= sample.num_rows
    ]


def read_batches(fs: pafs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """The batches of one of our files, with the Arrow types that were written."""
    with fs.open_input_file(path) as source, pq.ParquetFile(source) as file:
        yield from file.iter_batches(batch_size=100_000)
