"""Which tags of a lake table expire."""

from __future__ import annotations

from typing import Any, cast

from binlake.mirror.iceberg.cleaning import expire_tags
from binlake.mirror.iceberg.jvm import IcebergTable

OURS = [
    "before-convert-binlog.000003-4",
    "before-copy-binlog.000007-4",
    "before-drop-binlog.000001-9",
    "before-rename-mysql-bin.000002-120",
    "before-truncate-binlog.000001-4",
]
OF_OTHERS = ["before-migration", "before-drop-of-column", "before-audit-2026", "of-others"]


class Table:
    """The tags and properties of a table in memory."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.properties: dict[str, str] = {}

    def tags(self) -> list[str]:
        return list(self.names)

    def drop_tag(self, name: str) -> None:
        self.names.remove(name)

    def describe(self) -> dict[str, Any]:
        return {"properties": self.properties}

    def set_properties(self, properties: dict[str, str]) -> None:
        self.properties |= properties


def test_only_tags_of_the_mirror_expire() -> None:
    table = Table([*OURS, *OF_OTHERS])
    lake_table = cast(IcebergTable, table)
    assert expire_tags(lake_table, 60, 1000) == []
    assert expire_tags(lake_table, 60, 1059) == []
    assert expire_tags(lake_table, 60, 1060) == OURS
    assert table.names == OF_OTHERS


def test_a_clock_that_was_ahead_does_not_keep_tags() -> None:
    lake_table = cast(IcebergTable, Table([*OURS]))
    assert expire_tags(lake_table, 60, 9_000_000) == []
    assert expire_tags(lake_table, 60, 1000) == []
    assert expire_tags(lake_table, 60, 1060) == OURS
