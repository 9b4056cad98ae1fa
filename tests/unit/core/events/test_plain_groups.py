"""Plain transactions as columns, and masks over them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.events.plain_groups import MARIADB, MYSQL, NO_GTID, GroupMask, PlainGroups
from binlake.core.text.gtid_texts import gtid_texts
from binlake.source.log_file import LogFile
from binlake.source.window import Window
from binlake.stream.groups.step_table import steps_of
from support.logs.log_builder import QUERY, query_body
from support.logs.stream_log import EPOCH, ROWS_QUERY, SECOND, SID, StreamLog

Find = Callable[[StreamLog], tuple[PlainGroups, Window]]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    def found(log: StreamLog) -> tuple[PlainGroups, Window]:
        with LogFile.open(str(log.write(tmp_path))) as file:
            [window] = file.windows()
        return PlainGroups(steps_of(window)), window

    return found


def gtid_column(groups: PlainGroups, low: int, high: int) -> list[str | None]:
    """The column of GTIDs, as the single ones are."""
    offsets, text, without = gtid_texts(groups, low, high)
    ends = memoryview(offsets)
    texts = [bytes(memoryview(text)[a:b]).decode() for a, b in pairwise(ends)]
    assert texts.count("") == without
    return [found or None for found in texts]


def frames(groups: PlainGroups) -> list[tuple[int, int]]:
    return [(groups.first[i], groups.last[i]) for i in range(groups.count)]


def test_only_whole_committed_transactions_are_plain(find: Find) -> None:
    log = StreamLog().plain(1).plain(2)
    log.gtid(3).query(b"BEGIN")
    log.add(ROWS_QUERY, b"\x01x")
    log.rows().rows().query(b"COMMIT")
    log.gtid(4).query(b"DROP TABLE t")
    log.plain(5)
    log.gtid(6).query(b"BEGIN").rows()
    groups, window = find(log)
    assert frames(groups) == [(1, 6), (6, 11), (11, 19), (21, 26)]
    assert list(groups.number[: groups.count]) == [1, 2, 3, 5]
    assert [groups.at(frame) for frame in (1, 6, 11, 19, 20, 21, 26)] == [0, 1, 2, -1, -1, 3, -1]
    assert (groups.run(0), groups.run(1), groups.run(3)) == (3, 3, 4)
    assert groups.start(3) == window.frame(21).offset
    assert groups.end(3) == window.frame(25).end


def test_without_gtids_and_with_those_of_mariadb(find: Find) -> None:
    old = StreamLog(version="5.5.40", alg=None)
    old.query(b"BEGIN").rows().xid().query(b"BEGIN").rows().query(b"COMMIT")
    groups, window = find(old)
    assert groups.run(groups.at(1)) == 2
    assert groups.last[1] == len(window)
    assert [groups.gtid_kind[i] for i in range(2)] == [NO_GTID] * 2
    assert groups.gtid(0) is None
    maria = StreamLog(version="10.11.6-MariaDB").maria(1).rows().xid().maria(2).rows().xid()
    groups, window = find(maria)
    assert groups.run(groups.at(1)) == 2
    assert [groups.gtid_kind[i] for i in range(2)] == [MARIADB] * 2
    server_id = window.frame(1).server_id
    assert groups.gtid(1) == f"{groups.domain_id[1]}-{server_id}-2"
    assert groups.mariadb_intervals(0, 2) == [(groups.domain_id[0], server_id, 1, 2)]
    assert groups.mysql_intervals(0, 2) == []


@pytest.mark.parametrize("last", ["INSERT", "ROLLBACK", "SAVEPOINT s", "XA END 'x'"])
def test_anything_else_in_a_transaction_makes_it_not_plain(find: Find, last: str) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows().query(last.encode()).xid()
    assert find(log)[0].at(1) == -1


def test_one_with_a_cut_gtid_event_is_not_plain(find: Find) -> None:
    log = StreamLog()
    log.add(33, b"\0" * 20)
    log.query(b"BEGIN").rows().xid()
    assert find(log)[0].at(1) == -1


def test_a_query_in_the_form_of_a_commit_that_is_cut_ends_nothing(find: Find) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows()
    log.add(QUERY, query_body(b"COMMIT")[:-8])
    assert find(log)[0].at(1) == -1


def test_filters_leave_stretches(find: Find) -> None:
    log = StreamLog()
    for gno in range(1, 7):
        log.plain(gno, commit_us=gno * SECOND, thread=10 + gno % 2)
    groups, _ = find(log)

    def mask() -> GroupMask:
        return GroupMask(groups, 0, 6)

    every = mask()
    assert every.stretches() == [(0, 6)]
    every.keep_times(2 * SECOND, 4 * SECOND)
    assert every.stretches() == [(1, 3)]
    some = mask()
    some.keep_offsets(groups.start(1), groups.start(2))
    assert some.stretches() == [(1, 2)]
    some = mask()
    assert some.keep_threads({10}) == 0
    assert some.stretches() == [(1, 2), (3, 4), (5, 6)]
    some = mask()
    some.keep_gtids(lambda sid, gno: sid == SID.bytes and gno in (1, 2), lambda *_: False)
    assert some.stretches() == [(0, 2)]
    some.drop_gtids(lambda _, gno: gno < 2, lambda *_: False)
    assert some.stretches() == [(1, 2)]
    some = mask()
    some.keep_around(groups.start(1) + 1)
    assert some.stretches() == [(1, 2)]
    some = mask()
    some.keep_around(groups.start(1))
    assert some.stretches() == [(0, 2)]
    some = mask()
    some.keep_servers({2})
    assert some.stretches() == []
    part = GroupMask(groups, 2, 4)
    part.keep_times(0, 4 * SECOND)
    assert part.stretches() == [(2, 3)]


def test_gtids_that_follow_one_another_are_intervals(find: Find) -> None:
    log = StreamLog()
    for gno in (1, 2, 3, 7, 8, 5):
        log.plain(gno)
    groups, _ = find(log)
    sid = SID.bytes
    assert groups.mysql_intervals(0, 6) == [(sid, 1, 3), (sid, 7, 8), (sid, 5, 5)]
    assert groups.mysql_intervals(1, 4) == [(sid, 2, 3), (sid, 7, 7)]
    assert groups.mysql_intervals(2, 2) == []
    assert [groups.gtid(group) for group in range(2)] == [f"{SID}:1", f"{SID}:2"]
    assert groups.gtid_kind[0] == MYSQL


def test_commit_time_is_the_gtids_or_the_first_events(find: Find) -> None:
    groups, _ = find(StreamLog().plain(1, commit_us=123_456_789).plain(2))
    assert [groups.commit_us[i] for i in range(2)] == [123_456_789, EPOCH * SECOND]


def test_the_thread_is_that_of_begin_or_of_commit(find: Find) -> None:
    groups, _ = find(StreamLog().plain(1, thread=77))
    assert groups.thread_id[0] == 77
    maria = StreamLog(version="10.11.6-MariaDB").maria(1).rows().xid()
    maria.maria(2).rows().query(b"COMMIT", thread=5)
    groups, _ = find(maria)
    assert [groups.thread_id[i] for i in range(2)] == [-1, 5]


def test_transactions_that_are_not_there_are_refused(find: Find) -> None:
    groups, _ = find(StreamLog().plain(1))
    for call in (
        lambda: groups.start(1),
        lambda: groups.end(-1),
        lambda: groups.run(1),
        lambda: groups.gtid(1),
        lambda: groups.mysql_intervals(0, 2),
        lambda: groups.mariadb_intervals(1, 0),
        lambda: GroupMask(groups, 0, 2),
    ):
        with pytest.raises(IndexError):
            call()


GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/transactions/binlog.0*")), ids=str)
def test_a_column_of_gtids_is_that_of_each(path: Path) -> None:
    with LogFile.open(str(path)) as file:
        for window in file.windows():
            groups = PlainGroups(steps_of(window))
            wanted = [groups.gtid(group) for group in range(groups.count)]
            assert gtid_column(groups, 0, groups.count) == wanted
            assert (
                gtid_column(groups, groups.count // 2, groups.count) == wanted[groups.count // 2 :]
            )
            with pytest.raises(IndexError):
                gtid_texts(groups, 0, groups.count + 1)


@given(st.lists(st.integers(1, (1 << 63) - 1), min_size=1, max_size=5), st.booleans())
def test_a_column_of_any_gtids_is_that_of_each(numbers: list[int], is_mariadb: bool) -> None:
    log = StreamLog(version="11.8.2-MariaDB") if is_mariadb else StreamLog()
    for number in numbers:
        if is_mariadb:
            log.maria(number, domain=number % (1 << 32)).rows().xid()
        else:
            log.plain(number)
    with (
        tempfile.TemporaryDirectory() as folder,
        LogFile.open(str(log.write(Path(folder)))) as file,
    ):
        [window] = file.windows()
        groups = PlainGroups(steps_of(window))
        assert groups.count == len(numbers)
        wanted = [groups.gtid(group) for group in range(groups.count)]
        assert gtid_column(groups, 0, groups.count) == wanted
