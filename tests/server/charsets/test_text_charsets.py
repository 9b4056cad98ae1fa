"""Quoted texts in DDL: a server converts them to the character set of collation_connection, then to the column's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.cli.main import main
from dev.servers import Server

pytestmark = pytest.mark.server

CONNECTIONS = ("latin1", "ascii", "cp1251", "swe7", "big5", "ucs2", "utf8", "utf8mb4", "binary")
TEXT = "VARCHAR(10) CHARACTER SET utf8mb4"
TABLE = "CREATE TABLE t (id INT PRIMARY KEY)"
DEFINITIONS = (
    f"{TEXT} DEFAULT 'é☃[x'",
    f"{TEXT} DEFAULT '😀 中'",
    f"{TEXT} NOT NULL DEFAULT 'ab'",
    "VARBINARY(20) DEFAULT 'ab'",
    "INT DEFAULT '7'",
    "ENUM('a','Я') CHARACTER SET utf8mb4 DEFAULT 'a'",
    "ENUM('[','b') CHARACTER SET utf8mb4 NOT NULL DEFAULT '['",
    "SET('é','zz') CHARACTER SET utf8mb4 NOT NULL DEFAULT 'é'",
)
#: The server stores the bytes of another character set.
REFUSED = {
    ("binary", DEFINITIONS[0]), ("binary", DEFINITIONS[1]), ("binary", DEFINITIONS[7]),
    ("ucs2", DEFINITIONS[3]),
}  # fmt: skip


def state(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["state", "literal.t", *arguments])
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_defaults_are_those_of_the_server(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute("DROP DATABASE IF EXISTS literal", "CREATE DATABASE literal")
    dump = tmp_path / "dump.sql"
    dump.write_text(f"{TABLE};\nINSERT INTO t VALUES (1);\n")
    for connection in CONNECTIONS:
        accepted = [one for one in DEFINITIONS if (connection, one) not in REFUSED]
        held, asked = added(server, dump, connection, accepted)
        code, rows = state(capfd, *asked)
        found = [[str(value) for name, value in row.items() if name[0] == "c"] for row in rows]
        assert (code, found) == (0, [held]), connection
    for connection, definition in sorted(REFUSED):
        _, asked = added(server, dump, connection, [definition])
        assert state(capfd, *asked) == (1, []), (connection, definition)


def added(
    server: Server, dump: Path, connection: str, definitions: list[str]
) -> tuple[list[str | None], list[str]]:
    """Add columns with a connection in a character set; return their values and the arguments for the state after that."""
    columns = [f"c{number}" for number, _ in enumerate(definitions)]
    with server.session("literal") as session:
        session.execute("SET SESSION sql_mode = ''", "SET NAMES utf8mb4")
        session.execute("DROP TABLE IF EXISTS t", TABLE, "INSERT INTO t VALUES (1)")
        session.execute("FLUSH BINARY LOGS")
        begin = ":".join(map(str, server.position()))
        session.execute(f"SET character_set_connection = {connection}")
        for name, definition in zip(columns, definitions, strict=True):
            session.execute(f"ALTER TABLE t ADD {name} {definition}")
        session.execute("SET NAMES utf8mb4")
        shown = [
            f"CONCAT('0x', LOWER(HEX({name})))" if definition.startswith("VARBINARY") else name
            for name, definition in zip(columns, definitions, strict=True)
        ]
        [held] = session.rows(f"SELECT {', '.join(shown)} FROM t")
        file, offset = server.position()
    asked = ["--as-of", f"{file}:{offset}", "--from", str(dump), "--from-position", begin]
    return list(held), [*asked, str(server.log_files()[-1])]


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_members_are_those_of_the_server(server: Server, connection: str) -> None:
    """The log contains them with binlog_row_metadata=FULL only."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    server.execute("DROP DATABASE IF EXISTS literal", "CREATE DATABASE literal")
    with server.session("literal") as session:
        session.execute("SET SESSION sql_mode = ''", "SET NAMES utf8mb4")
        session.execute("FLUSH BINARY LOGS", f"SET character_set_connection = {connection}")
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('é☃','b') CHARACTER SET utf8mb4)"
        )
        session.execute("ALTER TABLE t ADD f ENUM('Я','[x') CHARACTER SET utf8mb4")
        session.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)", "SET NAMES utf8mb4")
        held = session.rows("SELECT e, f FROM t ORDER BY id")
    log = binlake.open(str(server.log_files()[-1]))
    rows = log.to_arrow("literal.t").select(["e", "f"]).to_pylist()
    assert [list(row.values()) for row in rows] == held
