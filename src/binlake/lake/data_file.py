"""The Parquet files of an export, as its tasks report them to the driver.

There may be thousands of files, each with thousands of columns. A schema in memory takes hundreds of bytes
for each column, so a file keeps its schema as compressed bytes; files that follow each other and have the
same columns share them.
"""

from __future__ import annotations

import base64
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableKey:
    """A data set of the export: a table, or (`version`) rows set aside from it."""

    database: str
    table: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class PackedSchema:
    """An Arrow schema as compressed bytes, and the metadata of its table."""

    columns: bytes
    metadata: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema) -> PackedSchema:
        """Pack a schema."""
        # the metadata of thousands of columns is nearly the same for each
        columns = zlib.compress(schema.remove_metadata().serialize(), 1)
        return cls(columns, _texts(schema.metadata or {}))

    def of_table(self, metadata: Mapping[bytes, bytes]) -> PackedSchema:
        """Return the schema of a table with the same columns. Both share the packed columns."""
        return PackedSchema(self.columns, _texts(metadata))

    def schema(self) -> pa.Schema:
        """Unpack the schema."""
        return _unpacked(self.columns).with_metadata(dict(self.metadata) or None)

    def types(self) -> dict[str, str]:
        """Return the names of the Arrow types, by column. Schemas with the same columns share the result."""
        return _types(self.columns)


def _texts(metadata: Mapping[bytes, bytes]) -> tuple[tuple[str, str], ...]:
    return tuple((key.decode(), value.decode()) for key, value in metadata.items())


@lru_cache(maxsize=2)
def _unpacked(columns: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(zlib.decompress(columns)))


@lru_cache(maxsize=2)
def _types(columns: bytes) -> dict[str, str]:
    schema = _unpacked(columns)
    # a table has few types: each text is kept once
    return dict(zip(schema.names, map(sys.intern, map(str, schema.types)), strict=True))


@dataclass(frozen=True, slots=True)
class DataFile:
    """One finished Parquet file, and the Arrow schema of its rows.

    `is_full`: it ended because it had enough, so joining it with others gains nothing.
    """

    key: TableKey
    name: str
    rows: int
    bytes: int
    packed: PackedSchema
    is_full: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The schema, unpacked each time."""
        return self.packed.schema()


def files_to_json(files: Sequence[DataFile]) -> dict[str, Any]:
    """Files as plain JSON, to travel in a task's result."""
    described: list[bytes] = []
    entries: list[dict[str, Any]] = []
    for file in files:
        if not described or described[-1] != file.packed.columns:
            described.append(file.packed.columns)
        entries.append(
            {
                "table": [file.key.database, file.key.table, file.key.version],
                "name": file.name,
                "rows": file.rows,
                "bytes": file.bytes,
                "is_full": file.is_full,
                "columns": len(described) - 1,
                "metadata": file.packed.metadata,
            }
        )
    texts = [base64.b64encode(packed).decode("ascii") for packed in described]
    return {"columns": texts, "files": entries}


def files_from_json(value: Mapping[str, Any]) -> list[DataFile]:
    """The files that `files_to_json` described."""
    columns = [base64.b64decode(packed) for packed in value["columns"]]
    return [
        DataFile(
            TableKey(*entry["table"]),
            entry["name"],
            entry["rows"],
            entry["bytes"],
            PackedSchema(columns[entry["columns"]], tuple((k, v) for k, v in entry["metadata"])),
            entry["is_full"],
        )
        for entry in value["files"]
    ]
