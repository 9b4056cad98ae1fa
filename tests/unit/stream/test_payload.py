from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binlake.errors import FormatError
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import GTID, QUERY, ROWS, TABLE_MAP, XID, query_body
from support.logs.stream_log import (
    PAYLOAD,
    SID,
    StreamLog,
    frames_of,
    gtid_body,
    inner_event,
    rows_body,
    rows_in,
    table_map_body,
    transactions,
    transactions_in,
)


def query(text: bytes) -> bytes:
    return inner_event(QUERY, query_body(text))


def rows(count: int = 1) -> bytes:
    return inner_event(TABLE_MAP, table_map_body()) + inner_event(ROWS, rows_body(count))


END = inner_event(XID, struct.pack("<Q", 9))


@pytest.mark.parametrize("compression", [0, 255])
def test_a_payload_is_its_transaction(compression: int, tmp_path: Path) -> None:
    log = StreamLog().plain(1).gtid(2)
    log.payload(query(b"BEGIN") + rows() + rows() + END, compression).plain(3)
    found = list(transactions(log.write(tmp_path)))
    assert [t.gtid for t in found] == [f"{SID}:{n}" for n in (1, 2, 3)]
    inside = found[1]
    assert [code for code, _ in frames_of(inside)] == [GTID, QUERY, *[TABLE_MAP, ROWS] * 2, XID]
    assert inside.thread_id == 7
    last = list(inside.pieces())[-1]
    assert last.outer is not None
    assert (last.outer.type_code, last.outer.offset) == (PAYLOAD, log.offsets[7])
    assert last.window.format.checksum_bytes == 0


def test_changes_rolled_back_in_a_payload_are_left_out(tmp_path: Path) -> None:
    inner = query(b"BEGIN") + rows() + query(b"SAVEPOINT s") + rows() + rows()
    inner += query(b"ROLLBACK TO s") + rows() + END
    path = StreamLog().gtid(1).payload(inner).write(tmp_path)
    [found] = transactions(path)
    assert rows_in(found) == 2
    ordinals = [piece.inner for piece in found.pieces() if piece.outer is not None]
    assert ordinals == [0, 9]
    [everything] = transactions(path, uncommitted=True)
    assert rows_in(everything) == 4


def test_a_rolled_back_payload(tmp_path: Path) -> None:
    path = (
        StreamLog().gtid(1).payload(query(b"BEGIN") + rows() + query(b"ROLLBACK")).write(tmp_path)
    )
    assert [t.outcome for t in transactions(path)] == []
    assert [t.outcome for t in transactions(path, uncommitted=True)] == ["rolled back"]


def test_a_large_payload_is_inflated_again_in_bounded_memory(tmp_path: Path) -> None:
    inner = query(b"BEGIN") + rows(200_000) * 12 + END
    path = StreamLog().gtid(1).payload(inner).write(tmp_path)
    [held] = [frames_of(t) for t in transactions(path)]
    [found] = transactions_in(path, held_bytes=1 << 20)
    sizes = [len(piece.window.data) for piece in found.pieces()]
    assert len(sizes) > 3
    assert max(sizes) < 6 << 20
    [again] = [frames_of(t) for t in transactions_in(path, held_bytes=1 << 20)]
    assert again == held


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        (query(b"BEGIN") + rows()[:-1], "inside an event"),
        (query(b"BEGIN") + END + rows(), "after the end"),
        (inner_event(GTID, gtid_body(1)) + END, "GTID_LOG_EVENT inside"),
        (inner_event(PAYLOAD, b"\0"), "TRANSACTION_PAYLOAD_EVENT inside"),
        (query(b"BEGIN") + struct.pack("<IBIIIH", 0, 30, 1, 7, 0, 0), "shorter than a header"),
        (
            query(b"BEGIN") + struct.pack("<IBIIIH", 0, 30, 1, 1 << 31, 0, 0) + bytes(5 << 20),
            "declares",
        ),
    ],
)
def test_damage_inside_is_a_format_error(inner: bytes, says: str, tmp_path: Path) -> None:
    log = StreamLog().gtid(1).payload(inner)
    with pytest.raises(FormatError, match=says) as caught:
        list(transactions(log.write(tmp_path)))
    assert caught.value.event_pos == log.offsets[-1]
    assert caught.value.file == "binlog.000001"


def test_corrupt_compression_is_a_format_error(tmp_path: Path) -> None:
    log = StreamLog().gtid(1)
    log.add(PAYLOAD, b"\x02\x01\x00\x00" + b"\x28\xb5\x2f\xfd" + bytes(30))
    with pytest.raises(FormatError):
        list(transactions(log.write(tmp_path)))


def test_events_inside_follow_their_payload(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).payload(query(b"BEGIN") + rows() + END)
    chains = resolve([str(log.write(tmp_path))])
    for options in (ReadOptions(), ReadOptions(since=1)):
        [reader] = LogReader.of_chains(chains, options, Ledger())
        events = list(reader.events())
        events = [e for e in events if e.frame.type_code != 15]
        assert [e.inner for e in events] == [None, None, 0, 1, 2, 3]
        assert {e.pos for e in events[1:]} == {log.offsets[-1]}
        assert [e.checksum for e in events] == ["ok", "ok", *["none"] * 4]
        assert events[2].to_json()["event"]["sql"] == "BEGIN"
