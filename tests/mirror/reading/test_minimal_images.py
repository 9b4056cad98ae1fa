"""Inserts of MINIMAL and NOBLOB images that do not name all columns: the lake has their defaults, as the server has."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.tables.change import Change
from dev.servers import Server
from dev.servers.server import Session
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "minimal"
LAX = ("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+05:00'")
#: Columns whose defaults the server does not log, and binlake knows.
KNOWN = (
    "tiny TINYINT NOT NULL DEFAULT -5", "big BIGINT UNSIGNED DEFAULT 18446744073709551615", "zero INT(5) ZEROFILL DEFAULT 7",
    "truth BOOLEAN DEFAULT TRUE", "exact DECIMAL(8,3) DEFAULT -1.5", "longest DECIMAL(65,30) DEFAULT '3.25'",
    "inexact DOUBLE DEFAULT 0.1", "single FLOAT DEFAULT 0", "bits BIT(9) DEFAULT b'101'", "annum YEAR DEFAULT 1999",
    "latin VARCHAR(20) CHARACTER SET latin1 DEFAULT 'é''s, \"x\"'", "cyrillic VARCHAR(5) CHARACTER SET utf8mb4 DEFAULT 'Яё'",
    "fixed CHAR(4) CHARACTER SET latin1 DEFAULT 'ab?'", "raw VARBINARY(4) DEFAULT 'ab'",
    "member ENUM('a','b') CHARACTER SET utf8mb4 DEFAULT 'b'", "several SET('x','y','z') CHARACTER SET latin1 DEFAULT 'x,z'",
    "span TIME(2) DEFAULT '-101:02:03.5'", "day DATE DEFAULT '2020-02-29'", "noday DATE DEFAULT '0000-00-00'",
    "moment DATETIME(3) DEFAULT '2020-02-29 23:59:58.25'", "blank VARCHAR(9) CHARACTER SET latin1 DEFAULT ''",
    "nothing INT", "nothing_text TEXT CHARACTER SET utf8mb4", "nothing_at TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP",
)  # fmt: skip
#: Columns without a default, which servers fill if they are not strict.
IMPLIED = (
    "INT", "DECIMAL(9,2)", "DECIMAL(50,2)", "DOUBLE", "FLOAT", "BIT(64)", "YEAR", "TIME(2)", "DATE", "DATETIME(1)",
    "VARCHAR(9) CHARACTER SET latin1", "CHAR(3) CHARACTER SET utf8mb4", "TEXT CHARACTER SET utf8mb4", "VARBINARY(9)",
    "BINARY(3)", "BLOB", "ENUM('q','r') CHARACTER SET utf8mb4", "SET('q','r') CHARACTER SET utf8mb4",
)  # fmt: skip
#: Columns whose defaults the server logs.
LOGGED = (
    "made TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
    "made_at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
)
LOGGED_EXPRESSIONS = ("computed INT DEFAULT (5 + 1)", "doc VARCHAR(20) DEFAULT (CONCAT('a', 'b'))")
COLUMNS = (*KNOWN, *(f"i{n} {kind} NOT NULL" for n, kind in enumerate(IMPLIED)), *LOGGED)
KEYS = {
    "by_number": "id INT AUTO_INCREMENT PRIMARY KEY",
    "by_default": "id INT NOT NULL DEFAULT 3, part VARCHAR(5) CHARACTER SET latin1 DEFAULT 'p' NOT NULL, PRIMARY KEY (part, id)",
    "by_none": "id INT DEFAULT 3",
    "soft": "id INT AUTO_INCREMENT PRIMARY KEY",
    "versions": "id INT AUTO_INCREMENT PRIMARY KEY",
    "appended": "id INT AUTO_INCREMENT PRIMARY KEY",
}


UPDATES = (
    "INSERT INTO {} (id, tiny) VALUES (111, 3), (112, 3) ON DUPLICATE KEY UPDATE exact = exact + 1, day = '2021-01-01'",
    "INSERT INTO {} (id, tiny) VALUES (111, 3), (113, 3) ON DUPLICATE KEY UPDATE tiny = VALUES(tiny)",
    "UPDATE {} SET latin = DEFAULT, nothing = 4 WHERE id IN (102, 113)",
    "BEGIN",
    "INSERT INTO {} (id) VALUES (123), (124)",
    "UPDATE {} SET tiny = tiny + 1, big = 3 WHERE id IN (120, 123)",
    "DELETE FROM {} WHERE id = 124",
    "COMMIT",
)


def columns_of(server: Server) -> Sequence[str]:
    return COLUMNS if server.name == "mysql-5.6.24" else (*COLUMNS, *LOGGED_EXPRESSIONS)


def lake_of(spark: Any, folder: Path, server: Server) -> Lake:
    return Lake(
        spark, folder, server, tables=(f"{DATABASE}.*",), soft_delete_tables=("*.soft",),
        history_tables=("*.versions",), append_tables=("*.appended",),
    )  # fmt: skip


def write(session: Session, name: str, lines: Path, *, is_mysql: bool) -> None:
    """Statements whose rows lack columns."""
    path = str(lines).replace("\\", "\\\\").replace("'", "\\'")
    session.execute(
        f"INSERT INTO {name} (id, tiny) VALUES (100, 1)",
        f"INSERT INTO {name} (id, latin, tiny) VALUES (101, DEFAULT, 1), (102, 'x', DEFAULT), (103, DEFAULT(blank), 7)",
        f"INSERT INTO {name} (id, big) SELECT id + 50, 5 FROM {name} s WHERE id IN (100, 102)",
        f"LOAD DATA INFILE '{path}' INTO TABLE {name} FIELDS TERMINATED BY ',' (id, latin)",
        f"REPLACE INTO {name} (id, tiny) VALUES (110, 2)",
        f"INSERT IGNORE INTO {name} (id, nothing) VALUES (110, 1), (111, 1)",
        "BEGIN",
        f"INSERT INTO {name} (id) VALUES (120), (121), (122)",
        f"DELETE FROM {name} WHERE id IN (121, 103)",
        "COMMIT",
    )
    if name != "by_none":  # MySQL refuses to log a row without columns
        session.execute(f"INSERT INTO {name} () VALUES ()")
    if name != "appended":  # `verify` cannot compare it after an update that lacks columns
        session.execute(*(one.format(name) for one in UPDATES))
    if is_mysql:  # MariaDB does not log the columns that it resets
        session.execute(f"REPLACE INTO {name} (id, latin) VALUES (120, 'z')")


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_inserts_without_all_columns(
    server: Server, iceberg_spark: Any, tmp_path: Path, image: str
) -> None:
    """In all modes, with a key and without; and after statements that change the defaults."""
    lines = tmp_path / "lines.csv"
    lines.write_text("130,one\n131,two\n132\n", encoding="ascii")
    lines.chmod(0o644)
    server.execute(f"CREATE DATABASE {DATABASE} DEFAULT CHARACTER SET latin1")
    with server.session(DATABASE) as session:
        session.execute(*LAX)
        for name, key in KEYS.items():
            session.execute(f"CREATE TABLE {name} ({', '.join([*columns_of(server), key])})")
    lake = lake_of(iceberg_spark, tmp_path / "lake", server)
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(*LAX, f"SET SESSION binlog_row_image = {image}")
        for name in KEYS:
            session.execute(
                f"CREATE TRIGGER t_{name} BEFORE INSERT ON {name} FOR EACH ROW"
                " SET NEW.fixed = IF(NEW.id > 120, 'trig', NEW.fixed)"
            )
            write(session, name, lines, is_mysql=server.flavour == "mysql")
    lake.catch_up()
    assert quarantined(lake) == {}
    lake.equals_source(f"{DATABASE}.*", f"{DATABASE}.soft", f"{DATABASE}.appended")
    names = [f"{DATABASE}.{name}" for name in KEYS]
    assert states(lake) == dict.fromkeys(names, "equal")
    with server.session(DATABASE) as session:
        session.execute(*LAX, f"SET SESSION binlog_row_image = {image}")
        for name in KEYS:
            session.execute(
                f"ALTER TABLE {name} ALTER tiny SET DEFAULT 9, ALTER COLUMN nothing SET DEFAULT 8",
                f"INSERT INTO {name} (id, latin) VALUES (200, 'y')",
                f"ALTER TABLE {name} ALTER exact DROP DEFAULT, ALTER nothing DROP DEFAULT",
                f"INSERT INTO {name} (id, latin) VALUES (201, 'y')",
            )
            if name != "by_none":
                session.execute(
                    f"ALTER TABLE {name} CHANGE cyrillic word VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL DEFAULT '😀', "
                    "MODIFY tiny INT DEFAULT -70000, DROP annum, ADD added INT DEFAULT NULL",
                    f"INSERT INTO {name} (id, latin) VALUES (202, 'y')",
                )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == dict.fromkeys(names, "equal")
    server.execute(f"DROP DATABASE {DATABASE}")


#: Columns whose defaults neither the log nor the definition determines, and the reason.
UNKNOWN = {
    "stamp": ("TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'", "time zone of the session"),
    "slashed": (r"VARCHAR(9) CHARACTER SET latin1 DEFAULT 'a\\b'", "is not a constant"),
    "rounded": ("FLOAT DEFAULT 1.23456789", "six digits of a FLOAT"),
    "astral": (
        "VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT '😀'",
        "characters of four bytes|binlake converts",
    ),
}


def test_inserts_with_unknown_defaults(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The table is quarantined, unless the statement names the columns; a log of changes names them."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        session.execute(*LAX, "SET NAMES utf8mb4")
        for name, (definition, _) in UNKNOWN.items():
            session.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, c {definition}, v INT DEFAULT 7)")  # fmt: skip
        session.execute("CREATE TABLE appended (id INT PRIMARY KEY, c TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00', v INT DEFAULT 7)")  # fmt: skip
    lake = lake_of(iceberg_spark, tmp_path, server)
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(*LAX, "SET SESSION binlog_row_image = MINIMAL")
        session.execute(*(f"INSERT INTO {name} (id, c) VALUES (1, '0')" for name in UNKNOWN))
        session.execute("INSERT INTO appended (id) VALUES (1)")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert [(row["c"], row["v"], row["_absent"]) for row in lake.table(f"{DATABASE}.appended").to_pylist()] == [
        (None, 7, ["c"])
    ]  # fmt: skip
    lake.equals_source(f"{DATABASE}.*", f"{DATABASE}.appended")
    with server.session(DATABASE) as session:
        session.execute(*LAX, "SET SESSION binlog_row_image = MINIMAL")
        session.execute(*(f"INSERT INTO {name} (id) VALUES (2)" for name in UNKNOWN))
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {f"{DATABASE}.{name}" for name in UNKNOWN}
    for name, (_, why) in UNKNOWN.items():
        reason = reasons[f"{DATABASE}.{name}"]
        assert f"{DATABASE}.{name}: the log has inserts without values of column c" in reason
        assert re.search(why, reason)
    server.execute(f"DROP DATABASE {DATABASE}")


ROWS, TEXT_BYTES, COMMIT_BYTES = 2000, 3000, 1 << 20
SMALL_UPDATES = (
    "UPDATE {} SET seen = 1",
    "UPDATE {} SET seen = seen + 1, note = CONCAT(note, '!') WHERE id % 3 = 0",
    "DELETE FROM {} WHERE id % 50 = 0",
    "INSERT INTO {} (id, body) VALUES (5000, 'new')",
    "UPDATE {} SET note = 'second' WHERE id = 5000",
)


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_small_updates_of_long_texts(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any, image: str
) -> None:
    """The rows of the lake that the updates need have more than `commit_bytes`. The mirror is killed between two parts."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    tables = {"docs": "PRIMARY KEY (id)", "named": "PRIMARY KEY (name)"}
    with server.session(DATABASE) as session:
        for table, key in tables.items():
            session.execute(
                f"CREATE TABLE {table} (id INT NOT NULL, name VARCHAR(20) NOT NULL DEFAULT 'x', seen INT DEFAULT 0, "
                f"note VARCHAR(40) DEFAULT 'n', body TEXT, {key}) CHARACTER SET utf8mb4"
            )
            rows = ", ".join(f"({i}, 'name {i}', 'body {i} ')" for i in range(ROWS))
            session.execute(
                f"INSERT INTO {table} (id, name, body) VALUES {rows}",
                f"UPDATE {table} SET body = REPEAT(body, {TEXT_BYTES} DIV LENGTH(body))",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), commit_bytes=COMMIT_BYTES
    )
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(f"SET SESSION binlog_row_image = {image}", "BEGIN")
        session.execute(*(one.format(table) for table in tables for one in SMALL_UPDATES), "COMMIT")
    assert killed(lake, Kill("commit", 3, after=True)) == -signal.SIGKILL
    made: list[Change] = []
    commit = MirrorTable.commit

    def kept(table: MirrorTable, change: Change, *args: Any) -> int:
        made.append(change)
        return commit(table, change, *args)

    monkeypatch.setattr(MirrorTable, "commit", kept)
    lake.catch_up()
    assert quarantined(lake) == {}
    sizes = [change.upserts.nbytes for change in made if change.upserts is not None]
    assert len(sizes) >= len(tables) * ROWS * TEXT_BYTES // COMMIT_BYTES
    assert max(sizes) < 2 * COMMIT_BYTES
    lake.equals_source(f"{DATABASE}.*")
    made.clear()
    with server.session(
        DATABASE
    ) as session:  # in one part: the rows of new keys are under the old keys
        session.execute(f"SET SESSION binlog_row_image = {image}", "BEGIN")
        session.execute(
            "UPDATE docs SET id = id + 10000", "UPDATE named SET name = CONCAT(name, '!')"
        )
        session.execute("COMMIT")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert [change.upserts.num_rows for change in made if change.upserts is not None] == [1961] * 2
    lake.equals_source(f"{DATABASE}.*")
    server.execute(f"DROP DATABASE {DATABASE}")


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
def test_a_replace_of_mariadb(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The log of the update does not contain the columns that have their defaults again."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    names = ("replaced", "loaded", "updated", "appended")
    lines = tmp_path / "lines.csv"
    lines.write_text("1\n", encoding="ascii")
    lines.chmod(0o644)
    with server.session(DATABASE) as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT DEFAULT 7, w INT)",
                f"INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2)",
            )
    lake = lake_of(iceberg_spark, tmp_path / "lake", server)
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION binlog_row_image = MINIMAL",
            *(f"/* all */ REPLACE INTO {name} (id, v, w) VALUES (2, 3, 3)" for name in names),
            *(f"REPLACE INTO {name} (id) VALUES (3)" for name in names),
            "REPLACE INTO replaced (id, w) VALUES (1, 3)",
            f"LOAD DATA INFILE '{lines}' REPLACE INTO TABLE loaded (id)",
            "INSERT INTO updated (id, w) VALUES (1, 3) ON DUPLICATE KEY UPDATE w = 5",
            "UPDATE updated SET w = 6 WHERE id = 2",
            "REPLACE INTO appended (id, w) VALUES (1, 3)",
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {f"{DATABASE}.replaced", f"{DATABASE}.loaded"}
    assert all("REPLACE has given columns their defaults" in why for why in reasons.values())
    lake.equals_source(f"{DATABASE}.updated")
    last = max(
        lake.table(f"{DATABASE}.appended").to_pylist(), key=lambda row: [*row["_seq"].values()]
    )
    assert (last["id"], last["v"], last["w"], last["_absent"]) == (1, None, 3, ["v"])
    server.execute(f"DROP DATABASE {DATABASE}")


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")
def test_delta_tables(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The definition, which a statement changes, is a property of the Delta table."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 7, w VARCHAR(20) CHARACTER SET latin1 DEFAULT '${user.home}')"
        )
        session.execute(
            "CREATE TABLE by_day (x INT PRIMARY KEY, v INT DEFAULT 7, w DATE DEFAULT '2020-02-29')"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), format="delta")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute("SET SESSION binlog_row_image = MINIMAL")
        for name, column in (("t", "id"), ("by_day", "x")):
            session.execute(
                f"INSERT INTO {name} ({column}) VALUES (1), (2)",
                f"ALTER TABLE {name} ALTER v SET DEFAULT 8",
                f"INSERT INTO {name} ({column}) VALUES (3)",
                f"UPDATE {name} SET v = 9 WHERE {column} = 2",
                f"DELETE FROM {name} WHERE {column} = 1",
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert len(lake.equals_source(f"{DATABASE}.*")) == 2
    server.execute(f"DROP DATABASE {DATABASE}")
