"""DDL at its place in the log: what the lake follows, what makes a table be copied again, what becomes of tables that
are renamed or dropped.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from binlake.errors import SourceError
from binlake.mirror import status
from binlake.mirror.control import Control
from binlake.mirror.iceberg.lake import IcebergLake
from dev.alterations import APPLIED, COPIED, QUARANTINED, Alteration
from dev.servers import Server
from dev.servers.lake_readers import duckdb_copies
from mirror.killed_mirror import Kill, killed
from support.spark.lake_readers import by_duckdb_iceberg, by_pyiceberg, by_spark, metadata
from support.spark.mirrored import Lake, gone, quarantined, rows_of, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "alters"


def made(server: Server, tables: Mapping[str, Alteration]) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", "DROP DATABASE IF EXISTS alters2")
    server.execute(f"CREATE DATABASE {DATABASE}", "CREATE DATABASE alters2")
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        session.execute(*dict.fromkeys(sql for one in tables.values() for sql in one.others))
        for name, one in tables.items():
            session.execute(f"CREATE TABLE {name} ({one.key}, {one.columns})")
            session.execute(f"INSERT INTO {name} (id, {first(one)}) VALUES (1, 1), (2, 2), (3, 1)")


def known(server: Server, tables: Mapping[str, Alteration]) -> dict[str, Alteration]:
    """Those that run on a server."""
    return {name: one for name, one in tables.items() if server.name.startswith(one.servers)}


def first(one: Alteration) -> str:
    return one.columns.split()[0]


def on(name: str, one: Alteration) -> str:
    """The statement on the test's table."""
    return re.sub(r"\b(TABLE|ON) t\b", rf"\1 {name}", one.statement)


def lake_of(server: Server, spark: Any, folder: Path, tables: Mapping[str, Alteration]) -> Lake:
    partitions = [
        f"{DATABASE}.{name}={one.partition}" for name, one in tables.items() if one.partition
    ]
    return Lake(
        spark, folder, server, tables=(f"{DATABASE}.*",), partition_tables=tuple(partitions)
    )


def test_statements_that_the_lake_follows(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    tables = known(server, {**APPLIED, **COPIED})
    made(server, tables)
    lake = lake_of(server, iceberg_spark, tmp_path, tables)
    lake.catch_up()
    assert quarantined(lake) == {}
    lake.notes.clear()
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, one in tables.items():
            session.execute(f"UPDATE {name} SET {first(one)} = 2 WHERE id = 1", on(name, one))
            session.execute(f"INSERT INTO {name} (id) VALUES (10), (11)")
            session.execute(
                f"DELETE FROM {name} WHERE id = 2", f"UPDATE {name} SET id = 20 WHERE id = 3"
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    copied = {note.partition(":")[0] for note in lake.notes if "copied again" in note}
    assert copied == {f"{DATABASE}.{name}" for name in COPIED}
    equal = lake.equals_source(f"{DATABASE}.*")  # in the order of the server
    assert sorted(equal) == sorted(f"{DATABASE}.{name}" for name in tables)


def test_refused_statements_and_new_copies(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    refused = known(server, QUARANTINED)
    made(server, {**refused, "sound": Alteration("v INT", "", "")})
    lake = lake_of(server, iceberg_spark, tmp_path, refused)
    lake.catch_up()
    assert quarantined(lake) == {}
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        session.execute(*(on(name, one) for name, one in refused.items()))
        session.execute("INSERT INTO sound VALUES (7, 7)")
        session.execute(
            "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", "INSERT INTO fresh VALUES (1, 1)"
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert set(reasons) == {f"{DATABASE}.{name}" for name in refused}
    for name, one in refused.items():
        assert one.reason in reasons[f"{DATABASE}.{name}"], name
    assert lake.equals_source(f"{DATABASE}.sound")
    assert lake.equals_source(f"{DATABASE}.fresh")
    control = Control(IcebergLake(lake.spark, lake.catalog), None, None)
    control.request_resync(set(reasons))
    lake.catch_up()
    final = {f"{DATABASE}.{name}" for name, one in refused.items() if one.is_final}
    # the server has no table of this name
    assert gone(lake).keys() == {f"{DATABASE}.unsure"}
    assert set(quarantined(lake)) == final - gone(lake).keys()
    lake.equals_source(f"{DATABASE}.*", *final)
    server.execute(f"DROP DATABASE {DATABASE}", "DROP DATABASE alters2")


def test_a_table_is_dropped_after_a_statement_that_makes_a_copy_necessary(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The mirror reads the statement when the server has no such table; a new one of this name is copied later."""
    made(server, dict.fromkeys(("short", "stays"), Alteration("v BIGINT", "", "")))
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), on_alter="resync")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute("ALTER TABLE short MODIFY v INT", "DROP TABLE short", "DELETE FROM stays")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert gone(lake).keys() == {f"{DATABASE}.short"}
    with server.session(DATABASE) as session:
        session.execute("CREATE TABLE short (v INT PRIMARY KEY)", "INSERT INTO short VALUES (7)")
    lake.catch_up()
    assert gone(lake) == {}
    expected = [f"{DATABASE}.short", f"{DATABASE}.stays"]
    assert states(lake) == dict.fromkeys(expected, "equal")
    server.execute(f"DROP DATABASE {DATABASE}", "DROP DATABASE alters2")


def test_a_store_that_cannot_be_written_at_a_statement_stops_the_mirror(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The next run applies the statement: the error may have passed, and a copy takes hours."""
    names = {name: tmp_path / DATABASE / name for name in ("one", "two")}
    made(server, dict.fromkeys(names, Alteration("v INT", "", "")))
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    server.execute(f"DROP TABLE {DATABASE}.one, {DATABASE}.two")

    def note(text: str) -> None:
        """After the statement has been applied to one table, the other cannot be written."""
        if "no longer exists" in text:
            [other] = (path for name, path in names.items() if f".{name} " not in text)
            (other / "metadata").rename(tmp_path / "kept")
            (other / "metadata").write_bytes(b"")

    with pytest.raises(SourceError):
        lake.catch_up(note=note)
    assert quarantined(lake) == {}
    [broken] = (path for path in names.values() if (path / "metadata").is_file())
    (broken / "metadata").unlink()
    (tmp_path / "kept").rename(broken / "metadata")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert set(gone(lake)) == {f"{DATABASE}.{name}" for name in names}
    server.execute(f"DROP DATABASE {DATABASE}", "DROP DATABASE alters2")


#: Columns that are added to a table with rows, and the default as DuckDB and PyIceberg compare it, if they do.
DEFAULTS = {
    "tiny": ("TINYINT DEFAULT -5", "-5"),
    "truth": ("BOOLEAN NOT NULL DEFAULT TRUE", "1"),
    "large": ("BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615", "18446744073709551615"),
    "quoted": ("INT UNSIGNED ZEROFILL DEFAULT '42' COMMENT 'DEFAULT 43'", "42"),
    "exact": ("DECIMAL(8,3) DEFAULT 1.5", "1.500"),
    "longest": ("DECIMAL(65,30) DEFAULT '-3.25'", None),
    "inexact": ("DOUBLE DEFAULT -1.5e-3", "-0.0015"),
    "single": ("FLOAT NOT NULL DEFAULT 0.1", None),
    "bits": ("BIT(9) DEFAULT b'101'", "5"),
    "year": ("YEAR DEFAULT 1999", "1999"),
    "latin": ("VARCHAR(20) CHARACTER SET latin1 DEFAULT 'é''s'", "'é''s'"),
    "cyrillic": ("VARCHAR(5) COLLATE cp1251_general_ci NOT NULL DEFAULT 'Яё'", "'Яё'"),
    "fixed": ("CHAR(4) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'ab' FIRST", "'ab'"),
    "raw": ("VARBINARY(4) DEFAULT x'4142'", None),
    "padded": ("BINARY(3) DEFAULT 'a'", None),
    "member": ("ENUM('a','B') CHARACTER SET utf8mb4 DEFAULT 'B'", "'B'"),
    "several": ("SET('x','y','z') CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x,z'", "'x,z'"),
    "span": ("TIME DEFAULT '-101:02:03'", "'-101:02:03'"),
    "exact_span": ("TIME(3) NOT NULL DEFAULT '01:02:03.5'", "'01:02:03.500'"),
}  # fmt: skip
IMPLIED = (
    "INT", "BIGINT UNSIGNED", "DECIMAL(9,2)", "DECIMAL(50,2)", "DOUBLE", "FLOAT", "BIT(64)", "YEAR", "TIME(2)",
    "VARCHAR(9) CHARACTER SET latin1", "CHAR(3) CHARACTER SET utf8mb4", "TEXT CHARACTER SET utf8mb4", "VARBINARY(9)",
    "BINARY(3)", "BLOB", "ENUM('q','r') CHARACTER SET utf8mb4", "SET('q','r') CHARACTER SET utf8mb4",
)  # fmt: skip
NULLS = (
    "TIMESTAMP NULL",
    "TIMESTAMP NULL DEFAULT NULL",
    "DATETIME ON UPDATE CURRENT_TIMESTAMP",
    "INT UNIQUE",
)


def test_defaults_of_new_columns(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The rows that are there have the default of a new column, for all readers, also after updates and compactions."""
    table, database = "altered.t", "altered"
    server.execute(f"CREATE DATABASE {database}")
    added = [f"ADD {name} {definition}" for name, (definition, _) in DEFAULTS.items()]
    added += [f"ADD i{n} {kind} NOT NULL" for n, kind in enumerate(IMPLIED)]
    added += [f"ADD n{n} {kind}" for n, kind in enumerate(NULLS)]
    with server.session(database) as session:
        session.execute("SET SESSION sql_mode = ''", "SET NAMES utf8mb4")
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(1, 9))}",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=(table,))
        lake.catch_up()
        session.execute("DELETE FROM t WHERE id = 8", f"ALTER TABLE t {', '.join(added)}")
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source(table) == [table]
        check_readers(lake, tmp_path, [1, 2, 3, 4, 5, 6, 7])
        session.execute(
            "SET SESSION binlog_row_image = minimal",
            "UPDATE t SET v = 20 WHERE id = 2",
            "UPDATE t SET tiny = NULL, latin = 'other' WHERE id = 3",
            "UPDATE t SET id = 40 WHERE id = 4",
            "DELETE FROM t WHERE id = 5",
            "SET SESSION binlog_row_image = full",
            "ALTER TABLE t MODIFY tiny BIGINT, MODIFY exact DECIMAL(20,3), CHANGE year annum YEAR DEFAULT 1999",
            "INSERT INTO t (id) VALUES (50)",
        )
    lake.catch_up()
    assert states(lake) == {table: "equal"}
    assert lake.equals_source(table) == [table]
    assert {row["annum"] for row in lake.table(table).to_pylist()} == {1999}
    compacting = Lake(iceberg_spark, tmp_path, server, tables=(table,), compact_files=2)
    server.execute(f"UPDATE {table} SET v = 70 WHERE id = 7")
    compacting.catch_up()
    assert compacting.equals_source(table) == [table]
    server.execute(f"DROP DATABASE {database}")


def check_readers(lake: Lake, folder: Path, ids: list[int]) -> None:
    """All readers have the same rows, and find them by the new values."""
    names = ", ".join(["id", *DEFAULTS])
    expected = by_spark(lake.spark, "altered.t", names, lake.catalog)
    assert [row[0] for row in expected] == ids
    assert by_pyiceberg(str(folder), "altered.t", names) == expected
    assert by_duckdb_iceberg(str(folder), "altered.t", names, folder) == expected
    from pyiceberg.table import StaticTable

    found = StaticTable.from_metadata(metadata(str(folder), "altered.t"))
    for name, (_, literal) in DEFAULTS.items():
        if literal is None:
            continue
        condition = f"{name} = {literal}"
        rows = lake.spark.sql(f"SELECT id FROM {lake.catalog}.altered.t WHERE {condition}")
        assert sorted(row[0] for row in rows.collect()) == ids, name
        assert sorted(found.scan(condition).to_arrow()["id"].to_pylist()) == ids, name
    conditions = " AND ".join(f"{name} = {of}" for name, (_, of) in DEFAULTS.items() if of)
    source = f"iceberg_scan('{metadata(str(folder), 'altered.t')}')"
    target = folder / "found.parquet"
    duckdb_copies({f"SELECT id FROM {source} WHERE {conditions}": target})
    assert sorted(pq.read_table(target)["id"].to_pylist()) == ids


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
