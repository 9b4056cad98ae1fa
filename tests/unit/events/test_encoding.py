"""Events back to bytes: what was decoded, and what was made by hand."""

from __future__ import annotations

import zlib

import pytest

from binlake.core.events.inflate import inflate_event_data
from binlake.errors import BinlogError, MalformedError
from binlake.events.base import Event
from binlake.events.body.deflate import deflate_event_data
from binlake.events.body.encoding import encode_body, encode_event
from binlake.events.body.writer import BodyWriter, lenenc_bytes
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.xid import XidEvent
from binlake.events.registry import decode_event
from binlake.format import event_types as types
from binlake.values.frame import EventFormat, Frame
from support.logs.event_bytes import MYSQL, event_of, frame_at
from support.logs.event_samples import FORMAT_BODY, SAMPLES, SID, u
from support.logs.log_builder import IN_USE, event


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_the_same_again(name: str) -> None:
    code, body, fmt = SAMPLES[name]
    assert encode_body(event_of(code, body, fmt), fmt) == body


@pytest.mark.parametrize("name", SAMPLES)
def test_bytes_behind_the_last_field_are_kept(name: str) -> None:
    code, body, fmt = SAMPLES[name]
    padded = body + b"\x00\x00\xff"
    try:
        made = event_of(code, padded, fmt)
    except BinlogError:  # where the last field is one that ends with the event
        return
    assert encode_body(made, fmt) == padded


@pytest.mark.parametrize("flags", [0, IN_USE])
def test_whole_events_with_header_and_checksum(flags: int) -> None:
    for raw in (
        event(types.FORMAT_DESCRIPTION_EVENT, FORMAT_BODY, 4, flags=flags),
        event(types.XID_EVENT, u(7, 8), 4, flags=flags),
    ):
        again = decode_event(frame_at(raw), raw[19:-4], MYSQL)
        assert encode_event(again, MYSQL) == raw


def test_no_checksum_where_the_format_has_none() -> None:
    xid = XidEvent(Frame(4, types.XID_EVENT, 27, 1, 2, 31, 0), 9)
    assert encode_event(xid, None) == bytes.fromhex(
        "01000000 10 02000000 1b000000 1f000000 0000"
    ) + u(9, 8)


def test_a_header_longer_than_any_servers() -> None:
    raw = event(types.XID_EVENT, u(7, 8), 4, header_pad=4)
    made = decode_event(frame_at(raw), raw[23:-4], MYSQL)
    assert encode_event(made, MYSQL, bytes(4)) == raw


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65536, 1 << 24])
def test_compressed_data_inflates(size: int) -> None:
    plain = bytes(size)
    assert inflate_event_data(deflate_event_data(plain)) == plain


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (250, "fa"),
        (251, "fcfb00"),
        (65535, "fcffff"),
        (65536, "fd000001"),
        (1 << 24, "fe0000000100000000"),
    ],
)
def test_length_encoded_integers(value: int, raw: str) -> None:
    assert lenenc_bytes(value) == bytes.fromhex(raw)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_numbers_that_are_no_length_encoded_integers(value: int) -> None:
    with pytest.raises(MalformedError):
        lenenc_bytes(value)


def changed(name: str, **fields: object) -> tuple[Event, EventFormat | None]:
    code, body, fmt = SAMPLES[name]
    made = event_of(code, body, fmt)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, fmt


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("xid", "xid", 1 << 64),
        ("xid", "xid", -1),
        ("rotate", "position", 1 << 64),
        ("query", "database", "x" * 256),
        ("query", "status_items", ((12, (b"a\x00b",)),)),
        ("query", "status_items", ((12, tuple(b"a" * 1 for _ in range(254))),)),
        ("query_mariadb", "status_items", ((130, (4,)),)),
        ("gtid", "sid", SID[:15]),
        ("gtid", "gno", 1 << 63),
        ("gtid", "immediate_commit_us", 1 << 55),
        ("gtid_tagged", "tag", "x" * 33),
        ("gtid_tagged", "sid", SID[:15]),
        ("incident", "message_raw", b"x" * 256),
        ("format", "server_version_raw", b"9.7.4"),
        ("rows_v1", "present", b"\x01"),
    ],
)
def test_values_that_do_not_fit_the_format_are_rejected(
    name: str, field: str, value: object
) -> None:
    made, fmt = changed(name, **{field: value})
    with pytest.raises(MalformedError) as caught:
        encode_event(made, fmt)
    assert (caught.value.event_pos, caught.value.event_type) == (4, made.name)
    assert caught.value.field


def test_a_header_that_does_not_fit() -> None:
    xid = XidEvent(Frame(4, types.XID_EVENT, 27, -1, 2, 31, 0), 9)
    with pytest.raises(MalformedError, match="header"):
        encode_event(xid, MYSQL)


def test_changed_fields_are_written() -> None:
    made, fmt = changed("rotate", next_file_raw=b"binlog.000077")
    again = decode_event(made.frame, encode_body(made, fmt), fmt)
    assert isinstance(again, RotateEvent)
    assert again.next_file == "binlog.000077"
    made, fmt = changed("query", sql_raw=b"SELECT 1")
    again = decode_event(made.frame, encode_body(made, fmt), fmt)
    assert isinstance(again, QueryEvent)
    assert (again.sql, again.database) == ("SELECT 1", "shop")


def test_the_checksum_of_a_format_description_is_made_without_the_flag_in_use() -> None:
    raw = event(types.FORMAT_DESCRIPTION_EVENT, FORMAT_BODY, 4)
    made = decode_event(frame_at(raw), raw[19:], None)
    assert isinstance(made, FormatDescriptionEvent)
    made.frame = made.frame._replace(flags=IN_USE)
    again = encode_event(made, None)
    assert again[-4:] == raw[-4:]
    assert zlib.crc32(again[:-4]) != int.from_bytes(again[-4:], "little")


def test_a_writer_takes_no_more_than_a_field_has() -> None:
    with pytest.raises(MalformedError) as caught:
        BodyWriter().u16("microseconds", 1 << 16)
    assert caught.value.field == "microseconds"
