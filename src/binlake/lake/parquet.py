"""Write Parquet files of many tables at the same time, as Spark itself writes them.

Spark stores its schema in the footer of its files. With the same entry in binlake's files, Spark
reads back the exact types of the data source (without it, a duration is a plain bigint).

A task reads its tables interleaved, so rows are held until a table has enough for a good row
group. The total size of held rows is limited, and so is the number of open files.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from binlake.lake.data_file import DataFile, PackedSchema, TableKey
from binlake.spark.schema import Conformer, exact_schema, spark_schema_json

# The memory of a column of a buffered batch, or of an open file, beside its values.
_COLUMN_BYTES = 4 << 10

_SAMPLE_ROWS = 8192
# So many rows for each value are worth a dictionary, however the values lie.
_ROWS_OF_A_FEW_VALUES = 64

_MOST_READ_ROWS = 100_000
# Of all columns and of their lists: a few bytes in a file may be thousands. A value of a list is a name,
# which may be 256 bytes long.
_MOST_READ_VALUES = 1 << 21
_VALUES_OF_A_NAME = 8

# A column chunk of few rows is some 30 bytes: without a buffer each of them is a system call.
_WRITTEN_AT_ONCE = 1 << 16

# Of so few rows a file is written as fast as can be: a compressor, a dictionary and statistics take
# longer than the values of a column.
_FEW_ROWS = 64

# Of 4,096 names of 64 characters.
_MOST_DICTIONARY_BYTES = 2 << 20

_ARROW_SCHEMA = b"ARROW:schema"
_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
# Any version from 3.0 on means: dates and timestamps are in the proleptic Gregorian calendar.
_SPARK_VERSION = b"org.apache.spark.version"


@dataclass(frozen=True, slots=True)
class ParquetLimits:
    """How much `ParquetFiles` buffers and keeps open.

    Row groups of a table are written at `row_group_bytes`, those of the largest tables when all buffered rows have
    `held_bytes`. `open_columns` counts the columns of all open files. `chunks` is the number of columns times row
    groups at which a file ends, because its writer describes each chunk until the end.
    """

    row_group_bytes: int = 48 << 20
    held_bytes: int = 48 << 20
    open_files: int = 200
    open_columns: int = 1 << 12
    chunks: int = 1 << 13


_LIMITS = ParquetLimits()


class _Columns:
    """The common parts of the files of tables with the same columns: creating them takes longer
    than writing a few rows. Those that only a file needs are created with the first one.

    `decoded` is the schema of the rows, without the metadata of the table.
    """

    def __init__(self, decoded: pa.Schema) -> None:
        self.decoded = decoded
        kinds = decoded.types
        # the places of lists: the writer takes them apart, and needs twice as much again
        self.lists = [i for i, kind in enumerate(kinds) if pa.types.is_list(kind)]
        self._with_dictionary = [i for i in self.lists if _has_dictionary(kinds[i])]

    @cached_property
    def exact(self) -> pa.Schema:
        """The schema of the rows as they are read."""
        return exact_schema(self.decoded)

    @cached_property
    def conformer(self) -> Conformer:
        """Converts rows to the types of `exact`, but a dictionary of names is written as one."""
        written = self.exact
        for place in self._with_dictionary:
            written = written.set(place, self.decoded.field(place))
        return Conformer(written)

    @cached_property
    def dictionaries(self) -> list[str]:
        """The paths of the columns that have a dictionary already."""
        return [
            path
            for field in map(self.decoded.field, self._with_dictionary)
            for path in _leaves(field.name, field.type)
        ]

    @cached_property
    def statistics(self) -> bool | list[str]:
        """Whether the columns get statistics, or the paths of those that do. Lists of names do not: no
        reader selects row groups by them, and they may be a thousand names for each byte of a log.
        """
        if not self.dictionaries:
            return True
        leaves = [path for field in self.decoded for path in _leaves(field.name, field.type)]
        return [path for path in leaves if path not in self.dictionaries]

    @cached_property
    def spark_schema(self) -> bytes:
        """Spark's schema, as the footers of Spark's files contain it."""
        return spark_schema_json(self.decoded).encode()

    @cached_property
    def packed(self) -> PackedSchema:
        """`exact`, to travel in a task's result."""
        return PackedSchema.of(self.exact)


@dataclass(slots=True)
class _OpenFile:
    name: str
    columns: _Columns
    metadata: Mapping[bytes, bytes]  # of the table
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    is_for_few_rows: bool
    rows: int = 0
    chunks: int = 0
    is_full: bool = False


@dataclass
class _Held:
    schema: pa.Schema
    columns: _Columns
    batches: list[pa.RecordBatch] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of the batches: adding up columns takes long
    bytes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold a batch. Short batches of many columns are joined: they take more than their values."""
        self._hold(batch)
        while len(self.batches) > 1:
            last, sizes = self.batches[-2:], self.sizes[-2:]
            if last[0].num_rows > 2 * last[1].num_rows or not any(map(_is_wide, last, sizes)):
                return
            del self.batches[-2:], self.sizes[-2:]
            self.bytes -= sum(sizes)
            self._hold(pa.concat_batches(last))

    def _hold(self, batch: pa.RecordBatch) -> None:
        # `batch.nbytes` adds up column by column, in 5 us each: longer than to write a short one
        size = batch.get_total_buffer_size() + batch.num_columns * _COLUMN_BYTES
        size += sum(2 * batch.column(place).nbytes for place in self.columns.lists)
        self.batches.append(batch)
        self.sizes.append(size)
        self.bytes += size

    @property
    def are_few(self) -> bool:
        """Whether the rows are too few to compress them."""
        return bool(sum(batch.num_rows for batch in self.batches) < _FEW_ROWS)


def _is_wide(batch: pa.RecordBatch, size: int) -> bool:
    """Whether the columns of a batch take more than their values; `size` is of both."""
    return bool(size < 2 * batch.num_columns * _COLUMN_BYTES)


class ParquetFiles:
    """Writes batches of any tables to files in one directory, under unique names."""

    def __init__(
        self,
        fs: pafs.FileSystem,
        directory: str,
        prefix: str,
        target_file_bytes: int,
        limits: ParquetLimits = _LIMITS,
    ) -> None:
        self._fs = fs
        self._limits = limits
        self._directory = directory
        self._prefix = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self._target_file_bytes = target_file_bytes
        self._held: dict[TableKey, _Held] = {}
        self._held_bytes = 0
        self._open: dict[TableKey, _OpenFile] = {}  # in order of last use
        self._open_columns = 0
        self._files: list[DataFile] = []
        self._count = 0
        self._columns: _Columns | None = None  # of the table that was held last

    def write(self, key: TableKey, batch: pa.RecordBatch) -> None:
        """Add rows to a table. A batch of another schema begins another file."""
        held = self._held.get(key)
        if held is not None and not held.schema.equals(batch.schema):
            self._flush(key)
            self._close(key)
            held = None
        if held is None:
            held = self._held[key] = _Held(batch.schema, self._shared(key, batch.schema))
        self._held_bytes -= held.bytes
        held.add(batch)
        self._held_bytes += held.bytes
        if held.bytes >= self._limits.row_group_bytes:
            self._flush(key)
        if self._held_bytes > self._limits.held_bytes:
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
            if self._held_bytes <= self._limits.held_bytes // 2:
                return

    def _flush(self, key: TableKey) -> None:
        held = self._held.pop(key)
        self._held_bytes -= held.bytes
        opened = self._file(key, held)
        conformer = opened.columns.conformer
        table = pa.Table.from_batches([conformer.exact(b) for b in held.batches])
        if opened.columns.dictionaries and len(held.batches) > 1:
            # where they differ, the writer would write each name in full
            table = table.unify_dictionaries()
        opened.writer.write_table(table, row_group_size=max(1, table.num_rows))
        opened.rows += table.num_rows
        opened.chunks += table.num_columns
        is_large = opened.sink.tell() >= self._target_file_bytes
        if is_large or opened.chunks >= self._limits.chunks:
            opened.is_full = True
            self._close(key)

    def _file(self, key: TableKey, held: _Held) -> _OpenFile:
        opened = self._open.get(key)
        if opened is not None and (
            not opened.columns.decoded.equals(held.schema)
            or (opened.is_for_few_rows and not held.are_few)
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
        most = self._limits
        return (
            len(self._open) >= most.open_files or self._open_columns + columns > most.open_columns
        )

    def _create(self, held: _Held) -> _OpenFile:
        columns = held.columns
        name = f"{self._prefix}-{self._count:04d}.parquet"
        self._count += 1
        metadata = held.schema.metadata or {}
        footer = {
            **metadata,
            _ROW_METADATA: columns.spark_schema,
            _SPARK_VERSION: b"4.1.0",
        }
        few = held.are_few
        codecs = "snappy" if few else _codecs(held.batches)
        sink = self._fs.open_output_stream(
            f"{self._directory}/{name}", buffer_size=_WRITTEN_AT_ONCE
        )
        writer = pq.ParquetWriter(
            sink,
            columns.conformer.schema,
            compression=codecs,
            compression_level=_levels(codecs),
            use_dictionary=columns.dictionaries + ([] if few else _repetitive(held.batches[0])),
            dictionary_pagesize_limit=_MOST_DICTIONARY_BYTES,
            write_statistics=False if few else columns.statistics,
            store_schema=False,  # that of the rows as they are read is in the footer
        )
        stored = columns.exact.with_metadata(footer).serialize()
        writer.add_key_value_metadata({**footer, _ARROW_SCHEMA: base64.b64encode(stored)})
        return _OpenFile(name, columns, metadata, sink, writer, few)

    def _shared(self, key: TableKey, schema: pa.Schema) -> _Columns:
        """The common parts of this schema and those of the table's open file, or of the table that was held
        last, if the columns are the same.
        """
        decoded = schema.remove_metadata()
        opened = self._open.get(key)
        for known in (self._columns, None if opened is None else opened.columns):
            if known is not None and known.decoded.equals(decoded, check_metadata=True):
                break
        else:
            known = _Columns(decoded)
        self._columns = known
        return known

    def _close(self, key: TableKey) -> None:
        opened = self._open.get(key)
        if opened is None:
            return
        opened.writer.close()
        size = opened.sink.tell()
        opened.sink.close()
        del self._open[key]  # `abort` handles earlier failures
        self._open_columns -= len(opened.columns.decoded)
        schema = opened.columns.packed.of_table(opened.metadata)
        self._files.append(DataFile(key, opened.name, opened.rows, size, schema, opened.is_full))


def _codecs(batches: list[pa.RecordBatch]) -> str | dict[str, str]:
    """The codec of each column. To set up zstd takes longer than to write a column without values."""
    empty = {
        name
        for place, name in enumerate(batches[0].schema.names)
        if all(batch.column(place).null_count == batch.num_rows for batch in batches)
    }
    if not empty:
        return "zstd"
    return {
        path: "snappy" if field.name in empty else "zstd"
        for field in batches[0].schema
        for path in _leaves(field.name, field.type)
    }


def _levels(codecs: str | dict[str, str]) -> int | dict[str, int] | None:
    """The level of each column that is compressed by zstd; snappy has none."""
    if isinstance(codecs, str):
        return 1 if codecs == "zstd" else None
    return {path: 1 for path, codec in codecs.items() if codec == "zstd"} or None


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the Parquet columns that a column becomes."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path


def _has_dictionary(kind: pa.DataType) -> bool:
    """Whether it is lists of values of a dictionary."""
    return bool(pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type))


def _repetitive(batch: pa.RecordBatch) -> list[str]:
    """Columns whose values repeat enough for a dictionary; for others it costs half the speed."""
    sample = batch.slice(0, _SAMPLE_ROWS)
    return [
        field.name
        for place, field in enumerate(batch.schema)
        if not pa.types.is_nested(field.type) and _is_repetitive(sample.column(place))
    ]


def _is_repetitive(values: pa.Array) -> bool:
    """Whether few values repeat. Values that only repeat beside each other (times, GTIDs) need no
    dictionary: it grows with the rows, and the compressor makes them smaller.
    """
    rows = len(values)
    distinct = len(values.unique())
    if values.null_count == rows or distinct * 4 > rows:
        return False
    if distinct * _ROWS_OF_A_FEW_VALUES <= rows:
        return True
    return distinct * 2 <= len(values.slice(0, rows // 2).unique()) * 3


def read_batches(fs: pafs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """The batches of one of our files, with the Arrow types that were written."""
    with fs.open_input_file(path) as source, pq.ParquetFile(source) as file:
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            values = sum(_values(group.column(place)) for place in range(group.num_columns))
            rows = min(
                _MOST_READ_ROWS, max(1, _MOST_READ_VALUES * group.num_rows // max(1, values))
            )
            yield from file.iter_batches(batch_size=rows, row_groups=[number])


def _values(chunk: pq.ColumnChunkMetaData) -> int:
    """How many values of usual size a column chunk is worth."""
    count: int = chunk.num_values
    return count * _VALUES_OF_A_NAME if ".list." in chunk.path_in_schema else count
