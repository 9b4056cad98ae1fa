"""The state of a mirror in the lake."""

from __future__ import annotations

import time
from typing import Any

import pytest

from binlake.mirror.control import Control
from binlake.mirror.options import MirrorOptions
from unit.mirror.followed.fake_lake import OFFSET, FakeLake


def test_the_time_of_the_newest_round_is_not_that_of_later_commits() -> None:
    """A compaction commits to the table of rounds, and each renewal of the lease in a Delta lake."""
    lake: Any = FakeLake()
    control = Control(lake, "mysql://db1/", MirrorOptions())
    before = control.recorded_ms
    assert before is None
    control.record(OFFSET, {"shop.t": 1})
    recorded = control.recorded_ms
    assert recorded is not None
    assert abs(recorded / 1000 - time.time()) < 60

    stored = lake.stored["_binlake", "rounds"]
    described = stored.describe
    stored.describe = lambda: {**described(), "committed_ms": recorded + 9_000_000}
    control.refresh()
    assert control.recorded_ms == recorded
    del stored.summary["binlake.recorded-ms"]
    control.refresh()
    assert control.recorded_ms == recorded + 9_000_000, "a round of an earlier version"


def test_former_lake_tables_of_a_table() -> None:
    lake: Any = FakeLake()
    control = Control(lake, "mysql://db1/", MirrorOptions())
    first = control.round
    control.keep_former("shop.t", ("shop", "t"))
    control.record(OFFSET, {"shop.t": 1})
    control.keep_former("shop.t", ("shop", "t"))  # after a kill
    assert control.former_lake_tables == {"shop.t": [(("shop", "t"), first)]}
    control.keep_former("shop.t", ("bronze", "a.b"))
    assert Control(lake).former_lake_tables["shop.t"][1:] == [(("bronze", "a.b"), first + 1)]


def test_thousands_of_tables_are_quarantined_and_released_in_one_commit_each() -> None:
    """Each commit writes all metadata of the table of rounds again. After a purge, the positions of all tables are lost together."""
    lake: Any = FakeLake()
    control = Control(lake, "mysql://db1/", MirrorOptions())
    commits: list[object] = []
    stored = lake.stored["_binlake", "rounds"]
    replace = stored.replace_properties

    def counted(expected: Any, properties: Any) -> None:
        commits.append(properties)
        replace(expected, properties)

    stored.replace_properties = counted
    control.quarantine("shop.t", "its key has changed")
    control.quarantine_all({f"shop.t{number}": f"why {number}" for number in range(1000)})
    assert len(control.quarantined) == 1001
    assert control.quarantined["shop.t7"].reason == "why 7"
    control.quarantine_all({})
    control.release({f"shop.t{number}" for number in range(1000)})
    assert control.quarantined.keys() == {"shop.t"}
    control.release({"shop.u"})
    assert len(commits) == 3


def test_a_clock_that_was_ahead_does_not_put_off_the_search_for_orphans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 2_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    lake: Any = FakeLake()
    control = Control(lake, "mysql://db1/", MirrorOptions())
    assert control.orphans_are_due(100)
    control.orphans_removed()
    now += 99
    assert not control.orphans_are_due(100)
    now += 1
    assert control.orphans_are_due(100)
    now = 1_000_000.0
    assert control.orphans_are_due(100)
    control.orphans_removed()
    assert not control.orphans_are_due(100)
