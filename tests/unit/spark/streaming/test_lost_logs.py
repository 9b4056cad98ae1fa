"""Streams whose place is lost: purged logs, other logs and servers of the same names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from binlake.archive.layout import ArchiveState
from binlake.errors import PositionLostError
from support.logs.stream_log import SID, StreamLog
from support.spark.stream_cases import (
    NEW,
    OLD,
    QUERIES,
    begun,
    chain,
    event_ends,
    expected,
    keys,
    many,
    stopped_in_the_middle,
)
from support.spark.stream_query import Checkpoint, Query41


def test_purged(tmp_path: Path) -> None:
    checkpoint = stopped_in_the_middle(tmp_path)
    (tmp_path / "binlog.000001").unlink()
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(PositionLostError, match=f"{SID}:3") as caught:
        run.batch()
    assert "binlog.000001" in str(caught.value)


def test_purged_behind_the_place(tmp_path: Path) -> None:
    chain(tmp_path)
    run = Query41(Checkpoint(), path=tmp_path, max_transactions_per_batch=3)
    run.start()
    run.batch()
    (tmp_path / "binlog.000001").unlink()
    run.drain()
    assert len(run.checkpoint.all_rows) == 6


@pytest.mark.parametrize("repeats", [False, True])
def test_another_log_of_that_name_and_second(repeats: bool, tmp_path: Path) -> None:
    """Its events have the same sizes, so that the place is one between two transactions."""
    checkpoint = stopped_in_the_middle(tmp_path)
    log = tmp_path / "binlog.000001"
    data = bytearray(log.read_bytes())
    for frame_end in event_ends(log)[2:]:
        data[frame_end - 1] ^= 0xFF
    log.write_bytes(data)
    checkpoint.committed -= repeats
    run = Query41(checkpoint, path=tmp_path)
    step = run.start if repeats else run.batch
    with pytest.raises(PositionLostError, match="another log now"):
        step()


def test_a_gap(tmp_path: Path) -> None:
    checkpoint = stopped_in_the_middle(tmp_path)
    (tmp_path / "binlog.000002").rename(tmp_path / "binlog.000003")
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(
        PositionLostError, match=r"between binlog\.000001 and binlog\.000003"
    ) as lost:
        run.batch()
    assert "restore it; or start with a new checkpoint" in str(lost.value)


@pytest.mark.parametrize("limit", [{}, {"max_transactions_per_batch": "2"}])
def test_an_incomplete_copy_of_a_log(limit: dict[str, str], tmp_path: Path) -> None:
    """The log was copied while the server wrote it: the stream waits for the rest, and skips nothing."""
    chain(tmp_path)
    log = tmp_path / "binlog.000001"
    whole, ends = log.read_bytes(), event_ends(log)
    log.write_bytes(whole[: ends[-6]])  # GTID, BEGIN, TABLE_MAP, rows, XID, ROTATE
    run = Query41(Checkpoint(), path=tmp_path, **limit)
    run.start()
    with pytest.raises(PositionLostError, match=r"binlog\.000001 is an incomplete copy") as lost:
        run.drain()
    assert "copy binlog.000001 again" in str(lost.value)
    log.write_bytes(whole)
    run = Query41(run.checkpoint, path=tmp_path, **limit)
    run.start()
    run.drain()
    assert keys(run.checkpoint.all_rows) == expected(log, tmp_path / "binlog.000002")


def test_an_incomplete_copy_that_an_earlier_batch_has_read(tmp_path: Path) -> None:
    """The next log comes later, as it does when a job copies logs one by one."""
    chain(tmp_path)
    log, following = tmp_path / "binlog.000001", tmp_path / "binlog.000002"
    later = following.read_bytes()
    following.unlink()
    log.write_bytes(log.read_bytes()[: event_ends(log)[-6]])
    run = Query41(Checkpoint(), path=tmp_path)
    run.start()
    run.drain()
    assert len(run.checkpoint.all_rows) == 2
    following.write_bytes(later)
    with pytest.raises(PositionLostError, match=r"binlog\.000001 is an incomplete copy"):
        run.drain()


def test_another_log_of_that_name(tmp_path: Path) -> None:
    """The logs were reset: their GTIDs are numbered anew, and mean other transactions."""
    checkpoint = stopped_in_the_middle(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "binlog.000001").write_bytes(begun(many(8)))
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(PositionLostError, match="another log now"):
        run.batch()


def archive(folder: Path, identity: str, log: StreamLog, seconds: int = 1_700_000_000) -> Path:
    """A log as it lies in the archive of a server."""
    directory = folder / identity
    directory.mkdir(exist_ok=True)
    (directory / "binlog.000001").write_bytes(begun(log, seconds))
    (directory / "archive.json").write_bytes(ArchiveState(identity, "mysql").to_bytes())
    return directory


def test_another_server_without_the_delivered_transactions(tmp_path: Path) -> None:
    run = Query41(Checkpoint(), path=archive(tmp_path, OLD, many(4)))
    run.start()
    run.drain()
    other = Query41(run.checkpoint, path=archive(tmp_path, NEW, many(3)))
    other.start()
    with pytest.raises(PositionLostError, match=f"not in the logs: {SID}:4") as lost:
        other.batch()
    assert lost.value.is_passing  # the server may lag


@QUERIES
def test_a_server_that_takes_over_in_another_order(query: type[Query41], tmp_path: Path) -> None:
    """Transactions that were shown lie behind ones that were not: by GTID, each once."""
    checkpoint = Checkpoint()
    run = query(checkpoint, path=archive(tmp_path, OLD, many(4)))
    run.start()
    run.drain()
    other = StreamLog()
    for gno in (1, 2, 5, 3, 6, 4, 7):
        other.plain(gno)
    for seconds in (1_700_000_009, 1_700_000_009):
        run = query(checkpoint, path=archive(tmp_path, NEW, other, seconds))
        run.start()
        run.drain()
    shown = [int(row["gtid"].rpartition(":")[2]) for row in checkpoint.all_rows]
    assert shown == [1, 2, 3, 4, 5, 6, 7]


@QUERIES
def test_a_batch_planned_on_a_lost_server_is_repeated_on_another(
    query: type[Query41], tmp_path: Path
) -> None:
    checkpoint = Checkpoint()
    run = query(checkpoint, path=archive(tmp_path, OLD, many(4)), max_transactions_per_batch=2)
    run.start()
    run.batch()
    run.plan()  # 3 and 4, never committed
    other = StreamLog()
    for gno in (1, 2, 4, 5, 3, 6):
        other.plain(gno)
    run = query(checkpoint, path=archive(tmp_path, NEW, other))
    run.start()
    assert [row["gtid"] for row in checkpoint.rows[1]] == [f"{SID}:4", f"{SID}:3"]
    run.drain()
    assert len(checkpoint.all_rows) == len({row["gtid"] for row in checkpoint.all_rows}) == 6


def test_an_offset_without_a_digest_of_earlier_events(tmp_path: Path) -> None:
    """A checkpoint of an older version goes on; what it cannot prove is not asked."""
    checkpoint = stopped_in_the_middle(tmp_path)
    older = [json.loads(end) for end in checkpoint.ends]
    assert [older_end.pop("last_events") for older_end in older]
    checkpoint.ends = [json.dumps(end) for end in older]
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert len(checkpoint.all_rows) == 6
