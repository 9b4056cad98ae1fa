"""DDL at its place in the log: what the lake follows, what makes a table be copied again, what becomes of tables that
are renamed or dropped.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import status
from dev.servers import Server
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, gone, quarantined, rows_of, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "alters"

# name of the table: (definition behind the key, the statement); {t} is the table
FOLLOWED = {
    "adds": ("v INT", "ALTER TABLE {t} ADD COLUMN n VARCHAR(20) CHARACTER SET utf8mb4 NULL"),
    "adds_first": ("v INT", "ALTER TABLE {t} ADD n BIGINT DEFAULT NULL FIRST, ADD m DATE AFTER id"),
    "drops": ("v INT, w INT", "ALTER TABLE {t} DROP COLUMN v"),
    "renames": ("v INT", "ALTER TABLE {t} CHANGE v `new name` INT"),
    "widens": ("v INT, w FLOAT", "ALTER TABLE {t} MODIFY v BIGINT"),
    "longer": ("v VARCHAR(10) CHARACTER SET utf8mb4", "ALTER TABLE {t} MODIFY v VARCHAR(300) CHARACTER SET utf8mb4"),
    "precise": ("v DECIMAL(8,2)", "ALTER TABLE {t} MODIFY v DECIMAL(12,2)"),
    "moves": ("v INT, w INT", "ALTER TABLE {t} MODIFY v INT AFTER w"),
    "members": ("v ENUM('a','b')", "ALTER TABLE {t} MODIFY v ENUM('a','b','c')"),
    "indexes": ("v INT", "ALTER TABLE {t} ADD INDEX (v), ENGINE = InnoDB, COMMENT = 'default'"),
    "empties": ("v INT", "TRUNCATE TABLE {t}"),
    "swaps_names": ("v INT, w INT", "ALTER TABLE {t} CHANGE v w INT, CHANGE w v INT"),
}  # fmt: skip
REFUSED = {
    "defaults": ("v INT", "ALTER TABLE {t} ADD n INT NOT NULL DEFAULT 7", "added with values"),
    "narrows": ("v BIGINT", "ALTER TABLE {t} MODIFY v INT", "changes from bigint"),
    "converts": ("v INT", "ALTER TABLE {t} MODIFY v VARCHAR(20)", "changes from int"),
    "rekeys": ("v INT NOT NULL", "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "primary key"),
    "unsure": ("v INT", "ALTER TABLE {t} RENAME TO alters2.sure, COMMENT 'sure'", "not certain which"),
}  # fmt: skip


def made(server: Server, tables: dict[str, Any]) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", "DROP DATABASE IF EXISTS alters2")
    server.execute(f"CREATE DATABASE {DATABASE}", "CREATE DATABASE alters2")
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (columns, *_) in tables.items():
            session.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns})")
            session.execute(
                f"INSERT INTO {name} (id, {first(columns)}) VALUES (1, 1), (2, 2), (3, 1)"
            )


def first(columns: str) -> str:
    return columns.split()[0]


def test_what_the_lake_follows(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    made(server, FOLLOWED)
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    copied = {note for note in lake.notes if "copied" in note}
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (columns, statement) in FOLLOWED.items():
            session.execute(f"UPDATE {name} SET {first(columns)} = 2 WHERE id = 1")
            session.execute(statement.format(t=name))
            session.execute(f"INSERT INTO {name} (id) VALUES (10), (11)")
            session.execute(
                f"DELETE FROM {name} WHERE id = 2", f"UPDATE {name} SET id = 20 WHERE id = 3"
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert {note for note in lake.notes if "copied" in note} == copied, "none was copied again"
    assert lake.equals_source(f"{DATABASE}.*") == sorted(f"{DATABASE}.{name}" for name in FOLLOWED)


def test_what_is_refused_and_made_anew(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    tables = {**REFUSED, "sound": ("v INT", "")}
    made(server, tables)
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (_, statement, _) in REFUSED.items():
            session.execute(statement.format(t=name))
        session.execute("INSERT INTO sound VALUES (7, 7)")
        session.execute(
            "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", "INSERT INTO fresh VALUES (1, 1)"
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert set(reasons) == {f"{DATABASE}.{name}" for name in REFUSED}
    for name, (_, _, why) in REFUSED.items():
        assert why in reasons[f"{DATABASE}.{name}"], name
    assert lake.equals_source(f"{DATABASE}.sound")
    assert lake.equals_source(f"{DATABASE}.fresh")
    from binlake.mirror.control import Control
    from binlake.mirror.iceberg.lake import IcebergLake

    control = Control(IcebergLake(lake.spark, lake.catalog), None, None)
    control.request_resync({f"{DATABASE}.{name}" for name in REFUSED})
    lake.catch_up()
    assert set(quarantined(lake)) == {f"{DATABASE}.unsure"}
    lake.equals_source(f"{DATABASE}.*")
    server.execute(f"DROP DATABASE {DATABASE}", "DROP DATABASE alters2")


PARTED = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE)"
#: Ends of a process between the steps of what follows a statement: its record, and the copies that it causes.
KILLS = (Kill("properties", 1, after=False), Kill("commit", 2, after=True))


def tagged(lake: Lake, name: str) -> dict[str, list[str]]:
    """The rows of a lake table under its tags, by the first words of these."""
    refs = lake.spark.sql(f"SELECT name FROM {lake.catalog}.{name}.refs WHERE type = 'TAG'")
    return {
        "-".join(tag.split("-")[:2]): rows_of(
            lake.spark.sql(f"SELECT * FROM {lake.catalog}.{name} VERSION AS OF '{tag}'").toArrow()
        )
        for (tag,) in refs.collect()
    }


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7", "mariadb-10.11")
def test_tables_that_go_and_come(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE moves", "CREATE DATABASE moves2")
    names = ("one", "other", "away", "old", "again", "ghosted")
    with server.session("moves") as session:
        session.execute(
            *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in names),
            *(f"INSERT INTO {name} VALUES (1, 1), (2, {len(name)})" for name in names),
            f"CREATE TABLE parted (id INT PRIMARY KEY, v INT) {PARTED}",
            "INSERT INTO parted VALUES (1, 1), (2, 2)",
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("moves.*",), exclude_tables=("moves._*",))
    lake.catch_up()
    with server.session("moves") as session:
        session.execute(
            *(f"INSERT INTO {name} VALUES (3, 3)" for name in (*names, "parted")),
            "RENAME TABLE one TO _swap, other TO one, _swap TO other",
            "INSERT INTO one VALUES (4, 40)",
            "RENAME TABLE away TO moves2.away",
            "INSERT INTO moves2.away VALUES (5, 5)",
            "ALTER TABLE old RENAME TO new",
            "INSERT INTO new VALUES (6, 6)",
            "DROP /* no more */ TABLE again",
            "CREATE TABLE again (word VARCHAR(9) CHARACTER SET ascii PRIMARY KEY)",
            "INSERT INTO again VALUES ('new')",
            "CREATE TABLE _ghosted_gho (id INT PRIMARY KEY, v INT, w INT DEFAULT 7)",
            "INSERT INTO _ghosted_gho (id, v) SELECT * FROM ghosted",
            "rename /* gh-ost */ table `moves`.`ghosted` to `moves`.`_ghosted_del`, "
            "`moves`.`_ghosted_gho` to `moves`.`ghosted`",
            "UPDATE ghosted SET w = 8 WHERE id = 1",
            "ALTER TABLE parted DROP PARTITION p0",
            "UPDATE parted SET v = 9 WHERE id = 3",
        )
    for kill in KILLS:
        assert killed(lake, kill) == -signal.SIGKILL, kill
    lake.catch_up()
    assert quarantined(lake) == {}
    there = ["again", "ghosted", "new", "one", "other", "parted"]
    assert states(lake) == {f"moves.{name}": "equal" for name in there}
    left = gone(lake)
    assert left.keys() == {"moves.away", "moves.old"}
    assert left["moves.away"].startswith("renamed away to moves2.away at ")
    assert left["moves.old"].startswith("renamed away to moves.new at ")
    assert "at GTID " in left["moves.away"]
    assert lake.table("moves.away").num_rows == 3
    assert len(tagged(lake, "moves.again")["before-drop"]) == 3
    assert [len(rows) for rows in tagged(lake, "moves.one").values()] == [3]

    # the name is used again while no other table is followed
    server.execute(*(f"DROP TABLE moves.{name}" for name in there))
    lake.catch_up()
    assert gone(lake).keys() == {f"moves.{name}" for name in (*there, "away", "old")}
    assert gone(lake)["moves.parted"].startswith("dropped at ")
    found = status(lake.folder, spark=lake.spark, catalog=lake.catalog)
    assert {table.state for table in found.tables} == {"gone"}
    assert found.tables[0].reason == gone(lake)["moves.again"]
    server.execute("CREATE TABLE moves.away (id INT PRIMARY KEY)")
    lake.catch_up()
    assert lake.equals_source("moves.*", "moves._*") == ["moves.away"]
    assert len(tagged(lake, "moves.away")["before-rename"]) == 3
    assert "moves.away" not in gone(lake)
    server.execute("DROP DATABASE moves", "DROP DATABASE moves2")


def test_statements_in_a_log_that_is_not_the_newest(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The server begins a new log before the mirror comes to them."""
    server.execute("CREATE DATABASE rotated")
    with server.session("rotated") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("rotated.*",))
    lake.catch_up()
    with server.session("rotated") as session:
        session.execute(
            "UPDATE t SET v = 3 WHERE id = 1",
            "ALTER TABLE t ADD COLUMN w INT NULL AFTER id",
            "UPDATE t SET w = 4",
            "FLUSH BINARY LOGS",
            "INSERT INTO t VALUES (3, 5, 6)",
        )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("rotated.*") == ["rotated.t"]
    assert lake.table("rotated.t").schema.names == ["id", "w", "v"]
