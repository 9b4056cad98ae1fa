"""A mirror in the format Delta equals its source, and continues exactly once after kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import BinlogError
from binlake.mirror import compact, resync, status
from binlake.mirror.delta.stored import DeltaStored
from dev.servers import Server
from mirror.killed_mirror import Kill, killed
from support.servers.sql_workload import DATABASE, SESSION, Workload
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11"),
]


def delta_lake(spark: Any, folder: Path, server: Server, *tables: str, **options: Any) -> Lake:
    return Lake(spark, folder, server, tables=tables, format="delta", **options)


def test_every_type_and_random_changes(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Tables without a key, or with a name that is no directory's, are refused, each with its reason."""
    work = Workload(server, seed=5)
    server.execute(f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.tables(), *work.first_rows())
    lake = delta_lake(iceberg_spark, tmp_path, server, f"{DATABASE}.*")
    lake.catch_up()
    left_alone = quarantined(lake)
    unlogged = {f"{DATABASE}.child"} if server.name != "mysql-9.7" else set()
    keyless = {name for name, why in left_alone.items() if "has no key" in why}
    floating = {name for name, why in left_alone.items() if "floating-point" in why}
    misnamed = {
        name for name, why in left_alone.items() if "cannot be the name of a directory" in why
    }
    assert left_alone.keys() - keyless - floating - misnamed == unlogged, left_alone
    assert keyless
    assert misnamed == {f"{DATABASE}.ta`ble-表"}
    assert len(lake.equals_source(f"{DATABASE}.*", *left_alone)) > 10
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.changes())
    lake.catch_up()
    more = quarantined(lake).keys() - left_alone.keys()
    assert more <= {f"{DATABASE}.made"}, quarantined(lake)
    lake.equals_source(f"{DATABASE}.*", *quarantined(lake))
    equal = [name for name, state in states(lake).items() if state == "equal"]
    assert len(equal) > 10
    server.execute(f"DROP DATABASE {DATABASE}")


def test_keys_statements_and_readers(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Key updates and swaps, images that lack columns, ALTERs, TRUNCATE, DROP."""
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, `a name` VARCHAR(20), f FLOAT, d DECIMAL(6,2))",
            "INSERT INTO t VALUES "
            + ", ".join(f"({i}, {i}, 'x{i}', 1.5, 2.25)" for i in range(200)),
            "CREATE TABLE emptied (a VARCHAR(9), b INT, PRIMARY KEY (a, b))",
            "INSERT INTO emptied VALUES ('p', 1), ('q', 2)",
            "CREATE TABLE dropped (id INT PRIMARY KEY)",
            "INSERT INTO dropped VALUES (1)",
        )
    lake = delta_lake(iceberg_spark, tmp_path, server, "shop.*")
    lake.catch_up()
    assert quarantined(lake) == {}
    lake.equals_source("shop.*")
    with server.session("shop") as session:
        session.execute(
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "BEGIN",
            "UPDATE t SET v = v + 1 WHERE id < 50",
            "UPDATE t SET id = 1000 WHERE id = 1",
            "UPDATE t SET id = 1 WHERE id = 2",
            "UPDATE t SET id = 2 WHERE id = 1000",
            "DELETE FROM t WHERE id BETWEEN 60 AND 80",
            "INSERT INTO t VALUES (70, 0, NULL, NULL, NULL), (500, 5, 'five', -1, 1)",
            "COMMIT",
            "ALTER TABLE t ADD COLUMN n BIGINT NULL AFTER id, DROP COLUMN v, MODIFY d DECIMAL(9,2)",
            "INSERT INTO t VALUES (600, 1, NULL, NULL, NULL)",
            "ALTER TABLE t CHANGE `a name` name VARCHAR(20)",
            "UPDATE t SET name = 'changed' WHERE id = 3",
            "TRUNCATE TABLE emptied",
            "INSERT INTO emptied VALUES ('r', 3)",
            "DROP TABLE dropped",
        )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.table("shop.t").column_names[:2] == ["id", "n"]
    lake.equals_source("shop.*")
    assert lake.table("shop.dropped").num_rows == 1
    assert states(lake) == {"shop.emptied": "equal", "shop.t": "equal"}
    server.execute("DROP DATABASE shop")


def test_a_swap_of_column_names_and_order(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A statement of several steps, and a kill between two of them."""
    server.execute(
        "CREATE DATABASE steps", "CREATE TABLE steps.t (id INT PRIMARY KEY, a INT, b INT)"
    )
    server.execute("INSERT INTO steps.t VALUES (1, 10, 20), (2, 30, 40)")
    lake = delta_lake(iceberg_spark, tmp_path, server, "steps.*")
    lake.catch_up()
    server.execute("ALTER TABLE steps.t CHANGE a b INT, CHANGE b a INT, ADD COLUMN c INT FIRST")
    server.execute("INSERT INTO steps.t VALUES (5, 3, 50, 60)")
    assert killed(lake, Kill("commit of Delta", 2, after=True)) == -9
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.table("steps.t").column_names == ["c", "id", "b", "a"]
    lake.equals_source("steps.*")
    server.execute("DROP DATABASE steps")


def test_kills_and_another_writer(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE kills", "CREATE TABLE kills.t (id INT PRIMARY KEY, v INT)")
    rows = ", ".join(f"({i}, 0)" for i in range(500))
    server.execute(f"INSERT INTO kills.t VALUES {rows}")
    lake = delta_lake(iceberg_spark, tmp_path, server, "kills.*")
    assert killed(lake, Kill("commit of Delta", 1, after=True)) == -9  # the copy is committed
    for number, kill in enumerate(
        (
            Kill("commit of Delta", 1, after=False),
            Kill("commit of Delta", 1, after=True),
            Kill("row of a round", 1, after=False),
        )
    ):
        server.execute(
            f"UPDATE kills.t SET v = v + 1 WHERE id % 3 = {number}",
            f"INSERT INTO kills.t VALUES ({1000 + number}, 1)",
            f"DELETE FROM kills.t WHERE id = {number}",
        )
        assert killed(lake, kill) == -9, kill
    lake.catch_up()
    assert states(lake) == {"kills.t": "equal"}
    log = status(tmp_path, spark=iceberg_spark)
    assert (log.log_file, log.log_pos) == server.position()
    iceberg_spark.sql(f"DELETE FROM delta.`{tmp_path}/kills/t` WHERE id = 400")
    server.execute("INSERT INTO kills.t VALUES (2000, 1)")
    lake.catch_up()
    assert "another program" in quarantined(lake)["kills.t"]
    resync(tmp_path, ["kills.t"], spark=iceberg_spark)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("kills.*")
    compact(tmp_path, spark=iceberg_spark)
    found = status(tmp_path, spark=iceberg_spark).tables[0]
    assert (found.rows, found.deleted_rows, found.files) == (500 + 3 - 3 + 1, 0, 1)
    server.execute("DROP DATABASE kills")


def test_another_writer_beside_a_compaction(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Delta accepts OPTIMIZE after a commit of another program, which the mirror notices nevertheless."""
    names = ("met", "later")
    server.execute("CREATE DATABASE tidied")
    for name in names:
        server.execute(f"CREATE TABLE tidied.{name} (id INT PRIMARY KEY, v INT)")
    options: dict[str, Any] = {"compact_files": 2}
    lake = delta_lake(iceberg_spark, tmp_path, server, "tidied.*", **options)
    for number in range(2):
        with server.session("tidied") as session:
            for name in names:
                session.execute(f"INSERT INTO {name} VALUES ({number}, 1), ({10 + number}, 1)")
        lake.catch_up()

    def foreign(stored: Any) -> None:
        iceberg_spark.sql(f"INSERT INTO {stored.sql_name} VALUES (77, 7)")

    optimize = DeltaStored.optimize

    def beside(stored: DeltaStored, file_bytes: int, state: Any) -> None:
        commit = stored.commit

        def after_another(act: Callable[[], object], *rest: Any) -> None:
            def both() -> None:
                foreign(stored)
                act()

            commit(both, *rest)

        monkeypatch.setattr(stored, "commit", after_another)
        optimize(stored, file_bytes, state)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaStored, "optimize", beside)
        with pytest.raises(BinlogError, match=r"not compacted: tidied\.met"):
            compact(tmp_path, ["tidied.met"], spark=iceberg_spark)
    assert quarantined(lake).keys() == {"tidied.met"}
    assert "another writer" in quarantined(lake)["tidied.met"]
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        foreign(mirror.tables["tidied.later"].lake.stored)
        server.execute("TRUNCATE TABLE tidied.later")  # tags the table first
        mirror.reach()
    finally:
        mirror.close()
    assert quarantined(lake).keys() == {"tidied.met", "tidied.later"}
    server.execute("DROP DATABASE tidied")


def test_modes(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Soft deletes, history and the change log, which also takes tables without a key."""
    server.execute("CREATE DATABASE modes")
    names = ("soft", "log", "past", "keyless")
    with server.session("modes") as session:
        for name in names:
            key = "" if name == "keyless" else " PRIMARY KEY"
            session.execute(
                f"CREATE TABLE {name} (id INT{key}, v INT)",
                f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)",
            )
    lake = delta_lake(
        iceberg_spark,
        tmp_path,
        server,
        "modes.*",
        soft_delete_tables=("modes.soft",),
        append_tables=("modes.log", "modes.keyless"),
        history_tables=("modes.past",),
    )
    lake.catch_up()
    with server.session("modes") as session:
        for name in names:
            session.execute(
                f"UPDATE {name} SET v = 20 WHERE id = 2",
                f"DELETE FROM {name} WHERE id = 3",
                f"UPDATE {name} SET id = 9 WHERE id = 1",
                f"UPDATE {name} SET v = 21 WHERE id = 2",
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert set(states(lake).values()) == {"equal"}
    assert lake.table("modes.soft").num_rows == 4
    assert lake.table("modes.past").num_rows == 6
    server.execute("DROP DATABASE modes")


def test_commits_beside_those_of_another_program_are_not_repeated(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Delta accepts both commits: with `reindex`, the mirror keeps its own."""
    server.execute("CREATE DATABASE beside")
    names = ("log", "versions", "plain")
    for name in names:
        server.execute(f"CREATE TABLE beside.{name} (id INT PRIMARY KEY, v INT)")
    lake = delta_lake(
        iceberg_spark, tmp_path, server, "beside.*",
        append_tables=("beside.log",), history_tables=("beside.versions",), on_other_writer="reindex",
    )  # fmt: skip
    lake.catch_up()
    before = {name: lake.table(f"beside.{name}").num_rows for name in names}
    with server.session("beside") as session:
        for name in names:
            session.execute(f"INSERT INTO {name} VALUES (1, 1)", f"UPDATE {name} SET v = 2")
    commit, met = DeltaStored.commit, []

    def beside(stored: DeltaStored, act: Callable[[], object], *rest: Any) -> None:
        def both() -> None:
            set_by_another = f"ALTER TABLE {stored.sql_name} SET TBLPROPERTIES ('of.another' = '1')"
            iceberg_spark.sql(set_by_another)
            met.append(stored.full_name)
            act()

        commit(stored, both, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaStored, "commit", beside)
        lake.catch_up()
    assert set(met) == {f"beside.{name}" for name in names}
    assert quarantined(lake) == {}
    added = {name: lake.table(f"beside.{name}").num_rows - before[name] for name in names}
    assert added == {"log": 2, "versions": 2, "plain": 1}
    server.execute("DROP DATABASE beside")


def test_the_directory_of_a_lake_is_no_pattern(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Copies read files in the directory."""
    folder = "a[b]{c,d}*?\\"
    server.execute("DROP DATABASE IF EXISTS placed", "CREATE DATABASE placed")
    with server.session("placed") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"
        )
    (tmp_path / folder).mkdir()
    lake = delta_lake(iceberg_spark, tmp_path / folder, server, "placed.*")
    lake.catch_up()
    server.execute("UPDATE placed.t SET v = 5 WHERE id = 1")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {"placed.t": "equal"}
    server.execute("DROP DATABASE placed")
