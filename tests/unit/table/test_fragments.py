"""Rows events that a server cut into fragments: their rows are those of the whole event."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError, MalformedError, TruncatedError
from binlake.source.log_file import LogFile
from binlake.stream.verify.reencode import reencode_problems
from support.logs.log_builder import MARIADB_GTID, QUERY, TABLE_MAP, XID, event, header
from support.logs.stream_log import mariadb_gtid_body
from support.logs.table_log import STMT_END, Log, day, image, table_map
from support.oracles.reading import lines_of, row_lines

PARTIAL = 172
WRITE_V1 = 23
ROWS = [(n, "x" * n, day(2026, 11, 1 + n)) for n in range(20)]


def rows_v1(*images: bytes) -> bytes:
    return (7).to_bytes(6, "little") + struct.pack("<H", STMT_END) + b"\x03\x07" + b"".join(images)


def whole(crc: bool = True, body: bytes | None = None) -> bytes:
    """The rows event as it would be in the log."""
    images = [bytes((raw[0] | 0xF8,)) + raw[1:] for raw in (image(row) for row in ROWS)]
    return event(WRITE_V1, rows_v1(*images) if body is None else body, 0, crc=crc, log_pos=0)


def cut(raw: bytes, size: int) -> list[bytes]:
    """Bodies of the fragments."""
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    bodies = []
    for number, chunk in enumerate(chunks, 1):
        head = struct.pack("<IIB", len(chunks), number, number == 1)
        bodies.append(head + (struct.pack("<Q", len(raw)) if number == 1 else b"") + chunk)
    return bodies


def log_of(bodies: Sequence[bytes], alg: int = 1) -> Log:
    log = Log("12.3.1-MariaDB", alg)
    log.add(MARIADB_GTID, mariadb_gtid_body(1))
    log.add(TABLE_MAP, table_map())
    for body in bodies:
        log.add(PARTIAL, body)
    log.add(XID, bytes(8))
    return log


def ids(path: Path, **options: Any) -> list[int]:
    return [line["after"]["id"] for line in row_lines(path, **options)]


@pytest.mark.parametrize("size", [19, 50, 100, 10_000])
@pytest.mark.parametrize("crc", [True, False])
def test_rows_are_those_of_the_whole_event(tmp_path: Path, size: int, crc: bool) -> None:
    log = log_of(cut(whole(crc), size))
    path = log.save(tmp_path)
    lines = list(row_lines(path))
    assert [line["after"]["id"] for line in lines] == list(range(20))
    assert [line["row"] for line in lines] == list(range(20))
    # they stand where all the fragments stand
    assert {(line["pos"], line["end_pos"]) for line in lines} == {(log.offsets[3], log.offsets[-1])}


def test_logs_without_checksums(tmp_path: Path) -> None:
    assert ids(log_of(cut(whole(False), 60), alg=0).save(tmp_path)) == list(range(20))


def test_a_header_whose_length_counts_a_checksum_that_is_not_there(tmp_path: Path) -> None:
    raw = whole(True)[:-4]
    assert ids(log_of(cut(raw, 60)).save(tmp_path)) == list(range(20))


def test_other_transactions_around_it(tmp_path: Path) -> None:
    log = Log("12.3.1-MariaDB")
    for number in range(3):
        log.add(MARIADB_GTID, mariadb_gtid_body(number))
        log.add(TABLE_MAP, table_map())
        bodies = cut(whole(), 70) if number == 1 else None
        for body in bodies or [rows_v1(bytes((0xF8,)) + image((7, "a", day(2026, 1, 1)))[1:])]:
            log.add(PARTIAL if bodies else WRITE_V1, body)
        log.add(XID, bytes(8))
    assert ids(log.save(tmp_path)) == [7, *range(20), 7]


def test_fragments_in_different_windows(tmp_path: Path) -> None:
    images = (image((n, "x" * 79, day(2026, 11, 1))) for n in range(60_000))
    raw = whole(body=rows_v1(*(bytes((one[0] | 0xF8,)) + one[1:] for one in images)))
    path = log_of(cut(raw, 400_000)).save(tmp_path)
    with LogFile.open(str(path)) as file:
        assert len(list(file.windows())) > 2
    assert ids(path) == list(range(60_000))


@pytest.mark.parametrize(
    ("bodies", "error", "message"),
    [
        (cut(whole(), 100)[:-1], TruncatedError, "fragments of a rows event are present"),
        (cut(whole(), 100)[1:], MalformedError, "out of order"),
        (cut(whole(), 100)[::-1], MalformedError, "out of order"),
        (cut(whole()[5:], 100), MalformedError, "not a rows event"),
        (cut(whole()[:-9], 100), MalformedError, "not a rows event"),
        (cut(b"short", 100), MalformedError, "not a rows event"),
        (cut(header(QUERY, 25, 0) + b"BEGIN!", 100), MalformedError, "not a rows event"),
        ([*cut(whole(), 100)[:-1], cut(whole(), 100)[-1][:-1]], MalformedError, "they declare"),
    ],
)
def test_fragments_that_do_not_join_are_an_error(
    tmp_path: Path, bodies: list[bytes], error: type[BinlogError], message: str
) -> None:
    log = log_of(bodies)
    with pytest.raises(error, match=message) as caught:
        ids(log.save(tmp_path))
    assert caught.value.file == "binlog.000001"
    assert caught.value.event_pos in log.offsets


def test_a_rows_event_between_fragments(tmp_path: Path) -> None:
    log = Log("12.3.1-MariaDB")
    log.add(MARIADB_GTID, mariadb_gtid_body(1))
    log.add(TABLE_MAP, table_map())
    log.add(PARTIAL, cut(whole(), 100)[0])
    log.add(WRITE_V1, rows_v1(b"\xf8" + image(ROWS[1])[1:]))
    log.add(XID, bytes(8))
    with pytest.raises(TruncatedError, match="1 of 5 fragments"):
        ids(log.save(tmp_path))


def test_damage_loses_the_transaction_only(tmp_path: Path) -> None:
    log = Log("12.3.1-MariaDB")
    for bodies in (cut(whole(), 100)[:-1], cut(whole(), 100)):
        log.add(MARIADB_GTID, mariadb_gtid_body(1))
        log.add(TABLE_MAP, table_map())
        for body in bodies:
            log.add(PARTIAL, body)
        log.add(XID, bytes(8))
    opened = binlake.open(log.save(tmp_path), on_error="skip")
    assert len(list(lines_of(opened))) == 20
    assert len(opened.ledger.skipped) == 1


def test_fragments_are_the_same_encoded_again(tmp_path: Path) -> None:
    with LogFile.open(str(log_of(cut(whole(), 60)).save(tmp_path))) as file:
        assert [p for window in file.windows() for p in reencode_problems(window)] == []
