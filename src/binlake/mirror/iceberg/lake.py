"""The Iceberg tables of a lake, to be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from binlake.mirror.iceberg.jvm import Lake
from binlake.mirror.iceberg.missing_keys import KeyReader
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.tables.schema import iceberg_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT_VERSION = {"vectors": "3", "position": "2"}
_SETTINGS = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")} | {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest.min-count-to-merge": "20",
}


class IcebergLake(Lake):
    """A catalog of Iceberg whose tables the mirror writes. `key_reader` completes the row indexes of the tables."""

    def __init__(
        self, spark: SparkSession, catalog: str, key_reader: KeyReader | None = None
    ) -> None:
        super().__init__(spark, catalog)
        self._key_reader = key_reader or KeyReader()

    def beside(self) -> IcebergLake:
        return self  # the threads have their own tables

    def open_table(
        self,
        namespace: str,
        table: str,
        key: Sequence[str] | None,
        indexes: Path,
        open_column: str | None = None,
    ) -> MirrorTable:
        index = indexes.joinpath(namespace, table)
        stored = self.load(namespace, table)
        return MirrorTable(stored, key, index, open_column, self._key_reader)

    def create_table(self, namespace: str, table: str, new: NewTable, indexes: Path) -> MirrorTable:
        settings = {
            "format-version": _FORMAT_VERSION[new.deletes],
            **_SETTINGS,
            "binlake.deletes": new.deletes,
            **new.properties,
        }
        schema = iceberg_schema(new.schema)
        made = self.create(namespace, table, schema, settings, new.partition)
        index = indexes.joinpath(namespace, table)
        return MirrorTable(made, new.key, index, new.open_column, self._key_reader)
