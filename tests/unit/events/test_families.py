"""What the fields of the sample events mean, family by family.

Long: one sample and its bytes for every family of events.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import zstandard

from binlake.errors import MalformedError, TruncatedError, UnsupportedError
from binlake.events.base import Event
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
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.events.raw import RawEvent
from binlake.events.registry import EVENT_CLASSES, decode_event, event_format
from binlake.format import event_types as types
from binlake.values.frame import Frame
from support.logs.event_bytes import MARIADB, MYSQL, event_of
from support.logs.event_samples import (
    FORMAT_BODY,
    PAYLOAD,
    PAYLOAD_PLAIN,
    SAMPLES,
    SID,
    SQL,
    TABLE_MAP,
    TABLE_METADATA,
    TABLE_OPTIONAL,
    UUID,
    query,
    tagged,
    u,
    varlen,
)


def sample(name: str) -> Event:
    return event_of(*SAMPLES[name])


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


def test_table_map() -> None:
    event = sample("table_map")
    assert isinstance(event, TableMapEvent)
    definition = event.definition()
    assert definition.full_name == "shop.orders"
    assert (definition.primary_key, definition.key_prefixes) == ((1, 0), (5, 0))
    assert definition.name_source == "metadata"
    columns = definition.columns
    assert [c.name for c in columns] == [f"c{i:x}" for i in range(12)]
    assert [c.type_code for c in columns] == [3, 15, 247, 248, 254, 246, 16, 18, 255, 245, 242, 13]
    assert [c.length for c in columns] == [4, 40, 1, 1, 1021, 0, 10, 0, 4, 4, 4, 1]
    assert [(c.precision, c.decimals) for c in columns if c.precision or c.decimals] == [
        (10, 2),
        (0, 3),
    ]
    assert {c.name: c.unsigned for c in columns if c.unsigned is not None} == {
        "c0": True,
        "c5": False,
        "cb": True,
    }
    # VECTOR counts among MySQL's character columns, JSON and GEOMETRY do not
    assert {c.name: c.collation_id for c in columns if c.collation_id is not None} == {
        "c1": 45,
        "c2": 45,
        "c3": 8,
        "c4": 63,
        "ca": 45,
    }
    assert [c.members for c in columns if c.members] == [("x", "y"), ("äb",)]
    assert (columns[8].geometry_type, columns[10].dimensionality) == (1, 3)
    assert [c.name for c in columns if not c.visible] == ["c1"]
    assert [c.name for c in columns if not c.nullable] == ["c0"]
    assert event.description.optional.unknown == ((0x63, b"\xab\xcd"),)
    assert event.to_fields()["primary_key"] == ["c1", "c0"]


def test_table_described_again_differs_in_id_and_flags_only() -> None:
    first = sample("table_map")
    second = event_of(types.TABLE_MAP_EVENT, u(5, 6) + u(0x4000, 2) + TABLE_MAP[8:])
    assert isinstance(first, TableMapEvent)
    assert isinstance(second, TableMapEvent)
    assert first.description is second.description
    assert (second.table_id, second.definition().flags) == (5, 0x4000)
    assert first.definition().flags == 1
    assert replace(second.definition(), flags=1) == first.definition()
    # the same bytes mean something else to the other flavour
    other = event_of(types.TABLE_MAP_EVENT, TABLE_MAP, MARIADB)
    assert isinstance(other, TableMapEvent)
    assert other.description is not first.description


def test_mariadb_counts_a_geometry_among_the_character_columns() -> None:
    types_and_metadata = b"\x02\xff\x0f\x03\x04\x28\x00\x00"
    body = TABLE_MAP[:8] + b"\x01d\x00\x01t\x00" + types_and_metadata + b"\x03\x02\x3f\x08"
    event = event_of(types.TABLE_MAP_EVENT, body, MARIADB)
    assert isinstance(event, TableMapEvent)
    assert [c.collation_id for c in event.definition().columns] == [63, 8]
    wrong = event_of(types.TABLE_MAP_EVENT, body, MYSQL)
    assert isinstance(wrong, TableMapEvent)
    with pytest.raises(MalformedError, match="2 entries for 1 columns"):
        wrong.definition()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"\x01\x01", b"\xa0\x00"),  # more sign bits than numeric columns
        (b"\x0c\x02", b"\xbf"),
        (b"\x07\x01", b""),
    ],
)
def test_fields_that_do_not_fit_the_columns(field: bytes, value: bytes) -> None:
    start = TABLE_OPTIONAL.index(field)
    changed = (
        TABLE_OPTIONAL[:start]
        + bytes((field[0], len(value)))
        + value
        + TABLE_OPTIONAL[start + 2 + field[1] :]
    )
    event = event_of(types.TABLE_MAP_EVENT, TABLE_MAP.replace(TABLE_OPTIONAL, changed))
    assert isinstance(event, TableMapEvent)
    with pytest.raises(MalformedError) as caught:
        event.definition()
    assert caught.value.event_type == "TABLE_MAP_EVENT"


@pytest.mark.parametrize(
    ("column_type", "metadata"),
    [
        (246, "4103"),  # DECIMAL(65,3) is fine, see below; 66 digits are not
        (18, "07"),
        (252, "05"),
        (16, "0109"),
        (4, "08"),
        (254, "0010"),
    ],
)
def test_impossible_metadata(column_type: int, metadata: str) -> None:
    raw = bytes.fromhex(metadata)
    if column_type == 246:
        table_map_of(column_type, raw)
        raw = b"\x42\x03"
    with pytest.raises(MalformedError):
        table_map_of(column_type, raw)


def table_map_of(column_type: int, metadata: bytes) -> TableMapEvent:
    body = TABLE_MAP[:8] + b"\x01d\x00\x01t\x00\x01" + bytes((column_type, len(metadata)))
    event = event_of(types.TABLE_MAP_EVENT, body + metadata + b"\x00")
    assert isinstance(event, TableMapEvent)
    return event


def test_unknown_column_type() -> None:
    with pytest.raises(UnsupportedError, match="unknown type 100"):
        table_map_of(100, b"")


@pytest.mark.parametrize(
    ("metadata", "real", "length"),
    [
        ("fe0a", 254, 10),
        ("feff", 254, 255),
        ("ee00", 254, 256),
        ("cefd", 254, 1021),
        ("f702", 247, 2),
        ("f808", 248, 8),
    ],
)
def test_real_type_and_length_share_a_byte(metadata: str, real: int, length: int) -> None:
    column = table_map_of(254, bytes.fromhex(metadata)).definition().columns[0]
    assert (column.type_code, column.length) == (real, length)


def test_typed_array_has_its_elements_metadata() -> None:
    assert table_map_of(20, b"\x0f\x28\x00\x00").definition().columns[0].length == 4
    assert table_map_of(20, b"\x08").definition().columns[0].length == 4
    with pytest.raises(MalformedError):
        table_map_of(20, b"\x08\x00")


def test_table_metadata_must_end_with_the_last_column() -> None:
    longer = TABLE_MAP.replace(
        u(len(TABLE_METADATA), 1) + TABLE_METADATA,
        u(len(TABLE_METADATA) + 1, 1) + TABLE_METADATA + b"\x00",
    )
    with pytest.raises(MalformedError, match="last column"):
        event_of(types.TABLE_MAP_EVENT, longer)


def test_rows_v2_extra_data() -> None:
    event = sample("rows_v2")
    assert isinstance(event, RowsEvent)
    assert (event.partition_id, event.source_partition_id) == (3, 2)
    assert event.ndb == b"\x01ab"
    assert (event.columns, event.columns_after) == ([0, 1], [0])
    assert bytes(event.rows) == b"rows"


def test_unknown_extra_data_is_kept() -> None:
    body = u(23, 6) + u(0, 2) + u(5, 2) + b"\x07zz" + b"\x01\x01row"
    event = event_of(types.WRITE_ROWS_EVENT, body)
    assert isinstance(event, RowsEvent)
    assert event.extra_raw == b"\x07zz"
    assert (event.partition_id, event.ndb) == (None, None)


def test_rows_v1_and_v0() -> None:
    event = sample("rows_v1")
    assert isinstance(event, RowsEvent)
    assert event.columns_after == [0, 1, 2, 3]
    old = sample("rows_v0")
    assert isinstance(old, RowsEvent)
    assert (bytes(old.rows), old.present_after) == (b"rows", None)


def test_compressed_rows() -> None:
    event = sample("rows_compressed")
    assert isinstance(event, RowsEvent)
    assert bytes(event.inflate()) == bytes(500)
    plain = sample("rows_v1")
    assert isinstance(plain, RowsEvent)
    assert plain.inflate() is plain.rows


@pytest.mark.parametrize("table_id", [0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF])
def test_dummy_rows(table_id: int) -> None:
    event = event_of(types.WRITE_ROWS_EVENT_V1, u(table_id, 6) + u(1, 2) + b"\x00")
    assert isinstance(event, RowsEvent)
    assert event.is_dummy


# --- payload --------------------------------------------------------------------------------


def test_payload_of_two_frames() -> None:
    event = sample("payload")
    assert isinstance(event, TransactionPayloadEvent)
    assert b"".join(event.inflate()) == PAYLOAD_PLAIN
    assert event.to_fields()["compression"] == "ZSTD"
    assert event.uncompressed_size == len(PAYLOAD_PLAIN)


def test_payload_without_compression() -> None:
    event = event_of(types.TRANSACTION_PAYLOAD_EVENT, b"\x02\x03\xfc\xff\x00\x01\x01\x04\x00abcd")
    assert isinstance(event, TransactionPayloadEvent)
    assert b"".join(event.inflate()) == b"abcd"


def test_payload_of_an_unknown_compression() -> None:
    event = event_of(types.TRANSACTION_PAYLOAD_EVENT, b"\x02\x01\x05\x01\x01\x04\x00abcd")
    assert isinstance(event, TransactionPayloadEvent)
    with pytest.raises(UnsupportedError):
        b"".join(event.inflate())


def test_payload_size_beyond_the_event() -> None:
    with pytest.raises(TruncatedError):
        event_of(types.TRANSACTION_PAYLOAD_EVENT, PAYLOAD[:-1])


def zstd_payload(data: bytes) -> TransactionPayloadEvent:
    event = event_of(types.TRANSACTION_PAYLOAD_EVENT, b"\x02\x01\x00\x00" + data)
    assert isinstance(event, TransactionPayloadEvent)
    return event


def test_cut_zstd_frame_is_an_error() -> None:
    data = zstandard.compress(PAYLOAD_PLAIN)
    for cut in range(1, len(data)):
        with pytest.raises((TruncatedError, MalformedError)):
            b"".join(zstd_payload(data[:cut]).inflate())
    with pytest.raises(MalformedError):
        b"".join(zstd_payload(data + b"more").inflate())


def test_bomb_comes_in_small_pieces() -> None:
    compressor = zstandard.ZstdCompressor(level=19)
    data = compressor.compress(bytes(1 << 26))
    assert len(data) < 1 << 14
    sizes = [len(chunk) for chunk in zstd_payload(data).inflate()]
    assert sum(sizes) == 1 << 26
    assert max(sizes) <= 1 << 20


def test_window_is_bounded() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=21, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = stream.compress(bytes(1 << 22)) + stream.flush()
    assert len(b"".join(zstd_payload(data).inflate(1 << 21))) == 1 << 22
    with pytest.raises(MalformedError):
        b"".join(zstd_payload(data).inflate(1 << 20))
