"""The table of rounds stays small, however many rounds a mirror makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control
from binlake.mirror.delta import upkeep as delta_upkeep
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.upkeep import DeltaUpkeep
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.options import MirrorOptions
from binlake.mirror.upkeep import Upkeep
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
    Upkeep(engine, control, options, Path(), print).work({})


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


def test_many_rounds_of_a_delta_lake(
    iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds stay for as long as the versions of the tables: a week at least."""
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    options = MirrorOptions.of({"format": "delta", "compact": "off", "keep_snapshots_s": 0})
    control = Control(lake, "mysql://root@localhost", options)
    place = str(tmp_path / "_binlake" / "rounds")

    def kept() -> list[int]:
        rows = iceberg_spark.read.format("delta").load(place).select("round").collect()
        return sorted(row["round"] for row in rows)

    record(control, 2)
    frame = iceberg_spark.read.format("delta").load(place)
    others = [name for name in frame.columns if name != "round"]
    old = frame.limit(1).selectExpr("explode(sequence(-97L, 0L)) AS round", *others)
    newest = iceberg_spark.sql(f"DESCRIBE HISTORY delta.`{place}` LIMIT 1").first().userMetadata
    written = old.write.format("delta").mode("append").option("userMetadata", newest)
    written.save(place)
    control.refresh()
    control.name_moment("kept", -90)
    DeltaUpkeep(control, options, tmp_path, print).work({})
    assert kept() == list(range(-97, 3))
    control = Control(lake, None, None)
    monkeypatch.setattr(delta_upkeep, "readable_hours", lambda _keep_s: 0)
    DeltaUpkeep(control, options, tmp_path, print).work({})
    assert kept() == [-90, *range(-17, 3)]
    assert (control.round, control.snapshots) == (2, {"shop.orders": 1})
    record(control, 1)
    assert kept() == [-90, *range(-17, 4)]
