"""Relay logs: two formats in a file, and transactions that go on in the next file."""

from __future__ import annotations

from pathlib import Path

from binlake.stream.positions.splits import plan_splits
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import RELAY, ROWS, TABLE_MAP
from support.logs.stream_log import (
    SID,
    StreamLog,
    outcomes,
    rows_body,
    rows_in,
    table_map_body,
    transactions,
)
from support.logs.stream_splits import read_splits


def relay(source: str = "5.6.40-log") -> StreamLog:
    """The beginning of a relay log: its own format, then the source's ROTATE and format."""
    log = StreamLog(version="8.0.36", flags=RELAY)
    log.rotate("source.000007", flags=0x20)
    log.add_format(source, 1, log_pos=0)
    return log


def half(log: StreamLog) -> StreamLog:
    log.add(TABLE_MAP, table_map_body())
    log.add(ROWS, rows_body())
    return log


def chain(tmp_path: Path) -> Path:
    """Transaction 2 begins in the first file, fills the second, ends in the third."""
    half(relay().plain(1).gtid(2).query(b"BEGIN")).rotate("relay.000002", RELAY).write(
        tmp_path, "relay.000001"
    )
    half(half(relay())).rotate("relay.000003", RELAY).write(tmp_path, "relay.000002")
    half(relay()).xid().plain(3).write(tmp_path, "relay.000003")
    return tmp_path


def test_a_transaction_continues_in_the_next_file(tmp_path: Path) -> None:
    found = list(transactions(chain(tmp_path)))
    assert [t.gtid for t in found] == [f"{SID}:{n}" for n in (1, 2, 3)]
    assert [rows_in(t) for t in found] == [1, 4, 1]
    assert (found[1].start.file, found[1].end.file) == ("relay.000001", "relay.000003")


def test_each_file_read_as_a_split_gives_the_same(tmp_path: Path) -> None:
    folder = chain(tmp_path)
    whole = [(t.gtid, t.start.offset, rows_in(t)) for t in transactions(folder)]
    for split_bytes in (1 << 30, 100):
        ledger = Ledger()
        splits = plan_splits([str(folder)], ReadOptions(), split_bytes)
        found = list(read_splits(splits, ReadOptions(), ledger))
        assert [(t.gtid, t.start.offset, n) for t, n in found] == whole
        assert ledger.join_problems() == []
        assert ledger.transactions["committed"] == 3


def test_a_transaction_sent_again_tears_the_first_try(tmp_path: Path) -> None:
    log = half(relay().gtid(2).query(b"BEGIN")).rotate("source.000007", flags=0x20)
    log.add_format("5.6.40-log", 1, log_pos=0)
    log.plain(2)
    assert outcomes(log.write(tmp_path, "relay.000001")) == ["torn", "committed"]


def test_a_format_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    log = half(relay("5.6.20-log").query(b"BEGIN")).rotate("source.000007", flags=0x20)
    log.add_format("5.6.40-log", 1, log_pos=0)
    half(log).xid()
    [found] = transactions(log.write(tmp_path, "relay.000001"))
    assert rows_in(found) == 2
    assert {piece.window.format.server_version for piece in found.pieces()} == {
        "5.6.20-log",
        "5.6.40-log",
    }
