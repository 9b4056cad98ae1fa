"""The meaning of the fields of the sample events, family by family."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from binlake.errors import MalformedError, TruncatedError, UnsupportedError
from binlake.events.common.format_description import (
    FormatDescriptionEvent,
    effective_type,
)
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.raw import RawEvent
from binlake.events.registry import EVENT_CLASSES, decode_event, event_format
from binlake.format import event_types as types
from binlake.values.frame import Frame
from support.logs.event_bytes import MARIADB, MYSQL, event_of
from support.logs.event_samples import (
    FORMAT_BODY,
    SAMPLES,
    SID,
    SQL,
    UUID,
    query,
    tagged,
    u,
    varlen,
)
from support.logs.sample_events import sample


@pytest.mark.parametrize("name", SAMPLES)
def test_fields_are_json_and_the_name_is_the_servers(name: str) -> None:
    event = sample(name)
    assert json.loads(json.dumps(event.to_fields())) == event.to_fields()
    assert event.name == types.event_name(SAMPLES[name][0])


def test_every_type_that_was_ever_written_has_a_class() -> None:
    assert set(types.EVENT_TYPES) - set(EVENT_CLASSES) == {types.UNKNOWN_EVENT, types.SLAVE_EVENT}


def test_every_type_decodes_as_something() -> None:
    for code in types.EVENT_TYPES:
        if code not in EVENT_CLASSES:
            event = event_of(code, b"body")
            assert isinstance(event, RawEvent)
            assert (event.name, event.body) == (types.event_name(code), b"body")
    assert event_of(200, b"body").name == "UNKNOWN_EVENT_200"


# --- FORMAT_DESCRIPTION ---------------------------------------------------------------------


def format_body(version: str, *, tail: bytes, lengths: bytes = bytes(26)) -> bytes:
    return u(4, 2) + version.encode().ljust(50, b"\x00") + u(0, 4) + b"\x13" + lengths + tail


@pytest.mark.parametrize(
    ("version", "numbers", "flavour", "has_checksum"),
    [
        ("5.0.96-log", (5, 0, 96), "mysql", False),
        ("5.6.0-m4", (5, 6, 0), "mysql", False),
        ("5.6.1", (5, 6, 1), "mysql", True),
        ("5.6-m8", (5, 6, 0), "mysql", False),
        ("9.7.4", (9, 7, 4), "mysql", True),
        ("5.2.14-MariaDB", (5, 2, 14), "mariadb", False),
        ("5.3.0-MariaDB", (5, 3, 0), "mariadb", True),
        ("5.3.12-maria-beta", (5, 3, 12), "mariadb", True),
        ("11.8.6-MariaDB-log", (11, 8, 6), "mariadb", True),
        ("5.300.1", (0, 0, 0), "mysql", False),
        ("weird", (0, 0, 0), "mysql", False),
    ],
)
def test_checksum_byte_by_version(
    version: str, numbers: tuple[int, int, int], flavour: str, has_checksum: bool
) -> None:
    body = format_body(version, tail=b"\x01" + u(77, 4) if has_checksum else b"")
    frame = Frame(4, types.FORMAT_DESCRIPTION_EVENT, 19 + len(body), 0, 1, 0, 0)
    fmt = event_format(frame, body)
    assert (fmt.version, fmt.flavour) == (numbers, flavour)
    assert fmt.post_header_lengths == bytes(26)
    assert fmt.checksum_alg == (1 if has_checksum else None)
    assert fmt.checksum_bytes == (4 if has_checksum else 0)


def test_checksum_off_still_has_its_own_crc() -> None:
    body = format_body("5.6.4", tail=b"\x00" + u(77, 4))
    frame = Frame(4, types.FORMAT_DESCRIPTION_EVENT, 19 + len(body), 0, 1, 0, 0)
    event = decode_event(frame, body, None)
    assert isinstance(event, FormatDescriptionEvent)
    assert event.checksum == 77
    assert (event.format().checksum_alg, event.format().checksum_bytes) == (0, 0)


def test_body_with_and_without_its_crc_give_one_format() -> None:
    frame = Frame(4, types.FORMAT_DESCRIPTION_EVENT, 19 + len(FORMAT_BODY) + 4, 0, 1, 0, 0)
    assert event_format(frame, FORMAT_BODY + u(77, 4)) == event_format(frame, FORMAT_BODY)


@pytest.mark.parametrize(
    ("at", "value", "error"),
    [
        (0, 3, UnsupportedError),  # binlog version
        (56, 18, MalformedError),  # header length
        (len(FORMAT_BODY) - 1, 2, UnsupportedError),  # checksum algorithm
    ],
)
def test_bad_format(at: int, value: int, error: type[Exception]) -> None:
    body = bytearray(FORMAT_BODY)
    body[at] = value
    with pytest.raises(error):
        event_of(types.FORMAT_DESCRIPTION_EVENT, bytes(body))


def test_event_format_wants_a_format_description() -> None:
    with pytest.raises(MalformedError, match="FORMAT_DESCRIPTION"):
        event_format(Frame(4, types.STOP_EVENT, 19, 0, 1, 0, 0), b"")


def test_permuted_numbers_of_an_alpha() -> None:
    lengths = bytes.fromhex("380d0008001200040404041200004f0606060600041a")
    fmt = replace(MYSQL, server_version="5.2.2-a_drop6p13", post_header_lengths=lengths)
    assert fmt.has_permuted_types
    assert not MYSQL.has_permuted_types
    assert effective_type(16, fmt) == types.TABLE_MAP_EVENT
    assert effective_type(16, MYSQL) == types.XID_EVENT
    # the real bytes of such a log: 4-byte table ids, no column metadata
    table_map = event_of(16, bytes.fromhex("000000000000047465737400027431000203fe"), fmt)
    assert isinstance(table_map, TableMapEvent)
    assert (table_map.name, table_map.database) == ("TABLE_MAP_EVENT", "test")
    assert table_map.to_fields()["columns"] == [
        {"type": "MYSQL_TYPE_LONG"},
        {"type": "MYSQL_TYPE_STRING"},
    ]
    with pytest.raises(UnsupportedError, match=r"test\.t1"):
        table_map.definition()
    rows = event_of(18, bytes.fromhex("00000000010002fff900000000036f6e65f901000000036f6e65"), fmt)
    assert isinstance(rows, RowsEvent)
    assert rows.operation == "update"
    assert rows.columns_after is None
    assert event_of(20, u(42, 8), fmt).to_fields() == {"xid": 42}


# --- GTIDs ----------------------------------------------------------------------------------


def test_gtid_fields_by_version() -> None:
    _, body, _ = SAMPLES["gtid"]
    full = sample("gtid")
    assert isinstance(full, GtidEvent)
    assert full.gtid == f"{UUID}:5"
    assert full.commit_group_ticket == 99
    for length, last_present in [
        (25, "gno"),
        (42, "sequence_number"),
        (56, "original_commit_us"),
        (59, "transaction_length"),
        (67, "original_server_version"),
        (75, "commit_group_ticket"),
    ]:
        event = event_of(types.GTID_LOG_EVENT, body[:length])
        fields = event.to_fields()
        names = [name for name in fields if name != "gtid"]
        absent = names[names.index(last_present) + 1 :]
        assert [fields[name] for name in absent if name != "tag"] == [
            None for name in absent if name != "tag"
        ]
        assert fields[last_present] is not None


def test_gtid_without_own_original_values() -> None:
    body = SAMPLES["gtid"][1][:42] + u(1_700_000_000_123_456, 7) + b"\x50" + u(80046, 4)
    event = event_of(types.GTID_LOG_EVENT, body)
    assert isinstance(event, GtidEvent)
    assert event.original_commit_us == event.immediate_commit_us == 1_700_000_000_123_456
    assert event.original_server_version == event.immediate_server_version == 80046
    assert event.transaction_length == 80


def test_anonymous_has_no_gtid() -> None:
    event = sample("anonymous")
    assert isinstance(event, GtidEvent)
    assert event.gtid is None
    assert (event.last_committed, event.sequence_number) == (1, 2)


def test_tagged_gtid() -> None:
    event = sample("gtid_tagged")
    assert isinstance(event, GtidEvent)
    assert event.gtid == f"{UUID}:abc:5"
    assert event.sid == SID
    assert (event.last_committed, event.sequence_number) == (7, 8)
    assert event.original_commit_us == event.immediate_commit_us == 1_700_000_000_123_456
    assert event.commit_group_ticket is None


def test_tagged_gtid_of_a_newer_server() -> None:
    later = (20, varlen(1))
    event = event_of(types.GTID_TAGGED_LOG_EVENT, tagged(0, (0, varlen(1)), later))
    assert isinstance(event, GtidEvent)
    assert event.flags == 1
    with pytest.raises(UnsupportedError):
        event_of(types.GTID_TAGGED_LOG_EVENT, tagged(21, (0, varlen(1)), later))


@pytest.mark.parametrize("value", [0, 127, 128, (1 << 56) - 1, 1 << 56, (1 << 64) - 1])
def test_tagged_numbers_of_every_width(value: int) -> None:
    event = event_of(types.GTID_TAGGED_LOG_EVENT, tagged(0, (6, varlen(value))))
    assert isinstance(event, GtidEvent)
    assert event.immediate_commit_us == value


def test_mariadb_gtid() -> None:
    event = sample("gtid_mariadb")
    assert isinstance(event, MariadbGtidEvent)
    assert event.gtid == "1-7-9"
    assert event.commit_id == 100
    assert event.xid == "X'6774',X'62',1"
    assert (event.extra_engines, event.start_alter_seq_no, event.thread_id) == (2, 8, 55)


def test_gtid_sets() -> None:
    assert sample("previous_gtids").to_fields() == {"gtids": f"{UUID}:1-5:abc:1:5-8"}
    assert sample("gtid_list").to_fields() == {
        "flags": ["IGN_GTIDS"],
        "gtids": "0-1-9,0-2-1099511627776",
    }
    with pytest.raises(TruncatedError):
        event_of(types.GTID_LIST_EVENT, u((1 << 28) - 1, 4) + bytes(16), MARIADB)


# --- statements -----------------------------------------------------------------------------


def test_status_variables() -> None:
    event = sample("query")
    assert isinstance(event, QueryEvent)
    fields = event.to_fields()
    assert fields["status"] == {
        "flags2": ["OPTION_AUTO_IS_NULL", "OPTION_RELAXED_UNIQUE_CHECKS"],
        "sql_mode": ["STRICT_ALL_TABLES", "INTERPRET_UTF8_AS_UTF8MB4"],
        "catalog": "std",
        "auto_increment": {"increment": 2, "offset": 1},
        "charset": {"client": 8, "connection": 33, "server": 255},
        "time_zone": "SYSTEM",
        "lc_time_names": 5,
        "charset_database": 45,
        "table_map_for_update": 3,
        "master_data_written": 77,
        "invoker": {"user": "root", "host": "localhost"},
        "updated_db_names": ["shop", "crm"],
        "microseconds": 123456,
        "explicit_defaults_for_timestamp": 1,
        "ddl_logged_with_xid": 42,
        "default_collation_for_utf8mb4": 255,
        "sql_require_primary_key": 1,
        "default_table_encryption": 0,
        "enable_cascade_triggers": 1,
    }
    assert fields["status_unknown"] == ""
    assert event.microseconds == 123456
    assert (event.thread_id, event.exec_time, event.error_code) == (12, 3, 1062)


def test_mariadb_status_variables() -> None:
    event = sample("query_mariadb")
    assert isinstance(event, QueryEvent)
    assert event.microseconds == 654321
    assert event.status_values["xid"] == 43
    assert event.status_values["gtid_flags3"] == {"flags": 4, "start_alter_seq_no": 17}
    assert event.status_values["character_set_collations"] == [{"charset": 45, "collation": 2304}]


def test_unknown_status_variable_ends_the_status_not_the_event() -> None:
    event = event_of(types.QUERY_EVENT, query(b"\x07" + u(5, 2) + b"\x63abc", b"shop", b"SELECT 1"))
    assert isinstance(event, QueryEvent)
    assert event.status_values == {"lc_time_names": 5}
    assert event.status_unknown == b"\x63abc"
    assert event.sql == "SELECT 1"


def test_too_many_databases_to_name() -> None:
    event = event_of(types.QUERY_EVENT, query(b"\x0c\xfe" + b"\x07" + u(5, 2), b"", b"x"))
    assert isinstance(event, QueryEvent)
    assert event.status_values == {"updated_db_names": None, "lc_time_names": 5}


@pytest.mark.parametrize(
    ("collation", "raw", "text"),
    [
        (8, b"caf\xe9", "café"),  # latin1
        (33, "café".encode(), "café"),
        (13, b"\x93\xfa\x96{", "日本"),  # sjis
        (33, b"caf\xe9", "0x636166e9"),  # not what the client said
        (63, b"abc", "abc"),
        (9999, b"abc", "abc"),
    ],
)
def test_sql_in_the_clients_character_set(collation: int, raw: bytes, text: str) -> None:
    status = b"\x04" + u(collation, 2) + u(45, 2) + u(45, 2)
    event = event_of(types.QUERY_EVENT, query(status, b"", raw))
    assert isinstance(event, QueryEvent)
    assert event.sql == text
    assert event.sql_raw == raw


def test_compressed_query() -> None:
    event = sample("query_compressed")
    assert isinstance(event, QueryEvent)
    assert event.sql_raw == SQL
    assert event.name == "QUERY_COMPRESSED_EVENT"


def test_longer_post_header_is_skipped() -> None:
    longer = replace(MYSQL, post_header_lengths=b"\x00\x0f")
    body = query(b"", b"shop", b"SELECT 1")
    event = event_of(types.QUERY_EVENT, body[:13] + b"??" + body[13:], longer)
    assert isinstance(event, QueryEvent)
    assert (event.database, event.sql) == ("shop", "SELECT 1")


def test_xa_prepare() -> None:
    event = sample("xa_prepare")
    assert isinstance(event, XaPrepareEvent)
    assert not event.one_phase
    assert event.xid == "X'6f6e65',X'6271',7"


# --- rows -----------------------------------------------------------------------------------


# --- payload --------------------------------------------------------------------------------
