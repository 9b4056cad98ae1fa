"""Places in the log are found from the newest known one on, and are the same as those found from the start of a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import BinlogError
from binlake.follow.logs import DirectoryLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.mirror.followed.log_positions import LogPositions
from binlake.stream.positions.boundary import Limits
from binlake.values.options import ReadOptions
from binlake.values.position import Position
from support.spark.stream_cases import GOLDEN, chain

#: A host whose log has changes after the end of these files.
AHEAD: Any = SimpleNamespace(is_reached=lambda _end, _position: False)

CASES = ("mysql-9.7/transactions", "mysql-9.7/rotation", "mysql-5.6.24/transactions", "mariadb-11.8/transactions")  # fmt: skip


class CountingPlanner(StreamPlanner):
    """Counts the searches that begin at the start of a file."""

    searches = 0

    def latest(self) -> StreamOffset:
        self.searches += 1
        return super().latest()

    def at_position(self, *of: Any) -> StreamOffset:
        self.searches += 1
        return super().at_position(*of)


def planner_of(logs: str) -> CountingPlanner:
    options = ReadOptions(on_error="skip")  # `rotation` has a log that crashed
    return CountingPlanner(DirectoryLogs([logs], options), options)


def boundaries(planner: StreamPlanner) -> list[StreamOffset]:
    found = [planner.earliest()]
    while (end := planner.advance(found[-1], Limits(transactions=1))).key != found[-1].key:
        found.append(end)
    return found


@pytest.mark.parametrize("case", CASES)
def test_places_are_those_of_a_search_from_the_start(case: str) -> None:
    planner = planner_of(f"{GOLDEN / case}/binlog.0*")
    found = boundaries(planner)
    assert len(found) > 3
    places = LogPositions(planner, AHEAD)
    for offset in (found[1], found[-1], found[2], found[-1]):  # also one before the newest
        at = places.at(offset.position)
        file_pos = planner.at_position(offset.position)
        assert (at.position.file, at.position.offset) == (file_pos.position.file, file_pos.position.offset)  # fmt: skip
        assert at.position.gtid_set == file_pos.position.gtid_set
    assert places.end().key == planner.latest().key == places.end().key


def test_a_log_is_searched_from_its_start_once(tmp_path: Path) -> None:
    """A mirror of thousands of tables would read the newest log for each of them."""
    chain(tmp_path)
    planner = planner_of(str(tmp_path))
    found = boundaries(planner)
    places = LogPositions(planner, AHEAD)
    before = planner.searches
    for offset in found[1:]:
        places.at(offset.position)
        places.end()
    assert planner.searches - before <= 1 + len(found), "of positions before the newest"
    before = planner.searches
    for _ in range(20):
        places.at(places.end().position)
    assert planner.searches == before


def test_a_position_that_the_log_does_not_have(tmp_path: Path) -> None:
    chain(tmp_path)
    places = LogPositions(planner_of(str(tmp_path)), AHEAD)
    end = places.end().position
    with pytest.raises(BinlogError, match="does not reach"):
        places.at(Position(end.server_uuid, end.file, end.offset + 1))
    with pytest.raises(BinlogError, match="the log does not have"):
        places.at(Position(end.server_uuid, "binlog.000077", 4))
