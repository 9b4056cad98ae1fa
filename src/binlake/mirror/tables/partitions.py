"""The partitions of a table: the rows that belong into one data file, and Iceberg's JSON for a partition.

The transforms are those of Iceberg's specification; a table of the format's own test values checks them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.columns.chosen_rows import take_rows
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.table_rules import PartitionField
from binlake.mirror.tables.schema import FIELD_ID
from binlake.source.arrays import array, scalar

_TRANSFORM = re.compile(r"(\w+)(?:\[(\d+)\])?")
_RESYNC = "`binlake mirror resync` creates the lake table again, with the partitions of --partition"
_OF_DAYS = ("year", "month", "day")
_CONTEXT = Context(prec=76)
Hashes = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One partition: the id of its spec, and its values as Iceberg's JSON."""

    spec: int = 0
    values: str = "[]"

    @classmethod
    def of(cls, file: Mapping[str, Any]) -> Partition:
        """Return the partition of a data file or delete file, which is given as Iceberg's JSON."""
        return cls(file["spec-id"], json.dumps(file["partition"]))

    @property
    def json(self) -> dict[str, Any]:
        """The partition as a part of the JSON of a file."""
        return {"spec-id": self.spec, "partition": json.loads(self.values)}


#: That of all files of a table that has never been partitioned.
UNPARTITIONED = Partition()


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition spec of a table: (field id of the column, transform, width) of each field.

    A table that had partitions before has no fields either, but another spec than 0, which is that of its older files.
    """

    spec: int = 0
    fields: tuple[tuple[int, str, int], ...] = ()

    @classmethod
    def of(cls, spec: Mapping[str, Any], schema: pa.Schema) -> Partitioning:
        """From Iceberg's JSON of a spec of a table with this (stored) schema, which may have fields that a user has added.

        Raises UnsupportedError for a field that the mirror does not write.
        """
        columns = {column.metadata[FIELD_ID]: column for column in schema}
        found = []
        for field in spec["fields"]:
            match = _TRANSFORM.fullmatch(field["transform"])
            if match is None or match[1] == "void":
                raise UnsupportedError(
                    f"the mirror does not write partitions by {field['transform']}", hint=_RESYNC
                )
            column = columns.get(str(field["source-id"]).encode())
            if column is None or not _fits(match[1], column.type):
                of = "a nested column" if column is None else f"a column of type {column.type}"
                raise UnsupportedError(
                    f"the partition field {field['name']} is {field['transform']} of {of}, which the mirror does not write",
                    hint=_RESYNC,
                )
            found.append((int(field["source-id"]), match[1], int(match[2] or 0)))
        return cls(spec["spec-id"], tuple(found))

    def split(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """The rows of each partition, in their order. `rows` have field ids."""
        if not self.fields:
            yield Partition(self.spec), rows
            return
        if rows.num_rows == 0:
            return
        columns = [self._values(rows, *field) for field in self.fields]
        codes = np.zeros(rows.num_rows, np.int64)
        for column in columns:
            encoded = column.combine_chunks().dictionary_encode("encode")
            codes = codes * (len(encoded.dictionary) + 1) + to_numpy(encoded.indices)
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            of = order[start:end]
            first = int(of[0])
            values = [_json(column[first], field[1]) for column, field in zip(columns, self.fields, strict=True)]  # fmt: skip
            chosen = rows if len(of) == rows.num_rows else take_rows(rows, of)
            yield Partition(self.spec, json.dumps(values)), chosen

    @staticmethod
    def _values(rows: pa.Table, field_id: int, transform: str, width: int) -> pa.ChunkedArray:
        wanted = str(field_id).encode()
        at = next(i for i, f in enumerate(rows.schema) if f.metadata[FIELD_ID] == wanted)
        try:
            return _transformed(rows.column(at), transform, width)
        except UnsupportedError as error:
            raise error.at(field=rows.schema.field(at).name) from None


_OTHER_PARTITION = "correct --partition, then run `binlake mirror resync`"

#: That of a table without partitions.
NOT_PARTITIONED = Partitioning()


def check_partition(table: str, fields: Sequence[PartitionField], schema: pa.Schema) -> None:
    """Raise UnsupportedError for a spec that a table with this (stored) schema cannot have."""
    for field in fields:
        at = schema.get_field_index(field.column)
        if at < 0:
            raise UnsupportedError(
                f"{table} should be partitioned by {field}, but has no column {field.column}",
                hint=_OTHER_PARTITION,
            )
        kind = schema.field(at).type
        if not _fits(field.transform, kind):
            raise UnsupportedError(
                f"{table} should be partitioned by {field}, but column {field.column} has the type {kind} in the lake",
                hint=_OTHER_PARTITION,
            )


def _fits(transform: str, kind: pa.DataType) -> bool:
    if transform in _OF_DAYS:
        return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))
    if transform == "hour":
        return bool(pa.types.is_timestamp(kind))
    whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if transform == "truncate":
        return bool(whole or text)
    moment = pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    if transform == "bucket":
        return bool(whole or text or moment)
    return bool(whole or text or moment or pa.types.is_boolean(kind))


def _json(value: pa.Scalar, transform: str) -> Any:
    """A partition value as Iceberg's JSON."""
    plain = value.as_py()
    if plain is None or isinstance(plain, bool | int):
        return plain
    if isinstance(plain, bytes):
        return plain.hex().upper()
    if pa.types.is_timestamp(value.type):
        moment, dot, rest = plain.isoformat().partition(".")
        return f"{moment}.{rest[:6].rstrip('0')}{rest[6:]}" if dot else moment
    return f"{plain:f}" if pa.types.is_decimal(value.type) else str(plain)


# -- transforms ----------------------------------------------------------------------------------------


def _transformed(column: pa.ChunkedArray, transform: str, width: int) -> pa.ChunkedArray:
    kind = column.type
    if transform == "identity":
        return column
    if transform == "bucket":
        hashes = _hashes(column) & np.uint32(0x7FFFFFFF)
        return _with_nulls(from_numpy((hashes % np.uint32(width)).astype(np.int32)), column)
    if transform == "truncate":
        return _truncated(column, width)
    if transform in _OF_DAYS:
        days = _days(column)
        if transform == "day":
            return days
        years = pc.subtract(pc.year(days), scalar(1970))
        if transform == "year":
            return years
        return pc.add(pc.multiply(years, scalar(12)), pc.subtract(pc.month(days), scalar(1)))
    if transform == "hour":
        return _floored(column.cast(pa.int64()), 3_600_000_000)
    raise UnsupportedError(f"the mirror does not write partitions by {transform} of {kind}")


def _days(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        return column
    return _floored(column.cast(pa.int64()), 86_400_000_000).cast(pa.int32()).cast(pa.date32())


def _floored(column: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    """Whole numbers divided by a width, rounded down, also below zero."""
    values = to_numpy(pc.fill_null(column, scalar(0)))
    return _with_nulls(from_numpy(values // width), column)


def _with_nulls(values: pa.Array, column: pa.ChunkedArray) -> pa.ChunkedArray:
    nulls = column.is_valid().combine_chunks()
    return pa.chunked_array([pc.if_else(nulls, values, scalar(None, values.type))])


def _truncated(column: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if pa.types.is_binary(kind):
        return pc.binary_slice(column, 0, width)
    if pa.types.is_decimal(kind):
        floored = [
            None if v is None else _floored_decimal(v, width, kind) for v in column.to_pylist()
        ]
        return pa.chunked_array([array(floored, kind)])
    # as Iceberg computes: in the column's own type, in which a result below its range wraps around
    whole = np.int32 if pa.types.is_int32(kind) else np.int64
    values = to_numpy(pc.fill_null(column, scalar(0))).astype(whole)
    by = np.array([width], whole)
    return _with_nulls(from_numpy(values - np.fmod(np.fmod(values, by) + by, by)), column)


def _unscaled(value: Any, kind: pa.DataType) -> int:
    return int(value.scaleb(kind.scale, _CONTEXT))


def _floored_decimal(value: Any, width: int, kind: pa.DataType) -> Any:
    """Raises UnsupportedError if the result has more digits than the type, which Iceberg does not store."""
    unscaled = _unscaled(value, kind)
    floored = unscaled - unscaled % width
    found = type(value)(floored).scaleb(-kind.scale, _CONTEXT)
    if abs(floored) >= 10**kind.precision:
        raise UnsupportedError(
            f"the partition of {value} by truncate({width}) is {found}, which does not fit into {kind}",
            hint="drop the partition field (ALTER TABLE … DROP PARTITION FIELD) or choose another --partition, then run"
            " `binlake mirror resync`",
        )
    return found


def _hashes(column: pa.ChunkedArray) -> Hashes:
    """Murmur3 of each value as Iceberg hashes it; of NULL any number."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        if pa.types.is_date32(kind):
            column = column.cast(pa.int32())
        numbers = to_numpy(pc.fill_null(column.cast(pa.int64()), scalar(0)))
        return _murmur(np.ascontiguousarray(numbers, "<i8").view(np.uint8).reshape(-1, 8))
    encoded = column.combine_chunks().dictionary_encode("encode")
    known = [_hashed_bytes(value, kind) for value in encoded.dictionary.to_pylist()]
    found: Hashes = _murmur_of(known)[to_numpy(encoded.indices)]
    return found


def _hashed_bytes(value: Any, kind: pa.DataType) -> bytes:
    if value is None:
        return b""
    if pa.types.is_decimal(kind):
        unscaled = _unscaled(value, kind)
        size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
        return unscaled.to_bytes(size, "big", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


def _murmur_of(values: Sequence[bytes]) -> Hashes:
    """Hash values, all values of one length together."""
    sizes = np.array([len(value) for value in values], np.int64)
    found = np.zeros(len(values), np.uint32)
    for size in np.unique(sizes):
        of = np.flatnonzero(sizes == size)
        joined = b"".join(values[int(i)] for i in of)
        found[of] = _murmur(np.frombuffer(joined, np.uint8).reshape(len(of), int(size)))
    return found


def _murmur(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Murmur3 (x86, 32 bits, seed 0) of rows of bytes of one length."""
    count, size = rows.shape
    found = np.zeros(count, np.uint32)
    blocks = np.ascontiguousarray(rows[:, : size // 4 * 4]).view("<u4")
    for block in range(blocks.shape[1] if size >= 4 else 0):
        found ^= _mixed(blocks[:, block].astype(np.uint32))
        found = _rotated(found, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if size % 4:
        tail = np.zeros(count, np.uint32)
        for at in range(size % 4):
            tail |= rows[:, size // 4 * 4 + at].astype(np.uint32) << np.uint32(8 * at)
        found ^= _mixed(tail)
    found ^= np.uint32(size)
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return found ^ (found >> np.uint32(16))


def _mixed(block: Hashes) -> Hashes:
    return _rotated(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(values: Hashes, by: int) -> Hashes:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))
