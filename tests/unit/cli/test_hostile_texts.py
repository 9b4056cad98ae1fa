"""Names and texts of hostile logs on the terminal, on stderr, and in scripts."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from support.command_runs import run
from support.logs.hostile_log import (
    DROP,
    MARIADB,
    MYSQL,
    SHELL,
    STATEMENTS,
    TEXTS,
    all_logs,
    named,
    stated,
)
from support.logs.log_builder import QUERY, LogBuilder, query_body
from support.logs.table_log import Log

#: What terminals obey and people misread; a newline ends a line.
_ACTIVE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
LOGS = [(version, *found) for version in (MYSQL, MARIADB) for found in all_logs(version)]
COMMANDS = (
    ("stats",), ("stats", "--statements"), ("inspect", "--full"), ("inspect",), ("inspect", "--hexdump"),
    ("verify",), ("gtid", "gaps"),
)  # fmt: skip


@pytest.fixture(params=LOGS, ids=lambda found: f"{found[0]} {found[1]}")
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(request.param[2])
    return path


def test_output_for_people_is_printable(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    for command in COMMANDS:
        code, out, err = run(capfd, *command, str(log))
        assert code in (0, 1, 2)
        assert not _ACTIVE.search(out + err), command
        assert not re.search(rf"(?m)^{DROP}", out + err), command
    for command in (("rows",), ("sql",), ("schema",), ("mysqlbinlog", "-v")):
        _, _, err = run(capfd, *command, str(log))
        assert not _ACTIVE.search(err), command


@pytest.mark.parametrize("version", [MYSQL, MARIADB])
@pytest.mark.parametrize("text", TEXTS)
def test_names_stay_in_their_comments(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, version: str, text: str
) -> None:
    """Without the names in backticks, which hold everything, no line begins with the attack."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(named(version, text))
    for command in (("mysqlbinlog", "-vv", "--print-table-metadata"), ("schema",), ("sql",)):
        _, out, _ = run(capfd, *command, str(path))
        bare = re.sub(r"(?m)^#.*$|`(?:[^`]|``)*`", "", out)
        for attack in (DROP, SHELL, "system echo", "DELIMITER ;\nDROP"):
            assert not re.search(rf"(?m)^\s*{re.escape(attack)}", bare), (command, out)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_that_a_client_misreads_is_a_comment(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, sql: bytes
) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(stated(MARIADB, sql))
    code, out, err = run(capfd, "mysqlbinlog", str(path))
    assert code == 0
    assert "a client would misread it" in err
    assert "RELOAD DATABASE/*!*/;\n" in out
    for line in sql.decode().splitlines():
        assert re.search(rf"(?m)^# {re.escape(line)}$", out)
    assert "SELECT 'fine'\n/*!*/;" in out


def test_messages_are_short(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A name of 300 kB in a message, and what a server says."""
    path = tmp_path / "schema.sql"
    path.write_text(f"CREATE TABLE `{'x' * 300_000}` (a INT, b NOSUCHTYPE);", encoding="utf-8")
    log = Log()
    log.insert((1, "one", None))
    code, _, err = run(capfd, "rows", "--schema", str(path), str(log.save(tmp_path)))
    assert code == 2
    assert len(err) < 5000
    assert "characters…]" in err


def test_guarded_csv(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = Log()
    names = ("=1+1", "+1", "-1", "@x", "\tx", "\rx", "fine", "a=b")
    for name in names:
        log.insert((1, "one", None), table=name)
    path = str(log.save(tmp_path))
    for form, expected in (
        ("csv", names),
        ("csv-guarded", [*(f"'{n}" for n in names[:6]), *names[6:]]),
    ):
        _, out, _ = run(capfd, "rows", "--format", form, path)
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        assert [row["table"] for row in rows] == list(expected)


def test_delimiters_in_a_statement(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sql = b"CREATE PROCEDURE p() BEGIN SELECT 1 /*!*/; SELECT 2 /*!1*/; END"
    log = LogBuilder()
    log.add(QUERY, query_body(sql))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    _, out, _ = run(capfd, "mysqlbinlog", str(path))
    assert f"DELIMITER /*!2*/;\n{sql.decode()}\n/*!2*/;\nDELIMITER /*!*/;\n" in out
