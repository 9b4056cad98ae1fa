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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from binlake.spark.schema import Conformer, exact_schema, spark_schema_json

__all__ = ["DataFile", "ParquetFiles", "TableKey", "files_from_json", "files_to_json"]

ROW_GROUP_BYTES = 48 << 20
HELD_BYTES = 48 << 20
OPEN_FILES = 200
OPEN_COLUMNS = 1 << 12  # of all open files together
MOST_CHUNKS = (
    1 << 14
)  # columns times row groups of a file: until its end, its writer describes each

# What a column of a held batch, or of an open file, takes beside its values.
_COLUMN_BYTES = 4 << 10

_SAMPLE_ROWS = 8192

# Of so few rows a file is written as fast as can be: a compressor, a dictionary and statistics take
# longer than the values of a column.
_FEW_ROWS = 64

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
    """One finished Parquet file, and the Arrow schema of its rows.

    `is_full`: it ended because it had enough, so joining it with others gains nothing.
    """

    key: TableKey
    name: str
    rows: int
    bytes: int
    schema: pa.Schema
    is_full: bool = False


def files_to_json(files: Sequence[DataFile]) -> dict[str, Any]:
    """Files as plain JSON, to travel in a task's result.

    Files that follow each other and have the same columns share their description: there may be
    thousands of files, and thousands of columns in each.
    """
    described: list[str] = []
    entries: list[dict[str, Any]] = []
    last: pa.Schema | None = None
    for file in files:
        columns = file.schema.remove_metadata()
        if last is None or not last.equals(columns, check_metadata=True):
            last = columns
            # a schema of thousands of columns says nearly the same of each
            packed = zlib.compress(columns.serialize(), 1)
            described.append(base64.b64encode(packed).decode("ascii"))
        metadata = file.schema.metadata
        entries.append(
            {
                "table": [file.key.database, file.key.table, file.key.version],
                "name": file.name,
                "rows": file.rows,
                "bytes": file.bytes,
                "is_full": file.is_full,
                "columns": len(described) - 1,
                "metadata": metadata and {k.decode(): v.decode() for k, v in metadata.items()},
            }
        )
    return {"columns": described, "files": entries}


def files_from_json(value: Mapping[str, Any]) -> list[DataFile]:
    """The files that `files_to_json` described."""
    columns = [
        pa.ipc.read_schema(pa.py_buffer(zlib.decompress(base64.b64decode(packed))))
        for packed in value["columns"]
    ]
    return [
        DataFile(
            TableKey(*entry["table"]),
            entry["name"],
            entry["rows"],
            entry["bytes"],
            columns[entry["columns"]].with_metadata(entry["metadata"]),
            entry["is_full"],
        )
        for entry in value["files"]
    ]


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the files of tables with the same columns have in common: making it takes longer than
    writing a few rows.
    """

    decoded: pa.Schema
    exact: pa.Schema
    spark_schema: bytes

    @classmethod
    def of(cls, decoded: pa.Schema) -> _Columns:
        return cls(decoded, exact_schema(decoded), spark_schema_json(decoded).encode())


@dataclass(slots=True)
class _OpenFile:
    name: str
    decoded: pa.Schema
    conformer: Conformer
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    is_for_few_rows: bool
    rows: int = 0
    chunks: int = 0
    is_full: bool = False


@dataclass(slots=True)
class _Held:
    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0

    @property
    def are_few(self) -> bool:
        """Whether the rows are too few to compress them."""
        return bool(sum(batch.num_rows for batch in self.batches) < _FEW_ROWS)


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
        self._columns: _Columns | None = None  # of the file created last

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
        opened.chunks += table.num_columns
        if opened.sink.tell() >= self._target_file_bytes or opened.chunks >= MOST_CHUNKS:
            opened.is_full = True
            self._close(key)

    def _file(self, key: TableKey, held: _Held) -> _OpenFile:
        opened = self._open.get(key)
        if opened is not None and (
            not opened.decoded.equals(held.schema) or (opened.is_for_few_rows and not held.are_few)
        ):
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
        columns = self._shared(schema)
        conformer = Conformer(columns.exact.with_metadata(schema.metadata))
        footer = {
            **(schema.metadata or {}),
            _ROW_METADATA: columns.spark_schema,
            _SPARK_VERSION: b"4.1.0",
        }
        few = held.are_few
        sink = self._fs.open_output_stream(f"{self._directory}/{name}")
        writer = pq.ParquetWriter(
            sink,
            conformer.schema.with_metadata(footer),
            compression="snappy" if few else "zstd",
            compression_level=None if few else 1,
            use_dictionary=False if few else _repetitive(held.batches[0]),
            write_statistics=not few,
        )
        return _OpenFile(name, schema, conformer, sink, writer, few)

    def _shared(self, schema: pa.Schema) -> _Columns:
        """What this schema has in common with the one before, if the columns are the same."""
        decoded = schema.remove_metadata()
        known = self._columns
        if known is None or not known.decoded.equals(decoded, check_metadata=True):
            known = self._columns = _Columns.of(decoded)
        return known

    def _close(self, key: TableKey) -> None:
        opened = self._open.get(key)
        if opened is None:
            return
        opened.writer.close()
        size = opened.sink.tell()
        opened.sink.close()
        del self._open[key]  # what fails before is left to `abort`
        self._open_columns -= len(opened.decoded)
        schema = opened.conformer.schema
        self._files.append(DataFile(key, opened.name, opened.rows, size, schema, opened.is_full))


def _repetitive(batch: pa.RecordBatch) -> list[str]:
    """Columns whose values repeat enough for a dictionary; for others it costs half the speed."""
    sample = batch.slice(0, _SAMPLE_ROWS)
    return [
        field.name
        for field in batch.schema
        if not pa.types.is_nested(field.type)
        and sample.column(field.name).null_count < sample.num_rows
        and len(sample.column(field.name).unique()) * 4 <= sample.num_rows
    ]


def read_batches(fs: pafs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """The batches of one of our files, with the Arrow types that were written."""
    with fs.open_input_file(path) as source, pq.ParquetFile(source) as file:
        yield from file.iter_batches(batch_size=100_000)
