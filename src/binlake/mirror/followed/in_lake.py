"""The tables that a lake has, loaded once in each round: each load reads the metadata of all lake tables."""

from __future__ import annotations

from collections.abc import Collection

from binlake.format.sql_names import TableName
from binlake.mirror.followed.table_record import mirrored_tables
from binlake.mirror.tables.formats import LakeTables


class MirroredTables:
    """The lake tables of the tables whose copy is complete, in some namespaces. Only the mirror itself changes them during a round."""

    def __init__(self, lake: LakeTables, namespaces: Collection[str]) -> None:
        self._lake = lake
        self._namespaces = namespaces
        self._known: dict[str, list[TableName]] | None = None

    def begin_round(self) -> None:
        """Load them again when they are needed next."""
        self._known = None

    def by_name(self) -> dict[str, list[TableName]]:
        """The lake tables of each table, see `mirrored_tables`."""
        if self._known is None:
            self._known = mirrored_tables(self._lake, self._namespaces)
        return self._known

    def copied(self, full_name: str, lake_table: TableName) -> None:
        """Record that a table has been copied into a lake table, and that it has no other one."""
        self.by_name()[full_name] = [lake_table]
