"""Updates of MariaDB whose images lack the columns that a REPLACE resets."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.apply.decode import Decoded, Wanted, decode_range
from binlake.mirror.apply.definitions import Definition, Definitions
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.options import MirrorOptions
from binlake.stream.positions.splits import plan_splits
from support.logs.log_builder import QUERY, TABLE_MAP, XID, query_body
from support.logs.table_log import ALL, UPDATE, Log, Row, day, image, rows_body, table_map
from support.spark.engines import HereEngine

ANNOTATE_ROWS = 160
NAME = ("shop", "t")
ADA: Row = (1, "Ada", day(2026, 11, 21))
ID, WITHOUT_DAY = 0b001, 0b011


def decoded(
    folder: Path,
    statement: str,
    *,
    task_bytes: int = 32 << 20,
    after: int = WITHOUT_DAY,
    version: str = "11.8.6-MariaDB",
    change_logs: frozenset[tuple[str, str]] = frozenset(),
) -> Decoded:
    log = Log(version)
    log.add(QUERY, query_body(b"BEGIN"))
    if statement:
        log.add(ANNOTATE_ROWS, statement.encode())
    log.add(TABLE_MAP, table_map())
    log.add(UPDATE, rows_body(image(ADA, ID), image(ADA, after), bitmaps=(ID, after)))
    log.add(XID, bytes(8))
    read = MirrorOptions().read_options([NAME])
    splits = plan_splits([str(log.save(folder))], read, 50_000)
    wanted = Wanted(
        {NAME: ("id",)}, Definitions({NAME: Definition("CREATE TABLE shop.t (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20), day DATE DEFAULT '2020-01-01')")}),
        change_logs=change_logs,
    )  # fmt: skip
    task_files = TaskFiles(folder / "state", None)
    return decode_range(splits, read, wanted, HereEngine(), task_files, task_bytes=task_bytes)


@pytest.mark.parametrize("task_bytes", [32 << 20, 1])
@pytest.mark.parametrize(
    "statement",
    [
        "REPLACE INTO t (id, name) VALUES (1, 'Ada')",
        "/* app */ replace t SET id = 1",
        "/*!50000 REPLACE */ INTO t (id) VALUES (1)",
        "LOAD DATA LOCAL INFILE 'it\\'s' REPLACE INTO TABLE t (id)",
        "SET STATEMENT max_statement_time=5 FOR REPLACE INTO t (id) VALUES (1)",
        "/* a */ SET STATEMENT sql_mode='' FOR replace t SET id=1",
        "ANALYZE FORMAT=JSON REPLACE INTO t (id) VALUES (1)",
        "/*" + "x" * 70_000 + "*/ REPLACE INTO t (id) VALUES (1)",
    ],
)
def test_an_update_by_replace_is_refused(tmp_path: Path, statement: str, task_bytes: int) -> None:
    found = decoded(tmp_path, statement, task_bytes=task_bytes)
    assert found.failed.keys() == {NAME}
    assert "REPLACE has given columns their defaults" in found.failed[NAME]
    assert "NOBLOB: day; set binlog_row_image=FULL" in found.failed[NAME]
    assert not found.changes


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET name = REPLACE(name, 'a', 'b')",
        "INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE name = 'REPLACE INTO t'",
        "LOAD DATA INFILE ' REPLACE INTO ' INTO TABLE t (id)",
        "SET STATEMENT max_statement_time=5 FOR UPDATE t SET name = REPLACE(name, 'a', 'b')",
        "",
    ],
)
def test_other_updates(tmp_path: Path, statement: str) -> None:
    found = decoded(tmp_path, statement)
    assert (found.failed, found.changes[NAME].rows) == ({}, 1)


@pytest.mark.parametrize("task_bytes", [32 << 20, 1])
def test_a_range_reports_whether_it_needed_the_texts(tmp_path: Path, task_bytes: int) -> None:
    statement = "UPDATE t SET name = 'Ada'"
    assert decoded(tmp_path, statement, task_bytes=task_bytes).has_texts
    assert not decoded(tmp_path, statement, task_bytes=task_bytes, after=ALL).has_texts


def test_logs_that_have_all_columns(tmp_path: Path) -> None:
    statement = "REPLACE INTO t (id) VALUES (1)"
    assert not decoded(tmp_path, statement, after=ALL).failed
    assert not decoded(tmp_path, "", version="9.7.4").failed
    assert not decoded(tmp_path, statement, change_logs=frozenset({NAME})).failed
