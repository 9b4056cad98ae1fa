"""Where the tables of a mirror are, as the next start finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.follow.offsets import StreamOffset
from binlake.mirror.commits import commit_emptied, commit_gone
from binlake.mirror.control import Control, position_properties
from binlake.mirror.followed.kept_places import KeptPlaces, kept_places
from binlake.mirror.followed.round_recorder import RoundRecorder
from binlake.mirror.followed.table_record import offset_properties, parts_of, shard_properties
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change
from binlake.values.position import Position
from unit.mirror.followed.fake_lake import FakeLake, started

NAMES = ("shop.busy", "shop.quiet")


def place(file: int, offset: int, server: str = "1-2-3") -> StreamOffset:
    return StreamOffset(Position(server, f"binlog.{file:06}", offset, ""))


@pytest.fixture
def lake() -> FakeLake:
    """Two tables whose last commits were at 900 of the first log."""
    made = FakeLake()
    for full_name in NAMES:
        namespace, _, name = full_name.partition(".")
        made.copy_of(full_name, namespace, name)
        stored = made.stored[namespace, name]
        stored.properties["binlake.snapshot-until"] = json.dumps(place(1, 4).to_json())
        stored.summary = position_properties(place(1, 900), 1)
    return made


class Run:
    """A mirror that has been started."""

    def __init__(self, lake: FakeLake, folder: Path, **options: Any) -> None:
        self.control = Control(lake, "mysql://db1/", MirrorOptions.of(options))  # type: ignore[arg-type]
        self.tables, _ = started(lake, folder, self.control)
        self.recorder = RoundRecorder(self.control, self.tables, self.control.options)

    def at(self, name: str) -> tuple[str, int]:
        position = self.tables.followed[f"shop.{name}"].offset.position
        return position.file, position.offset

    def reach(self, **places: StreamOffset) -> None:
        for name, offset in places.items():
            self.tables.followed[f"shop.{name}"].offset = offset
        self.recorder.record()


def test_tables_at_different_positions(lake: FakeLake, tmp_path: Path) -> None:
    run = Run(lake, tmp_path)
    run.reach(busy=place(2, 10), quiet=place(2, 10))
    recorded = run.control.round
    run.reach(busy=place(9, 50), quiet=place(7, 20))
    assert run.control.round == recorded
    again = Run(lake, tmp_path)
    assert (again.at("busy"), again.at("quiet")) == (("binlog.000009", 50), ("binlog.000007", 20))
    again.reach(quiet=place(9, 50))
    assert again.control.round == recorded + 1
    again.reach(busy=place(9, 60), quiet=place(9, 60))
    assert Run(lake, tmp_path).at("quiet") == ("binlog.000009", 60), "the round is newer"


def test_nothing_new_is_not_written(lake: FakeLake, tmp_path: Path) -> None:
    run = Run(lake, tmp_path)
    run.reach(busy=place(9, 50), quiet=place(7, 20))
    kept = run.control.places
    run.recorder.record()
    assert run.control.places is kept


def test_the_first_copy_of_an_idle_server_is_recorded_when_it_ends(
    lake: FakeLake, tmp_path: Path
) -> None:
    """Until the next heartbeat, `status` showed no position, and `tag` found no round."""
    run = Run(lake, tmp_path)
    copied = run.tables.followed.pop("shop.quiet")
    run.recorder.while_idle()
    first = run.control.round
    assert run.control.snapshots.keys() == {"shop.busy"}
    run.recorder.while_idle()
    assert run.control.round == first
    run.tables.followed["shop.quiet"] = copied
    run.recorder.while_idle()
    assert (run.control.round, {*run.control.snapshots}) == (first + 1, {*NAMES})


def test_a_run_that_does_not_follow_a_table(lake: FakeLake, tmp_path: Path) -> None:
    Run(lake, tmp_path).reach(busy=place(9, 50), quiet=place(9, 50))
    narrow = Run(lake, tmp_path)
    left = narrow.tables.followed.pop("shop.quiet")
    for offset in (60, 70):
        narrow.reach(busy=place(9, offset))
    again = Run(lake, tmp_path)
    assert (again.at("busy"), again.at("quiet")) == (("binlog.000009", 70), ("binlog.000009", 50))
    assert set(again.control.snapshots) == {"shop.busy"}, "the moment lacks it"
    assert left.lake.snapshot is not None


def test_a_table_that_has_gone_on_since_the_round(lake: FakeLake, tmp_path: Path) -> None:
    run = Run(lake, tmp_path)
    run.reach(busy=place(9, 50), quiet=place(9, 50))
    run.reach(busy=place(9, 60), quiet=place(9, 90))
    narrow = Run(lake, tmp_path)
    narrow.tables.followed.pop("shop.quiet")
    narrow.reach(busy=place(9, 95))
    assert Run(lake, tmp_path).at("quiet") == ("binlog.000009", 90)


def test_a_round_after_a_failover_is_newer(lake: FakeLake, tmp_path: Path) -> None:
    run = Run(lake, tmp_path)
    run.reach(busy=place(9, 50), quiet=place(7, 20))
    run.reach(busy=place(2, 30, "other"), quiet=place(2, 30, "other"))
    assert Run(lake, tmp_path).at("quiet") == ("binlog.000002", 30)
    run.reach(busy=place(2, 80, "other"), quiet=place(2, 70, "other"))
    assert Run(lake, tmp_path).at("quiet") == ("binlog.000002", 70)


def test_places_of_another_snapshot_are_not_of_the_table(lake: FakeLake, tmp_path: Path) -> None:
    """A user has rolled the lake table back."""
    Run(lake, tmp_path).reach(busy=place(9, 50), quiet=place(7, 20))
    stored = lake.stored["shop", "quiet"]
    stored.snapshot = 77
    stored.summary = position_properties(place(1, 800), 1)
    assert Run(lake, tmp_path).at("quiet") == ("binlog.000001", 800)


@pytest.mark.parametrize("commit", [commit_emptied, commit_gone])
def test_a_part_of_a_transaction_is_no_moment(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Any
) -> None:
    """A kill comes between two commits of one range."""
    Run(lake, tmp_path).reach(busy=place(2, 10), quiet=place(2, 10))
    run = Run(lake, tmp_path)
    recorded = run.control.round
    stored: Any = lake.stored["shop", "busy"]

    def commit_once(change: Change, properties: dict[str, str]) -> int:
        if stored.snapshot == 2:
            raise OSError("killed")
        stored.snapshot, stored.summary = 2, dict(properties)
        return change.rows

    monkeypatch.setattr(stored, "commit", commit_once, raising=False)
    table = run.tables.followed["shop.busy"]

    def parts(_of: Any, _most: int) -> Iterator[Change]:
        yield from (Change(pa.table({"id": [number]})) for number in range(2))

    monkeypatch.setattr(type(table.mode), "emptied", staticmethod(parts))
    with pytest.raises(OSError, match="killed"):
        commit(table, None, place(3, 40), 2, MirrorOptions())
    again = Run(lake, tmp_path)
    assert (again.at("busy"), again.at("quiet")) == (("binlog.000002", 10),) * 2
    again.recorder.record()
    assert again.control.round == recorded
    again.reach(busy=place(3, 30), quiet=place(3, 30))  # smaller rounds than before the kill
    assert again.control.round == recorded
    after = again.tables.followed["shop.busy"]
    assert parts_of(after.position_properties(place(3, 30), 3)) == {"shop.busy": place(3, 40)}
    assert parts_of(after.position_properties(place(3, 40), 3)) == {}
    assert parts_of(after.copied_properties(place(2, 10), 3)) == {}
    smaller = after.part_properties(place(3, 35), 3)
    assert parts_of(smaller) == {"shop.busy": place(3, 40)}
    again.reach(busy=place(3, 40), quiet=place(3, 40))
    assert again.control.round == recorded + 1


def test_a_part_of_a_transaction_after_a_failover(lake: FakeLake, tmp_path: Path) -> None:
    """The positions of two servers are compared by their GTIDs."""
    server = "7d54b3a2-6a8d-11ee-8a5c-0242ac120002"

    def at(of: str, offset: int, last: int) -> StreamOffset:
        return StreamOffset(Position(of, "binlog.000001", offset, f"{server}:1-{last}"))

    run = Run(lake, tmp_path)
    table = run.tables.followed["shop.busy"]
    table.offset = at("old", 900, 5)
    lake.stored["shop", "busy"].summary = table.part_properties(at("old", 990, 7), 1)
    table.offset = at("new", 100, 5)
    assert table.is_unfinished
    table.offset = at("new", 200, 7)
    assert not table.is_unfinished


SHARDS = ("shop_1.t", "shop_2.t")


@pytest.fixture
def merged() -> FakeLake:
    """One lake table with the rows of two shards."""
    made = FakeLake()
    made.copy_of(SHARDS[0], "shop", "t")
    stored = made.stored["shop", "t"]
    kept = stored.properties | {"binlake.snapshot-until": json.dumps(place(1, 4).to_json())}
    del kept["binlake.table"]
    stored.properties = {"binlake.shard-column": "_source"}
    for name in SHARDS:
        stored.properties |= shard_properties(name, kept)
    stored.summary = offset_properties(dict.fromkeys(SHARDS, place(1, 900)), SHARDS[0], 1)
    return made


def test_a_round_without_a_lake_table_that_has_old_rows_of_a_shard(
    merged: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a shard that users have removed stay in it, and in the rounds."""
    run = Run(merged, tmp_path, shard_tables=["shop_*.t=shop.t"])
    rounds: list[dict[str, int]] = []
    stored: Any = merged.stored["_binlake", "rounds"]

    def append(rows: pa.Table, properties: dict[str, str]) -> None:
        rounds.append(json.loads(rows["tables"][0].as_py()))
        stored.summary = properties

    monkeypatch.setattr(stored, "append", append)
    assert run.tables.followed.keys() == {*SHARDS}
    run.recorder.record()
    assert rounds == [dict.fromkeys(SHARDS, 1)]
    run.tables.quarantine(SHARDS[1], "for the test")
    run.recorder.record()
    assert rounds[1:] == [{}]
    assert run.control.snapshots == {SHARDS[0]: 1}, "it has the place of the followed shard"
    run.control.remove_tables({SHARDS[1]}, {SHARDS[1]})
    run.recorder.record()
    assert rounds[2:] == [{SHARDS[0]: 1}]
    run.tables.left_out.add("shop_3.t")
    run.recorder.record()
    assert rounds[3:] == [{}]
    run.tables.left_out.clear()
    run.control.quarantine("shop.t", "its lake table is that of the shards")
    run.recorder.record()
    assert rounds[4:] == [{SHARDS[0]: 1}]


def test_a_part_of_a_transaction_of_another_shard(merged: FakeLake, tmp_path: Path) -> None:
    run = Run(merged, tmp_path, shard_tables=["shop_*.t=shop.t"])
    one, other = (run.tables.followed[name] for name in SHARDS)
    stored = merged.stored["shop", "t"]
    stored.summary = one.part_properties(place(2, 40), 2)
    stored.summary = other.position_properties(place(2, 40), 2)
    other.offset = place(2, 40)
    assert (one.is_unfinished, other.is_unfinished) == (True, False)
    stored.summary = one.position_properties(place(2, 40), 2)
    one.offset = place(2, 40)
    assert not one.is_unfinished


def test_places_as_json() -> None:
    places = KeptPlaces(3, {"a.b": (1, place(1, 900)), "a.c": (2, place(1, 900)), "a.d": (3, place(2, 4))})  # fmt: skip
    text = places.to_json()
    assert kept_places(text) == places
    assert len(json.loads(text)["offsets"]) == 2


@pytest.mark.parametrize(("table_format", "expired"), [("iceberg", 2), ("delta", 0)])
def test_rounds_with_many_snapshots_of_tables_are_expired_between_two_upkeeps(
    lake: FakeLake, tmp_path: Path, table_format: str, expired: int
) -> None:
    """Each commit writes the metadata of the control table again, in which each round has the snapshots of all tables."""
    for stored in lake.stored.values():
        stored.format = table_format
    run = Run(lake, tmp_path)
    recorder = RoundRecorder(run.control, run.tables, run.control.options, most_unexpired=40)
    for offset in range(1, 45):
        for table in run.tables.followed.values():
            table.offset = place(9, offset)
        recorder.record()
        recorder.record()  # nothing new
    assert lake.stored["_binlake", "rounds"].expired == expired
