"""The columns of the index of a log, and how they are read from a file that others may have made."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlake.format.magic import FIRST_EVENT
from binlake.source.arrays import scalar
from binlake.source.reader import ByteReader
from binlake.stream.index.parquet_footer import Footer

#: `pos` and `end_pos` are offsets in the log. `commit_us`, `duration_us`, `server_id`, `thread_id`
#: and `gtid` are the fields of the transaction. `inserts` … `bytes` are sums over all its tables;
#: `tables` are `database.table`. `plain`: it only changes rows, all of which are counted.
COLUMNS = pa.schema(
    [
        ("pos", pa.int64()),
        ("end_pos", pa.int64()),
        ("bytes", pa.int64()),
        ("commit_us", pa.int64()),
        ("duration_us", pa.int64()),
        ("server_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("gtid", pa.string()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("tables", pa.list_(pa.string())),
        ("plain", pa.bool_()),
    ]
)

_METADATA = b"binlake.log_index"
_VERSION = 1
_DIGEST_BYTES = 4096
# Read as dictionaries: a text may stand for any number of rows.
_TEXTS = ["gtid", "tables.list.element"]
# Two names of 64 characters, a server's id, a tag: what servers allow, with room to spare.
_MOST_TEXT_BYTES = 1 << 10
# The memory that an index may take whatever the size of its log.
_FREE_BYTES = 1 << 20
# The shortest event that commits, an XID event, has 27. Logs of MySQL 4.1 and older have no index.
_LEAST_TRANSACTION_BYTES = 24
_OTHER_COLUMNS = "it has other columns"
_DAMAGED = "it is damaged or not an index"
_TOO_MUCH = "it claims more than its log can contain"

# The columns as elements of a Parquet schema: physical type, repetition (1: optional, 2: repeated), name, children.
_INT64_BYTES = 8
_PHYSICAL = {pa.int64(): 2, pa.string(): 6, pa.bool_(): 0}
_LEVELS = (b"list", b"element")
_SHAPE: list[tuple[Any, ...]] = [(None, 0, b"schema", len(COLUMNS))]
for _field in COLUMNS:
    _name = _field.name.encode()
    if pa.types.is_list(_field.type):
        _SHAPE += [(None, 1, _name, 1), (None, 2, b"list", 1), (6, 1, b"element", None)]
    else:
        _SHAPE.append((_PHYSICAL[_field.type], 1, _name, None))
_PATHS = tuple(
    (field.name.encode(), *(_LEVELS if pa.types.is_list(field.type) else ())) for field in COLUMNS
)
COMMIT_TIMES = (b"commit_us",)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies a log among others, and detects that it has grown."""

    name: str
    bytes: int
    head: str
    tail: str

    @classmethod
    def of(cls, name: str, reader: ByteReader) -> Stamp | None:
        """Return the stamp of an open log; None if its length is not known (compressed logs).

        Raises SourceError.
        """
        size = reader.size
        if size is None:
            return None
        tail_at = max(0, size - _DIGEST_BYTES)
        return cls(name, size, cls.head_of(reader, size), _digest(reader, tail_at, size))

    @staticmethod
    def head_of(reader: ByteReader, size: int) -> str:
        """Return the digest of the first bytes of a log of `size` bytes. Raises SourceError."""
        return _digest(reader, 0, min(size, _DIGEST_BYTES))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as the metadata of an index has them."""
        return {"log": self.name, "bytes": self.bytes, "head": self.head, "tail": self.tail}

    @classmethod
    def of_json(cls, about: dict[str, Any]) -> Stamp:
        """Return the stamp in such metadata. Raises KeyError, TypeError."""
        return cls(about["log"], about["bytes"], about["head"], about["tail"])


def _digest(reader: ByteReader, start: int, end: int) -> str:
    return hashlib.sha256(reader.read_at(start, end - start)).hexdigest()


def described(stamp: Stamp) -> pa.Schema:
    """Return the schema of the index of a log, with its stamp."""
    about = {"version": _VERSION, **stamp.to_json()}
    return COLUMNS.with_metadata({_METADATA: json.dumps(about).encode()})


def stamp_of(footer: Footer) -> Stamp:
    """Return the stamp in an index. Raises ValueError, also for another version."""
    try:
        about = json.loads(footer.metadata[_METADATA])
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']}")
        return Stamp.of_json(about)
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(_DAMAGED) from error


def check_claims(footer: Footer, log_bytes: int) -> None:
    """Raise ValueError for a footer that does not describe an index, or claims more than a log of this length
    justifies. Pages may have any number of values for a few bytes, and Arrow reserves memory for all of them.
    """
    if footer.schema != _SHAPE or any(
        tuple(chunk.path for chunk in group) != _PATHS for group in footer.groups
    ):
        raise ValueError(_OTHER_COLUMNS)
    if (
        footer.rows > log_bytes // _LEAST_TRANSACTION_BYTES
        or sum(chunk.values for chunk in footer.chunks() if len(chunk.path) > 1) > log_bytes
        or footer.start > _FREE_BYTES + 8 * log_bytes
    ):
        raise ValueError(_TOO_MUCH)
    if any(
        chunk.values < chunk.rows if len(chunk.path) > 1 else chunk.values != chunk.rows
        for chunk in footer.chunks()
    ):
        raise ValueError("its columns differ in their number of rows")
    if sum(chunk.end - chunk.start for chunk in footer.chunks()) > footer.start:
        raise ValueError(_DAMAGED)


def check_pages(
    footer: Footer, data: memoryview, log_bytes: int, path: tuple[bytes, ...] | None = None
) -> None:
    """Raise ValueError for pages that are not those of the footer, or inflate to more than the log justifies. `data`
    are the bytes of the file; with the `path` of a column, the others may be missing.
    """
    if footer.page_bytes(data, path) > _FREE_BYTES + 8 * log_bytes:
        raise ValueError(_TOO_MUCH)


def read_groups(
    footer: Footer, data: memoryview, log_bytes: int, names: Sequence[str]
) -> Iterator[pa.Table]:
    """Return some columns, one row group after the other, after `check_pages`. Raises ValueError."""
    checked = pa.PythonFile(_CheckedFile(data[: footer.start], footer.encoded()), "r")
    expected = [COLUMNS.field(name) for name in names]
    try:
        with pq.ParquetFile(
            checked, page_checksum_verification=True, read_dictionary=_TEXTS
        ) as file:
            for number in range(file.num_row_groups):
                read = file.read_row_group(number, list(names), use_threads=False)
                columns = [_spread(read[name], log_bytes) for name in names]
                if [column.type for column in columns] != [field.type for field in expected]:
                    raise ValueError(_OTHER_COLUMNS)
                part = pa.table(columns, names)
                if not _is_sound(part, log_bytes):
                    raise ValueError(_DAMAGED)
                yield part
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise ValueError(_DAMAGED) from error


def _is_sound(part: pa.Table, log_bytes: int) -> bool:
    """Whether the places of transactions lie in the log, and whether tables have full names."""
    known = [name for name in ("pos", "end_pos", "plain", "tables") if name in part.column_names]
    if any(part[name].null_count for name in known):
        return False
    checks = []
    if "pos" in known:
        checks.append(pc.greater_equal(part["pos"], scalar(FIRST_EVENT)))
    if "end_pos" in known:
        checks.append(pc.less_equal(part["end_pos"], scalar(log_bytes)))
    if {"pos", "end_pos"} <= set(known):
        checks.append(pc.less(part["pos"], part["end_pos"]))
    if "tables" in known:
        names = pc.unique(pc.list_flatten(part["tables"]))
        checks.append(pc.match_substring(names, ".").fill_null(scalar(False)))
    return all(pc.all(check, min_count=0).as_py() for check in checks)


class _CheckedFile(io.RawIOBase):
    """The pages of an index and the checked end of its file, as one file without a copy."""

    def __init__(self, pages: memoryview, end: bytes) -> None:
        self._parts = (pages, memoryview(end))
        self._size = len(pages) + len(end)
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        pages, end = self._parts
        start, stop = self._at, self._size if size < 0 else min(self._at + size, self._size)
        self._at = max(start, stop)
        border = len(pages)
        return bytes(pages[start:stop]) + bytes(end[max(0, start - border) : max(0, stop - border)])


def _spread(column: pa.ChunkedArray, log_bytes: int) -> pa.ChunkedArray:
    """Return a column with its texts in full. Raises ValueError for a text that is too long to be a name or a GTID,
    and for more text than the log justifies: one text may stand for any number of values.
    """
    kind = column.type
    is_list = pa.types.is_list(kind)
    if not pa.types.is_dictionary(kind.value_type if is_list else kind):
        return column
    total = 0
    for chunk in column.chunks:
        values = chunk.flatten() if is_list else chunk
        lengths = pc.binary_length(values.dictionary)
        if (pc.max(lengths).as_py() or 0) > _MOST_TEXT_BYTES:
            raise ValueError("it contains a name that is too long")
        total += pc.sum(lengths.take(values.indices)).as_py() or 0
    if total > _FREE_BYTES + 8 * log_bytes:
        raise ValueError(_TOO_MUCH)
    return column.cast(pa.list_(pa.string()) if is_list else pa.string())


def commit_bounds(footer: Footer) -> tuple[int, int] | None:
    """Return the least and the greatest commit time; None if one is not known."""
    bounds: list[int] = []
    for group in footer.groups:
        found = [chunk.bounds for chunk in group if chunk.path == COMMIT_TIMES]
        if len(found) != 1 or found[0] is None or any(len(b) != _INT64_BYTES for b in found[0]):
            return None
        bounds += (int.from_bytes(each, "little", signed=True) for each in found[0])
    return (min(bounds), max(bounds)) if bounds else None
