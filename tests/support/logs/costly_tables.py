"""Further logs of at most 1 MB that ask for much by their tables, their columns and their rows.

Each is described by what it holds. `costly_logs.py` has the first ones, and what all are made of.
"""

from __future__ import annotations

import struct
import zlib

from support.logs.costly_logs import MARIADB, lenenc, payload, rows, table_map
from support.logs.event_samples import u
from support.logs.log_builder import GTID, QUERY, TABLE_MAP, XID, LogBuilder, header, query_body
from support.logs.table_log import INSERT, short

_PARTIAL_UPDATE = 39
TINY, _STRING, _JSON, _DECIMAL, _BLOB_COMPRESSED = 1, 254, 245, 246, 140


_ENUM, _SET = 247, 248


_ENUM_MEMBERS, _SET_MEMBERS, _NAMES = 6, 5, 4


def described(
    types: bytes, metadata: bytes, optional: bytes = b"", table: str = "t", table_id: int = 7
) -> bytes:
    """A TABLE_MAP of shop.`table` whose columns need metadata, nullable."""
    body = table_id.to_bytes(6, "little") + struct.pack("<H", 1)
    body += short(b"shop") + b"\0" + short(table.encode()) + b"\0"
    body += lenenc(len(types)) + types + lenenc(len(metadata)) + metadata
    return body + b"\xff" * ((len(types) + 7) // 8) + optional


def field(code: int, value: bytes) -> bytes:
    """One field of optional metadata."""
    return bytes([code]) + lenenc(len(value)) + value


def listed(*members: bytes) -> bytes:
    """The members of an ENUM or SET."""
    return lenenc(len(members)) + b"".join(lenenc(len(one)) + one for one in members)


def one_transaction(described_table: bytes, *events: tuple[int, bytes]) -> bytes:
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, described_table)
    for type_code, body in events:
        log.add(type_code, body)
    log.add(XID, u(1, 8))
    return log.bytes()


def distinct_tables(tables: int = 100, columns: int = 2000) -> bytes:
    """One row in each of many wide tables, of which no two have the same columns."""
    log = LogBuilder("8.0.36")
    for number in range(tables):
        types = bytearray([TINY]) * columns
        types[number] = 2  # SMALLINT
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(TABLE_MAP, table_map(f"t{number}", bytes(types), number))
        image = bytes((columns + 7) // 8) + bytes(columns + 1)
        log.add(INSERT, rows(columns, columns, image, number))
        log.add(XID, u(1, 8))
    return log.bytes()


def distinct_names(tables: int = 45, columns: int = 2000) -> bytes:
    """Wide tables whose columns have names of their own, with a row each."""
    log = LogBuilder("8.0.36")
    for number in range(tables):
        names = [f"c{number}_{place}" for place in range(columns)]
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(TABLE_MAP, table_map(f"t{number}", bytes([TINY]) * columns, number, names))
        image = bytes((columns + 7) // 8) + bytes(columns)
        log.add(INSERT, rows(columns, columns, image, number))
        log.add(XID, u(1, 8))
    return log.bytes()


def long_names(count: int = 3000, columns: int = 4000) -> bytes:
    """Rows that lack nearly all columns, whose names have 240 bytes each."""
    names = [f"{place:0240d}" for place in range(columns)]
    return one_transaction(
        table_map("t", bytes([TINY]) * columns, names=names),
        (INSERT, rows(columns, 1, bytes([0, 1]) * count)),
    )


def alternating_tables(turns: int = 4500) -> bytes:
    """Two tables take turns with one row each, each time in one of two definitions."""
    log = LogBuilder("8.0.36")
    for number in range(turns):
        types = bytes([3] * (1 + number % 2))
        log.add(QUERY, query_body(b"BEGIN"))
        log.add(TABLE_MAP, table_map(f"t{number % 4 // 2}", types, number))
        log.add(INSERT, rows(len(types), len(types), bytes(1 + 4 * len(types)), number))
        log.add(XID, u(1, 8))
    return log.bytes()


def many_layouts(count: int = 4000, columns: int = 1200) -> bytes:
    """Row events of a wide table, each of which has other columns."""
    log = LogBuilder("8.0.36")
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map("t", bytes([TINY]) * columns))
    width = (columns + 7) // 8
    for number in range(count):
        bitmap = (1 << number % columns | 1 << (number * 7 + 1) % columns).to_bytes(width, "little")
        head = (7).to_bytes(6, "little") + struct.pack("<HH", 0, 2) + lenenc(columns)
        log.add(INSERT, head + bitmap + bytes([0, 1, 1]))
    log.add(XID, u(1, 8))
    return log.bytes()[: 1 << 20]


def many_members(columns: int = 3) -> bytes:
    """ENUM columns with 65,535 members each, and some rows."""
    members = listed(*(b"%x" % number for number in range(65_535)))
    optional = field(_ENUM_MEMBERS, members * columns)
    table = described(bytes([_STRING]) * columns, bytes([_ENUM, 2]) * columns, optional)
    return one_transaction(
        table, (INSERT, rows(columns, columns, (b"\0" + b"\x05\0" * columns) * 100))
    )


def long_members(count: int = 200_000) -> bytes:
    """Rows of one ENUM value, whose text has 60,000 bytes."""
    optional = field(_ENUM_MEMBERS, listed(b"x" * 60_000))
    table = described(bytes([_STRING]), bytes([_ENUM, 1]), optional)
    return one_transaction(table, (INSERT, rows(1, 1, b"\0\1" * count)))


def long_sets(count: int = 50_000) -> bytes:
    """Rows of one SET value of 64 members with 1,000 bytes each."""
    optional = field(_SET_MEMBERS, listed(*(b"%064d" % i + b"x" * 936 for i in range(64))))
    table = described(bytes([_STRING]), bytes([_SET, 8]), optional)
    return one_transaction(table, (INSERT, rows(1, 1, (b"\0" + b"\xff" * 8) * count)))


def many_keys(count: int = 60_000) -> bytes:
    """One JSON document with many keys."""
    names = [b"%05d" % number for number in range(count)]
    head = 8 + count * 11
    entries = b"".join(u(head + 5 * i, 4) + u(5, 2) for i in range(count))
    values = (b"\x05" + u(1, 4)) * count
    size = head + 5 * count
    document = b"\x01" + u(count, 4) + u(size, 4) + entries + values + b"".join(names)
    image = b"\0" + u(len(document), 4) + document
    return one_transaction(described(bytes([_JSON]), bytes([4])), (INSERT, rows(1, 1, image)))


def nested_arrays(depth: int, document: bytes = b"\x04\x01") -> bytes:
    """A JSON document of arrays, each in another."""
    for _ in range(depth):
        kind, value = document[:1], document[1:]
        size = 8 + 5 + len(value)
        document = b"\x03" + u(1, 4) + u(size, 4) + kind + u(13, 4) + value
    return document


def deep_documents(count: int = 700) -> bytes:
    """Rows with JSON documents as deep as servers allow."""
    document = nested_arrays(99)
    image = b"\0" + u(len(document), 4) + document
    return one_transaction(
        described(bytes([_JSON]), bytes([4])), (INSERT, rows(1, 1, image * count))
    )


def many_differences(count: int = 12_000, size: int = 400_000) -> bytes:
    """A partial update of a long JSON document by many differences, each to its first element."""
    elements = size // 5
    document = b"\x03" + u(elements, 4) + u(8 + 5 * elements, 4)
    document += (b"\x07" + u(1, 4)) * elements
    before = b"\0" + u(len(document), 4) + document
    one = b"\0" + lenenc(4) + b"$[0]" + lenenc(3) + b"\x05\x02\x00"  # replace by 2
    after = b"\1" + b"\1" + b"\0" + u(len(one) * count, 4) + one * count
    head = (7).to_bytes(6, "little") + struct.pack("<HH", 1, 2) + lenenc(1)
    body = head + b"\1" + b"\1" + before + after
    return one_transaction(described(bytes([_JSON]), bytes([4])), (_PARTIAL_UPDATE, body))


def decimals(columns: int = 30, count: int = 1000) -> bytes:
    """DECIMAL(65,30) values."""
    image = bytes((columns + 7) // 8) + (b"\x81" + b"\x01" * 29) * columns
    table = described(bytes([_DECIMAL]) * columns, bytes([65, 30]) * columns)
    return one_transaction(table, (INSERT, rows(columns, columns, image * count)))


def compressed_values(count: int = 900, size: int = 1_000_000) -> bytes:
    """Values of a COMPRESSED column of MariaDB, each of which inflates to 1 MB."""
    value = b"\x83" + size.to_bytes(3, "big") + zlib.compress(bytes(size), 9)
    log = LogBuilder(MARIADB)
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, described(bytes([_BLOB_COMPRESSED]), bytes([3])))
    log.add(INSERT, rows(1, 1, (b"\0" + u(len(value), 3) + value) * count))
    log.add(XID, u(1, 8))
    return log.bytes()


def null_rows(count: int = 2000, columns: int = 4096) -> bytes:
    """Rows of a wide table whose columns are all NULL: a bit of the log for a line of text."""
    return one_transaction(
        table_map("t", bytes([TINY]) * columns),
        (INSERT, rows(columns, columns, b"\xff" * (columns // 8) * count)),
    )


def large_event_of_rows(count: int = 15_000_000) -> bytes:
    """A payload of 3 kB with one event of 30 MB: rows of one byte."""
    mapped, body = table_map("t", bytes([TINY])), rows(1, 1, b"\0\1" * count)
    log = LogBuilder("8.0.36")
    log.add(GTID, bytes(42))
    events = [(QUERY, query_body(b"BEGIN")), (TABLE_MAP, mapped), (INSERT, body), (XID, u(1, 8))]
    log.add(40, payload(header(code, 19 + len(part), 0) + part for code, part in events))
    return log.bytes()


def payload_of_rows(count: int = 3_000_000) -> bytes:
    """A payload of a few kB with millions of rows of one byte."""
    log = LogBuilder("8.0.36")
    plain = [header(QUERY, 19 + len(query_body(b"BEGIN")), 0) + query_body(b"BEGIN")]
    mapped = table_map("t", bytes([TINY]))
    for _ in range(count // 100_000):
        plain.append(header(TABLE_MAP, 19 + len(mapped), 0) + mapped)
        body = rows(1, 1, b"\0\1" * 100_000)
        plain.append(header(INSERT, 19 + len(body), 0) + body)
    plain.append(header(XID, 27, 0) + u(1, 8))
    log.add(GTID, bytes(42))
    log.add(40, payload(iter(plain)))
    return log.bytes()


SHAPES = (
    "distinct_tables",
    "distinct_names",
    "long_names",
    "alternating_tables",
    "many_layouts",
    "many_members",
    "long_members",
    "long_sets",
    "many_keys",
    "deep_documents",
    "many_differences",
    "decimals",
    "compressed_values",
    "payload_of_rows",
    "null_rows",
    "large_event_of_rows",
)
