"""Rows of pre-releases of MySQL 5.1: the server's null bytes, a value of every column, no descriptions."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import BinlogError, MalformedError, UnsupportedError
from support.logs.log_builder import FORMAT, QUERY, LogBuilder, event, query_body
from support.oracles.reading import Line, row_lines

# post-header lengths of 5.1.17, and of the trees with other numbers
USUAL = bytes.fromhex("380d0008001200040404041200004f00041a08080808")
PERMUTED = bytes.fromhex("380d0008001200040404041200004f0606060600041a")
CREATE = b"CREATE TABLE t (id INT NOT NULL, n SMALLINT, c CHAR(5) CHARACTER SET latin1, d DECIMAL(5,2), PRIMARY KEY (id))"
TYPES = bytes((3, 2, 254, 246))
INSERT, UPDATE, DELETE = 1, 2, 3


class OldLog:
    def __init__(self, permuted: bool = False, create: bytes = CREATE) -> None:
        self.id_bytes = 4 if permuted else 6
        self.types = (16, 17, 18, 19) if permuted else (19, 20, 21, 22)
        self.log = LogBuilder("5.1.17-beta", None)
        self.log.data = self.log.data[:4]
        self.log.offsets.clear()
        body = struct.pack("<H50sIB", 4, b"5.1.17-beta", 0, 19) + (PERMUTED if permuted else USUAL)
        self.log._append(FORMAT, event(FORMAT, body, 4, crc=False))
        if create:
            self.log.add(QUERY, query_body(create, b"shop"))

    def rows(self, operation: int, *images: bytes, types: bytes = TYPES) -> OldLog:
        table_id = (7).to_bytes(self.id_bytes, "little")
        names = b"\x04shop\x00\x01t\x00"
        self.log.add(self.types[0], table_id + bytes(2) + names + bytes((len(types),)) + types)
        present = bytes(((1 << len(types)) - 1,)) if len(types) <= 8 else b""
        head = table_id + b"\x01\x00" + bytes((len(types),)) + present
        self.log.add(self.types[operation], head + b"".join(images))
        return self

    def lines(self, folder: Path, **options: Any) -> list[Line]:
        path = folder / "binlog.000001"
        path.write_bytes(self.log.bytes())
        return list(row_lines(path, **options))


def image(nulls: int, id_: int, n: int, c: bytes, d: bytes) -> bytes:
    """The null bits are those of n, c and d, from bit 1 on: id has none."""
    return bytes((nulls,)) + struct.pack("<ih", id_, n) + bytes((len(c),)) + c + d


ONE = image(0xF1, 1, -2, b"abc", b"\x80\x0c\x22")
NULLS = image(0xFF, 2, 0, b"", b"\x80\x00\x00")
MIXED = image(0xF5, 3, 9, b"", b"\x7f\xff\xbf")


@pytest.mark.parametrize("permuted", [False, True])
def test_rows_by_the_ddl_of_the_log(tmp_path: Path, permuted: bool) -> None:
    log = OldLog(permuted).rows(INSERT, ONE, NULLS).rows(UPDATE, ONE, MIXED).rows(DELETE, NULLS)
    lines = log.lines(tmp_path)
    one = {"id": 1, "n": -2, "c": "abc", "d": "12.34"}
    nulls = {"id": 2, "n": None, "c": None, "d": None}
    mixed = {"id": 3, "n": 9, "c": None, "d": "-0.64"}
    assert [(line["op"], line["before"], line["after"]) for line in lines] == [
        ("insert", None, one),
        ("insert", None, nulls),
        ("update", one, mixed),
        ("delete", nulls, None),
    ]
    assert [line["row"] for line in lines] == [0, 1, 0, 0]
    offsets = log.log.offsets
    assert [(line["pos"], line["end_pos"]) for line in lines[1:3]] == [
        (offsets[3], offsets[4]),
        (offsets[5], offsets[6]),
    ]


def test_records_that_vary_in_length_have_no_bit_of_their_own(tmp_path: Path) -> None:
    create = b"CREATE TABLE t (v VARCHAR(300) CHARACTER SET latin1, t TEXT CHARACTER SET latin1, e ENUM('x','y'))"
    log = OldLog(create=create)
    log.rows(
        INSERT,
        b"\xf8" + b"\x02\x00ab" + b"\x03\x00xyz" + b"\x02",
        b"\xfd" + b"\x00\x00" + b"\x01\x00q" + b"\x00",
        types=bytes((15, 252, 254)),
    )
    assert [line["after"] for line in log.lines(tmp_path)] == [
        {"v": "ab", "t": "xyz", "e": "y"},
        {"v": None, "t": "q", "e": None},
    ]


@pytest.mark.parametrize(
    ("create", "kind", "message"),
    [
        (b"", UnsupportedError, "does not describe the columns of shop.t.* option schema"),
        (b"CREATE TABLE t (id INT)", UnsupportedError, "no DDL in the log fits"),
        (CREATE.replace(b"SMALLINT", b"TIME"), UnsupportedError, "n is declared as time"),
        (CREATE.replace(b"SMALLINT", b"SMALLINT NOT NULL"), MalformedError, "null bytes 0xf1"),
        (
            CREATE.replace(b"CHAR(5) CHARACTER SET latin1", b"CHAR(100)"),
            UnsupportedError,
            "character set",
        ),
    ],
)
def test_incomplete_ddl_is_an_error(
    tmp_path: Path, create: bytes, kind: type[BinlogError], message: str
) -> None:
    log = OldLog(create=create).rows(INSERT, ONE)
    with pytest.raises(kind, match=message) as caught:
        log.lines(tmp_path)
    assert caught.value.event_pos == log.log.offsets[-1]


def test_a_schema_must_declare_nullable_columns(tmp_path: Path) -> None:
    log = OldLog(create=b"").rows(INSERT, ONE)
    schema = tmp_path / "schema.sql"
    schema.write_bytes(b"USE shop;\n" + CREATE + b";\n")
    with pytest.raises(UnsupportedError, match=r"shop\.t\.n does not state whether it may be NULL"):
        log.lines(tmp_path, schema=str(schema))
    told = CREATE.replace(b"SMALLINT,", b"SMALLINT NULL,").replace(
        b"latin1,", b"latin1 DEFAULT NULL,"
    )
    told = told.replace(b"(5,2)", b"(5,2) NULL")
    schema.write_bytes(b"USE shop;\n" + told + b";\n")
    (line,) = log.lines(tmp_path, schema=str(schema))
    assert line["after"] == {"id": 1, "n": -2, "c": "abc", "d": "12.34"}


def test_every_prefix_of_an_image(tmp_path: Path) -> None:
    for cut in range(1, len(ONE)):
        with pytest.raises(MalformedError):
            OldLog().rows(INSERT, ONE[:cut]).lines(tmp_path)
