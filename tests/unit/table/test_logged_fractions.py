"""Old temporals of MariaDB in `verify`: their digits are in the DDL, or nowhere."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from binlake.format import column_types as ct
from binlake.source.window import Window
from binlake.stream.verify.chains import verify
from binlake.stream.verify.reencode import Reencoding
from binlake.table.checks.image_check import RowImages
from binlake.table.checks.logged_fractions import LoggedFractions
from binlake.table.checks.row_bytes import RowBytes
from binlake.table.schema.schema_file import parse_schema
from support.logs.log_builder import MARIADB_GTID, QUERY, ROWS, TABLE_MAP, query_body
from support.logs.stream_log import STANDALONE, StreamLog, mariadb_gtid_body

VERSION = "10.11.6-MariaDB"
TIME_3 = (839 * 3600 * 1000 + 61_234).to_bytes(5, "big")  # 00:01:01.234
TIME_0 = (101).to_bytes(3, "little")  # 00:01:01


def described(type_code: int = ct.MYSQL_TYPE_TIME) -> bytes:
    """shop.t with one column."""
    head = (7).to_bytes(6, "little") + struct.pack("<H", 1)
    return head + b"\x04shop\0\x01t\0" + bytes((1, type_code, 0, 1))


def inserted(value: bytes) -> bytes:
    head = (7).to_bytes(6, "little") + struct.pack("<HH", 1, 2) + b"\x01\x01"
    return head + b"\xfe" + value


class Log(StreamLog):
    """A log of MariaDB, without checksums."""

    def __init__(self) -> None:
        super().__init__(version=VERSION, alg=0)

    def ddl(self, sql: bytes) -> Log:
        self.add(MARIADB_GTID, mariadb_gtid_body(1, STANDALONE))
        self.add(QUERY, query_body(sql, b"shop"))
        return self

    def change(self, value: bytes, type_code: int = ct.MYSQL_TYPE_TIME) -> Log:
        self.add(MARIADB_GTID, mariadb_gtid_body(2))
        self.add(TABLE_MAP, described(type_code))
        self.add(ROWS, inserted(value))
        self.xid()
        return self


def found(folder: Path, *logs: Log, schema: str = "") -> tuple[list[str], list[str], int]:
    """The errors of decoding and of encoding again, and the number of equal rows."""
    paths = []
    for number, log in enumerate(logs, 1):
        path = folder / f"binlog.{number:06}"
        path.write_bytes(log.bytes())
        paths.append(str(path))
    declared = parse_schema(f"USE shop; {schema}".encode()) if schema else None
    decoded, compared = LoggedFractions(declared), LoggedFractions(declared)
    made: list[RowBytes] = []

    def rows() -> Callable[[Window], object]:
        made.append(RowBytes(compared))
        return made[-1]

    images = verify(paths, images=lambda: RowImages(decoded)).files
    again = verify(paths, checks=[Reencoding(rows)]).files  # type: ignore[arg-type]
    told = [[p.message for file in report for p in file.problems] for report in (images, again)]
    return told[0], told[1], sum(check.rows for check in made)


def test_fractional_digits_come_from_a_schema_without_ddl(tmp_path: Path) -> None:
    log = Log().change(TIME_3)
    assert found(tmp_path, log)[2] == 0
    assert found(tmp_path, log, schema="CREATE TABLE t (a TIME(3))") == ([], [], 1)
    decoded, compared, _ = found(tmp_path, log, schema="CREATE TABLE t (a TIME)")
    assert decoded or compared, "it is judged"


def test_fractional_digits_come_from_ddl(tmp_path: Path) -> None:
    log = Log().ddl(b"CREATE TABLE t (a TIME(3))").change(TIME_3)
    log.ddl(b"ALTER TABLE t MODIFY a TIME").change(TIME_0)
    assert found(tmp_path, log) == ([], [], 2)


def test_ddl_of_an_earlier_file(tmp_path: Path) -> None:
    first = Log().ddl(b"CREATE TABLE t (a TIME(3))")
    assert found(tmp_path, first, Log().change(TIME_3)) == ([], [], 1)


def test_undeclared_columns_are_not_checked(tmp_path: Path) -> None:
    assert found(tmp_path, Log().change(TIME_3).change(TIME_0)) == ([], [], 1)


@pytest.mark.parametrize(
    ("value", "type_code"), [(b"\xff" * 5, ct.MYSQL_TYPE_TIME), (b"\0" * 3, ct.MYSQL_TYPE_LONG)]
)
def test_damage_is_reported(tmp_path: Path, value: bytes, type_code: int) -> None:
    """Rows that do not fit what is declared, and tables without such columns."""
    column = b"TIME(3)" if type_code == ct.MYSQL_TYPE_TIME else b"INT"
    log = Log().ddl(b"CREATE TABLE t (a " + column + b")").change(value, type_code)
    images, again, rows = found(tmp_path, log)
    assert (len(images), len(again), rows) == (1, 1, 0)
