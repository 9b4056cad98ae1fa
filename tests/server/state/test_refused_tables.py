"""Tables and dumps of real servers that `binlake state` refuses, because it cannot know every row and every character."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.cli.main import main
from dev.servers import Server
from support.servers.live import url_of
from support.servers.states import SERVERS, as_texts, dumped, rows_of, state

pytestmark = pytest.mark.server

_PERIOD = (
    "valid_from TIMESTAMP(6) GENERATED ALWAYS AS ROW START, `Valid To` TIMESTAMP(6) generated always as row end,"
    " PERIOD FOR SYSTEM_TIME (valid_from, `Valid To`)"
)


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8"], indirect=True)
def test_system_versioned_tables_are_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MariaDB logs a DELETE in them as an update."""
    dump = tmp_path / "dump.sql"
    with server.session() as session:
        session.execute(
            "CREATE DATABASE versions",
            "USE versions",
            "CREATE TABLE hidden (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
            f"CREATE TABLE declared (id INT PRIMARY KEY, {_PERIOD}) WITH SYSTEM VERSIONING",
            "CREATE TABLE later (id INT PRIMARY KEY)",
            *(f"INSERT INTO {t} (id) VALUES (1), (2)" for t in ("hidden", "declared", "later")),
        )
        dump.write_bytes(dumped(server, "versions"))
        session.execute(
            "ALTER TABLE later ADD SYSTEM VERSIONING",
            *(f"DELETE FROM {t} WHERE id = 1" for t in ("hidden", "declared", "later")),
            f"CREATE TABLE made (id INT PRIMARY KEY, {_PERIOD}) WITH SYSTEM VERSIONING",
        )
    file, offset = server.position()
    logs = [str(log) for log in server.log_files()]
    for table, sources, why in (
        ("hidden", [str(dump), url_of(server)], "tables with system versioning are not supported"),
        (
            "declared",
            [str(dump), url_of(server)],
            "tables with system versioning are not supported",
        ),
        ("made", [str(dump)], "tables with system versioning are not supported"),
        ("later", [str(dump)], "the table becomes system-versioned"),
    ):
        for source in sources:
            asked = [f"versions.{table}", "--as-of", f"{file}:{offset}", "--from", source]
            assert main(["state", *asked, *logs]) == 1
            printed = capsys.readouterr()
            assert printed.out == ""
            assert why in printed.err, (table, source)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_dump_without_characters_of_four_bytes_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """mysqldump 5.5 to 5.7 writes `SET NAMES utf8` by default, and `?` for each such character."""
    narrow, wide = tmp_path / "narrow.sql", tmp_path / "wide.sql"
    with server.session() as session:
        session.execute(
            "SET NAMES utf8mb4",
            "CREATE DATABASE wide",
            "USE wide",
            "CREATE TABLE texts (id INT PRIMARY KEY, a TEXT CHARACTER SET latin1, b VARCHAR(9) CHARACTER SET utf8mb4)",
            "INSERT INTO texts VALUES (1, 'é', '😀')",
            "CREATE TABLE docs (id INT PRIMARY KEY, doc JSON) CHARACTER SET latin1",
            "INSERT INTO docs VALUES (1, '\"😀\"')",
            "CREATE TABLE other (id INT PRIMARY KEY, a TEXT CHARACTER SET latin1, b TEXT CHARACTER SET utf8mb3)",
            "INSERT INTO other VALUES (1, 'é', '☃')",
        )
        narrow.write_bytes(dumped(server, "wide", "--default-character-set=utf8mb3"))
        wide.write_bytes(dumped(server, "wide"))
        file, offset = server.position()
        logs = [str(log) for log in server.log_files()]
        assert b"'?'" in narrow.read_bytes()
        for table, column in (("texts", "b"), ("docs", "doc")):
            asked = [f"wide.{table}", "--as-of", f"{file}:{offset}"]
            assert main(["state", *asked, "--from", str(narrow), *logs]) == 2
            printed = capsys.readouterr()
            assert printed.out == ""
            assert f"lacks characters that column {column} may contain" in printed.err
            assert "--default-character-set=utf8mb4" in printed.err
            found = state(capsys, *asked, "--from", str(wide), *logs)
            assert as_texts(found) == rows_of(session, table)
        found = state(
            capsys, "wide.other", "--as-of", f"{file}:{offset}", "--from", str(narrow), *logs
        )
        assert as_texts(found) == rows_of(session, "other")
