"""Parquet files of a table, and their entries in Iceberg's metadata.

Metrics come from the footer that was just written. Iceberg's own way opens each file again and commits
49 files a second; this one commits 944.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from binlake.errors import SourceError
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError, is_overflow
from binlake.mirror.tables.partitions import NOT_PARTITIONED, Partition, Partitioning
from binlake.mirror.tables.schema import FIELD_ID
from binlake.source.bytes import file_system_for, writing
from binlake.source.reader import what, without_secrets

#: The first part of the name of each file that a mirror writes.
FILE_PREFIX = "binlake-"
_ROW_GROUP_ROWS = 1 << 20
_DEFAULT_FILE_BYTES = 256 << 20
_HELD_BYTES = 64 << 20
_MOST_OPEN_FILES = 200
_DECODED_ROWS = 1 << 16
_SAMPLE_ROWS = 4096
_USUAL_COMPRESSION = 4  # Arrow's bytes to Parquet's: an object store tells no size before the end
_BOUND_CHARACTERS = 16


def file_system(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a path as Iceberg names it (`/x`, `file:/x`, `s3a://…`), and the path in it."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    for hadoop in ("s3a://", "s3n://"):
        if path.startswith(hadoop):
            path = "s3://" + path.removeprefix(hadoop)
    if path.startswith("/"):
        return pafs.LocalFileSystem(), path
    _, slash, inner = path.partition("://")[2].partition("/")
    if "?" in inner:  # options of the store, which names of tables cannot contain
        return file_system_for(path)
    # pyarrow would decode the path: it refuses spaces, and %20 would be a space
    fs, root = file_system_for(path[: len(path) - len(inner)] if slash else path)
    return fs, f"{root.rstrip('/')}/{inner.rstrip('/')}".rstrip("/") or "/"


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Name the path in the errors of reading it. Raises MissingFileError, SourceError."""
    try:
        yield
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise _unread(path, error) from error


@contextmanager
def parquet_file(path: str, int96_unit: str | None = None) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read. Raises MissingFileError, DamagedFileError, SourceError if the store fails.

    `int96_unit`: the unit of timestamps of 96 bits, by default ns.
    """
    fs, inner = file_system(path)
    try:
        with pq.ParquetFile(inner, filesystem=fs, coerce_int96_timestamp_unit=int96_unit) as file:
            yield file
    except FileNotFoundError:
        raise _missing(path) from None
    except pa.ArrowInvalid as error:
        if is_overflow(error):  # of what was done with the rows
            raise
        raise _damaged(path, error) from error
    except OSError as error:  # pyarrow raises it for damaged pages, too
        if _is_damaged(path):
            raise _damaged(path, error) from error
        raise _unread(path, error) from error


def _missing(path: str) -> MissingFileError:
    return MissingFileError(f"{without_secrets(path)} is missing")


def _damaged(path: str, error: Exception) -> DamagedFileError:
    return DamagedFileError(f"{without_secrets(path)} is damaged: {what(error, path)}")


def _unread(path: str, error: OSError) -> SourceError:
    return SourceError(f"cannot read {without_secrets(path)}: {what(error, path)}")


def _is_damaged(path: str) -> bool:
    """Whether the store returns all bytes of a Parquet file, and they cannot be decoded."""
    fs, inner = file_system(path)
    try:
        with fs.open_input_stream(inner) as stream:
            content = stream.read()
    except OSError:
        return False
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            for _ in file.iter_batches(_DECODED_ROWS):
                pass
    except (OSError, pa.ArrowException):
        return True
    return False


def write_file(path: str, content: bytes) -> None:
    """A new file, whole. Raises SourceError."""
    fs, inner = file_system(path)
    with writing(path):
        fs.create_dir(inner.rpartition("/")[0], recursive=True)
        with fs.open_output_stream(inner) as out:
            out.write(content)


def remove_file(path: str) -> None:
    """Remove a file if possible; otherwise it stays as an orphan."""
    fs, inner = file_system(path)
    with suppress(OSError):
        fs.delete_file(inner)


@dataclass
class DataFileWriter:
    """Writes rows into data files of about `target_bytes`, named under `prefix`, each of one partition. Raises SourceError.

    `schema` is `storage_schema`; all rows have it. At most `most_open_files` files are written at the same time. Rows
    of several partitions wait until there are `held_bytes` of them, because a row group for each partition of a batch
    would be small.
    """

    schema: pa.Schema
    prefix: str
    target_bytes: int = _DEFAULT_FILE_BYTES
    partitioning: Partitioning = NOT_PARTITIONED
    most_open_files: int = _MOST_OPEN_FILES
    held_bytes: int = _HELD_BYTES

    def write(self, batches: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
        """Write; yields each finished file as Iceberg's JSON of a content file.

        If reading or writing fails, or the caller closes the iterator, the files that are not finished are removed.
        """
        open_files: dict[Partition, _OpenFile] = {}
        try:
            yield from self._files(batches, open_files)
        except BaseException:
            for file in open_files.values():
                file.discard()
            raise

    def _files(
        self, batches: Iterable[pa.Table], open_files: dict[Partition, _OpenFile]
    ) -> Iterator[dict[str, Any]]:
        """Write; yields each finished file. `open_files` has the others."""
        held: dict[Partition, list[pa.Table]] = {}
        held_bytes = 0
        for rows in batches:
            if not self.partitioning.fields:
                yield from self._written(open_files, Partition(self.partitioning.spec), rows)
                continue
            held_bytes += rows.nbytes
            for partition, of in self.partitioning.split(rows):
                held.setdefault(partition, []).append(of)
            if held_bytes >= self.held_bytes:
                for partition, parts in held.items():
                    yield from self._written(open_files, partition, pa.concat_tables(parts))
                held, held_bytes = {}, 0
        for partition, parts in held.items():
            yield from self._written(open_files, partition, pa.concat_tables(parts))
        while open_files:
            yield _taken(open_files, next(iter(open_files)))

    def write_one(self, rows: Iterable[pa.Table], partition: Partition) -> dict[str, Any] | None:
        """One file with all rows, which are of one partition; None: there are none. If reading or writing fails, it is removed."""
        file: _OpenFile | None = None
        try:
            for part in rows:
                if part.num_rows:
                    file = file or _OpenFile.of(self.schema, self.prefix, partition, part)
                    file.write(part)
            return None if file is None else file.finished()
        except BaseException:
            if file is not None:
                file.discard()
            raise

    def _written(
        self, open_files: dict[Partition, _OpenFile], partition: Partition, rows: pa.Table
    ) -> Iterator[dict[str, Any]]:
        """Write rows of one partition; yields the files that are large enough."""
        if rows.num_rows == 0:
            return
        if partition not in open_files:
            if len(open_files) >= self.most_open_files:
                yield _taken(open_files, next(iter(open_files)))
            open_files[partition] = _OpenFile.of(self.schema, self.prefix, partition, rows)
        file = open_files[partition]
        file.write(rows)
        if file.held >= self.target_bytes * _USUAL_COMPRESSION:
            yield _taken(open_files, partition)


@dataclass
class _OpenFile:
    """A data file that is being written."""

    schema: pa.Schema
    path: str
    partition: Partition
    writer: pq.ParquetWriter
    held: int = 0

    @classmethod
    def of(cls, schema: pa.Schema, prefix: str, partition: Partition, rows: pa.Table) -> _OpenFile:
        """A new one, for rows like these."""
        path = f"{prefix}{uuid.uuid4().hex}.parquet"
        fs, inner = file_system(path)
        with writing(path):
            fs.create_dir(inner.rpartition("/")[0], recursive=True)
            writer = pq.ParquetWriter(
                inner, schema, filesystem=fs, compression="zstd", use_dictionary=_few_values(rows)
            )
        return cls(schema, path, partition, writer)

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        with writing(self.path):
            self.writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        self.held += rows.nbytes

    def finished(self) -> dict[str, Any]:
        """Close the file; return what a commit needs of it."""
        fs, inner = file_system(self.path)
        with writing(self.path):
            return finished(self.writer, self.schema, self.path, fs, inner, self.partition)

    def discard(self) -> None:
        """Close and remove the file."""
        with suppress(OSError, pa.ArrowException):  # it may have failed before, as on a full disk
            self.writer.close()
        remove_file(self.path)


def _taken(open_files: dict[Partition, _OpenFile], partition: Partition) -> dict[str, Any]:
    """Finish a file, and take it out of the open ones."""
    done = open_files[partition].finished()
    del open_files[partition]
    return done


def _few_values(rows: pa.Table) -> list[str]:
    """The columns of text whose values repeat: the others cost twice as much with a dictionary."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    names = []
    for field in rows.schema:
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            column = sample.column(field.name)
            if len(column.unique()) * 4 <= len(column):
                names.append(field.name)
    return names


def finished(
    writer: pq.ParquetWriter,
    schema: pa.Schema,
    path: str,
    fs: pafs.FileSystem,
    inner: str,
    partition: Partition,
) -> dict[str, Any]:
    """Close a Parquet file; its entry in Iceberg's metadata."""
    writer.close()
    footer = writer.writer.metadata if hasattr(writer.writer, "metadata") else None
    if footer is None:
        footer = pq.read_metadata(inner, filesystem=fs)
    return {
        **partition.json,
        "content": "data",
        "file-path": path,
        "file-format": "parquet",
        "file-size-in-bytes": fs.get_file_info(inner).size,
        "record-count": footer.num_rows,
        **_metrics(footer, schema),
        "split-offsets": [_offset(footer.row_group(i)) for i in range(footer.num_row_groups)],
    }


def _offset(group: Any) -> int:
    column = group.column(0)
    dictionary = column.dictionary_page_offset
    return int(column.data_page_offset if dictionary is None else dictionary)


def _metrics(footer: Any, schema: pa.Schema) -> dict[str, Any]:
    """Sizes, counts and bounds of the top-level columns that are not nested."""
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, str] = {}
    upper: dict[int, str] = {}
    places = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    for field in schema:
        at = places.get(field.name)
        if at is None or pa.types.is_nested(field.type):
            continue
        number = int(field.metadata[FIELD_ID])
        chunks = [footer.row_group(i).column(at) for i in range(footer.num_row_groups)]
        sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
        values[number] = footer.num_rows
        statistics = [chunk.statistics for chunk in chunks]
        if any(one is None or not one.has_null_count for one in statistics):
            continue
        nulls[number] = sum(one.null_count for one in statistics)
        known = [one for one in statistics if one.null_count < one.num_values + one.null_count]
        if known and all(one.has_min_max for one in known):
            low = _bound(min(one.min_raw for one in known), field.type)
            high = _bound(max(one.max_raw for one in known), field.type)
            if low is not None and high is not None:
                lower[number], upper[number] = low, high
    named = (
        ("column-sizes", sizes),
        ("value-counts", values),
        ("null-value-counts", nulls),
        ("lower-bounds", lower),
        ("upper-bounds", upper),
    )
    return {
        name: {"keys": list(found), "values": list(found.values())}
        for name, found in named
        if found
    }


def _bound(value: Any, kind: pa.DataType) -> str | None:
    """A bound in Iceberg's form, in hex; None if it has no short form."""
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return struct.pack("<i", value).hex()
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        return struct.pack("<q", value).hex()
    if pa.types.is_string(kind) and isinstance(value, bytes | str):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return text.encode().hex() if len(text) <= _BOUND_CHARACTERS else None
    return None


def without_metrics(file: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a file for Iceberg, without the statistics of its columns."""
    return {
        name: value
        for name, value in file.items()
        if not isinstance(value, dict) and name != "split-offsets"
    }
