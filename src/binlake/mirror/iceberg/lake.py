"""The Iceberg tables of a lake, to be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from binlake.mirror.iceberg.jvm import Lake
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.tables.schema import iceberg_schema

_FORMAT_VERSION = {"vectors": "3", "position": "2"}
_SETTINGS = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")} | {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest.min-count-to-merge": "20",
}


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
        return MirrorTable(self.load(namespace, table), key, index, open_column)

    def create_table(self, namespace: str, table: str, new: NewTable, indexes: Path) -> MirrorTable:
        """Make an empty table, to be written."""
        settings = {
            "format-version": _FORMAT_VERSION[new.deletes],
            **_SETTINGS,
            "binlake.deletes": new.deletes,
            **new.properties,
        }
        schema = iceberg_schema(new.schema)
        made = self.create(namespace, table, schema, settings, new.partition)
        return MirrorTable(made, new.key, indexes.joinpath(namespace, table), new.open_column)
