"""Runs of GTID events: what they leave out is what one can know without looking."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.events.frames import FrameBlock, scan
from binlake.core.events.gtid_runs import gtid_runs
from binlake.errors import MalformedError
from binlake.source.replica.progress import Progress
from binlake.values.gtid import Gtid, GtidSet, MariaGtid, MariaGtidSet
from support.logs.log_builder import event

GTID, QUERY, STOP, XID, CHECKPOINT, MARIADB_GTID = 33, 2, 3, 16, 161, 162
SIDS = (bytes(range(16)), bytes(range(15)) + b"\0")


def mysql_gtid(sid: bytes, gno: int) -> tuple[int, bytes]:
    return GTID, b"\0" + sid + struct.pack("<Q", gno)


def mariadb_gtid(domain: int, seq_no: int) -> tuple[int, bytes]:
    return MARIADB_GTID, struct.pack("<QIB", seq_no, domain, 0) + bytes(6)


def log_of(events: list[tuple[int, bytes]], base: int) -> tuple[bytes, FrameBlock]:
    data = b""
    for kind, body in events:
        data += event(kind, body, base + len(data), crc=False)
    frames = FrameBlock()
    scan(data, base, 0, len(data), 19, frames)
    return data, frames


@given(
    given=st.lists(st.tuples(st.sampled_from(SIDS), st.integers(1, 6), st.booleans()), max_size=30),
    base=st.sampled_from([4, 1 << 40]),
)
def test_mysql_sets_hold_every_transaction(given: list[tuple[bytes, int, bool]], base: int) -> None:
    events: list[tuple[int, bytes]] = []
    wanted = GtidSet()
    gno = 0
    for sid, step, then in given:
        gno += step if step < 4 else 1
        events += [mysql_gtid(sid, gno), (QUERY, bytes(20))] + [(XID, bytes(8))] * then
        wanted.add(sid, gno)
    data, frames = log_of(events, base)
    progress = Progress("mysql", "")
    progress.feed(data, base, frames, None)
    progress.settle()
    assert progress.gtid_set() == str(wanted)
    runs = gtid_runs(data, base, frames)
    assert [a for a, b in runs] == sorted(a for a, b in runs)
    for (_, last), (first, _) in pairwise(runs):
        assert last < first


@given(given=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), max_size=30))
def test_mariadb_keeps_the_last_of_each_domain(given: list[tuple[int, int]]) -> None:
    data, frames = log_of([mariadb_gtid(*one) for one in given], 4)
    progress = Progress("mariadb", "7-1-3")
    progress.feed(data, 4, frames, None)
    progress.settle()
    wanted = MariaGtidSet([MariaGtid(7, 1, 3), *(MariaGtid(d, 1, s) for d, s in given)])
    assert progress.gtid_set() == ",".join(map(str, wanted.position().values()))


def test_consecutive_gtids_are_one_run() -> None:
    body = [e for gno in range(1, 100) for e in (mysql_gtid(SIDS[0], gno), (XID, bytes(8)))]
    data, frames = log_of(body, 4)
    assert gtid_runs(data, 4, frames) == [(0, 196)]
    with pytest.raises(IndexError):
        gtid_runs(data[:-60], 4, frames)


@pytest.mark.parametrize(
    ("rest", "whole"),
    [
        ([], False),
        ([(XID, bytes(8))], True),
        ([(XID, bytes(8)), (STOP, b"")], True),  # the server has shut down
    ],
)
def test_the_last_transaction_counts_when_it_has_ended(
    rest: list[tuple[int, bytes]], whole: bool
) -> None:
    progress = Progress("mysql", "")
    data, frames = log_of([mysql_gtid(SIDS[0], 1), *rest], 4)
    progress.feed(data, 4, frames, None)
    assert progress.gtid_set() == (str(Gtid(SIDS[0], 1)) if whole else "")


@pytest.mark.parametrize("bad", [(GTID, b"\0" * 10), (MARIADB_GTID, b"\0"), (GTID, b"\xff" * 25)])
def test_gtids_that_cannot_be(bad: tuple[int, bytes]) -> None:
    data, frames = log_of([bad], 4)
    with pytest.raises(MalformedError):
        Progress("mysql", "").feed(data, 4, frames, None)


@pytest.mark.parametrize(
    "behind", [[], [STOP], [CHECKPOINT]], ids=["nothing", "STOP", "checkpoint"]
)
def test_the_last_transaction_counts_when_it_is_whole(behind: list[int]) -> None:
    """Also where MariaDB has written, late, which logs a recovery would need."""
    begun = [
        mariadb_gtid(0, 1),
        (QUERY, bytes(20)),
        (XID, bytes(8)),
        mariadb_gtid(0, 2),
        (QUERY, bytes(20)),
    ]
    data, frames = log_of(begun, 4)
    progress = Progress("mariadb", "")
    progress.feed(data, 4, frames, None)
    assert not progress.gtid_set().endswith("-2")
    more = [(XID, bytes(8)), *((kind, bytes(20)) for kind in behind)]
    data, frames = log_of(more, 1000)
    progress.feed(data, 1000, frames, None)
    assert progress.gtid_set().endswith("-2")
