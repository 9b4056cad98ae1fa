"""Requests of other processes to a mirror, made while the mirror changes its own record of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.control import Control
from binlake.mirror.lakes import open_lake
from binlake.mirror.options import MirrorOptions

pytestmark = pytest.mark.lakes

Make = Callable[[], Control]


@pytest.fixture(params=["iceberg", "delta"])
def control(request: Any, iceberg_spark: Any, tmp_path: Path) -> Make:
    """Makes the view that one process has of the control table."""
    catalog = f"requests_{abs(hash(str(tmp_path)))}"
    for name, value in (
        ("", "org.apache.iceberg.spark.SparkCatalog"),
        (".type", "hadoop"),
        (".warehouse", str(tmp_path)),
        (".cache-enabled", "false"),
    ):
        iceberg_spark.conf.set(f"spark.sql.catalog.{catalog}{name}", value)

    def made() -> Control:
        options = MirrorOptions.of({"format": request.param})
        lake = open_lake(iceberg_spark, catalog, str(tmp_path), request.param)
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
    mirror.resynced("shop.a")
    assert (mirror.to_resync, mirror.to_compact) == ({"shop.b"}, {"shop.b"})


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


@pytest.mark.parametrize("control", ["iceberg"], indirect=True)
def test_requests_at_one_time_are_all_kept(control: Make) -> None:
    users = [control() for _ in range(4)]
    with ThreadPoolExecutor(len(users)) as threads:
        for number in range(4):
            asked = [partial(u.request_resync, {f"{number}.{at}"}) for at, u in enumerate(users)]
            list(threads.map(lambda ask: ask(), asked))
    users[0].refresh()
    assert users[0].to_resync == {f"{number}.{at}" for number in range(4) for at in range(4)}
