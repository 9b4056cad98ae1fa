"""The rows of a table in a Parquet file: one that `binlake state` wrote, or any whose columns match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import SourceError
from binlake.source.arrays import array
from binlake.state.base import Base, MissingTableError
from binlake.state.origin import Origin
from binlake.state.parquet_pages import ParquetPages
from binlake.state.shape import TableShape, collations_in, key_of
from binlake.stream.index.parquet_footer import MAGIC
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.schema_file import declared_schema
from binlake.table.schema.sql_tokens import UnreadableTableError
from binlake.table.types.base import ColumnType
from binlake.table.types.temporal import TimeType
from binlake.values.option_texts import parse_file_position
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition
from binlake.values.times import time_text

#: Keys of the metadata of a file: the statement that declares its table, and its place in the log.
CREATE_TABLE = b"binlake.create_table"
POSITION = b"binlake.position"
_BATCH_ROWS = 8192
_BATCH_BYTES = 16 << 20
_SECONDS = 19  # characters of a time without a fraction


def is_parquet(path: str) -> bool:
    """Whether a file is a Parquet file, by its first bytes."""
    if not Path(path).is_file():  # what is read from a pipe is gone
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # the reader of dumps reports it


class ParquetRows(Base):
    """One Parquet file, to be closed. Raises SourceError for a file without the columns of the table."""

    def __init__(
        self, path: str, database: str, table: str, flavour: str, options: ReadOptions
    ) -> None:
        from pyarrow.parquet import ParquetFile, read_schema

        self.name = f"the file {path}"
        self._path = path
        try:
            schema = read_schema(path)
            self._pages = ParquetPages.of(path, schema.names, options.max_memory)
            self._as_dictionaries = _with_dictionaries(schema, self._pages)
            self._file = ParquetFile(path, read_dictionary=self._as_dictionaries)
            known = self._file.schema_arrow.metadata or {}
            self.create_table = known.get(CREATE_TABLE, b"").decode()
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None
        self.origin = Origin(position=_position(known.get(POSITION)))
        self.shape = self._shape(database, table, flavour, options)
        there = {name.lower(): name for name in self._file.schema_arrow.names}
        missing = [name for name in self.shape.names if name.lower() not in there]
        if missing:
            raise SourceError(f"{path} has no column {missing[0]} of {self.shape.full_name}")
        self._columns = {name: there[name.lower()] for name in self.shape.names}

    def close(self) -> None:
        self._file.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises SourceError for values that their columns cannot hold."""
        rows = 0
        for group, columns in enumerate(self._pages.groups):
            if not columns:
                continue
            for batch in self._batches_of(group):
                rows += batch.num_rows
                yield from map(self._typed, _divided(batch))
        if rows != self._pages.rows:
            raise SourceError(
                f"{self._path}: the footer claims {self._pages.rows:,} rows, but the file contains {rows:,}"
            )

    def _batches_of(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, as many at a time as their values allow."""
        names = list(self._columns.values())
        count = self._pages.batch_rows(group, self._as_dictionaries, _BATCH_BYTES)
        try:
            yield from self._file.iter_batches(
                min(count, _BATCH_ROWS), row_groups=[group], columns=names
            )
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for name, kind in self.shape.kinds.items():
            values = batch.column(self._columns[name])
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            try:
                columns.append(_as_text(kind, values))
            except (pa.ArrowException, ValueError) as error:
                raise SourceError(
                    f"{self._path}: column {name} of type {values.type} does not fit: {error}"
                ) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.shape.schema)

    def _unreadable(self, error: Exception) -> SourceError:
        return SourceError(f"cannot read {self._path}: {error}")

    def _shape(self, database: str, table: str, flavour: str, options: ReadOptions) -> TableShape:
        key: tuple[str, ...]
        if self.create_table:
            try:
                declared = parse_create_table(self.create_table, database, {}, 0)
            except UnreadableTableError as error:
                raise SourceError(f"{self._path}: cannot read its CREATE TABLE: {error}") from None
            if declared is None or declared.table != table:
                raise MissingTableError(
                    f"{self._path} contains the rows of a different table, not of {database}.{table}",
                    f"the file {self._path}",
                    self.origin,
                )
            key, collations = (
                key_of(self.create_table, declared),
                collations_in(self.create_table, flavour),
            )
        else:
            found = (
                ()
                if options.schema is None
                else declared_schema(options).declarations(database, table)
            )
            if not found:
                raise MissingTableError(
                    f"{self._path} does not contain the definition of {database}.{table}",
                    f"the file {self._path}",
                    self.origin,
                    hint="give the output of SHOW CREATE TABLE with --schema FILE",
                )
            declared, collations = found[0], {}
            key = declared.primary_key
        declared = replace(declared, database=database)
        return TableShape.of(declared, flavour, key, options, collations, is_rounded=False)


def _with_dictionaries(schema: pa.Schema, pages: ParquetPages) -> list[str]:
    """Return the columns that have dictionaries. They are read as such: a file of a few bytes may repeat a long value
    millions of times.
    """
    texts = {field.name for field in schema if _has_lengths(field.type)}
    return sorted(texts & pages.dictionaries)


def _has_lengths(kind: pa.DataType) -> bool:
    """Whether a type, or the type of the values of a dictionary, is text or bytes of any length."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _divided(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that do not take much more memory than `_BATCH_BYTES` without dictionaries."""
    if batch.num_rows <= 1 or _plain_bytes(batch) <= _BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _divided(batch.slice(0, half))
    yield from _divided(batch.slice(half))


def _plain_bytes(batch: pa.RecordBatch) -> int:
    """The length of the values of a batch whose columns have dictionaries."""
    total = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _has_lengths(column.type):
            lengths = pc.binary_length(column.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(column.indices)).as_py() or 0
    return total


def _position(text: bytes | None) -> FilePosition | None:
    try:
        return None if text is None else parse_file_position(text.decode())
    except ValueError:
        return None


def _as_text(kind: ColumnType, values: pa.Array) -> pa.Array:
    """Values as the server's text, where the column has text."""
    wanted, given = kind.arrow_type, values.type
    if given == wanted:
        return values
    if not pa.types.is_string(wanted):
        return values.cast(wanted)
    if pa.types.is_decimal(given):
        scale = kind.column.decimals
        texts = [None if v is None else f"{v:.{scale}f}" for v in values.to_pylist()]
        return array(texts, wanted)
    if pa.types.is_timestamp(given):
        digits = kind.column.decimals
        texts = values.cast(pa.timestamp("us", given.tz)).cast(pa.timestamp("us")).cast(wanted)
        return pc.utf8_slice_codeunits(texts, 0, _SECONDS + digits + bool(digits))
    if isinstance(kind, TimeType):
        micros = values.cast(pa.duration("us")) if pa.types.is_duration(given) else values
        numbers = micros.cast(pa.int64()).to_pylist()
        digits = kind.column.decimals
        return array([None if n is None else time_text(n, digits) for n in numbers], wanted)
    return values.cast(wanted)
