"""Other writers of a Delta table: another mirror, and another program, between commits of a mirror and inside of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.mirror import resync
from binlake.mirror.control import Control
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.delta.table import DeltaTable
from binlake.mirror.lakes import open_lake
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.tables.change import Change, CommitConflictError, CommittedBesideError
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.tables.schema import iceberg_schema
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.int32())])
MORE = iceberg_schema(pa.schema([("w", pa.int64())]))


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mysql-9.7")) as started:
        yield started


def of_rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int32()), "v": pa.array(numbers, pa.int32())})


CHANGES = {
    "MERGE": Change(of_rows(2)),
    "DELETE": Change(truncate=True),
    "ALTER": Change(schema=[[{"do": "add", "name": "w", "schema": MORE}]]),
    "append": Change(appended=[of_rows(2)]),
    "nothing": Change(table_properties={"binlake.x": "1"}),
}


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Lets something happen once inside of the next commit to a table: after the mirror has read its version."""
    commit = DeltaStored.commit
    due: dict[str, Callable[[], object]] = {}

    def beside(stored: DeltaStored, act: Callable[[], object], *rest: Any) -> None:
        happens = due.pop(stored.full_name, None)

        def both() -> None:
            if happens is not None:
                happens()
            act()

        commit(stored, both, *rest)

    monkeypatch.setattr(DeltaStored, "commit", beside)
    return due.__setitem__


@pytest.mark.parametrize("what", CHANGES)
def test_of_two_mirrors_that_commit_at_once_one_is_refused(
    what: str, inside: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Delta ignores the second commit, except an ALTER, without an error."""
    key = None if what == "append" else ("id",)
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    first = lake.create_table("db", "t", NewTable(SCHEMA, key), tmp_path)
    second = lake.beside().open_table("db", "t", key, tmp_path)
    others = Change(of_rows(1)) if key else Change(appended=[of_rows(1)])
    inside("db.t", lambda: second.commit(others, {"at": "second"}))
    with pytest.raises(CommitConflictError, match="another writer has committed") as refused:
        first.commit(CHANGES[what], {"at": "first"})
    second.reload()
    is_committed = isinstance(refused.value, CommittedBesideError)
    assert is_committed == (what == "ALTER")
    assert second.summary["at"] == ("first" if is_committed else "second")
    [found] = list(second.scan())
    assert found["id"].to_pylist() == [1]
    first.reload()
    first.commit(Change(of_rows(3)) if key else Change(appended=[of_rows(3)]), {"at": "first"})
    assert first.rows == 2


@pytest.mark.parametrize("policy", ["refuse", "reindex"])
def test_another_program_is_noticed_wherever_it_commits(
    policy: str, server: Server, inside: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Between two rounds, between the commits of one range, and inside of a commit."""
    names = ("rounds", "commits", "commit")
    database = f"others_{policy}"
    server.execute(f"CREATE DATABASE {database}")
    rows = ", ".join(f"({number}, 0, REPEAT('x', 900))" for number in range(100))
    with server.session(database) as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, t TEXT)",
                f"INSERT INTO {name} VALUES {rows}",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=(f"{database}.*",), format="delta", compact="off",
        on_other_writer=policy, commit_bytes=50_000,
    )  # fmt: skip
    commit, commits = DeltaTable.commit, []

    def writes(name: str) -> None:
        path = tmp_path / database / name
        iceberg_spark.sql(f"UPDATE delta.`{path}` SET v = -1 WHERE id < 50")

    def counted(table: DeltaTable, change: Change, properties: Any) -> int:
        done = commit(table, change, properties)
        if table.full_name == f"{database}.commits":
            commits.append(done)
            if len(commits) == 1:
                writes("commits")
        return done

    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        for name in names:
            server.execute(f"UPDATE {database}.{name} SET v = v + 1")
        writes("rounds")
        inside(f"{database}.commit", lambda: writes("commit"))
        monkeypatch.setattr(DeltaTable, "commit", counted)
        mirror.reach()
    finally:
        mirror.close()
    assert commits
    if policy == "refuse":
        assert quarantined(lake).keys() == {f"{database}.{name}" for name in names}
        assert all("another writer has committed" in why for why in quarantined(lake).values())
    else:
        assert len(commits) > 2
        assert quarantined(lake) == {}
        assert states(lake) == {f"{database}.{name}": "equal" for name in names}


def test_another_program_is_noticed_wherever_a_statement_commits(
    server: Server, inside: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Before a statement, inside of its first commit, and between the commits of its steps: with `reindex`, it is applied once."""
    names = ("before", "emptied", "within", "between")
    server.execute("CREATE DATABASE stated")
    with server.session("stated") as session:
        for name in names:
            session.execute(
                f"CREATE TABLE `{name}` (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO `{name}` VALUES (1, 1), (2, 2)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("stated.*",), format="delta", compact="off",
        on_other_writer="reindex",
    )  # fmt: skip

    def writes(name: str) -> None:
        iceberg_spark.sql(f"UPDATE delta.`{tmp_path / 'stated' / name}` SET v = v")

    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        commit, steps = DeltaStored.commit, []

        def then(stored: DeltaStored, *of: Any) -> None:
            commit(stored, *of)
            if stored.full_name == "stated.between":
                steps.append(stored.full_name)
                if len(steps) == 1:
                    writes("between")

        monkeypatch.setattr(DeltaStored, "commit", then)
        inside("stated.within", lambda: writes("within"))
        for name in ("before", "emptied"):
            writes(name)
        with server.session("stated") as session:
            for name in ("before", "within", "between"):
                session.execute(
                    f"ALTER TABLE `{name}` ADD w INT FIRST, ADD x INT AFTER w",
                    f"INSERT INTO `{name}` VALUES (3, 3, 3, 3)",
                )
            session.execute("TRUNCATE TABLE emptied", "INSERT INTO emptied VALUES (4, 4)")
        mirror.reach()
    finally:
        mirror.close()
    assert len(steps) > 2, "the statement is several commits"
    assert quarantined(lake) == {}
    assert states(lake) == {f"stated.{name}": "equal" for name in names}


def test_a_mirror_that_another_one_overtakes_in_a_commit(
    server: Server, inside: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """It does not take the other's commit for its own, and applies nothing twice."""
    server.execute("CREATE DATABASE overtaken", "CREATE TABLE overtaken.log (v INT)")
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("overtaken.*",), format="delta",
        append_tables=("overtaken.log",), on_other_writer="reindex",
    )  # fmt: skip

    def overtakes() -> None:
        Control(open_lake(iceberg_spark, "", str(tmp_path)), None, None).renew_lease("")
        lake.catch_up(state=str(tmp_path / "other"))

    first = lake.mirror(state=str(tmp_path / "first"))
    try:
        first.run(once=True)
        server.execute("INSERT INTO overtaken.log VALUES (1), (2)")
        inside("overtaken.log", overtakes)
        with pytest.raises(LakeInUseError, match=r"another mirror has committed .*overtaken\.log"):
            first.run(once=True)
    finally:
        first.close()
    assert sorted(lake.table("overtaken.log")["v"].to_pylist()) == [1, 2]


def test_a_table_that_another_program_restores(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Rows from before the mirror's newest commit come back, as a new version: the log after them would be lost."""
    names = ("running", "stopped", "by_time", "undone")
    server.execute("CREATE DATABASE restored")
    with server.session("restored") as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {name} VALUES (1, 0), (2, 0), (3, 0)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("restored.*",), format="delta", compact="off",
        on_other_writer="reindex",
    )  # fmt: skip

    def run(name: str, statement: str) -> None:
        iceberg_spark.sql(statement.format(f"delta.`{tmp_path / 'restored' / name}`"))

    def updated(keys: str) -> None:
        server.execute(*(f"UPDATE restored.{n} SET v = v + 1 WHERE id IN ({keys})" for n in names))

    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        for keys in ("1", "2"):
            updated(keys)
            mirror.run(once=True)
        run("running", "RESTORE TABLE {} TO VERSION AS OF 2")
        run("undone", "UPDATE {} SET v = -1")
        run("undone", "RESTORE TABLE {} TO VERSION AS OF 1")
        run("undone", "RESTORE TABLE {} TO VERSION AS OF 3")
        updated("1")
        mirror.run(once=True)
    finally:
        mirror.close()
    assert quarantined(lake).keys() == {"restored.running"}
    assert "set the table back to version 2" in quarantined(lake)["restored.running"]

    run("stopped", "RESTORE TABLE {} TO VERSION AS OF 2")
    versions = iceberg_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 'restored' / 'by_time'}`")
    [[moment]] = versions.where("version = 2").selectExpr("CAST(timestamp AS STRING)").collect()
    run("by_time", f"RESTORE TABLE {{}} TO TIMESTAMP AS OF '{moment}'")
    updated("1")
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {f"restored.{name}" for name in names if name != "undone"}
    assert all("set the table back to " in reason for reason in reasons.values())
    resync(tmp_path, list(reasons), spark=iceberg_spark)
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        for name in names:
            run(name, "UPDATE {} SET v = v WHERE id = 3")
        updated("1")
        mirror.run(once=True)
    finally:
        mirror.close()
    assert quarantined(lake) == {}
    assert states(lake) == {f"restored.{name}": "equal" for name in names}


def purged(server: Server) -> None:
    """Have the server remove all logs except the newest."""
    [*_, newest] = server.rows("SHOW BINARY LOGS")
    server.execute(f"PURGE BINARY LOGS TO '{newest[0]}'")


def test_properties_that_users_set(
    server: Server, inside: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """They change no rows. A table without changes stays at the position of the newest round, after a restart, too."""
    names = ("between", "within", "stopped", "altered")
    server.execute("CREATE DATABASE tuned")
    with server.session("tuned") as session:
        for name in names:
            session.execute(
                f"CREATE TABLE `{name}` (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO `{name}` VALUES (1, 1), (2, 2)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("tuned.*",), format="delta", compact="off"
    )  # fmt: skip

    def run(name: str, statement: str) -> None:
        iceberg_spark.sql(statement.format(f"delta.`{tmp_path / 'tuned' / name}`"))

    longer = "ALTER TABLE {} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 60 days')"
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        run("between", longer)
        run("between", "VACUUM {}")
        inside("tuned.within", lambda: run("within", longer))
        server.execute(*(f"UPDATE tuned.`{n}` SET v = v + 1" for n in ("between", "within")))
        mirror.reach()
        for _ in range(2):
            server.execute("UPDATE tuned.between SET v = v + 1", "FLUSH BINARY LOGS")
            mirror.reach()
    finally:
        mirror.close()
    purged(server)
    for name in ("stopped", "between"):
        run(name, longer)
        run(name, "ALTER TABLE {} UNSET TBLPROPERTIES IF EXISTS ('of.a.user')")
    server.execute(*(f"UPDATE tuned.`{name}` SET v = v + 1" for name in names))
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {f"tuned.{name}": "equal" for name in names}
    properties = open_lake(iceberg_spark, "", str(tmp_path)).load("tuned", "stopped").describe()
    assert properties["properties"]["delta.logRetentionDuration"] == "interval 60 days"
    run("altered", "ALTER TABLE {} ADD COLUMNS (of_a_user INT)")
    lake.catch_up()
    assert quarantined(lake).keys() == {"tuned.altered"}


def test_a_kill_after_the_tag_of_a_table_without_changes(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The tag's commit has the position of the newest round: the server has no earlier logs any more."""
    server.execute("CREATE DATABASE idle")
    with server.session("idle") as session:
        session.execute("CREATE TABLE busy (id INT PRIMARY KEY)")
        session.execute(
            "CREATE TABLE emptied (id INT PRIMARY KEY, v INT)",
            "INSERT INTO emptied VALUES (1, 1), (2, 2)",
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("idle.*",), format="delta", compact="off")
    lake.catch_up()
    for number in range(2):
        server.execute(f"INSERT INTO idle.busy VALUES ({number})", "FLUSH BINARY LOGS")
        lake.catch_up()
    purged(server)
    server.execute("TRUNCATE TABLE idle.emptied", "INSERT INTO idle.emptied VALUES (7, 7)")
    assert killed(lake, Kill("commit of Delta", 1, after=False)) == -9
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {f"idle.{name}": "equal" for name in ("busy", "emptied")}
