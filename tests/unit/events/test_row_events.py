"""Rows events, table maps and payloads: their fields, and what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import zstandard

from binlake.errors import MalformedError, TruncatedError, UnsupportedError
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.format import event_types as types
from support.logs.event_bytes import MARIADB, MYSQL, event_of
from support.logs.event_samples import (
    PAYLOAD,
    PAYLOAD_PLAIN,
    TABLE_MAP,
    TABLE_METADATA,
    TABLE_OPTIONAL,
    u,
)
from support.logs.sample_events import sample


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
    assert event.description.columns.optional.unknown == ((0x63, b"\xab\xcd"),)
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
