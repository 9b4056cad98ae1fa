"""One body or more of every typed event family, made by hand from the format's description."""

# ruff: noqa: ISC003 -- a + between fields, whatever they are made of

from __future__ import annotations

import zlib

import zstandard

from binlake.format import event_types as types
from binlake.values.frame import EventFormat
from support.logs.event_bytes import MARIADB, MYSQL

SID = bytes.fromhex("3e11fa47d1ca11e19e33c80aa9429562")
UUID = "3e11fa47-d1ca-11e1-9e33-c80aa9429562"


def u(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")


def varlen(value: int) -> bytes:
    """An unsigned number as mysql::serialization writes it."""
    for extra in range(8):
        if value < 1 << (7 * (extra + 1)):
            return u(value << (extra + 1) | ((1 << extra) - 1), extra + 1)
    return b"\xff" + u(value, 8)


def zigzag(value: int) -> bytes:
    return varlen(value << 1 if value >= 0 else (-value << 1) - 1)


def tagged(last_needed: int, *fields: tuple[int, bytes]) -> bytes:
    """A GTID_TAGGED body: version, size, last_non_ignorable, fields."""
    tail = varlen(last_needed) + b"".join(varlen(number) + data for number, data in fields)
    size = 2 + len(tail)
    assert size < 128
    return varlen(1) + varlen(size) + tail


TAGGED = tagged(
    0,
    (0, varlen(1)),
    (1, b"".join(varlen(byte) for byte in SID)),
    (2, zigzag(5)),
    (3, varlen(3) + b"abc"),
    (4, zigzag(7)),
    (5, zigzag(8)),
    (6, varlen(1_700_000_000_123_456)),
    (8, varlen(1234)),
    (9, varlen(90704)),
)

GTID_8 = (
    b"\x00"
    + SID
    + u(5, 8)
    + b"\x02"
    + u(7, 8)
    + u(8, 8)
    + u(1_700_000_000_123_456 | 1 << 55, 7)
    + u(1_699_999_999_000_000, 7)
    + b"\xfc"
    + u(300, 2)
    + u(80046 | 1 << 31, 4)
    + u(80030, 4)
    + u(99, 8)
)

STATUS = (
    b"\x00" + u(1 << 14 | 1 << 27, 4)
    + b"\x01" + u(1 << 22 | 1 << 33, 8)
    + b"\x02\x03std\x00"
    + b"\x03" + u(2, 2) + u(1, 2)
    + b"\x04" + u(8, 2) + u(33, 2) + u(255, 2)
    + b"\x05\x06SYSTEM"
    + b"\x07" + u(5, 2)
    + b"\x08" + u(45, 2)
    + b"\x09" + u(3, 8)
    + b"\x0a" + u(77, 4)
    + b"\x0b\x04root\x09localhost"
    + b"\x0c\x02shop\x00crm\x00"
    + b"\x0d" + u(123456, 3)
    + b"\x10\x01"
    + b"\x11" + u(42, 8)
    + b"\x12" + u(255, 2)
    + b"\x13\x01"
    + b"\x14\x00"
    + b"\x15\x01"
)  # fmt: skip

MARIADB_STATUS = (
    b"\x06\x03std"
    + b"\x80" + u(654321, 3)
    + b"\x81" + u(43, 8)
    + b"\x82\x04" + u(17, 8)
    + b"\x83\x01" + u(45, 2) + u(2304, 2)
    + b"\xff\x00\x00"
)  # fmt: skip


def query(status: bytes, database: bytes, rest: bytes, own: bytes = b"") -> bytes:
    head = u(12, 4) + u(3, 4) + u(len(database), 1) + u(1062, 2) + u(len(status), 2)
    return head + own + status + database + b"\x00" + rest


def compressed(plain: bytes) -> bytes:
    """MariaDB's form of compressed bytes: head, big-endian length, zlib stream."""
    return b"\x82" + len(plain).to_bytes(2, "big") + zlib.compress(plain)


SQL = b"INSERT INTO t VALUES ('" + b"x" * 300 + b"')"

# columns: INT UNSIGNED, VARCHAR(10) utf8mb4, ENUM, SET, CHAR(255) of 3 bytes each, DECIMAL(10,2),
# BIT(10), DATETIME(3), GEOMETRY, JSON, VECTOR, YEAR
TABLE_TYPES = bytes((3, 15, 254, 254, 254, 246, 16, 18, 255, 245, 242, 13))
TABLE_METADATA = bytes.fromhex("2800 f701 f801 cefd 0a02 0201 03 04 04 04")
TABLE_OPTIONAL = (
    b"\x01\x01" + b"\xa0"  # numeric: INT unsigned, DECIMAL signed, YEAR unsigned
    + b"\x02\x03" + b"\x2d\x01\x3f"  # characters: utf8mb4_general_ci; CHAR (the second): binary
    + b"\x07\x01\x01"  # POINT
    + b"\x0d\x01\x03"  # three dimensions
    + b"\x04" + u(12 * 3, 1) + b"".join(b"\x02" + b"c" + b"%x" % i for i in range(12))
    + b"\x0b\x02" + b"\x2d\x08"  # ENUM utf8mb4, SET latin1
    + b"\x05\x04" + b"\x01\x02" + b"\xe4b"  # SET ('äb')
    + b"\x06\x05" + b"\x02\x01x\x01y"  # ENUM ('x','y')
    + b"\x09\x04" + b"\x01\x05\x00\x00"  # PRIMARY KEY (c1(5), c0)
    + b"\x0c\x02" + b"\xbf\xf0"  # c1 is invisible
    + b"\x63\x02\xab\xcd"  # of some later server
)  # fmt: skip
TABLE_MAP = (
    u(0x123456789ABC, 6)
    + u(1, 2)
    + b"\x04shop\x00\x06orders\x00"
    + b"\x0c" + TABLE_TYPES
    + u(len(TABLE_METADATA), 1) + TABLE_METADATA
    + b"\xfe\x0f"
    + TABLE_OPTIONAL
)  # fmt: skip

PAYLOAD_PLAIN = bytes(range(256)) * 20
PAYLOAD_DATA = zstandard.compress(PAYLOAD_PLAIN[:3000]) + zstandard.compress(PAYLOAD_PLAIN[3000:])
PAYLOAD = (
    b"\x02\x01\x00"
    + b"\x03\x03\xfc" + u(len(PAYLOAD_PLAIN), 2)
    + b"\x01\x03\xfc" + u(len(PAYLOAD_DATA), 2)
    + b"\x09\x02zz"  # of some later server
    + b"\x00"
    + PAYLOAD_DATA
)  # fmt: skip

FORMAT_BODY = (
    u(4, 2) + b"9.7.4".ljust(50, b"\x00") + u(0, 4) + b"\x13" + MYSQL.post_header_lengths + b"\x01"
)

ROWS = u(23, 6) + u(1, 2)
EXTRA = b"\x00\x04\x01ab" + b"\x01" + u(3, 2) + u(2, 2)


def user_var(type_code: int, collation: int, value: bytes) -> bytes:
    return u(3, 4) + b"var" + b"\x00" + u(type_code, 1) + u(collation, 4) + u(len(value), 4) + value


# two fields of the table orders in the database shop
LOAD_HEAD = u(12, 4) + u(3, 4) + u(1, 4) + u(6, 1) + u(4, 1) + u(2, 4)
LOAD_NAMES = b"\x02\x05" + b"id\x00" + b"state\x00" + b"orders\x00" + b"shop\x00"
LOAD_SQL = b"LOAD DATA INFILE '/tmp/x' REPLACE INTO TABLE t"
SNAPSHOT = u(1, 8) + SID + u(1, 8) + u(1, 8) + u(6, 8)

SAMPLES: dict[str, tuple[int, bytes, EventFormat | None]] = {
    "format": (types.FORMAT_DESCRIPTION_EVENT, FORMAT_BODY, MYSQL),
    "rotate": (types.ROTATE_EVENT, u(4, 8) + b"binlog.000002", MYSQL),
    "stop": (types.STOP_EVENT, b"", MYSQL),
    "xid": (types.XID_EVENT, u(42, 8), MYSQL),
    "xa_prepare": (
        types.XA_PREPARE_LOG_EVENT,
        b"\x00" + u(7, 4) + u(3, 4) + u(2, 4) + b"onebq",
        MYSQL,
    ),
    "rows_query": (types.ROWS_QUERY_LOG_EVENT, u(len(SQL) % 256, 1) + SQL, MYSQL),
    "annotate": (types.ANNOTATE_ROWS_EVENT, SQL, MARIADB),
    "heartbeat": (types.HEARTBEAT_LOG_EVENT, b"binlog.000002", MYSQL),
    "heartbeat_mariadb": (types.HEARTBEAT_LOG_EVENT, u(1 << 33, 8) + b"binlog.000002", MARIADB),
    "heartbeat_v2": (
        types.HEARTBEAT_LOG_EVENT_V2,
        b"\x01\x0dbinlog.000002" + b"\x02\x09\xfe" + u(1 << 33, 8) + b"\x00",
        MYSQL,
    ),
    "incident": (types.INCIDENT_EVENT, u(1, 2) + b"\x04lost", MYSQL),
    "checkpoint": (types.BINLOG_CHECKPOINT_EVENT, u(13, 4) + b"binlog.000002", MARIADB),
    "query": (types.QUERY_EVENT, query(STATUS, b"shop", SQL), MYSQL),
    "query_mariadb": (types.QUERY_EVENT, query(MARIADB_STATUS, b"shop", SQL), MARIADB),
    "query_compressed": (
        types.QUERY_COMPRESSED_EVENT,
        query(MARIADB_STATUS, b"shop", compressed(SQL)),
        MARIADB,
    ),
    "gtid": (types.GTID_LOG_EVENT, GTID_8, MYSQL),
    "anonymous": (types.ANONYMOUS_GTID_LOG_EVENT, bytes(25) + b"\x02" + u(1, 8) + u(2, 8), MYSQL),
    "gtid_tagged": (types.GTID_TAGGED_LOG_EVENT, TAGGED, MYSQL),
    "gtid_mariadb": (
        types.GTID_EVENT,
        u(9, 8) + u(1, 4) + b"\x4e" + u(100, 8) + u(1, 4) + b"\x02\x01gtb"
        + b"\x15\x02" + u(8, 8) + u(55, 4) + bytes(6),
        MARIADB,
    ),
    "previous_gtids": (
        types.PREVIOUS_GTIDS_LOG_EVENT,
        u(1 << 56 | 2 << 8 | 1, 8)
        + SID + b"\x00" + u(1, 8) + u(1, 8) + u(6, 8)
        + SID + b"\x06abc" + u(2, 8) + u(1, 8) + u(2, 8) + u(5, 8) + u(9, 8),
        MYSQL,
    ),
    "previous_gtids_in_the_form_with_tags": (
        types.PREVIOUS_GTIDS_LOG_EVENT,
        u(1 << 56 | 1 << 8 | 1, 8) + SID + b"\x00" + u(1, 8) + u(1, 8) + u(6, 8),
        MYSQL,
    ),
    "gtid_list": (
        types.GTID_LIST_EVENT,
        u(1 << 29 | 2, 4) + u(0, 4) + u(1, 4) + u(9, 8) + u(0, 4) + u(2, 4) + u(1 << 40, 8),
        MARIADB,
    ),
    "payload": (types.TRANSACTION_PAYLOAD_EVENT, PAYLOAD, MYSQL),
    "table_map": (types.TABLE_MAP_EVENT, TABLE_MAP, MYSQL),
    "rows_v0": (types.PRE_GA_UPDATE_ROWS_EVENT, ROWS + b"\x02\xff" + b"rows", MYSQL),
    "rows_v0_write": (types.PRE_GA_WRITE_ROWS_EVENT, ROWS + b"\x02\xff" + b"rows", MYSQL),
    "rows_v0_delete": (types.PRE_GA_DELETE_ROWS_EVENT, ROWS + b"\x02\xff" + b"rows", MYSQL),
    "rows_v1": (types.UPDATE_ROWS_EVENT_V1, ROWS + b"\x09\xff\x01\x0f\x00" + b"rows", MYSQL),
    "rows_v2": (
        types.UPDATE_ROWS_EVENT,
        ROWS + u(2 + len(EXTRA), 2) + EXTRA + b"\x02\x03\x01" + b"rows",
        MYSQL,
    ),
    # version 2, which no server is known to write compressed
    "rows_compressed_v2_write": (
        types.WRITE_ROWS_COMPRESSED_EVENT,
        ROWS + u(2, 2) + b"\x02\x03" + compressed(b"\x01" * 90),
        MARIADB,
    ),
    "rows_compressed_v2_update": (
        types.UPDATE_ROWS_COMPRESSED_EVENT,
        ROWS + u(2 + len(EXTRA), 2) + EXTRA + b"\x02\x03\x01" + compressed(b"\x02" * 90),
        MARIADB,
    ),
    "rows_compressed_v2_delete": (
        types.DELETE_ROWS_COMPRESSED_EVENT,
        ROWS + u(2, 2) + b"\x02\x03" + compressed(b"\x03" * 90),
        MARIADB,
    ),
    "rows_compressed": (
        types.WRITE_ROWS_COMPRESSED_EVENT_V1,
        ROWS + b"\x02\x03" + compressed(b"\x00" * 500),
        MARIADB,
    ),
    "unknown": (99, b"anything", MYSQL),
    "start_v3": (types.START_EVENT_V3, u(3, 2) + b"4.1.22-log".ljust(50, b"\x00") + u(9, 4), None),
    "intvar": (types.INTVAR_EVENT, b"\x02" + u(1 << 40, 8), MYSQL),
    "rand": (types.RAND_EVENT, u(7, 8) + u(1 << 63, 8), MYSQL),
    "user_var_null": (types.USER_VAR_EVENT, u(1, 4) + b"n\x01", MYSQL),
    "user_var_text": (types.USER_VAR_EVENT, user_var(0, 8, b"caf\xe9"), MYSQL),
    "user_var_int": (types.USER_VAR_EVENT, user_var(2, 63, u((1 << 64) - 5, 8)) + b"\x00", MYSQL),
    "user_var_unsigned": (types.USER_VAR_EVENT, user_var(2, 63, b"\xff" * 8) + b"\x01", MYSQL),
    "user_var_real": (types.USER_VAR_EVENT, user_var(1, 63, bytes.fromhex("000000000000f8bf")), MYSQL),
    "user_var_decimal": (
        types.USER_VAR_EVENT,
        user_var(4, 63, b"\x06\x03" + bytes.fromhex("807b01c8")),
        MYSQL,
    ),
    "user_var_typed": (
        types.USER_VAR_EVENT,
        user_var(0, 45, b"abc") + b"\x02\x05inet6",
        MARIADB,
    ),
    "load": (types.LOAD_EVENT, LOAD_HEAD + b",\"\n\x00\\" + b"\x04\x08" + LOAD_NAMES + b"/tmp/x", MYSQL),
    "new_load": (
        types.NEW_LOAD_EVENT,
        LOAD_HEAD + b"\x02||\x00\x02\r\n\x00\x01\\" + b"\x0a" + LOAD_NAMES + b"/tmp/x",
        MYSQL,
    ),
    "create_file": (
        types.CREATE_FILE_EVENT,
        LOAD_HEAD + u(77, 4) + b"\x01,\x00\x01\n\x00\x01\\" + b"\x02" + LOAD_NAMES + b"/tmp/x\x00" + b"1,2\n",
        MYSQL,
    ),
    "append_block": (types.APPEND_BLOCK_EVENT, u(77, 4) + b"3,4\n", MYSQL),
    "begin_load_query": (types.BEGIN_LOAD_QUERY_EVENT, u(78, 4) + b"3,4\n\x00", MYSQL),
    "exec_load": (types.EXEC_LOAD_EVENT, u(77, 4), MYSQL),
    "delete_file": (types.DELETE_FILE_EVENT, u(77, 4), MYSQL),
    "execute_load_query": (
        types.EXECUTE_LOAD_QUERY_EVENT,
        query(STATUS, b"shop", LOAD_SQL, u(78, 4) + u(9, 4) + u(25, 4) + b"\x02"),
        MYSQL,
    ),
    "ignorable": (types.IGNORABLE_LOG_EVENT, b"whatever", MYSQL),
    "transaction_context": (
        types.TRANSACTION_CONTEXT_EVENT,
        u(36, 1) + u(9, 4) + b"\x01" + u(len(SNAPSHOT), 4) + u(2, 4) + u(1, 4)
        + UUID.encode() + SNAPSHOT + b"\x03\x00abc" + b"\x00\x00" + b"\x02\x00de",
        MYSQL,
    ),
    "view_change": (
        types.VIEW_CHANGE_EVENT,
        b"14869:2".ljust(40, b"\x00") + u(5, 8) + u(2, 4)
        + b"\x03\x00abc" + u(len(SNAPSHOT), 4) + SNAPSHOT + b"\x01\x00k" + u(2, 4) + b"\xfe\xff",
        MYSQL,
    ),
    "large_transaction_header": (
        types.LARGE_TRANSACTION_HEADER_EVENT, b"\x01" + u(1 << 33, 8) + b"\x10" + bytes(9), MYSQL,
    ),
    "start_encryption": (
        types.START_ENCRYPTION_EVENT, b"\x01" + u(1, 4) + bytes(range(12)), MARIADB,
    ),
    "partial_row_data": (
        types.PARTIAL_ROW_DATA_EVENT, u(3, 4) + u(1, 4) + b"\x01" + u(1000, 8) + b"chunk", MARIADB,
    ),
    "partial_row_data_last": (
        types.PARTIAL_ROW_DATA_EVENT, u(3, 4) + u(3, 4) + b"\x00" + b"the end", MARIADB,
    ),
}  # fmt: skip
