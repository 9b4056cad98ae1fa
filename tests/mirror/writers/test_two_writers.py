"""Two writers that commit to one Iceberg table at the same time: one of them is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.follow.offsets import StreamOffset
from binlake.lake.jobs import SparkEngine
from binlake.mirror.control import Control
from binlake.mirror.followed.table import Followed
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.upkeep import Upkeep
from binlake.values.position import Position
from conftest import missing
from support.spark.lake_readers import by_spark
from support.spark.mirrored import jdbc_driver, set_catalog

pytestmark = pytest.mark.lakes

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
#: So many times two writers meet: both pass the first check of the head in most of them.
MEETINGS = 8


@pytest.fixture(params=["hadoop", "jdbc", "rest"])
def catalog(request: Any, iceberg_spark: Any, tmp_path: Path) -> str:
    """The name of a catalog of each kind in turn."""
    name = f"writers_{abs(hash(str(tmp_path)))}"
    settings = {"type": request.param, "warehouse": str(tmp_path / "lake")}
    if request.param == "jdbc":
        if not jdbc_driver():
            missing("not provisioned: python -m dev.servers provision lake-store-jars")
        settings |= {"uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}", "jdbc.schema-version": "V1"}
        settings["clients"] = "1"  # SQLite refuses a second connection that writes
    elif request.param == "rest":
        settings = {"type": "rest", "uri": request.getfixturevalue("rest_catalog_address")}
    set_catalog(iceberg_spark, name, settings)
    return name


@pytest.fixture
def writers(iceberg_spark: Any, catalog: str, tmp_path: Path) -> Callable[[str], list[MirrorTable]]:
    """Two writers of an empty table, as two mirrors have them."""

    def of(name: str) -> list[MirrorTable]:
        lake = IcebergLake(iceberg_spark, catalog)
        lake.create_table("db", name, NewTable(SCHEMA, ("id",)), tmp_path / "made")
        return [
            IcebergLake(iceberg_spark, catalog).open_table("db", name, ("id",), tmp_path / place)
            for place in ("a", "b")
        ]

    return of


def inserted(numbers: range) -> Change:
    return Change(pa.table({"id": pa.array(numbers, pa.int32()), "name": ["x"] * len(numbers)}))


def at_once(*acts: Callable[[], object]) -> list[bool]:
    """Run all at one time; return which were not refused."""
    start = threading.Barrier(len(acts))

    def tried(act: Callable[[], object]) -> bool:
        start.wait()
        try:
            act()
        except CommitConflictError as error:
            assert "another writer" in str(error)
            return False
        return True

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(tried, acts))


def test_of_two_inserts_one_is_refused(writers: Any, iceberg_spark: Any, catalog: str) -> None:
    first, second = writers("writers_met")
    for number in range(MEETINGS):
        change = inserted(range(number, number + 1))
        done = at_once(partial(first.commit, change, {}), partial(second.commit, change, {}))
        assert done.count(True) == 1
        first.reload()
        second.reload()
    found = by_spark(iceberg_spark, "db.writers_met", "id", catalog)
    assert found == [(n,) for n in range(MEETINGS)]


def test_of_a_rewrite_and_an_insert_one_is_refused(writers: Any) -> None:
    first, second = writers("writers_rewrote")
    first.commit(inserted(range(1)), {"binlake.at": "0"})
    for number in range(1, MEETINGS):
        first.reload()
        second.reload()
        order = second.rewrite_of(second.files.states())
        rewrites = [order.done(json.loads(order.task().run()))]
        before, at = second.summary["binlake.at"], str(number)
        change = inserted(range(number, number + 1))
        done = at_once(
            partial(first.commit, change, {"binlake.at": at}),
            partial(second.commit_rewrites, rewrites, {"binlake.at": before}),
        )
        assert done.count(True) == 1
        first.reload()
        # the position that the lake records is that of its rows
        expected = (number + 1, at) if done[0] else (number, before)
        assert (first.rows, first.summary["binlake.at"]) == expected
        if not done[0]:
            first.commit(change, {"binlake.at": at})


def test_a_tag_of_another_process_is_no_conflict(writers: Any) -> None:
    first, second = writers("writers_tagged")
    first.commit(inserted(range(1)), {})
    for number in range(1, MEETINGS):
        second.reload()
        commit = partial(first.commit, inserted(range(number, number + 1)), {})
        tag = partial(second.stored.tag_at, f"t{number}", second.snapshot)
        assert at_once(commit, tag) == [True, True]
    assert first.rows == MEETINGS
    assert len(first.stored.tags()) == MEETINGS - 1


def test_upkeep_continues_if_delete_files_cannot_become_one(
    iceberg_spark: Any, tmp_path: Path
) -> None:
    """Format v2: another writer has committed before the position deletes are rewritten."""
    lake = IcebergLake(iceberg_spark, "lake")
    new = NewTable(SCHEMA, ("id",), "position")
    table = lake.create_table("db", "writers_lists", new, tmp_path)
    table.commit(inserted(range(20)), {})
    for number in range(2):
        table.commit(Change(deletes=pa.table({"id": pa.array([number], pa.int32())})), {})
    iceberg_spark.sql("DELETE FROM lake.db.writers_lists WHERE id = 9")
    notes: list[str] = []
    followed = Followed(
        "db", "writers_lists", table, StreamOffset(Position("1-2-3", "binlog.000001", 4))
    )
    options = MirrorOptions.of({"deletes": "position", "compact_files": 2})
    control = Control(lake, "mysql://db1/", options)
    upkeep = Upkeep(SparkEngine(iceberg_spark), control, options, tmp_path, notes.append)
    upkeep.finish({"db.writers_lists": followed}, lambda: None)
    [note] = notes
    assert note.startswith("db.writers_lists was not compacted: db.writers_lists: another writer")
