"""Logs and schema files of at most 1 MB that ask for much: memory by their claims, time by their shapes.

Each is described by what it costs to read it without limits.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import zstandard

from support.logs.event_samples import u
from support.logs.log_builder import (
    GTID,
    MARIADB_GTID,
    QUERY,
    TABLE_MAP,
    XID,
    LogBuilder,
    header,
    query_body,
)
from support.logs.table_log import INSERT, short

IGNORABLE, PAYLOAD, QUERY_COMPRESSED, WRITE_ROWS_COMPRESSED = 28, 40, 165, 169
MARIADB = "10.11.6-MariaDB"
_GIB = 1 << 30


def lenenc(value: int) -> bytes:
    return bytes([value]) if value < 251 else b"\xfe" + u(value, 8)


def table_map(table: str, types: bytes, table_id: int = 7, names: list[str] | None = None) -> bytes:
    """shop.`table` of columns without metadata (integers), nullable."""
    body = table_id.to_bytes(6, "little") + struct.pack("<H", 1)
    body += short(b"shop") + b"\0" + short(table.encode()) + b"\0"
    body += lenenc(len(types)) + types + lenenc(0) + b"\xff" * ((len(types) + 7) // 8)
    if names is not None:
        listed = b"".join(short(name.encode()) for name in names)
        body += bytes([4]) + lenenc(len(listed)) + listed
    return body


def rows(columns: int, present: int, images: bytes, table_id: int = 7) -> bytes:
    """A WRITE_ROWS event whose images have the first `present` columns."""
    bitmap = ((1 << present) - 1).to_bytes((columns + 7) // 8, "little")
    return (
        table_id.to_bytes(6, "little")
        + struct.pack("<HH", 1, 2)
        + lenenc(columns)
        + bitmap
        + images
    )


def payload(plain: Iterator[bytes]) -> bytes:
    """A TRANSACTION_PAYLOAD of what `plain` yields."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    packed = b""
    size = 0
    for piece in plain:
        size += len(piece)
        packed += packer.compress(piece)
    packed += packer.flush()
    fields = bytes([1]) + lenenc(len(lenenc(len(packed)))) + lenenc(len(packed))
    fields += bytes([2, 1, 0]) + bytes([3]) + lenenc(len(lenenc(size))) + lenenc(size)
    return fields + b"\0" + packed


def small_compressed_log(count: int) -> bytes:
    """Two transactions of MariaDB without checksums: so many bytes of row images, and of a statement."""
    log = LogBuilder(MARIADB, alg=0)
    for number in (1, 2):
        log.add(MARIADB_GTID, struct.pack("<QIB", number, 0, 0) + bytes(6))
        log.add(QUERY, query_body(b"BEGIN"))
        if number == 1:
            log.add(TABLE_MAP, table_map("t", bytes([3]), names=["id"]))
            log.add(WRITE_ROWS_COMPRESSED, rows(1, 1, packed(bytes(count))))
        else:
            statement = b"CREATE TABLE u (a INT) /* " + b"x" * count + b" */"
            log.add(QUERY_COMPRESSED, query_body(packed(statement)))
        log.add(XID, u(number, 8))
    return log.bytes()


def packed(plain: bytes) -> bytes:
    """MariaDB's compressed data."""
    return b"\x84" + struct.pack(">I", len(plain)) + zlib.compress(plain)


def zeros(count: int) -> Iterator[bytes]:
    piece = bytes(1 << 20)
    for _ in range(count >> 20):
        yield piece


def deflated(count: int) -> bytes:
    """MariaDB's compressed data of so many zeros."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(piece) for piece in zeros(count)) + packer.flush()
    return b"\x84" + struct.pack(">I", count) + packed


def one_large_event() -> bytes:
    """A payload of 33 kB that is one event of 1 GiB."""
    log = LogBuilder("8.0.36")
    log.add(GTID, bytes(42))

    def plain() -> Iterator[bytes]:
        yield header(QUERY, _GIB - 1, 0)
        yield from zeros(_GIB)

    log.add(PAYLOAD, payload(plain()))
    return log.bytes()


def one_event_that_inflates(pack: Any, count: int = _GIB) -> bytes:
    """A compressed log that is, behind its head, one event of so many bytes; `pack` compresses."""
    head = LogBuilder("8.0.36").bytes() + header(IGNORABLE, count, 0)
    pieces = [pack.compress(head), *map(pack.compress, zeros(count))]
    return b"".join([*pieces, pack.flush()])


def many_small_events(count: int) -> bytes:
    """A payload of a few kB that is so many bytes of small events."""
    log = LogBuilder("8.0.36")
    log.add(GTID, bytes(42))
    ignorable = header(IGNORABLE, 1 << 16, 0) + bytes((1 << 16) - 19)

    def plain() -> Iterator[bytes]:
        for _ in range(count >> 16):
            yield ignorable
        yield header(XID, 27, 0) + u(1, 8)

    log.add(PAYLOAD, payload(plain()))
    return log.bytes()


def large_statement(count: int = 300 << 20) -> bytes:
    """A QUERY_COMPRESSED event of 300 kB that is a statement of 300 MB."""
    log = LogBuilder(MARIADB)
    log.add(QUERY_COMPRESSED, query_body(deflated(count)))
    return log.bytes()


def large_rows() -> bytes:
    """A WRITE_ROWS_COMPRESSED event of 300 kB with 300 MB of row images."""
    log = LogBuilder(MARIADB)
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map("t", bytes([3])))
    log.add(WRITE_ROWS_COMPRESSED, rows(1, 1, deflated(300 << 20)))
    log.add(XID, u(1, 8))
    return log.bytes()


def too_many_columns(count: int = 400_000) -> bytes:
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map("t", bytes([1]) * count))
    log.add(INSERT, rows(count, 1, bytes([1, 0])))
    log.add(XID, u(1, 8))
    return log.bytes()


def wide_tables(tables: int = 100, columns: int = 2000) -> bytes:
    """One row in each of many wide tables."""
    log = LogBuilder("8.0.36")
    image = bytes((columns + 7) // 8) + bytes(columns)
    for number in range(tables):
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(TABLE_MAP, table_map(f"t{number}", bytes([1]) * columns, number))
        log.add(INSERT, rows(columns, columns, image, number))
        log.add(XID, u(1, 8))
    return log.bytes()


def many_tables(tables: int = 9000) -> bytes:
    """One transaction with a row in each of many tables."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    for number in range(tables):
        log.add(TABLE_MAP, table_map(f"t{number}", bytes([3]), number))
        log.add(INSERT, rows(1, 1, bytes([0, 1, 0, 0, 0]), number))
    log.add(XID, u(1, 8))
    return log.bytes()


def tables_of_one_statement(tables: int = 200, columns: int = 4096) -> bytes:
    """A statement that names many wide tables before its first row."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    for number in range(tables):
        log.add(TABLE_MAP, table_map(f"t{number}", bytes([1]) * columns, number))
    log.add(INSERT, rows(columns, 1, bytes([0, 1]), 0))
    log.add(XID, u(1, 8))
    return log.bytes()


def nearly_empty_images(count: int = 20_000, columns: int = 4096) -> bytes:
    """Rows of which each image is one byte, of a table with many columns."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map("t", bytes([1]) * columns))
    log.add(INSERT, rows(columns, 1, bytes([1]) * count))
    log.add(XID, u(1, 8))
    return log.bytes()


def _with_ddl(statements: Iterator[str], columns: int) -> bytes:
    """The statements, and behind them a row of shop.t, whose columns are integers of one byte."""
    log = LogBuilder("8.0.36")
    for sql in statements:
        log.add(QUERY, query_body(sql.encode()))
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map("t", bytes([1]) * columns))
    log.add(INSERT, rows(columns, 1, bytes([0, 1])))
    log.add(XID, u(1, 8))
    return log.bytes()


def many_additions(count: int = 4500) -> bytes:
    """A table that grows column by column, beyond what servers allow."""

    def statements() -> Iterator[str]:
        yield "CREATE TABLE t (a TINYINT)"
        for number in range(count):
            yield f"ALTER TABLE t ADD c{number} TINYINT"

    return _with_ddl(statements(), 4096)


def many_renames(count: int = 4000, columns: int = 1000) -> bytes:
    """A wide table of which a column is renamed again and again."""

    def statements() -> Iterator[str]:
        yield f"CREATE TABLE t ({', '.join(f'c{n} TINYINT' for n in range(columns))})"
        for number in range(count):
            old, new = ("c0", "x") if number % 2 == 0 else ("x", "c0")
            yield f"ALTER TABLE t RENAME COLUMN {old} TO {new}"

    return _with_ddl(statements(), columns)


def long_expression(terms: int = 400_000) -> bytes:
    """A column with an expression that is longer than any that a server takes."""
    return _with_ddl(iter((f"CREATE TABLE t (a TINYINT, b TINYINT AS (1{'+1' * terms}))",)), 2)


SHAPES = (
    "one_large_event",
    "large_statement",
    "large_rows",
    "too_many_columns",
    "wide_tables",
    "many_tables",
    "tables_of_one_statement",
    "nearly_empty_images",
    "many_additions",
    "many_renames",
    "long_expression",
)

SCHEMAS = {
    "unclosed quote": b"CREATE TABLE t (a INT DEFAULT '" + b"\\'" * 400_000,
    "unclosed insert": b"INSERT INTO t VALUES ('" + b"\\'" * 400_000,
    "many inserts": b"INSERT " * 140_000,
    "zeros": b"CREATE TABLE t (a INT " + bytes(30_000) + b")",
    "long sum": b"CREATE TABLE t (a INT, b INT AS (1" + b"+1" * 400_000 + b"))",
    "nested parentheses": b"CREATE TABLE t (a INT DEFAULT "
    + b"(" * 490_000
    + b"1"
    + b")" * 490_000
    + b")",
    "open comments": b"CREATE TABLE t (a INT) " + b"/*" * 500_000,
    "executed comments": b"CREATE TABLE t (a INT " + b"/*!" * 300_000 + b")",
    "many columns": b"CREATE TABLE t (a0 INT" + b",a INT" * 140_000 + b")",
    "many keys": b"CREATE TABLE t (a INT" + b",KEY(a)" * 140_000 + b")",
    "many members": b"CREATE TABLE t (a ENUM(''" + b",''" * 300_000 + b"))",
    "many tables": b"CREATE TABLE t(a INT);" * 45_000,
}
