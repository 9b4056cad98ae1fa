"""The status of a mirror from its lake, and from the file that it writes on its machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import shard_properties
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.report import MirrorStatus, TableStatus, mirror_status
from unit.mirror.followed.fake_lake import FakeLake


@pytest.fixture
def lake() -> FakeLake:
    """A mirror with one table."""
    found = FakeLake()
    found.copy_of("shop.t", "shop", "t")
    found.stored["shop", "t"].properties["binlake.deletes"] = "vectors"
    return found


def control_of(lake: Any) -> Control:
    return Control(lake, "mysql://db1/", MirrorOptions())


def status_of(lake: Any, folder: Path | None = None) -> MirrorStatus:
    return mirror_status(lake, folder)


def test_a_removed_shard_is_shown(lake: FakeLake) -> None:
    """Its rows stay in the lake table, which other shards still change."""
    control = control_of(lake)
    merged = lake.stored["shop", "t"]
    kept = {"binlake.create-table": merged.properties["binlake.create-table"], "binlake.key": "[]"}
    merged.properties = {
        "binlake.deletes": "vectors",
        "binlake.shard-column": "_source",
        **shard_properties("shop_1.t", kept),
        **shard_properties("shop_2.t", kept),
    }
    control.remove_tables({"shop_2.t"}, {"shop_2.t"})
    found = {table.table: table for table in status_of(lake).tables}
    assert (found["shop.t"].state, found["shop.t"].shards) == ("mirrored", ("shop_1.t", "shop_2.t"))
    assert found["shop_2.t"] == TableStatus("shop_2.t", "removed", "its rows in shop.t stay as they are")  # fmt: skip
    control.remove_tables({"shop_1.t"}, {"shop_1.t"})
    assert {table.table: table.state for table in status_of(lake).tables} == {"shop.t": "removed"}
