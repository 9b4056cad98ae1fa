"""Commands while the catalog or the store does not answer for one of many tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import BinlogError, OptionError
from binlake.mirror import api
from binlake.mirror.control import Control
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.metrics import prometheus_text
from binlake.mirror.upkeep import compact_tables
from unit.mirror.followed.fake_lake import OFFSET, FakeLake

SPARK: Any = SimpleNamespace()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    """A lake with three tables of a mirror, and one of another program. The catalog refuses `shop.b` and that one."""
    found = FakeLake()
    for name in ("a", "b", "c"):
        found.copy_of(f"shop.{name}", "shop", name)
        found.stored["shop", name].properties["binlake.deletes"] = "vectors"
    found.copy_of("", "theirs", "t")
    control = control_of(found)
    control.record(OFFSET, {f"shop.{name}": 1 for name in ("a", "b", "c")})
    found.refused = {("shop", "b"), ("theirs", "t")}
    monkeypatch.setattr(api, "open_lake", lambda *_of, **_more: found)
    return found


def control_of(lake: Any) -> Control:
    return Control(lake, "mysql://db1/", MirrorOptions())


def test_resync_of_a_pattern_requests_a_table_that_cannot_be_read(lake: FakeLake) -> None:
    notes: list[str] = []
    api.resync("/lake", ["shop.*"], spark=SPARK, note=notes.append)
    assert control_of(lake).requested == {"shop.a", "shop.b", "shop.c"}
    [note] = notes
    assert note.startswith("tables of the catalog are left out because they cannot be read: 1,")
    assert note.endswith("for example theirs.t: theirs.t: Iceberg refuses: Forbidden")
    with pytest.raises(OptionError, match=r"shop\.wrong"):
        api.resync("/lake", ["shop.wrong"], spark=SPARK)


def test_a_removed_table_that_cannot_be_read_is_copied_again(lake: FakeLake) -> None:
    """After `add`, its rows would be those from before `remove`."""
    api.remove("/lake", ["shop.b", "shop.c"], spark=SPARK)
    api.add("/lake", ["shop.b", "shop.c"], spark=SPARK)
    assert control_of(lake).requested == {"shop.b", "shop.c"}


def test_compact_reports_a_table_that_cannot_be_read(lake: Any, tmp_path: Path) -> None:
    for name in ("a", "c"):
        control_of(lake).quarantine(f"shop.{name}", "its key has changed")
    for names in ((), ("shop.*",), ("shop.b",)):
        notes: list[str] = []
        with pytest.raises(BinlogError, match=r"not compacted: shop\.b"):
            compact_tables(lake, SPARK, tmp_path, names, notes.append)
        assert notes == ["shop.b was not compacted: shop.b: Iceberg refuses: Forbidden"]


def test_the_status_shows_a_table_that_cannot_be_read(lake: FakeLake, tmp_path: Path) -> None:
    """Its metrics stay away: it has not lost its rows."""
    found = api.status("/lake", spark=SPARK, state=tmp_path)
    assert [(table.table, table.state, table.reason) for table in found.tables] == [
        ("shop.a", "mirrored", ""),
        ("shop.b", "unreadable", "shop.b: Iceberg refuses: Forbidden"),
        ("shop.c", "mirrored", ""),
    ]
    pytest.importorskip("prometheus_client", reason="needs the extra [server]")
    rows = [line for line in prometheus_text(found).splitlines() if "_table_rows{" in line]
    assert [line.partition('table="')[2].partition('"')[0] for line in rows] == ["shop.a", "shop.c"]
