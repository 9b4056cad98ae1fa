"""The tables of a round whose databases have names with periods."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.mirror import moments
from binlake.mirror.control import Control
from binlake.mirror.options import MirrorOptions
from unit.mirror.followed.fake_lake import OFFSET, FakeLake, Stored

NAMES = {("a.b", "c"): 11, ("a", "b.c"): 22, ("crm.v2", "customers"): 33}


class Lake(FakeLake):
    """A lake whose tables have one snapshot each."""

    def load(self, *name: str) -> Any:
        if name not in self.stored:
            raise SourceError(f"{name}: Iceberg refuses: NoSuchTable")
        stored: Any = super().load(*name)
        stored.has_version = lambda snapshot: snapshot == NAMES[name]
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
        row = {"round": self.control.round, "commit_us": None, "log_file": "binlog.000001", "log_pos": 4, "gtid_set": "", "tables": tables}  # fmt: skip
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


def test_absent_tables_have_the_same_names(spark: Any) -> None:
    spark.control.quarantine("`a.b`.new", "for the test")
    [newest] = moments.history("/lake", spark=spark)
    assert moments.absent_tables("/lake", newest, spark=spark) == ["`a.b`.new"]
