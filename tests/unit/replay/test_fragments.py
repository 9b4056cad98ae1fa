"""Rows events in fragments (MariaDB 12.3): printed whole, as if they had not been cut."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path

import pytest

from binlake.cli.main import main
from support.logs.log_builder import MARIADB_GTID, TABLE_MAP, XID, event
from support.logs.stream_log import mariadb_gtid_body
from support.logs.table_log import STMT_END, Log, day, image, table_map

PARTIAL, WRITE_V1 = 172, 23
ROWS = [(n, "x" * n, day(2026, 11, 1 + n)) for n in range(20)]


def printed(
    capfdbinary: pytest.CaptureFixture[bytes], log: Log, folder: Path, *options: str
) -> tuple[int, bytes, str]:
    code = main(["mysqlbinlog", *options, str(log.save(folder))])
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


def rows_event() -> bytes:
    images = [bytes((raw[0] | 0xF8,)) + raw[1:] for raw in map(image, ROWS)]
    body = (7).to_bytes(6, "little") + struct.pack("<H", STMT_END) + b"\x03\x07" + b"".join(images)
    return event(WRITE_V1, body, 0, log_pos=0)


def log_of(fragments: int, missing: int = 0) -> Log:
    raw = rows_event()
    size = -(-len(raw) // fragments)
    log = Log("12.3.1-MariaDB")
    log.add(MARIADB_GTID, mariadb_gtid_body(1))
    log.add(TABLE_MAP, table_map())
    for number in range(fragments - missing):
        head = struct.pack("<IIB", fragments, number + 1, number == 0)
        head += struct.pack("<Q", len(raw)) if number == 0 else b""
        log.add(PARTIAL, head + raw[number * size :][:size])
    log.add(XID, bytes(8))
    return log


@pytest.mark.parametrize("fragments", [1, 2, 7])
def test_printed_whole(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], fragments: int
) -> None:
    code, text, err = printed(capfdbinary, log_of(fragments), tmp_path, "-v")
    assert (code, err) == (0, "")
    (statement,) = re.findall(rb"BINLOG '\n([^']*AAAA[^']*)'", text.partition(b"GTID")[2])
    assert statement.replace(b"\n", b"").endswith(base64.b64encode(rows_event()))
    assert text.count(b"### INSERT INTO") == 20
    assert f"\tPartial_row_data: {fragments} of {fragments}\n".encode() in text
    assert text.index(b"\tWrite_rows: table id 7 flags: STMT_END_F") > text.index(b"Partial_row")


def test_a_fragment_that_is_missing(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The statement is left out, and it is said."""
    code, text, err = printed(capfdbinary, log_of(3, missing=1), tmp_path, "-v")
    assert code == 0
    assert b"### INSERT" not in text
    assert "its last part is missing" in err


def test_a_database_that_is_not_shown(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, text, err = printed(capfdbinary, log_of(3), tmp_path, "-v", "-dother")
    assert (code, err) == (0, "")
    assert b"### INSERT" not in text
    assert text.count(b"BINLOG '") == 1, "the format description"
