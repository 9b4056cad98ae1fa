"""The key index beside a log: in which parts of the log a key value occurs.

    binlog.000012
    binlog.000012.keys.arrow      of binlog.000012.zst, too

Its plain transactions, which change rows and do nothing else, are cut into at most 256 blocks. For each column of a primary key there is a sorted
list of 32-bit numbers, each a hash of 24 bits and the number of a block in which a value of that hash occurs, in
either image of a row change. Two values can share a hash, so a block that is found may not contain the
value; a block that is not found does not. Integers have the least and the greatest value of each block, too.

The lists have at most 1.8 % of the bytes of their log: those of a column that would exceed that are left out.
Like the other index it only saves reading: it is ignored if it does not fit its log, or if a checksum is wrong. One
checksum is of all but the lists, and each page of a list has one.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zlib import crc32

import pyarrow as pa

from binlake.source.arrays import array
from binlake.stream.index.index_columns import Stamp
from binlake.stream.index.key_blocks import KeyBlocks
from binlake.stream.index.key_forms import INTEGER, hashes
from binlake.stream.index.key_pairs import Blocks, KeyPairs

#: The largest share of the log's bytes that lists take.
MOST_SHARE = 0.018
_METADATA = b"binlake.key_index"
_CHECKSUM = b"binlake.key_index.crc32"
_VERSION = 3
_BOUND = (
    pa.string()
)  # of digits: no type of Arrow holds both signed and unsigned BIGINT and is read fast
_COLUMNS = pa.schema(
    [
        ("table", pa.string()),
        ("column", pa.string()),
        ("form", pa.string()),
        ("always", pa.binary()),
        ("low", pa.list_(_BOUND)),
        ("high", pa.list_(_BOUND)),
        ("firsts", pa.binary()),
        ("checksums", pa.binary()),
        ("pairs", pa.binary()),
    ]
)
_MAGIC = b"ARROW1\0\0"
_END = b"ARROW1"
# The numbers of fields in Message.fbs.
_MESSAGE_HEADER = 2
_BATCH_COMPRESSION = 3
_DIGITS = re.compile("-?[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table of which the log changes rows: the names of all its columns and of its primary key, whether they are
    in the log's row events, the first block with a row, and the blocks with an update of a key. Names from elsewhere
    (DDL, a schema) are those of the time of indexing.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    is_described: bool
    first: int
    moved: Blocks


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a primary key. `always`: blocks with values that have no hash. `low` and `high` are lists of
    digits by block, null without a value; only integers have them. `pairs` is the list, None if left out.
    """

    form: str
    always: Blocks
    low: Any
    high: Any
    pairs: KeyPairs | None

    def equal(self, constant: object) -> Blocks | None:
        """Blocks that may have a value that equals a constant; None if that cannot be told. Raises ValueError for a
        damaged list.
        """
        (found,) = hashes(self.form, [constant])
        if found is None:
            return None
        if self.pairs is None:
            return self.within(constant, constant) if self.form == INTEGER else None
        return self.always | self.pairs.blocks(found)

    def within(self, low: object, high: object) -> Blocks | None:
        """Blocks that may have a value from `low` to `high`, None for no bound; None if that cannot be told."""
        if self.form != INTEGER or not all(
            bound is None or isinstance(bound, int | Decimal) for bound in (low, high)
        ):  # a server compares with a double by rounding the column
            return None
        least: Any = -math.inf if low is None else low
        most: Any = math.inf if high is None else high
        blocks = self.always
        bounds = zip(self.low.as_py(), self.high.as_py(), strict=True)
        for block, (first, last) in enumerate(bounds):
            if first is None and last is None:
                continue
            if not (_DIGITS.fullmatch(first or "") and _DIGITS.fullmatch(last or "")):
                raise ValueError("a bound is damaged")
            if int(last) >= least and int(first) <= most:
                blocks |= 1 << block
        return blocks


class KeyIndex:
    """A key index in memory."""

    def __init__(
        self,
        stamp: Stamp,
        blocks: KeyBlocks,
        tables: dict[str, KeyTable],
        rows: pa.RecordBatch,
    ) -> None:
        self.stamp = stamp
        self.blocks = blocks
        self.tables = tables
        self._rows = rows

    @property
    def keyed_tables(self) -> set[str]:
        """The tables of which at least one key column can be looked up."""
        return set(self._rows["table"].to_pylist())

    def columns(self, table: str) -> dict[str, KeyColumn]:
        """The key columns of a table by casefolded name."""
        found = {}
        for row, name in enumerate(self._rows["table"].to_pylist()):
            if name == table:
                _, column, form, always, low, high, *pairs = (
                    each[row] for each in self._rows.columns
                )
                found[column.as_py().casefold()] = KeyColumn(
                    form.as_py(),
                    sum(1 << block for block in always.as_py()),
                    low,
                    high,
                    _pairs_of(*pairs),
                )
        return found

    def to_bytes(self) -> bytes:
        """The file, in Arrow's IPC file format: nothing of it has to be decoded to look a value up."""
        about = {
            "version": _VERSION,
            **self.stamp.to_json(),
            "blocks": self.blocks.to_json(),
            "tables": {
                name: [table.columns, table.key, table.is_described, table.first, table.moved]
                for name, table in self.tables.items()
            },
        }
        text = json.dumps(about).encode()
        # the checksum is that of the buffers as they are read
        rows = pa.ipc.open_file(self._file({_METADATA: text})).get_batch(0)
        return bytes(self._file({_METADATA: text, _CHECKSUM: b"%d" % _checksum(text, rows)}))

    def _file(self, metadata: dict[bytes, bytes]) -> pa.Buffer:
        schema = _COLUMNS.with_metadata(metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as file:
            file.write_batch(self._rows.replace_schema_metadata(metadata))
        return sink.getvalue()

    @classmethod
    def of_file(cls, source: Any) -> KeyIndex:
        """Read the file from its bytes. Raises ValueError if it is not a key index of this version."""
        try:
            schema, message = _messages(source)
            if not schema.equals(_COLUMNS):
                raise ValueError("it has other columns")
            metadata = schema.metadata or {}
            about = json.loads(metadata[_METADATA])
            if about["version"] != _VERSION:
                raise ValueError(f"its version is {about['version']}")
            if _is_compressed(memoryview(message.metadata)):
                # binlake writes none, and a few bytes may claim to inflate to any number
                raise ValueError("it is compressed")
            rows = pa.ipc.read_record_batch(message, schema)
            rows.validate(full=True)
            if int(metadata[_CHECKSUM]) != _checksum(metadata[_METADATA], rows):
                raise ValueError("its checksum is wrong")
            if any(rows[name].null_count for name in ("table", "column", "form", "always")):
                raise ValueError("it is damaged")
            stamp = Stamp.of_json(about)
            blocks = KeyBlocks.of_json(about["blocks"])
            tables = {
                name: _table(name, blocks, *values) for name, values in about["tables"].items()
            }
            return cls(stamp, blocks, tables, rows)
        except (
            pa.ArrowException,
            OSError,
            KeyError,
            TypeError,
            AttributeError,
            StopIteration,
            RecursionError,
            struct.error,
        ) as error:
            raise ValueError("it is damaged or not a key index") from error

    @staticmethod
    def rows_of(columns: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        """Key columns as rows of the file; `low` and `high` are lists of int or None, or None."""
        complete = [column | KeyPairs.pages(column["pairs"] or b"") for column in columns]
        made = []
        for field in _COLUMNS:
            values = [column[field.name] for column in complete]
            if field.type == pa.list_(_BOUND):
                values = [v and [None if n is None else str(n) for n in v] for v in values]
            made.append(array(values, field.type))
        return pa.RecordBatch.from_arrays(made, schema=_COLUMNS)


def _messages(source: pa.BufferReader) -> tuple[pa.Schema, pa.Message]:
    """The schema and the only batch of a file, which is not read yet. Of the footer, only the end is needed."""
    source.seek(max(source.size() - len(_END), 0))
    if source.read() != _END:
        raise ValueError("it is incomplete, or not an Arrow file")
    source.seek(0)
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not an Arrow file")
    messages = pa.ipc.MessageReader.open_stream(source)
    return pa.ipc.read_schema(messages.read_next_message()), messages.read_next_message()


def _is_compressed(message: memoryview) -> bool:
    """Whether the metadata of a batch (a flatbuffer, Message.fbs of Arrow) tell how its buffers are compressed.

    Raises struct.error or ValueError where they are damaged.
    """

    def field(table: int, number: int) -> int | None:
        """The position of a field, None if the table lacks it."""
        fields = table - struct.unpack_from("<i", message, table)[0]
        (size,) = struct.unpack_from("<H", message, fields)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", message, fields + 4 + 2 * number)
        return table + offset if offset else None

    def target(place: int) -> int:
        return place + int(struct.unpack_from("<I", message, place)[0])

    header = field(target(0), _MESSAGE_HEADER)
    if header is None:
        raise ValueError("its message has no header")
    return field(target(header), _BATCH_COMPRESSION) is not None


def _checksum(about: bytes, rows: pa.RecordBatch) -> int:
    """The CRC32 of the metadata and of all columns but the lists, which are checked as they are read."""
    checksum = crc32(about)
    for column in rows.columns[:-1]:
        for buffer in column.buffers():
            if buffer is not None:
                checksum = crc32(buffer, checksum)
    return checksum


def _pairs_of(firsts: pa.Scalar, checksums: pa.Scalar, pairs: pa.Scalar) -> KeyPairs | None:
    """The list of a column, where it lies in memory; None for one that was left out."""
    if not pairs.is_valid:
        return None
    return KeyPairs.of_file(memoryview(pairs.as_buffer()), firsts.as_py(), checksums.as_py())


def _table(
    name: str,
    blocks: KeyBlocks,
    columns: list[str],
    key: list[str],
    described: bool,
    first: int,
    moved: int,
) -> KeyTable:
    """Read the metadata of a table. Raises ValueError, and TypeError for a name that is no text."""
    "".join((*columns, *key))
    if "." not in name or not 0 <= first < max(len(blocks.starts), 1):
        raise ValueError("it is damaged")
    return KeyTable(tuple(columns), tuple(key), described, int(first), int(moved))
