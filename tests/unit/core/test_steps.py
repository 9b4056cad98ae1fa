from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binlake.core.steps import Steps
from binlake.errors import MalformedError
from binlake.source.log_file import LogFile
from binlake.source.window import Window
from binlake.stream.step_table import steps_for
from binlake.values.step import Step
from log_builder import GTID, QUERY, query_body
from stream_log import (
    EPOCH,
    INTVAR,
    ROWS_QUERY,
    SECOND,
    SID,
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
        steps = steps_for(window.format)
        steps.load(window.data, window.base, window.block)
        return steps, window

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


def test_plain_takes_whole_committed_groups_only(load: Load) -> None:
    log = StreamLog().plain(1).plain(2)
    log.gtid(3).query(b"BEGIN")
    log.add(ROWS_QUERY, b"\x01x")
    log.rows().rows().query(b"COMMIT")
    log.gtid(4).query(b"DROP TABLE t")
    log.plain(5)
    log.gtid(6).query(b"BEGIN").rows()
    steps, window = load(log)
    end = steps.plain(1, steps.count)
    assert (steps.groups, Step(steps.step(end)).name) == (3, "GTID")
    assert steps.plain(end, steps.count) == end
    assert steps.groups == 0
    end = steps.plain(end + 2, steps.count)
    assert steps.groups == 1
    assert steps.plain(end, steps.count) == end
    assert window.frame(end).type_code == GTID


def test_plain_without_gtids_and_with_those_of_mariadb(load: Load) -> None:
    old = StreamLog(version="5.5.40", alg=None)
    old.query(b"BEGIN").rows().xid().query(b"BEGIN").rows().query(b"COMMIT")
    steps, _ = load(old)
    assert steps.plain(1, steps.count) == steps.count
    assert steps.groups == 2
    maria = StreamLog(version="10.11.6-MariaDB").maria(1).rows().xid().maria(2).rows().xid()
    steps, _ = load(maria)
    assert steps.plain(1, steps.count) == steps.count
    assert steps.groups == 2


@pytest.mark.parametrize("last", ["INSERT", "ROLLBACK", "SAVEPOINT s", "XA END 'x'"])
def test_anything_else_in_a_group_makes_it_not_plain(load: Load, last: str) -> None:
    steps, _ = load(StreamLog().gtid(1).query(b"BEGIN").rows().query(last.encode()).xid())
    assert steps.plain(1, steps.count) == 1


def kept(steps: Steps) -> list[tuple[int, int, int]]:
    found, group = [], 0
    while True:
        first, last, groups, group = steps.kept(group)
        if not groups:
            return found
        found.append((first, last, groups))


def test_filters_leave_stretches_of_groups(load: Load) -> None:
    log = StreamLog()
    for gno in range(1, 7):
        log.plain(gno, commit_us=gno * SECOND, thread=10 + gno % 2)
    steps, window = load(log)

    def again() -> None:
        assert steps.plain(1, steps.count) == steps.count

    again()
    assert kept(steps) == [(1, steps.count, 6)]
    steps.keep_times(2 * SECOND, 4 * SECOND)
    assert kept(steps) == [(6, 16, 2)]
    again()
    steps.keep_offsets(window.frame(6).offset, window.frame(11).offset)
    assert kept(steps) == [(6, 11, 1)]
    again()
    assert steps.keep_threads({10}) == 0
    assert kept(steps) == [(6, 11, 1), (16, 21, 1), (26, 31, 1)]
    again()
    steps.keep_gtids(lambda sid, gno: sid == SID.bytes and gno in (1, 2), lambda *_: False)
    assert kept(steps) == [(1, 11, 2)]
    again()
    steps.drop_gtids(lambda _, gno: gno < 6, lambda *_: False)
    assert kept(steps) == [(26, 31, 1)]
    again()
    steps.keep_around(window.frame(8).offset)
    assert kept(steps) == [(6, 11, 1)]
    again()
    steps.keep_servers({2})
    assert kept(steps) == []


def test_commit_time_is_the_gtids_or_the_first_events(load: Load) -> None:
    log = StreamLog().gtid(1, commit_us=123_456_789).gtid(2)
    steps, _ = load(log)
    assert steps.commit_us(1) == 123_456_789
    assert steps.commit_us(2) == EPOCH * SECOND


def test_frames_that_are_not_there_are_refused(load: Load) -> None:
    steps, window = load(StreamLog().plain(1))
    for call in (
        lambda: steps.step(steps.count),
        lambda: steps.plain(0, steps.count + 1),
        lambda: steps.calm(-1, 2),
        lambda: steps.commit_us(99),
        lambda: steps.kept(99),
        lambda: steps.load(window.data[: len(window.data) - 1], window.base, window.block),
    ):
        with pytest.raises(IndexError):
            call()


def test_calm_stops_at_what_changes_the_state(load: Load) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows().rows().query(b"SAVEPOINT s")
    log.add(30, rows_body())
    log.xid()
    steps, _ = load(log)
    assert steps.calm(3, steps.count) == 7
    assert steps.calm(8, steps.count) == 9
