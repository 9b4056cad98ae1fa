"""The tables of a round whose databases have names with periods."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import OptionError, SourceError
from binlake.mirror import moments
from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import former_properties
from binlake.mirror.options import MirrorOptions
from unit.mirror.followed.fake_lake import OFFSET, FakeLake, Stored

RECORDED_US = 1_000_000
NAMES = {("a.b", "c"): 11, ("a", "b.c"): 22, ("crm.v2", "customers"): 33}


class Lake(FakeLake):
    """A lake whose tables have one snapshot each, of the time `created_us`."""

    created_us = 0

    def load(self, *name: str) -> Any:
        if name not in self.stored:
            raise SourceError(f"{name}: Iceberg refuses: NoSuchTable")
        stored: Any = super().load(*name)
        stored.has_version = lambda snapshot, until_us: (
            snapshot == NAMES.get(name) and self.created_us < until_us
        )
        return stored

    def sql_name(self, *name: str) -> str:
        return ".".join(f"`{part}`" for part in name)


class Spark:
    """Answers the query for rounds with the newest one; keeps the other queries."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.read: list[str] = []

    def sql(self, query: str) -> Any:
        if "log_file" not in query:
            self.read.append(query)
            return query
        tables = json.dumps(self.control.snapshots)
        row = {"round": self.control.round, "recorded_us": RECORDED_US, "commit_us": None, "log_file": "binlog.000001", "log_pos": 4, "gtid_set": "", "tables": tables}  # fmt: skip
        return SimpleNamespace(collect=lambda: [row])


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    lake: Any = Lake()
    control = Control(lake, "mysql://db1/", MirrorOptions())
    for name in NAMES:
        lake.copy_of(".".join(name), *name)
        lake.stored[name].properties["binlake.deletes"] = "vectors"
    control.record(OFFSET, {"`a.b`.c": 11, "a.b.c": 22, "`crm.v2`.customers": 33})
    monkeypatch.setattr(moments, "open_lake", lambda *_: lake)
    return Spark(control)


def test_each_table_of_a_round_has_its_own_name_and_snapshot(spark: Any) -> None:
    [newest] = moments.history("/lake", spark=spark)
    assert newest.snapshots == {"`a.b`.c": 11, "a.b.c": 22, "`crm.v2`.customers": 33}
    assert moments.absent_tables("/lake", newest, spark=spark) == []
    moments.tables_at("/lake", spark=spark)
    assert sorted(spark.read) == [
        "SELECT * FROM `a.b`.`c` VERSION AS OF 11",
        "SELECT * FROM `a`.`b.c` VERSION AS OF 22",
        "SELECT * FROM `crm.v2`.`customers` VERSION AS OF 33",
    ]


def test_an_expired_snapshot_has_a_hint_with_the_options(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`history` lists rounds by age; a table may have fewer snapshots."""
    monkeypatch.setitem(NAMES, ("a.b", "c"), 12)
    monkeypatch.setattr(moments, "IcebergTable", Stored)
    with pytest.raises(
        SourceError, match=r"round 2: its snapshot of `a\.b`\.c has expired"
    ) as raised:
        moments.tables_at("/lake", spark=spark)
    assert "(--keep-snapshots) and more of them (--max-snapshots)" in (raised.value.hint or "")


def test_a_round_can_have_a_name(spark: Any) -> None:
    assert moments.name_moment("/lake", "monday", spark=spark).names == ("monday",)
    moments.drop_moment("/lake", "monday", spark=spark)
    assert spark.control.refresh() is None
    assert spark.control.moments == {}


def test_digits_alone_are_no_name(spark: Any) -> None:
    """`VERSION AS OF '20261231'` would read the snapshot with this id. Earlier versions gave such names."""
    for name in ("20261231", "7"):
        with pytest.raises(OptionError, match="cannot be the name of a moment") as raised:
            moments.name_moment("/lake", name, spark=spark)
        assert "not digits alone" in (raised.value.hint or "")
    spark.control.name_moment("20261231", 2)
    moments.drop_moment("/lake", "20261231", spark=spark)
    spark.control.refresh()
    assert spark.control.moments == {}
    assert moments.name_moment("/lake", "2026-12-31", spark=spark).names == ("2026-12-31",)


def test_absent_tables_have_the_same_names(spark: Any) -> None:
    spark.control.quarantine("`a.b`.new", "for the test")
    [newest] = moments.history("/lake", spark=spark)
    moments.name_moment("/lake", "monday", spark=spark)
    for moment in (newest, "monday", newest.round, None):
        assert moments.absent_tables("/lake", moment, spark=spark) == ["`a.b`.new"]
    with pytest.raises(OptionError, match="no moment is named tuesday"):
        moments.absent_tables("/lake", "tuesday", spark=spark)


def test_a_lake_table_that_a_user_has_dropped(spark: Any) -> None:
    """The documentation recommends it for a table that is gone. The others are still of one moment."""
    moments.name_moment("/lake", "monday", spark=spark)
    del spark.control.lake.stored["a", "b.c"]
    [newest] = moments.history("/lake", spark=spark)
    assert moments.absent_tables("/lake", newest, spark=spark) == ["a.b.c"]
    found = moments.tables_at("/lake", "monday", spark=spark)
    assert sorted(found) == ["`a.b`.c", "`crm.v2`.customers"]
    assert moments.name_moment("/lake", "monday", spark=spark).names == ("monday",)
    assert moments.name_moment("/lake", "again", spark=spark).names == ("again", "monday")
    moments.drop_moment("/lake", "monday", spark=spark)


def test_a_lake_table_that_was_created_again_after_a_round(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions of a Delta table begin at 0 again: its version 11 has rows of another moment."""
    monkeypatch.setattr(Lake, "created_us", RECORDED_US + 1)
    with pytest.raises(SourceError, match=r"has expired, or the lake table was created again"):
        moments.tables_at("/lake", spark=spark)
    with pytest.raises(SourceError, match=r"has expired, or the lake table was created again"):
        moments.name_moment("/lake", "monday", spark=spark)


def test_a_round_has_tables_under_their_former_names(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change of --rename, the lake tables with the snapshots of old rounds may stay."""
    control, lake = spark.control, spark.control.lake
    monkeypatch.setitem(NAMES, ("bronze", "customers"), 44)
    lake.copy_of("`crm.v2`.customers", "bronze", "customers")
    lake.stored["bronze", "customers"].properties["binlake.deletes"] = "vectors"
    control.configure("mysql://db1/", MirrorOptions(rename_tables=("crm.v2.*=bronze.{table}",)))
    control.keep_former("`crm.v2`.customers", ("crm.v2", "customers"))
    lake.stored["crm.v2", "customers"].properties |= former_properties("bronze.customers")
    [old] = moments.history("/lake", spark=spark)
    assert old.snapshots == {"`a.b`.c": 11, "a.b.c": 22, "`crm.v2`.customers": 33}
    assert moments.absent_tables("/lake", old, spark=spark) == []
    moments.tables_at("/lake", spark=spark)
    assert "SELECT * FROM `crm.v2`.`customers` VERSION AS OF 33" in spark.read

    control.record(OFFSET, {"`a.b`.c": 11, "a.b.c": 22, "`crm.v2`.customers": 44})
    [new] = moments.history("/lake", spark=spark)
    assert new.snapshots == {"`a.b`.c": 11, "a.b.c": 22, "bronze.customers": 44}
    assert moments.absent_tables("/lake", new, spark=spark) == []
    assert moments.tables_at("/lake", spark=spark).keys() == new.snapshots.keys()
