"""Requests of other processes to a mirror, made while the mirror changes its own record of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control
from binlake.mirror.lakes import open_lake
from binlake.mirror.options import MirrorOptions
from binlake.values.position import Position
from support.spark.mirrored import set_catalog

pytestmark = pytest.mark.lakes

Make = Callable[[], Control]


@pytest.fixture(params=["iceberg", "delta", "iceberg-rest"])
def control(request: Any, iceberg_spark: Any, tmp_path: Path) -> Make:
    """Makes the view that one process has of the control table."""
    table_format, _, rest = request.param.partition("-")
    catalog = f"requests_{abs(hash(str(tmp_path)))}"
    settings = {"type": "hadoop", "warehouse": str(tmp_path)}
    if rest:
        address = request.getfixturevalue("rest_catalog_address")
        settings = {"type": "rest", "uri": address}
    set_catalog(iceberg_spark, catalog, settings)

    def made() -> Control:
        options = MirrorOptions.of({"format": table_format})
        lake = open_lake(iceberg_spark, catalog, str(tmp_path), table_format)
        return Control(lake, "mysql://db1/", options)

    return made


def test_requests_since_the_last_reading_stay(control: Make) -> None:
    mirror, user = control(), control()
    user.request_resync({"shop.a"})
    user.request_compaction({"shop.a"})
    mirror.refresh()
    user.request_resync({"shop.b"})
    user.request_compaction({"shop.b"})
    mirror.compaction_begins(mirror.to_compact)
    mirror.resync_begins({"shop.a"})
    mirror.resynced("shop.a")
    assert (mirror.to_resync, mirror.to_compact) == ({"shop.b"}, {"shop.b"})


def test_a_request_during_the_copy_that_it_concerns_stays(control: Make) -> None:
    mirror, user = control(), control()
    user.request_resync({"shop.a"})
    mirror.resync_begins({"shop.a"})
    assert control().to_resync == {"shop.a"}, "the copy continues after a restart"
    user.request_resync({"shop.a"})
    mirror.keep_resyncing("shop.a")
    mirror.resynced("shop.a")
    assert mirror.to_resync == {"shop.a"}
    mirror.resync_begins({"shop.a"})
    mirror.resynced("shop.a")
    assert mirror.to_resync == set()


def test_quarantines_and_patterns_of_several_processes_add_up(control: Make) -> None:
    mirror, user = control(), control()
    mirror.quarantine("shop.a", "for the test")
    user.quarantine("shop.b", "for the test")
    user.leave("shop.c", "dropped")
    mirror.leave("shop.d", "dropped")
    user.add_tables({"more.*"}, {"shop.e"})
    mirror.remove_tables({"less.*"}, {"shop.a"})
    user.refresh()
    assert (set(user.quarantined), set(user.gone)) == ({"shop.b"}, {"shop.c", "shop.d"})
    assert (user.added, user.removed, user.to_resync) == (("more.*",), ("less.*",), {"shop.e"})


def test_requests_at_one_time_are_all_kept(control: Make) -> None:
    users = [control() for _ in range(4)]
    with ThreadPoolExecutor(len(users)) as threads:
        for number in range(4):
            asked = [partial(u.request_resync, {f"{number}.{at}"}) for at, u in enumerate(users)]
            list(threads.map(lambda ask: ask(), asked))
    users[0].refresh()
    assert users[0].to_resync == {f"{number}.{at}" for number in range(4) for at in range(4)}


def test_rounds_and_requests_at_one_time_are_all_kept(control: Make) -> None:
    mirror, user = control(), control()
    offset = StreamOffset(Position("1-2-3", "binlog.000001", 4))
    with ThreadPoolExecutor(2) as threads:
        for number in range(4):
            acts = [
                partial(mirror.record, offset, {"shop.a": number}),
                partial(user.request_resync, {f"shop.{number}"}),
            ]
            list(threads.map(lambda act: act(), acts))
            mirror.refresh()
            assert (mirror.round, mirror.snapshots) == (number + 1, {"shop.a": number})
    mirror.expire()
    assert mirror.to_resync == {f"shop.{number}" for number in range(4)}


def test_a_view_that_was_not_refreshed_for_long(control: Make) -> None:
    """A thread renews the lease during a long read: each renewal is a version of the metadata, of which the table keeps 20."""
    mirror, thread = control(), control()
    for number in range(25):
        thread.renew_lease(str(number))
    mirror.quarantine("shop.a", "for the test")
    mirror.refresh()
    assert (mirror.lease, set(mirror.quarantined)) == ("24", {"shop.a"})
