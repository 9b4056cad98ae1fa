from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlake.core.events.steps import Steps
from binlake.errors import MalformedError
from binlake.source.log_file import LogFile
from binlake.source.window import Window
from binlake.stream.groups.step_table import steps_of
from binlake.values.step import Step
from support.logs.log_builder import QUERY, query_body
from support.logs.stream_log import (
    INTVAR,
    STANDALONE,
    StreamLog,
    rows_body,
)

Load = Callable[[StreamLog], tuple[Steps, Window]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(log: StreamLog) -> tuple[Steps, Window]:
        with LogFile.open(str(log.write(tmp_path))) as file:
            [window] = file.windows()
        return steps_of(window), window

    return loaded


def names(steps: Steps) -> list[str]:
    return [Step(steps.step(i)).name for i in range(steps.count)]


def test_each_frame_gets_its_step(load: Load) -> None:
    log = StreamLog().plain(1)
    log.add(99, b"", flags=0x80)
    log.add(99)
    log.query(b"CREATE TABLE t (a INT)").query(b" /* x */ ROLLBACK")
    log.add(INTVAR, bytes(9))
    log.rows(flags=0).rotate("binlog.000002")
    steps, _ = load(log)
    assert names(steps) == [
        "CONTROL", "GTID", "BEGIN", "TABLE_MAP", "ROWS_END", "XID",
        "NEUTRAL", "UNKNOWN", "STATEMENT", "ROLLBACK", "PREFIX", "TABLE_MAP", "ROWS", "CONTROL",
    ]  # fmt: skip


def test_mariadb_gtids_open_unless_something_is_special(load: Load) -> None:
    log = StreamLog(version="10.11.6-MariaDB")
    log.maria(1).maria(2, STANDALONE).maria(3, 0x08 | 0x04).maria(4, 0x40, xid=b"x")
    steps, _ = load(log)
    assert names(steps)[1:] == ["GTID_OPEN", "GTID_OTHER", "GTID_OPEN", "GTID_OTHER"]


def test_a_cut_query_is_undecided(load: Load) -> None:
    log = StreamLog()
    log.add(QUERY, b"\0" * 9)
    log.add(QUERY, query_body(b"BEGIN")[:-6])  # the name of the database has no end
    steps, _ = load(log)
    assert names(steps)[1:] == ["UNDECIDED", "UNDECIDED"]
    with pytest.raises(MalformedError):
        steps.query_text(1)


def test_frames_that_are_not_there_are_refused(load: Load) -> None:
    steps, window = load(StreamLog().plain(1))
    for call in (
        lambda: steps.step(steps.count),
        lambda: steps.body_until(-1, 2),
        lambda: steps.query_text(steps.count),
        lambda: steps_of(replace(window, data=window.data[: len(window.data) - 1])),
    ):
        with pytest.raises(IndexError):
            call()


def test_plain_steps_end_at_a_change_of_state(load: Load) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows().rows().query(b"SAVEPOINT s")
    log.add(30, rows_body())
    log.xid()
    steps, _ = load(log)
    assert steps.body_until(3, steps.count) == 7
    assert steps.body_until(8, steps.count) == 9
