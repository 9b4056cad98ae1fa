"""Further logs of at most 1 MB that ask for much by their other events, and by payloads of them.

Each is described by what it holds. `costly_tables.py` has those with costly tables and rows.
"""

from __future__ import annotations

import struct

import zstandard

from support.logs.costly_logs import MARIADB, payload, rows, table_map
from support.logs.costly_tables import TINY
from support.logs.event_samples import u
from support.logs.log_builder import (
    GTID,
    MARIADB_GTID,
    PREVIOUS_GTIDS,
    QUERY,
    TABLE_MAP,
    XID,
    LogBuilder,
    header,
    query_body,
)
from support.logs.table_log import INSERT

INTVAR, ROTATE, STOP, APPEND_BLOCK, USER_VAR, BEGIN_LOAD, EXECUTE_LOAD = 5, 4, 3, 9, 14, 17, 18
ROWS_QUERY, GTID_LIST, XA_PREPARE = 29, 163, 38


def long_queries(size: int = 400_000, count: int = 60_000) -> bytes:
    """A ROWS_QUERY event of 400 kB, and many rows behind it."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(ROWS_QUERY, b"\0" + b"INSERT " + b"x" * size)
    log.add(TABLE_MAP, table_map("t", bytes([TINY])))
    log.add(INSERT, rows(1, 1, b"\0\1" * count))
    log.add(XID, u(1, 8))
    return log.bytes()


def many_sources(count: int = 24_000) -> bytes:
    """A PREVIOUS_GTIDS event with many servers."""
    log = LogBuilder("8.0.36")
    one = u(1, 8) + u(1, 8) + u(6, 8)
    body = u(count, 8) + b"".join(i.to_bytes(16, "big") + one for i in range(count))
    log.add(PREVIOUS_GTIDS, body)
    log.add(GTID, b"\0" + (7).to_bytes(16, "big") + u(9, 8))
    log.add(QUERY, query_body(b"CREATE TABLE u (a INT)"))
    return log.bytes()


def many_intervals(count: int = 60_000) -> bytes:
    """A PREVIOUS_GTIDS event with many intervals of one server."""
    log = LogBuilder("8.0.36")
    intervals = b"".join(u(3 * i + 1, 8) + u(3 * i + 2, 8) for i in range(count))
    log.add(PREVIOUS_GTIDS, u(1, 8) + bytes(16) + u(count, 8) + intervals)
    for number in (60_000, 3, 90_000, 2):
        log.add(GTID, b"\0" + bytes(16) + u(number, 8))
        log.add(QUERY, query_body(b"CREATE TABLE u (a INT)"))
    return log.bytes()


def many_lists(events: int = 20, count: int = 3000) -> bytes:
    """GTID_LIST events of MariaDB with many domains."""
    log = LogBuilder(MARIADB)
    for _ in range(events):
        entries = b"".join(u(i, 4) + u(1, 4) + u(9, 8) for i in range(count))
        log.add(GTID_LIST, u(count, 4) + entries)
    return log.bytes()


def scattered_gtids(count: int = 8000) -> bytes:
    """Transactions without rows, whose GTIDs are neither in order nor next to each other."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        place = number * 7919 % count
        log.add(GTID, b"\0" + bytes(16) + u(2 * place + 1, 8))
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(XID, u(number, 8))
    return log.bytes()


def scattered_servers(count: int = 8000) -> bytes:
    """Transactions without rows, each of a server of its own."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        log.add(GTID, b"\0" + number.to_bytes(16, "little") + u(1, 8))
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(XID, u(number, 8))
    return log.bytes()


def scattered_times(count: int = 2000) -> bytes:
    """Transactions over a hundred years, each with a row, of a thread and a server of its own."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        at = {"timestamp": number * (0xFFFFFFFF // count)}
        log.add(GTID, b"\0" + bytes(16) + u(number + 1, 8), **at)
        begin = struct.pack("<IIBHH", number, 0, 4, 0, 0) + b"shop\0BEGIN"
        log.add(QUERY, begin, **at)
        log.add(TABLE_MAP, table_map("t", bytes([TINY])), **at)
        log.add(INSERT, rows(1, 1, b"\0\1"), **at)
        log.add(XID, u(number, 8), **at)
    return log.bytes()


def empty_transactions(count: int = 11_000) -> bytes:
    """Transactions of MariaDB that hold nothing."""
    log = LogBuilder(MARIADB, alg=0)
    for number in range(count):
        log.add(MARIADB_GTID, struct.pack("<QIB", number + 1, 0, 0) + bytes(6))
        log.add(XID, u(number, 8))
    return log.bytes()


def many_formats(count: int = 8500) -> bytes:
    """FORMAT_DESCRIPTION events inside of a log."""
    log = LogBuilder("8.0.36")
    for _ in range(count):
        log.add_format("8.0.36", 1)
    return log.bytes()


def many_rotations(count: int = 17_000) -> bytes:
    """ROTATE events that name further logs, inside of a log."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        log.add(ROTATE, u(4, 8) + b"binlog.%06d" % number)
    return log.bytes()


def many_stops(count: int = 40_000) -> bytes:
    """STOP events inside of a log."""
    log = LogBuilder("8.0.36")
    for _ in range(count):
        log.add(STOP)
    return log.bytes()


def many_variables(count: int = 8000) -> bytes:
    """Statements with a user variable and an INSERT_ID each."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        log.add(INTVAR, b"\x02" + u(number, 8))
        name = b"v%d" % number
        value = b"\0\0" + u(8, 4) + u(3, 4) + b"abc"
        log.add(USER_VAR, u(len(name), 4) + name + value)
        log.add(QUERY, query_body(b"DO 1"))
    return log.bytes()


def many_status_variables(count: int = 900) -> bytes:
    """Statements with 250 status variables each: their time zone, again and again."""
    log = LogBuilder("8.0.36")
    status = (b"\x05\x01U" * 250)[: 3 * 250]
    head = struct.pack("<IIBHH", 7, 0, 4, 0, len(status)) + status + b"shop\0"
    for number in range(count):
        log.add(QUERY, head + b"INSERT INTO t VALUES (%d)" % number)
    return log.bytes()


def many_statements(count: int = 10_000) -> bytes:
    """Statements of which no two are alike, in databases of their own."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        log.add(QUERY, query_body(b"UPDATE t%d SET a = %d" % (number, number), b"d%d" % number))
    return log.bytes()


def one_long_statement(size: int = 990_000) -> bytes:
    """One statement of 1 MB of short tokens."""
    log = LogBuilder("8.0.36")
    sql = b"INSERT INTO t VALUES " + b",".join([b"(1)"] * (size // 4))
    log.add(QUERY, query_body(sql))
    return log.bytes()


def many_blocks(count: int = 20_000) -> bytes:
    """A file of LOAD DATA in blocks of one byte."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(BEGIN_LOAD, u(1, 4) + b"a")
    for _ in range(count):
        log.add(APPEND_BLOCK, u(1, 4) + b"b")
    sql = b"LOAD DATA INFILE '/tmp/x' REPLACE INTO TABLE t"
    head = struct.pack("<IIBHH", 7, 0, 4, 0, 0) + u(1, 4) + u(9, 4) + u(25, 4) + b"\x02"
    log.add(EXECUTE_LOAD, head + b"shop\0" + sql)
    log.add(XID, u(1, 8))
    return log.bytes()


def many_files(count: int = 3000) -> bytes:
    """Files of LOAD DATA of one byte each."""
    log = LogBuilder("8.0.36")
    sql = b"LOAD DATA INFILE '/tmp/x' REPLACE INTO TABLE t"
    for number in range(count):
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(BEGIN_LOAD, u(number, 4) + b"a")
        head = struct.pack("<IIBHH", 7, 0, 4, 0, 0) + u(number, 4) + u(9, 4) + u(25, 4) + b"\x02"
        log.add(EXECUTE_LOAD, head + b"shop\0" + sql)
        log.add(XID, u(1, 8))
    return log.bytes()


def prepared_transactions(count: int = 3000) -> bytes:
    """XA transactions that are prepared and never end."""
    log = LogBuilder("8.0.36")
    for number in range(count):
        xid = b"%08d" % number
        log.add(GTID, b"\0" + bytes(16) + u(number + 1, 8))
        log.add(QUERY, query_body(b"XA START X'%s',X'',1" % xid.hex().encode()))
        log.add(TABLE_MAP, table_map("t", bytes([3])))
        log.add(INSERT, rows(1, 1, bytes(5)))
        log.add(QUERY, query_body(b"XA END X'%s',X'',1" % xid.hex().encode()))
        log.add(XA_PREPARE, b"\0" + u(1, 4) + u(len(xid), 4) + u(0, 4) + xid)
    return log.bytes()[: 1 << 20]


def many_savepoints(count: int = 5000) -> bytes:
    """A transaction with many savepoints, and a return to each, the last one first."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    for number in range(count):
        log.add(QUERY, query_body(b"SAVEPOINT `s%d`" % number))
        if number % 10 == 0:
            log.add(TABLE_MAP, table_map("t", bytes([3])))
            log.add(INSERT, rows(1, 1, bytes(5)))
    for number in range(count - 1, -1, -1):
        log.add(QUERY, query_body(b"ROLLBACK TO `s%d`" % number))
    log.add(XID, u(1, 8))
    return log.bytes()


def unknown_events(count: int = 38_000) -> bytes:
    """Events of a type that no server has, which may be ignored."""
    log = LogBuilder("8.0.36")
    for _ in range(count):
        log.add(240, b"abc", flags=0x80)
    return log.bytes()


# -- compressed ------------------------------------------------------------------------------------


def nested_payloads(depth: int = 4, count: int = 200) -> bytes:
    """Payloads of payloads."""
    log = LogBuilder("8.0.36")
    inner = [header(XID, 27, 0) + u(1, 8)] * count
    for _ in range(depth):
        body = payload(iter(inner))
        inner = [header(40, 19 + len(body), 0) + body] * count
    log.add(GTID, bytes(42))
    log.add(40, inner[0][19:])
    return log.bytes()


def wide_window() -> bytes:
    """A payload whose zstd frame asks for a window of 2 GB."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=30, enable_ldm=False)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    plain = header(QUERY, 19 + 13 + 5 + 6, 0) + query_body(b"BEGIN")
    packed = packer.compress(plain) + packer.flush()
    log = LogBuilder("8.0.36")
    log.add(GTID, bytes(42))
    fields = bytes([1, 9]) + b"\xfe" + u(len(packed), 8) + bytes([2, 1, 0])
    fields += bytes([3, 9]) + b"\xfe" + u(len(plain), 8) + b"\0"
    log.add(40, fields + packed)
    return log.bytes()


SHAPES = (
    "long_queries",
    "many_sources",
    "many_intervals",
    "many_lists",
    "scattered_gtids",
    "scattered_servers",
    "scattered_times",
    "empty_transactions",
    "many_formats",
    "many_rotations",
    "many_stops",
    "many_variables",
    "many_status_variables",
    "many_statements",
    "one_long_statement",
    "many_blocks",
    "many_files",
    "prepared_transactions",
    "many_savepoints",
    "unknown_events",
    "nested_payloads",
    "wide_window",
)
