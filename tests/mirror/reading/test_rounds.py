"""The table of rounds stays small, however many rounds a mirror makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from binlake.mirror.control import Control
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.options import MirrorOptions
from binlake.mirror.upkeep import Upkeep
from binlake.spark.streaming.offsets import StreamOffset
from binlake.values.position import Position

pytestmark = pytest.mark.lakes


@pytest.fixture
def lake(iceberg_spark: Any) -> Iterator[IcebergLake]:
    here = IcebergLake(iceberg_spark, "lake")
    yield here
    here.drop("_binlake", "rounds")


def clean(control: Control, options: MirrorOptions) -> None:
    """The upkeep of a mirror once a minute. Compaction needs no engine where there is no table."""
    engine: Any = None
    Upkeep(engine, control, options, print).work({})


def record(control: Control, rounds: int) -> None:
    for _ in range(rounds):
        offset = StreamOffset(Position("", "binlog.000001", 4 + control.round))
        control.record(offset, {"shop.orders": control.round})


def stored(lake: IcebergLake, what: str) -> int:
    found = lake.load("_binlake", "rounds")
    return len(found.history()) if what == "snapshots" else len(found.files()["data"])


def numbers(spark: Any) -> list[int]:
    rows = spark.sql("SELECT round FROM lake._binlake.rounds").collect()
    return sorted(row["round"] for row in rows)


def test_many_rounds(lake: IcebergLake, iceberg_spark: Any) -> None:
    for_an_hour, for_no_time = (MirrorOptions(keep_snapshots_s=s) for s in (3600, 0))
    control = Control(lake, "mysql://root@localhost", for_no_time)
    record(control, 100)
    clean(control, for_an_hour)
    assert numbers(iceberg_spark) == list(range(1, 101))
    assert stored(lake, "snapshots") <= 22, "20, and those of the upkeep"

    control = Control(lake, None, None)
    control.name_moment("kept", 3)
    clean(control, for_no_time)
    assert numbers(iceberg_spark) == [3, *range(81, 101)]
    assert stored(lake, "files") == 1
    assert (control.round, control.snapshots) == (100, {"shop.orders": 99})

    record(control, 5)
    clean(control, for_no_time)
    assert numbers(iceberg_spark) == [3, *range(81, 106)], "the table is not rewritten each time"
    assert stored(lake, "snapshots") <= 22
    assert control.offset is not None
    assert control.offset.position.offset == 108
