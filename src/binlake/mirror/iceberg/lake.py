"""The Iceberg tables of a lake, to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from binlake.mirror.iceberg.jvm import Lake
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.table_rules import PartitionField

__all__ = ["IcebergLake"]


class IcebergLake(Lake):
    """A catalog of Iceberg whose tables the mirror writes."""

    def open_table(
        self,
        namespace: str,
        table: str,
        key: Sequence[str] | None,
        indexes: Path,
        open_column: str | None = None,
    ) -> MirrorTable:
        """A table that exists, to be written."""
        index = indexes.joinpath(namespace, table)
        return MirrorTable.open(self, namespace, table, key, index, open_column=open_column)

    def create_table(
        self,
        namespace: str,
        table: str,
        schema: pa.Schema,
        key: Sequence[str] | None,
        indexes: Path,
        *,
        deletes: str,
        open_column: str | None,
        properties: Mapping[str, str],
        partition: Sequence[PartitionField],
    ) -> MirrorTable:
        """Make an empty table, to be written."""
        return MirrorTable.create(
            self,
            namespace,
            table,
            schema,
            key,
            indexes.joinpath(namespace, table),
            deletes="position" if deletes == "position" else "vectors",
            open_column=open_column,
            properties=properties,
            partition=partition,
        )
