"""The columns that servers log with binlog_row_image=MINIMAL when a statement inserts rows: the mirror fills in the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.main import main
from dev.servers import Server
from support.servers.sql_workload import DATABASE, changed

pytestmark = pytest.mark.server

COLUMNS = (
    "id INT AUTO_INCREMENT PRIMARY KEY, n INT, five INT NOT NULL DEFAULT 5, lax INT NOT NULL, doc TEXT,"
    " made TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, seen DATETIME DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP"
)
#: Columns that MySQL 5.6 does not know.
COMPUTED = ", expr INT DEFAULT (5 + 1), kept INT AS (n + 1) STORED"
EVERY = "id n five lax doc made seen"
#: Statements, and the operation and the columns of the image after it for each row.
ALL_SERVERS = {
    "INSERT INTO t (n) VALUES (1)": ["insert: id n made"],
    "INSERT INTO t () VALUES ()": ["insert: id made"],
    "INSERT INTO t (n, five) VALUES (1, DEFAULT), (2, 2)": ["insert: id n five made"] * 2,
    "INSERT INTO t (n) SELECT 1": ["insert: id n made"],
    "LOAD DATA INFILE '{file}' INTO TABLE t (n)": ["insert: id n made"],
    "REPLACE INTO t (id, n) VALUES (900, 7)": ["insert: id n made"],
    "INSERT INTO t (id, n) VALUES (901, 1) ON DUPLICATE KEY UPDATE doc = 'x'": ["insert: id n doc made seen"],
    "INSERT INTO triggered (n) VALUES (1)": ["insert: id n five made"],
}  # fmt: skip
#: An update of MySQL has all columns. MariaDB leaves out those that REPLACE resets.
MYSQL = {
    "REPLACE INTO t (id, n) VALUES (1, 7)": [f"update: {EVERY}"],
    "INSERT INTO t (id, n) VALUES (1, 1) ON DUPLICATE KEY UPDATE doc = 'x'": [f"update: {EVERY}"],
    "INSERT INTO keyless (n) VALUES (1)": ["insert: n"],
    "UPDATE keyless SET five = 6": ["update: five"],
}
MARIADB = {
    "REPLACE INTO t (id, n) VALUES (1, 7)": ["update: id n made"],
    "INSERT INTO t (id, n) VALUES (1, 1) ON DUPLICATE KEY UPDATE doc = 'x'": ["update: id n doc made seen"],
    "INSERT INTO keyless (n) VALUES (1)": ["insert: n five doc"],
    "UPDATE keyless SET five = 6": ["update: n five doc"],
}  # fmt: skip


def logged(
    server: Server, statement: str, folder: Path, capture: pytest.CaptureFixture[bytes]
) -> list[Any]:
    """The row changes of a statement, from a log of its own."""
    schema = "; ".join(server.rows(f"SHOW CREATE TABLE {DATABASE}.{t}")[0][1] or "" for t in ("t", "triggered", "keyless"))  # fmt: skip
    path = folder / "minimal.sql"
    path.write_text(f"USE {DATABASE};\n{schema};\n", encoding="utf-8")
    log = changed(server, "SET SESSION binlog_row_image = MINIMAL", statement)
    capture.readouterr()
    assert main(["rows", log, "--schema", str(path)]) == 0
    return [json.loads(line) for line in capture.readouterr().out.splitlines()]


def test_columns_that_an_insert_logs(
    server: Server, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also that an update without a key has all columns in its image before the change."""
    file = tmp_path / "numbers"
    file.write_text("1\n", encoding="ascii")
    is_old = server.name == "mysql-5.6.24"
    columns = COLUMNS + ("" if is_old else COMPUTED)
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION sql_mode = ''",
            f"CREATE TABLE t ({columns})",
            "INSERT INTO t (id, five, lax, doc, seen) VALUES (1, 9, 9, 'old', '2020-01-01')",
            f"CREATE TABLE triggered ({columns})",
            "CREATE TRIGGER tr BEFORE INSERT ON triggered FOR EACH ROW SET NEW.five = IF(NEW.n = 1, NEW.five, 6)",
            "CREATE TABLE keyless (n INT, five INT DEFAULT 5, doc TEXT)",
        )
    computed = () if is_old else ("expr", "kept")
    for statement, expected in (ALL_SERVERS | (MYSQL if server.flavour == "mysql" else MARIADB)).items():  # fmt: skip
        changes = logged(server, statement.format(file=file), tmp_path, capsysbinary)
        shown = [f"{one['op']}: {' '.join(n for n in one['after'] if n not in computed)}" for one in changes]  # fmt: skip
        assert shown == expected, statement
        for one in changes:
            of_key = one["table"] != "keyless" and one["op"] == "insert"
            assert not of_key or set(computed) <= one["after"].keys(), statement
            assert one["table"] != "keyless" or one["before"] is None or len(one["before"]) == 3
    server.execute(f"DROP DATABASE {DATABASE}")
