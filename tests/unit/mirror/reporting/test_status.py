"""The status of a mirror from its lake, and from the file that it writes on its machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import shard_properties
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.pulse import Pulse
from binlake.mirror.reporting.report import MirrorStatus, TableStatus, mirror_status
from binlake.values.position import Position
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


def beat(folder: Path, lake: str, waiting: dict[str, str]) -> None:
    """The mirror of a lake writes which tables wait."""
    logs: Any = None
    Pulse(folder, lambda: logs, lambda: None, waiting=lambda: waiting, lake=lake).beat_now(None)


def test_tables_that_the_lake_does_not_have_are_shown_with_the_reason(
    lake: FakeLake, tmp_path: Path
) -> None:
    control = control_of(lake)
    lake.copy_of("shop.begun", "shop", "begun")
    begun = lake.stored["shop", "begun"].properties
    begun["binlake.deletes"] = "vectors"
    del begun["binlake.create-table"]
    control.quarantine("shop.bad", "why")
    incomplete = "its copy is not complete"
    names = ("shop.t", "shop.begun", "shop.bad", "shop.new", "shop.removed")
    beat(tmp_path, control.lake_id, dict.fromkeys(names, incomplete))
    control.remove_tables({"shop.removed"}, set())
    found = status_of(lake, tmp_path)
    assert [(table.table, table.state, table.reason) for table in found.tables] == [
        ("shop.bad", "quarantined", "why"),
        ("shop.begun", "copying", incomplete),
        ("shop.new", "copying", incomplete),
        ("shop.t", "mirrored", ""),
    ]
    assert found.to_copy == ["shop.begun", "shop.new"]


def test_the_state_of_another_lake_is_not_shown(lake: FakeLake, tmp_path: Path) -> None:
    control = control_of(lake)
    beat(tmp_path, "another", {"shop.theirs": "its copy is not complete"})
    found = status_of(lake, tmp_path)
    assert (found.checked_at, [table.table for table in found.tables]) == ("", ["shop.t"])
    beat(tmp_path, control.lake_id, {})
    assert status_of(lake, tmp_path).checked_at


@pytest.mark.parametrize("ahead_s", [-60, 3600])
def test_the_lag_if_the_clock_of_the_server_is_ahead(lake: FakeLake, ahead_s: int) -> None:
    """It would be 0 for an hour, also if the mirror hangs."""
    control = control_of(lake)
    control.record(StreamOffset(Position("uuid", "binlog.000001", 4)), {})
    assert control.recorded_ms is not None
    commit_us = control.recorded_ms * 1000 + ahead_s * 1_000_000
    written_ms = control.recorded_ms
    control.record(StreamOffset(Position("uuid", "binlog.000001", 5), commit_us=commit_us), {})
    found = status_of(lake)
    assert found.written_s == pytest.approx(written_ms / 1000, abs=60)
    assert found.fresh_at == (found.written_at if ahead_s > 0 else found.commit_time)


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


def test_the_snapshots_of_the_newest_round_are_read_once(lake: FakeLake) -> None:
    """The text has all tables: for each of 5,000 tables, it was parsed again."""
    control = control_of(lake)
    for number in range(5):
        lake.copy_of(f"shop.t{number}", "shop", f"t{number}")
        lake.stored["shop", f"t{number}"].properties["binlake.deletes"] = "vectors"
    control.record(StreamOffset(Position("uuid", "binlog.000001", 4)), {"shop.t": 1})
    reads: list[str] = []

    class Summary(dict[str, str]):
        def get(self, name: str, *default: Any) -> Any:
            reads.append(name)
            return super().get(name, *default)

    rounds = lake.stored["_binlake", "rounds"]
    rounds.summary = Summary(rounds.summary)
    assert len(status_of(lake).tables) == 6
    assert reads.count("binlake.tables") == 1
