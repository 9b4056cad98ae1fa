"""The complete examples of the published descriptions of the format, as vectors.

MariaDB: "Replication Protocol" of its documentation; whole events, whose CRC32 is checked.
MySQL: two articles that show bodies byte by byte, headers left out.

Left out, because the published bytes are broken:
- MariaDB's FORMAT_DESCRIPTION dumps of 10.1.16 and 10.2.10 (lines missing or doubled; the one of
  10.1.24 is also given in base64, which is used here);
- MySQL's ANONYMOUS_GTID: the flags byte is missing.
Used with care: MySQL's UPDATE, DELETE and TABLE_MAP have a wrong table id, CRC or length in
their words, but the layout of the bytes holds, and only that is asserted. MariaDB's TABLE_MAP has
a metadata length of 01 instead of 00: its CRC holds for the mended bytes, and the published ones
must be refused.
"""

from __future__ import annotations

import base64
import zlib

import pytest

from binlake.errors import FormatError
from binlake.events.body.encoding import encode_event
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.heartbeat import HeartbeatEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.stop import StopEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mariadb.binlog_checkpoint import BinlogCheckpointEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.events.registry import decode_event, event_format
from binlake.format import event_types as types
from support.logs.event_bytes import HEADER, MARIADB, event_of, frame_at, whole_event

# the network capture of a replica's first events (10.2.10, CRC32)
STREAM_ROTATE = (
    "0000000004d92700002f00000000000000200004000000000000006d7973716c2d62696e2e303030303334d53fead7"
)
STREAM_FORMAT = (
    "fbcc375a0fd9270000fc000000000100000000040031302e322e31302d4d6172696144422d6c6f67"
    + "00" * 35
    + "13380d000800120004040404120000e400041a08000000080808020000000a0a0a"
    + "00" * 128
    + "041304000d0808080a0a0a01170b1263"
)

QUERY_WITHOUT_DATABASE = (
    "7117285a028c2700005500000001090000000066010000000000000000001a00000000000001000000500000000006"
    "0373746404080008000800005452554e43415445205441424c4520746573742e74344a699eed"
)
QUERY_WITH_DATABASE = (
    "ce22285a028c27000054000000870c0000000066010000010000000400001a00000000000001000000500000000006"
    "037374640408000800080074657374005452554e43415445205441424c4520743408f10916"
)


def test_annotate_rows() -> None:
    event = whole_event(
        "eeb7155aa00100000036000000800b00000000696e7365727420696e746f20746573742e"
        "74342076616c75657328313030296d4c4233",
        MARIADB,
    )
    assert isinstance(event, AnnotateRowsEvent)
    assert event.to_fields() == {"query": "insert into test.t4 values(100)"}
    assert event.frame.server_id == 1


def test_gtid_list() -> None:
    event = whole_event(
        "a4859e59a38c2700002b00000024010000000001000000000000008c270000000e000000000000a8f0d8b6",
        MARIADB,
    )
    assert isinstance(event, GtidListEvent)
    assert str(event.gtid_set) == "0-10124-3584"
    assert event.flags == 0


def test_binlog_checkpoint() -> None:
    event = whole_event(
        "12ad265aa18427000027000000470100000000100000006d7973716c2d62696e2e303030303632",
        MARIADB,
        crc_bytes=0,
    )
    assert isinstance(event, BinlogCheckpointEvent)
    assert event.to_fields() == {"file": "mysql-bin.000062"}


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        ("eeb7155a10010000001f000000f20b000000006600000000000000093045a8", 102),
        ("17d0375a10d92700001f0000004a05000000006f000000000000004430aafc", 111),
    ],
)
def test_xid(text: str, xid: int) -> None:
    event = whole_event(text, MARIADB)
    assert isinstance(event, XidEvent)
    assert event.xid == xid


def test_stop() -> None:
    event = whole_event("3ab8155a030100000017000000090c000000004e99ee2c", MARIADB)
    assert isinstance(event, StopEvent)
    assert event.to_fields() == {}


@pytest.mark.parametrize(
    ("text", "name", "fields", "crc_bytes"),
    [
        (
            "b85f5a59a45d00000028000000210100000000010100000065575026635937462f3b332306bbda62",
            "START_ENCRYPTION_EVENT",
            {"scheme": 1, "key_version": 1, "nonce": "65575026635937462f3b3323"},
            4,
        ),
        (
            "78ed1c5b0501000000200000000203000000000101000000000000002d3fa2f5",
            "INTVAR_EVENT",
            {"kind": 1, "value": 1, "variable": "LAST_INSERT_ID"},
            4,
        ),
        (
            "c3e01c5b0e010000002b0000002a020000000003000000666f6f000021000000030000006261726b3dd97d",
            "USER_VAR_EVENT",
            {
                "collation_id": 33,
                "variable": "foo",
                "type": "STRING",
                "value": "bar",
                "unsigned": None,
                "data_type": None,
            },
            4,
        ),
        (
            "c0e6275a0d8427000023000000a80100000000b5abd6280000000041233b2d00000000",
            "RAND_EVENT",
            {"seed1": 685157301, "seed2": 758850369},
            0,
        ),
    ],
)
def test_context_of_statements(
    text: str, name: str, fields: dict[str, object], crc_bytes: int
) -> None:
    event = whole_event(text, MARIADB, crc_bytes=crc_bytes)
    assert (event.name, event.to_fields()) == (name, fields)
    fmt = MARIADB if crc_bytes else None
    assert encode_event(event, fmt).hex() == text


def test_heartbeats() -> None:
    event = whole_event(
        "000000001b672b000022000000ed0100002000666f6f2d62696e2e31303030313339",
        MARIADB,
        crc_bytes=0,
    )
    assert isinstance(event, HeartbeatEvent)
    assert (event.position, event.file) == (493, "foo-bin.1000139")
    event = whole_event(
        "000000001bd9270000270000007904000000006d7973716c2d62696e2e303030303334edefe1f0", MARIADB
    )
    assert isinstance(event, HeartbeatEvent)
    assert (event.position, event.file) == (0x479, "mysql-bin.000034")


def test_rotate() -> None:
    event = whole_event(
        "bc4e215a04d92700002f000000c0010000000004000000000000006d7973716c2d62696e2e303030303139"
        "b2bcdbbf",
        MARIADB,
    )
    assert isinstance(event, RotateEvent)
    assert event.to_fields() == {"position": 4, "next_file": "mysql-bin.000019"}


def test_format_description_in_base64() -> None:
    data = base64.b64decode(
        "pIWeWQ+MJwAA9QAAAPkAAAAAAAQAMTAuMS4yNC1NYXJpYURCAGxvZwAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAACkhZ5ZEzgNAAgAEgAEBAQEEgAA3QAEGggAAAAICAgCAAAACgoKAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAEEwQAAatbouA="
    )
    event = decode_event(frame_at(data), data[HEADER.size :], None)
    assert isinstance(event, FormatDescriptionEvent)
    fmt = event.format()
    assert (fmt.server_version, fmt.version, fmt.flavour) == (
        "10.1.24-MariaDB",
        (10, 1, 24),
        "mariadb",
    )
    assert (fmt.checksum_alg, fmt.checksum_bytes, fmt.header_length) == (1, 4, 19)
    assert len(fmt.post_header_lengths) == 164
    assert event.checksum == 0xE0A25BAB
    assert event.created == 0x599E85A4


def test_mariadb_gtids() -> None:
    ddl = whole_event(
        "ebcc265aa28c2700002a0000001702000008009b2600000000000000000000290000000000008e669a30",
        MARIADB,
    )
    assert isinstance(ddl, MariadbGtidEvent)
    assert ddl.gtid == "0-10124-9883"
    assert ddl.to_fields()["flags"] == ["STANDALONE", "ALLOW_PARALLEL", "DDL"]
    transaction = whole_event(
        "ecd5265aa28c2700002a0000008c02000008009c26000000000000000000000c00000000000037d3c823",
        MARIADB,
    )
    assert isinstance(transaction, MariadbGtidEvent)
    assert transaction.gtid == "0-10124-9884"
    assert transaction.to_fields()["flags"] == ["TRANSACTIONAL", "ALLOW_PARALLEL"]
    assert transaction.commit_id is None


def test_mariadb_table_map_as_mended_by_its_checksum() -> None:
    published = (
        "d4e5275a138c2700002d0000007c030000000021000000000001000474657374000274340001030101056b3cbe"
    )
    event = whole_event(published.replace("0274340001030101", "0274340001030001"), MARIADB)
    assert isinstance(event, TableMapEvent)
    assert (event.table_id, event.database, event.table) == (33, "test", "t4")
    data = bytes.fromhex(published)
    with pytest.raises(FormatError):
        decode_event(frame_at(data), data[HEADER.size : -4], MARIADB)


def test_mariadb_rows_with_their_table_map() -> None:
    table_map = whole_event(
        "db291e5b13010000003e00000090060000000017000000000001000474657374000962756c6b5f6e756c6c00"
        "050f030513f6061400080003011f56d42e0f",
        MARIADB,
    )
    assert isinstance(table_map, TableMapEvent)
    definition = table_map.definition()
    assert definition.full_name == "test.bulk_null"
    assert [(c.type_code, c.length, c.precision, c.decimals) for c in definition.columns] == [
        (15, 20, 0, 0),  # VARCHAR of 20 bytes
        (3, 4, 0, 0),
        (5, 8, 0, 0),
        (19, 0, 0, 0),  # TIME2, no fractional digits
        (246, 0, 3, 1),
    ]
    assert [c.nullable for c in definition.columns] == [True] * 5
    assert definition.name_source == "none"
    rows = whole_event(
        "db291e5b17010000004a000000da0600000000170000000000010005ffe0013303000000000000000000084080"
        "00008300ffe001330300000000000000000008408000008300fba81554",
        MARIADB,
    )
    assert isinstance(rows, RowsEvent)
    assert (rows.table_id, rows.width, rows.operation) == (23, 5, "insert")
    assert rows.columns == [0, 1, 2, 3, 4]
    assert rows.is_statement_end
    one_row = bytes.fromhex("e0 0133 03000000 0000000000000840 800000 8300")
    # the second row is preceded by 0xFF: the NULL bitmap of a row of NULLs
    assert bytes(rows.rows) == one_row + b"\xff" + one_row


@pytest.mark.parametrize(
    ("text", "database", "exec_time", "sql"),
    [
        (
            QUERY_WITHOUT_DATABASE,
            "",
            0,
            "TRUNCATE TABLE test.t4",
        ),
        (
            QUERY_WITH_DATABASE,
            "test",
            1,
            "TRUNCATE TABLE t4",
        ),
    ],
)
def test_mariadb_queries(text: str, database: str, exec_time: int, sql: str) -> None:
    event = whole_event(text, MARIADB)
    assert isinstance(event, QueryEvent)
    assert (event.thread_id, event.exec_time, event.error_code) == (358, exec_time, 0)
    assert (event.database, event.sql) == (database, sql)
    assert event.to_fields()["status"] == {
        "flags2": [],
        "sql_mode": ["NO_AUTO_CREATE_USER", "NO_ENGINE_SUBSTITUTION"],
        "catalog": "std",
        "charset": {"client": 8, "connection": 8, "server": 8},
    }


def test_first_events_of_a_mariadb_stream() -> None:
    rotate = whole_event(STREAM_ROTATE, None)
    assert isinstance(rotate, RotateEvent)
    assert (rotate.frame.timestamp, rotate.frame.log_pos, rotate.frame.flags) == (0, 0, 0x20)
    assert rotate.next_file == "mysql-bin.000034"
    data = bytes.fromhex(STREAM_FORMAT)
    assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    fmt = event_format(frame_at(data), data[HEADER.size :])
    assert (fmt.version, fmt.checksum_alg, len(fmt.post_header_lengths)) == ((10, 2, 10), 1, 171)
    state = whole_event(
        "fbcc375aa3d92700003b0000003b01000000000200000000000000010000001e0000000000000000000000d927"
        "00008626000000000000b6338a22",
        fmt,
    )
    assert isinstance(state, GtidListEvent)
    assert str(state.gtid_set) == "0-1-30,0-10201-9862"
    checkpoint = whole_event(
        "fbcc375aa1d92700002b000000660100000000100000006d7973716c2d62696e2e303030303334161ffe3f",
        fmt,
    )
    assert isinstance(checkpoint, BinlogCheckpointEvent)
    fake = whole_event(
        "00000000a3d92700002b0000003406000020000100000000000000d92700008c260000000000004a019422",
        fmt,
    )
    assert isinstance(fake, GtidListEvent)
    assert str(fake.gtid_set) == "0-10201-9868"
    gtid = whole_event(
        "94fd385aa2d92700002a0000005e06000008008d2600000000000000000000290000000000002287c061", fmt
    )
    assert isinstance(gtid, MariadbGtidEvent)
    assert gtid.gtid == "0-10201-9869"
    query = whole_event(
        "94fd385a02d92700004b000000a9060000000021000000000000000000001a0000000000000100002054000000"
        "0006037374640408000800080000666c757368207461626c65736ec88960",
        fmt,
    )
    assert isinstance(query, QueryEvent)
    assert query.sql == "flush tables"


# --- MySQL's examples: bodies ---------------------------------------------------------------


def test_mysql_format_description() -> None:
    body = bytes.fromhex(
        "0400"
        + b"5.6.34-log".hex()
        + "00" * 40
        + "00000000"
        + "13"
        + "380d0008001200040404041200005c00041a08000000080808020000000a0a0a191900"
        + "01"
        + "2eef23e2"
    )
    event = event_of(types.FORMAT_DESCRIPTION_EVENT, body, None)
    assert isinstance(event, FormatDescriptionEvent)
    fmt = event.format()
    assert (fmt.server_version, fmt.flavour, fmt.checksum_bytes) == ("5.6.34-log", "mysql", 4)
    assert len(fmt.post_header_lengths) == 35
    assert fmt.post_header_length(types.WRITE_ROWS_EVENT) == 10
    assert event.checksum == 0xE223EF2E


def test_mysql_rotate() -> None:
    event = event_of(types.ROTATE_EVENT, b"\x04" + bytes(7) + b"mysql-bin.000002")
    assert isinstance(event, RotateEvent)
    assert (event.position, event.next_file) == (4, "mysql-bin.000002")


def test_mysql_query() -> None:
    body = bytes.fromhex(
        "a49f0100 00000000 08 0000 2a00"
        "0000000000"
        "010000204000000000"
        "0603737464"
        "0302000200"
        "04 2100 2100 5300"
        "0c 01 67616e677368656e00"
        "67616e677368656e00"
        "696e7365727420696e746f20746573743128606e616d6560292076616c75657328276265696a696e672729"
    )
    event = event_of(types.QUERY_EVENT, body)
    assert isinstance(event, QueryEvent)
    assert (event.thread_id, event.database) == (106404, "gangshen")
    assert event.sql == "insert into test1(`name`) values('beijing')"
    assert event.to_fields()["status"] == {
        "flags2": [],
        "sql_mode": ["STRICT_TRANS_TABLES", "NO_ENGINE_SUBSTITUTION"],
        "catalog": "std",
        "auto_increment": {"increment": 2, "offset": 2},
        "charset": {"client": 33, "connection": 33, "server": 83},
        "updated_db_names": ["gangshen"],
    }


def test_mysql_rows_query() -> None:
    sql = b"insert into test1(`name`) values('rows_query')"
    event = event_of(types.ROWS_QUERY_LOG_EVENT, b"\x2e" + sql)
    assert isinstance(event, RowsQueryEvent)
    assert event.query == sql.decode()


def test_mysql_table_map() -> None:
    body = bytes.fromhex("6c0000000000 0100 0867616e677368656e00 05746573743100 02 030f 02 1400 02")
    event = event_of(types.TABLE_MAP_EVENT, body)
    assert isinstance(event, TableMapEvent)
    definition = event.definition()
    assert (event.table_id, definition.full_name) == (108, "gangshen.test1")
    assert [c.length for c in definition.columns] == [4, 20]
    assert [c.nullable for c in definition.columns] == [False, True]


ROW = "01 0b00 6f0000 57040000 672b000000000000 01"
CHANGED = "01 1600 de0000 57040000 672b000000000000 01"


@pytest.mark.parametrize(
    ("code", "bitmaps", "rows"),
    [
        (types.WRITE_ROWS_EVENT, "ff", f"c0 {ROW}"),
        (types.UPDATE_ROWS_EVENT, "ffff", f"c0 {ROW} c0 {CHANGED}"),
        (types.DELETE_ROWS_EVENT, "ff", f"c0 {CHANGED}"),
    ],
)
def test_mysql_rows(code: int, bitmaps: str, rows: str) -> None:
    event = event_of(code, bytes.fromhex(f"640000000000 0100 0200 06 {bitmaps} {rows}"))
    assert isinstance(event, RowsEvent)
    assert (event.table_id, event.width, event.extra_raw) == (100, 6, b"")
    assert event.columns == [0, 1, 2, 3, 4, 5]
    assert event.columns_after == ([0, 1, 2, 3, 4, 5] if len(bitmaps) == 4 else None)
    assert bytes(event.rows) == bytes.fromhex(rows)


def test_mysql_xid() -> None:
    event = event_of(types.XID_EVENT, bytes.fromhex("8a0a000000000000"))
    assert isinstance(event, XidEvent)
    assert event.xid == 2698


def test_mysql_gtid_of_5_6() -> None:
    body = bytes.fromhex("0189fbcea2da6511e7a851fa163e618bac0500000000000000")
    event = event_of(types.GTID_LOG_EVENT, body)
    assert isinstance(event, GtidEvent)
    assert event.gtid == "89fbcea2-da65-11e7-a851-fa163e618bac:5"
    assert event.last_committed is None


def test_mysql_previous_gtids() -> None:
    event = event_of(
        types.PREVIOUS_GTIDS_LOG_EVENT,
        bytes.fromhex(
            "0200000000000000"
            "89fbcea2da6511e7a851fa163e618bac 0300000000000000"
            "0100000000000000 0600000000000000"
            "e703000000000000 e803000000000000"
            "1a04000000000000 1d04000000000000"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0200000000000000"
            "0100000000000000 0300000000000000"
            "0500000000000000 0800000000000000"
        ),
    )
    assert isinstance(event, PreviousGtidsEvent)
    assert event.to_fields() == {
        "gtids": "89fbcea2-da65-11e7-a851-fa163e618bac:1-5:999:1050-1052,"
        "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1-2:5-7"
    }
