"""The row changes of one table in the types of its lake table."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.errors import SchemaError
from binlake.mirror.apply.change_rows import (
    ABSENT,
    BEFORE,
    OP,
    fact,
    is_hidden,
    is_special,
)
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.source.arrays import array
from binlake.table.metadata import NAMES


@dataclass(frozen=True, slots=True)
class LakeTypes:
    """How decoded row changes (see `change_rows`) become changes of a lake table with this `schema`.

    `columns`: the lake's columns that the server has; `key`: the columns whose values before an update are needed;
    `facts`: the requested metadata columns; `shard_column`: the lake's column with the names of shards, or "".
    """

    table: str
    schema: pa.Schema
    columns: tuple[str, ...]
    key: tuple[str, ...]
    facts: tuple[str, ...]
    shard_column: str

    @property
    def fingerprint(self) -> int:
        """A number that differs if rows become others."""
        facts = (str(self.schema), self.columns, self.key, self.facts, self.shard_column)
        return zlib.crc32(repr(facts).encode())

    def of(self, batch: pa.RecordBatch) -> pa.Table:
        """The changes in the lake's types, without a change of any value. Raises SchemaError if they do not fit."""
        lake = self.schema
        hidden = [n for n in batch.schema.names if is_hidden(n) and n not in lake.names]
        names = [n for n in batch.schema.names if not is_special(n) and n not in hidden]
        if set(names) != set(self.columns):
            here, there = sorted({*names} - {*self.columns}), sorted({*self.columns} - {*names})
            raise SchemaError(
                f"{self.table}: the columns in the log and in the lake differ: only in the log: "
                f"{', '.join(here) or 'none'}; only in the lake: {', '.join(there) or 'none'}",
                hint="the log does not contain a change of the definition; `binlake mirror resync` copies the table again",
            )
        fields, columns = [], []
        for name in self.columns:
            fields.append(lake.field(name))
            columns.append(self._column(name, batch.column(name), lake.field(name).type))
        absent = _without(batch.column(ABSENT), hidden) if hidden else batch.column(ABSENT)
        for name, kind, values in ((OP, pa.uint8(), batch.column(OP)), (ABSENT, NAMES, absent)):
            fields.append(pa.field(name, kind))
            columns.append(values.cast(kind))
        for name in map(fact, self.facts):
            fields.append(batch.schema.field(name))
            columns.append(batch.column(name))
        for name in self.key:
            kind = lake.field(name).type
            fields.append(pa.field(BEFORE + name, kind))
            columns.append(self._column(name, batch.column(BEFORE + name), kind))
        if self.shard_column:
            for name in (self.shard_column, BEFORE + self.shard_column):
                fields.append(pa.field(name, pa.string()))
                columns.append(pa.repeat(pa.scalar(self.table), batch.num_rows))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _column(self, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
        logged = _stored(name, column.type)
        if logged != kind and not widens(logged, kind):
            raise SchemaError(
                f"{self.table}: column {name} is {logged} in the log and {kind} in the lake",
                hint="the log does not contain a change of the definition; `binlake mirror resync` copies the table again",
            )
        return column if column.type == kind else column.cast(kind)


def _without(absent: pa.Array, hidden: Sequence[str]) -> pa.Array:
    """Lists of absent columns without hidden ones; null where none is left."""
    left = [[name for name in names or () if name not in hidden] for names in absent.to_pylist()]
    return array([names or None for names in left], NAMES)


def _stored(name: str, kind: pa.DataType) -> pa.DataType:
    """The type in which the lake keeps values of an Arrow type, without field ids."""
    return storage_schema(iceberg_schema(pa.schema([(name, kind)]))).field(0).type


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of a type is one of a wider type, as Iceberg promotes them."""
    if pa.types.is_int32(narrow):
        return bool(pa.types.is_int64(wide))
    if pa.types.is_float32(narrow):
        return bool(pa.types.is_float64(wide))
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return False
