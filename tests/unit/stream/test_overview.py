from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binlake.source.resolve import resolve
from binlake.stream.overview import nothing_found, unknown_table
from binlake.values.options import ReadOptions
from support.logs.log_builder import QUERY, ROWS
from support.logs.stream_log import SID, StreamLog, inner_event, rows_body, table_map_body

TABLE_MAP = 19


def said(path: Path, **options: str) -> str:
    return nothing_found(resolve([str(path)]), ReadOptions.parse(options))


def test_tables_and_times(tmp_path: Path) -> None:
    inside = inner_event(TABLE_MAP, table_map_body().replace(b"shop", b"keep"))
    StreamLog().plain(1).gtid(2).payload(inside + inner_event(ROWS, rows_body())).write(tmp_path)
    assert said(tmp_path, table="shop.tt") == (
        "nothing matches the filters (did you mean shop.t?); the log has changes of shop.t,"
        " keep.t; "
        "its events are from 2023-11-14 22:13:20Z to 2023-11-14 22:13:20Z"
    )


def test_a_table_is_not_similar_because_its_database_is(tmp_path: Path) -> None:
    StreamLog().plain(1).write(tmp_path)
    assert said(tmp_path, table="shop.nosuch").startswith("nothing matches the filters;")
    assert " (did you mean shop.t?);" in said(tmp_path, table="shp.t")


def test_a_log_without_row_changes(tmp_path: Path) -> None:
    StreamLog().gtid(1).query(b"DROP TABLE t").write(tmp_path)
    assert "; the log contains no row changes; its events" in said(tmp_path, op="insert")


def test_gtids_of_the_other_flavour(tmp_path: Path) -> None:
    StreamLog().plain(1).write(tmp_path)
    assert "; option gtid: 0-1-5 is a MariaDB GTID; the log is a MySQL log;" in said(
        tmp_path, gtid="0-1-5"
    )
    assert " GTID" not in said(tmp_path, gtid=f"{SID}:99")
    assert " GTID" not in said(tmp_path, gtid=f"{SID}:99,0-1-5")
    assert " GTID" not in said(tmp_path, at="binlog.000001:4")
    StreamLog(version="10.11.6-MariaDB").maria(1).rows().xid().write(tmp_path)
    assert f"; option at: {SID}:5 is a MySQL GTID; the log is a MariaDB log;" in said(
        tmp_path, at=f"{SID}:5"
    )


def test_damage_and_length_bound_the_look(tmp_path: Path) -> None:
    path = StreamLog().plain(1).rotate("binlog.000002").write(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    assert "changes of shop.t, …; its events are from 2023-11-14 22:13:20Z to at least" in said(
        path, op="delete"
    )
    later = StreamLog().plain(2)
    for offset in later.offsets:
        later.data[offset : offset + 4] = (1_800_000_000).to_bytes(4, "little")
    later.write(tmp_path, "binlog.000002")
    StreamLog().plain(1).rotate("binlog.000002").write(tmp_path)
    options = ReadOptions.parse({"op": "delete"})
    found = nothing_found(resolve([str(tmp_path)]), options, look_bytes=1)
    assert "to at least 2027-01-15" in found


def query_in(collation: int, sql: bytes) -> bytes:
    """The body of a QUERY event whose client uses a collation."""
    status = struct.pack("<BHHH", 4, collation, collation, collation)
    return struct.pack("<IIBHH", 7, 0, 4, 0, len(status)) + status + b"shop\0" + sql


@pytest.mark.parametrize(
    ("table", "collation", "sql"),
    [
        ("größen", 8, "DROP TABLE `GRÖSSEN`, größen".encode("latin-1")),
        ("größen", 45, b"DROP TABLE gr\xc3\xb6\xc3\x9fen"),
        ("größen", 45, b"DROP TABLE \xff"),  # it may be any name
        ("表", 28, "TRUNCATE `表`".encode("gbk")),
        ("a`b", 8, b"DROP TABLE `a``b`"),
        ('a"b', 8, b'DROP TABLE "a""b"'),
        ("t", 8, b"DROP TABLE t"),
    ],
)
def test_a_table_that_a_statement_names(
    table: str, collation: int, sql: bytes, tmp_path: Path
) -> None:
    made = StreamLog().gtid(1)
    made.add(QUERY, query_in(collation, sql))
    path = made.write(tmp_path)

    def unknown(name: str) -> bool:
        options = ReadOptions.parse({"table": f"shop.{name}"})
        return unknown_table(resolve([str(path)]), options) is not None

    assert not unknown(table)
    assert unknown("others")
    assert unknown("größe") == (sql[-1:] != b"\xff")
