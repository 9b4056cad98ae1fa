"""Row images made again of their values: what is the same, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.source.log_file import LogFile
from binlake.stream.verify.chains import verify
from binlake.stream.verify.problems import Kind, Problem
from binlake.stream.verify.reencode import Reencoding, reencode_problems
from binlake.table.checks.row_bytes import RowBytes
from support.logs.log_builder import TABLE_MAP
from support.logs.stream_log import StreamLog, inner_event
from support.logs.table_log import (
    DELETE,
    INSERT,
    UPDATE,
    Log,
    day,
    image,
    rows_body,
    table_map,
)

ROW = (1, "é", day(2026, 11, 21))
OTHER = (2, None, day(0, 0, 0))


def problems_of(log: Log, folder: Path) -> tuple[list[Problem], int]:
    rows = RowBytes()
    found: list[Problem] = []
    with LogFile.open(str(log.save(folder))) as file:
        for window in file.windows():
            found += reencode_problems(window, rows)
    return found, rows.rows


def spare(raw: bytes, bits: int) -> bytes:
    """An image whose null bitmap has its unused bits set (before 8.0.3)."""
    return bytes((raw[0] | bits,)) + raw[1:]


def test_changes_of_every_kind(tmp_path: Path) -> None:
    log = Log()
    log.insert(ROW, OTHER)
    log.commit(
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(ROW), image(OTHER), bitmaps=(7, 7), flags=0)),
        (DELETE, rows_body(image(OTHER), bitmaps=(7,))),
    )
    log.commit(
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(ROW, 1), image(OTHER, 6), bitmaps=(1, 6))),
    )
    assert problems_of(log, tmp_path) == ([], 5)


@pytest.mark.parametrize("version", ["5.7.44-log", "10.11.6-MariaDB"])
def test_older_servers_and_mariadb_set_the_spare_bits(tmp_path: Path, version: str) -> None:
    body = rows_body(spare(image(ROW), 0xF8), spare(image(OTHER), 0xF8))
    log = Log(version)
    log.commit((TABLE_MAP, table_map()), (INSERT, body))
    assert problems_of(log, tmp_path) == ([], 2)


def test_spare_bits_that_this_server_does_not_set(tmp_path: Path) -> None:
    log = Log()
    log.commit((TABLE_MAP, table_map()), (INSERT, rows_body(spare(image(ROW), 0xF8))))
    (problem,), rows = problems_of(log, tmp_path)
    assert (problem.kind, problem.pos, rows) == (Kind.REENCODED, log.offsets[-2], 0)
    assert problem.message == (
        "WRITE_ROWS_EVENT: row 0, after image: nulls are stored as f8, not 00"
    )


def test_a_value_that_no_server_stores_so(tmp_path: Path) -> None:
    """BINARY(3) is trimmed; here it is not."""
    described = bytearray(table_map())
    at = described.index(bytes((3, 15, 10)))
    described[at + 1] = 254
    described[at + 4 : at + 6] = b"\xfe\x03"
    described[described.index(bytes((2, 1, 45))) + 2] = 63
    body = rows_body(image((1, "a\0", day(2026, 1, 1))))
    log = Log()
    log.commit((TABLE_MAP, bytes(described)), (INSERT, body))
    (problem,), _ = problems_of(log, tmp_path)
    assert problem.message == (
        "WRITE_ROWS_EVENT: row 0, after image: shop.t.name is stored as 02610021d40f…, not 0161"
    )


def test_rows_that_do_not_decode_are_a_problem_and_the_next_are_compared(tmp_path: Path) -> None:
    log = Log()
    log.commit((TABLE_MAP, table_map()), (INSERT, rows_body(image(ROW)[:-1])))
    log.insert(ROW)
    (problem,), rows = problems_of(log, tmp_path)
    assert "its rows cannot be decoded" in problem.message
    assert rows == 1


def test_rows_without_a_table_map_are_left(tmp_path: Path) -> None:
    log = Log()
    log.commit((INSERT, rows_body(image(ROW))))
    assert problems_of(log, tmp_path) == ([], 0)


def test_verify_compares_rows(tmp_path: Path) -> None:
    log = Log()
    log.insert(ROW)
    log.commit((TABLE_MAP, table_map()), (INSERT, rows_body(spare(image(ROW), 0x80))))
    path = log.save(tmp_path)
    again = Reencoding(RowBytes)
    report = verify([str(path)], checks=[again])
    assert [p.kind for p in report.files[0].problems] == [Kind.REENCODED]
    assert again.events == report.files[0].types.total() - 1


def test_a_transaction_continues_after_a_payload(tmp_path: Path) -> None:
    """Payloads are read when their window has been read: they must not close its statement."""
    inner = inner_event(TABLE_MAP, table_map()) + inner_event(INSERT, rows_body(image(ROW)))
    log = StreamLog()
    log.payload(inner)
    log.add(TABLE_MAP, table_map())
    between = len(log.data)
    log.add(INSERT, rows_body(image(ROW)))
    rows, inside = RowBytes(), RowBytes()
    with LogFile.open(str(log.write(tmp_path))) as file:
        found = [
            problem
            for window in file.windows(window_bytes=between - 4)
            for problem in reencode_problems(window, rows, inside)
        ]
    assert (found, rows.rows, inside.rows) == ([], 1, 1)
