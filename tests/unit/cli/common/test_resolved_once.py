"""A command resolves its paths once, so that all its passes over the logs read the same files."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.lake.local import LocalEngine
from binlake.source import resolve as source_resolve
from binlake.source.chain import Chain
from support.logs.log_builder import GTID, QUERY, ROTATE, query_body
from support.logs.table_log import Log

Resolutions = list[list[str]]

DUMP = """-- MySQL dump 10.13  Distrib 9.7.0
-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4;
CREATE DATABASE `shop`;
USE `shop`;
CREATE TABLE `{table}` (
  `id` int unsigned NOT NULL,
  `name` varchar(20) DEFAULT NULL,
  `day` date DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `{table}` WRITE;
INSERT INTO `{table}` VALUES (7,'seven',NULL);
UNLOCK TABLES;
-- Dump completed
"""
AT_THE_END = "binlog.000002:{size}"


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Resolutions:
    """The paths of every resolution."""
    found: Resolutions = []
    survey = source_resolve.survey

    def counting(paths: Sequence[str], index_directories: Sequence[str] = ()) -> list[Chain]:
        found.append(list(paths))
        return survey(paths, index_directories)

    monkeypatch.setattr(source_resolve, "survey", counting)
    return found


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with two logs, each with a row of shop.t; between them, a table gets the name shop.t."""
    folder = tmp_path / "logs"
    folder.mkdir()
    first, second = Log(), Log()
    first.insert((1, "one", None), gno=1)
    first.add(GTID, b"\0" + bytes(range(16)) + struct.pack("<q", 2))
    first.add(QUERY, query_body(b"RENAME TABLE t TO gone, old TO t"))
    first.add(ROTATE, struct.pack("<Q", 4) + b"binlog.000002")
    second.insert((2, "two", None), gno=3)
    first.save(folder)
    second.save(folder, "binlog.000002")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("rows",),
        ("rows", "--columns", "id"),
        ("rows", "--columns", "nothing"),
        ("rows", "--table", "shop.nothing"),
        ("rows", "--start", "binlog.000002:4"),
        ("rows", "--at", "binlog.000002:4711"),
        ("sql",),
        ("sql", "--ddl"),
        ("sql", "--undo", "--start", "binlog.000002:4"),
        ("history", "shop.t", "--key", "id=1"),
        ("history", "shop.t", "--key", "id=99"),
        ("history", "shop.t", "--key", "id=2", "--undo", "1"),
        ("stats",),
        ("stats", "--statements"),
        ("stats", "--statements", "--digest"),
        ("inspect",),
        ("inspect", "--full"),
        ("query", "SELECT count(*) FROM changes"),
        ("query", 'SELECT id FROM "shop.t"'),
        ("schema",),
        ("index", "--keys"),
        ("gtid", "locate", "00010203-0405-0607-0809-0a0b0c0d0e0f:3"),
    ],
    ids=" ".join,
)
def test_a_command_resolves_its_paths_once(
    logs: Path, resolved: Resolutions, command: tuple[str, ...]
) -> None:
    main([*command, str(logs)])
    assert resolved == [[str(logs)]]


@pytest.mark.parametrize("table", ["shop.t", "shop.nothing"])
def test_an_export_resolves_its_paths_once(
    logs: Path, resolved: Resolutions, table: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    code = main(
        ["export", "--engine", "local", "--workers", "1", "--table", table, str(logs), lake]
    )
    assert (code, resolved) == (0, [[str(logs)]])
    resolved.clear()
    again = binlake.export(logs, lake, engine="local", workers=1, if_exists="replace")
    assert (again.rows, resolved) == (2, [[str(logs)]])


def test_an_export_reads_the_logs_that_it_has_checked(
    logs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not those that the server writes while Spark starts."""

    def cores(_engine: LocalEngine) -> int:
        later = Log()
        later.insert((3, "three", None), gno=4)
        later.save(logs, "binlog.000003")
        return 1

    monkeypatch.setattr(LocalEngine, "cores", property(cores))
    assert binlake.export(logs, tmp_path / "lake", engine="local").rows == 2
    assert binlake.export(logs, tmp_path / "next", engine="local").rows == 3


@pytest.mark.parametrize("table", ["t", "old"])
def test_a_state_from_a_dump_resolves_its_paths_once(
    logs: Path,
    resolved: Resolutions,
    table: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also if the table had another name in the dump, and binlake begins again with that name."""
    dump = tmp_path / "dump.sql"
    dump.write_text(DUMP.format(table=table))
    name, end = ("shop.gone", "binlog.000002:4") if table == "t" else ("shop.t", AT_THE_END)
    moment = end.format(size=(logs / "binlog.000002").stat().st_size)
    code = main(["state", name, "--as-of", moment, "--from", str(dump), str(logs)])
    said = capfd.readouterr()
    assert (code, resolved) == (0, [[str(logs)]]), said.err
    assert ('"one"' if table == "t" else '"two"') in said.out


def test_an_opened_log_resolves_its_paths_once(logs: Path, resolved: Resolutions) -> None:
    log = binlake.open(logs, start="binlog.000001:4")
    for _ in range(2):
        assert len(log.to_pylist("shop.t")) == 2
        assert len(list(log.events())) > len(list(log.transactions())) == 3
        assert log.tables() == {"shop.t": {"insert": 2}}
        assert log.history("shop.t", id=1).changes
    assert resolved == [[str(logs)]]
