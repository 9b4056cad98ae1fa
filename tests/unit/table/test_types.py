"""Every column type family: wire bytes through its kernel to Arrow and to JSON.

The values are those that real servers show for these bytes (corpus oracles).
"""

from __future__ import annotations

import json
import struct
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import MalformedError, OptionError, UnsupportedError
from binlake.format import column_types as ct
from binlake.table.types.base import ByteValues, Target
from binlake.values.options import ReadOptions
from support.values.column_types import array_of, json_texts, kind_of

UTF8MB4, LATIN1, UTF8MB3, GBK, SWE7, BINARY = 45, 8, 33, 28, 10, 63


_kind, _array = kind_of, array_of


def _typed(code: int, *values: bytes, **column: Any) -> tuple[pa.DataType, list[Any]]:
    kind, _ = _kind(Target.TYPED, code, **column)
    made = _array(kind, *values)
    return made.type, made.to_pylist()


def _json(
    code: int, *values: bytes, options: ReadOptions | None = None, **column: Any
) -> list[Any]:
    kind, _ = _kind(Target.TEXT, code, options, **column)
    return [json.loads(text) for text in json_texts(kind, _array(kind, *values))]


@pytest.mark.parametrize(
    ("code", "width", "signed", "unsigned"),
    [
        (ct.MYSQL_TYPE_TINY, 1, pa.int8(), pa.int16()),
        (ct.MYSQL_TYPE_SHORT, 2, pa.int16(), pa.int32()),
        (ct.MYSQL_TYPE_INT24, 3, pa.int32(), pa.int32()),
        (ct.MYSQL_TYPE_LONG, 4, pa.int32(), pa.int64()),
        (ct.MYSQL_TYPE_LONGLONG, 8, pa.int64(), pa.decimal128(20, 0)),
    ],
)
def test_integers(code: int, width: int, signed: pa.DataType, unsigned: pa.DataType) -> None:
    low, high = -(1 << width * 8 - 1), (1 << width * 8 - 1) - 1
    wire = [n.to_bytes(width, "little", signed=True) for n in (low, -1, 0, high)]
    assert _typed(code, *wire, unsigned=False) == (signed, [low, -1, 0, high])
    assert _json(code, *wire, unsigned=False) == [low, -1, 0, high]
    values = [high + 1, 2 * high + 1, 0, high]
    assert _typed(code, *wire, unsigned=True) == (unsigned, values)
    assert _json(code, *wire, unsigned=True) == values


def test_unknown_sign_is_signed_and_reported_once() -> None:
    kind, warnings = _kind(Target.TYPED, ct.MYSQL_TYPE_LONG)
    assert _array(kind, b"\xff\xff\xff\xff").to_pylist() == [-1]
    assert len(warnings) == 1
    assert warnings[0] == (
        "shop.t: the log does not contain the sign of c (read as signed); the option schema can provide it"
    )


def test_bit_and_year() -> None:
    assert _typed(ct.MYSQL_TYPE_BIT, b"\x01\x02", length=9) == (pa.int64(), [0x102])
    ones = b"\xff" * 8
    assert _typed(ct.MYSQL_TYPE_BIT, ones, length=64) == (pa.decimal128(20, 0), [2**64 - 1])
    assert _json(ct.MYSQL_TYPE_BIT, ones, length=64) == [2**64 - 1]
    assert _typed(ct.MYSQL_TYPE_BIT, b"\x7f" + ones[1:], length=63) == (pa.int64(), [2**63 - 1])
    assert _typed(ct.MYSQL_TYPE_YEAR, b"\0", b"\1", b"\xff") == (pa.int16(), [0, 1901, 2155])


def test_decimal() -> None:
    wire = bytes.fromhex("807b01c8")  # 123.456
    column: dict[str, Any] = {"precision": 6, "decimals": 3}
    code = ct.MYSQL_TYPE_NEWDECIMAL
    assert _typed(code, wire, **column) == (pa.decimal128(6, 3), [Decimal("123.456")])
    assert _json(code, wire, **column) == ["123.456"]
    negative = bytes(255 - b for b in wire)
    assert _json(code, negative, **column) == ["-123.456"]
    kind, _ = _kind(Target.TYPED, code, precision=65, decimals=30)
    assert kind.arrow_type == pa.string()


def test_floats() -> None:
    single, double = struct.pack("<f", 0.1), struct.pack("<d", 0.1)
    assert _json(ct.MYSQL_TYPE_FLOAT, single, length=4) == [0.1]
    assert _json(ct.MYSQL_TYPE_DOUBLE, double, length=8) == [0.1]
    assert _typed(ct.MYSQL_TYPE_FLOAT, single, length=4)[0] == pa.float32()
    assert _typed(ct.MYSQL_TYPE_DOUBLE, double, length=8) == (pa.float64(), [0.1])


def test_times() -> None:
    noon = (0x8000000000 + (((2026 * 13 + 11) << 5 | 21) << 17 | 12 << 12)).to_bytes(5, "big")
    assert _typed(ct.MYSQL_TYPE_DATETIME2, noon) == (
        pa.timestamp("us"),
        [datetime(2026, 11, 21, 12)],
    )
    assert _json(ct.MYSQL_TYPE_DATETIME2, noon) == ["2026-11-21 12:00:00"]
    instant = (86400).to_bytes(4, "big") + b"\x01"
    utc = datetime(1970, 1, 2, 0, 0, 0, 10000, tzinfo=UTC)
    assert _typed(ct.MYSQL_TYPE_TIMESTAMP2, instant, decimals=2) == (
        pa.timestamp("us", "UTC"),
        [utc],
    )
    assert _json(ct.MYSQL_TYPE_TIMESTAMP2, instant, decimals=2) == ["1970-01-02 00:00:00.01"]
    before_midnight = b"\x7f\xff\xff\x9d"
    expected = (pa.duration("us"), [timedelta(milliseconds=-990)])
    assert _typed(ct.MYSQL_TYPE_TIME2, before_midnight, decimals=2) == expected
    assert _json(ct.MYSQL_TYPE_TIME2, before_midnight, decimals=2) == ["-00:00:00.99"]
    day = (2026 << 9 | 11 << 5 | 21).to_bytes(3, "little")
    assert _typed(ct.MYSQL_TYPE_DATE, day) == (pa.date32(), [date(2026, 11, 21)])
    assert _json(ct.MYSQL_TYPE_DATE, day, b"\0\0\0") == ["2026-11-21", "0000-00-00"]


def test_zero_dates_as_text_turn_the_column_into_text() -> None:
    options = ReadOptions(zero_date="text")
    for code in (ct.MYSQL_TYPE_DATE, ct.MYSQL_TYPE_DATETIME2, ct.MYSQL_TYPE_TIMESTAMP2):
        kind, _ = _kind(Target.TYPED, code, options)
        assert kind.arrow_type == pa.string()
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_TIME2, options)
    assert kind.arrow_type == pa.duration("us")  # zero is a time of day like any other


def _prefixed(*values: bytes) -> list[bytes]:
    return [bytes([len(value)]) + value for value in values]


@pytest.mark.parametrize(
    ("collation", "raw", "text"),
    [
        (UTF8MB4, "aä€🐬".encode(), "aä€🐬"),
        (UTF8MB3, "aä€".encode(), "aä€"),
        (LATIN1, b"a\xe4\x80\x81", "aä€\x81"),
        (GBK, "中文".encode("gbk"), "中文"),
        (SWE7, b"[\\]", "ÄÖÅ"),
    ],
)
@pytest.mark.parametrize("code", [ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_STRING])
def test_text_of_every_kind_of_character_set(
    code: int, collation: int, raw: bytes, text: str
) -> None:
    column: dict[str, Any] = {"length": 40, "collation_id": collation}
    wire = _prefixed(raw, b"", b"plain" if collation != SWE7 else b"")
    expected = [text, "", "plain" if collation != SWE7 else ""]
    assert _typed(code, *wire, **column) == (pa.string(), expected)
    assert _json(code, *wire, **column) == expected


@pytest.mark.parametrize(
    ("collation", "name", "values"),
    [
        (UTF8MB4, "utf8mb4", [b"ok", b"\xff\x41"]),
        (UTF8MB4, "utf8mb4", [b"\xc3", b"\xa9"]),  # whole together, broken apart
        (UTF8MB3, "utf8mb3", ["🐬".encode()]),
        (11, "ascii", [b"caf\xe9"]),
        (GBK, "gbk", [b"\x81"]),
    ],
)
def test_invalid_text_is_an_error_or_tagged_hex(
    collation: int, name: str, values: list[bytes]
) -> None:
    column: dict[str, Any] = {"length": 40, "collation_id": collation}
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_VARCHAR, **column)
    with pytest.raises(MalformedError) as caught:
        _array(kind, *_prefixed(*values))
    bad = next(v for v in values if v != b"ok")
    assert caught.value.row == values.index(bad)
    for part in ("shop.t.c", name, bad.hex()):
        assert part in str(caught.value)
    kind, warnings = _kind(
        Target.TYPED, ct.MYSQL_TYPE_VARCHAR, ReadOptions(invalid="hex"), **column
    )
    made = _array(kind, *_prefixed(*values)).to_pylist()
    assert made == ["ok" if v == b"ok" else f"_{name} 0x{v.hex()}" for v in values]
    assert warnings


def test_unknown_character_set_is_bytes_unless_one_is_assumed() -> None:
    wire = _prefixed(b"caf\xe9")
    kind, warnings = _kind(Target.TYPED, ct.MYSQL_TYPE_VARCHAR, length=40)
    assert _array(kind, *wire).to_pylist() == [b"caf\xe9"]
    assert len(warnings) == 1
    assert "assume_charset" in warnings[0]
    assert _json(ct.MYSQL_TYPE_VARCHAR, *wire, length=40) == ["0x636166e9"]
    assumed = ReadOptions(assume_charset="latin1")
    assert _json(ct.MYSQL_TYPE_VARCHAR, *wire, length=40, options=assumed) == ["café"]
    with pytest.raises(OptionError, match="klingon"):
        _kind(Target.TYPED, ct.MYSQL_TYPE_VARCHAR, ReadOptions(assume_charset="klingon"), length=9)


def test_binary() -> None:
    fixed: dict[str, Any] = {"length": 4, "collation_id": BINARY}
    assert _typed(ct.MYSQL_TYPE_STRING, *_prefixed(b"a", b""), **fixed) == (
        pa.binary(),
        [b"a\0\0\0", b"\0\0\0\0"],
    )
    # a CHAR of unknown character set must not be padded: it may be text
    assert _typed(ct.MYSQL_TYPE_STRING, *_prefixed(b"a"), length=4) == (pa.binary(), [b"a"])
    blob: dict[str, Any] = {"length": 2, "collation_id": BINARY}
    wire = b"\x02\x00\xca\xfe"
    assert _typed(ct.MYSQL_TYPE_BLOB, wire, **blob) == (pa.binary(), [b"\xca\xfe"])
    assert _json(ct.MYSQL_TYPE_BLOB, wire, **blob) == ["0xcafe"]
    base64 = ReadOptions(binary="base64")
    assert _json(ct.MYSQL_TYPE_BLOB, wire, options=base64, **blob) == ["yv4="]
    point = b"\x19\0\0\0" + bytes(4) + b"\x01\x01\0\0\0" + struct.pack("<dd", 1, 2)
    assert _json(ct.MYSQL_TYPE_GEOMETRY, point, length=4) == ["0x" + point[4:].hex()]


def test_enum_and_set() -> None:
    members = ("a", "b,c", "ä")
    indexes = [b"\x00", b"\x01", b"\x03"]
    assert _typed(ct.MYSQL_TYPE_ENUM, *indexes, length=1, members=members) == (
        pa.string(),
        ["", "a", "ä"],
    )
    bitmaps = [b"\x00", b"\x05", b"\x02"]
    assert _json(ct.MYSQL_TYPE_SET, *bitmaps, length=1, members=members) == ["", "a,ä", "b,c"]
    kind, warnings = _kind(Target.TEXT, ct.MYSQL_TYPE_ENUM, length=2)
    assert json_texts(kind, _array(kind, b"\x00\x01")) == ["256"]
    assert "members" in warnings[0]
    all_ones = b"\xff" * 8
    assert _json(ct.MYSQL_TYPE_SET, all_ones, length=8) == [2**64 - 1]
    assert _typed(ct.MYSQL_TYPE_SET, all_ones, length=8) == (pa.decimal128(20, 0), [2**64 - 1])
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_ENUM, length=1, members=members)
    with pytest.raises(MalformedError, match=r"shop\.t\.c: value 4 has no member"):
        _array(kind, b"\x01", b"\x04")


def test_json_is_the_servers_text_or_embedded() -> None:
    document = b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"  # {"a": 1}
    wire = len(document).to_bytes(4, "little") + document
    assert _typed(ct.MYSQL_TYPE_JSON, wire, length=4) == (pa.string(), ['{"a": 1}'])
    assert _json(ct.MYSQL_TYPE_JSON, wire, length=4) == ['{"a": 1}']
    assert _json(ct.MYSQL_TYPE_JSON, wire, length=4, options=ReadOptions(nested=True)) == [{"a": 1}]


def test_vector() -> None:
    floats = struct.pack("<3f", 1, -0.1, 2.5)
    wire = [len(floats).to_bytes(4, "little") + floats, bytes(4)]
    kind, values = _typed(ct.MYSQL_TYPE_VECTOR, *wire, length=4)
    assert kind.equals(pa.list_(pa.field("element", pa.float32())))
    assert values == [[1.0, pytest.approx(-0.1), 2.5], []]
    assert _json(ct.MYSQL_TYPE_VECTOR, *wire, length=4) == [[1, -0.1, 2.5], []]
    declared: dict[str, Any] = {"length": 12, "collation_id": BINARY, "declared": "vector"}
    assert _json(ct.MYSQL_TYPE_VARCHAR, b"\x0c" + floats, **declared) == [[1, -0.1, 2.5]]
    broken, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_VECTOR, length=4)
    with pytest.raises(MalformedError, match="5 bytes") as caught:
        _array(broken, wire[0], b"\x05\0\0\0hello")
    assert caught.value.row == 1


def test_uuid_and_inet_types_come_from_a_schema() -> None:
    column: dict[str, Any] = {"length": 16, "collation_id": BINARY}
    raw = bytes.fromhex("0123456789abcdef0123456789abcd00")
    wire = _prefixed(raw.rstrip(b"\0"))
    code = ct.MYSQL_TYPE_STRING
    assert _typed(code, *wire, **column) == (pa.binary(), [raw])
    text = "01234567-89ab-cdef-0123-456789abcd00"
    assert _typed(code, *wire, declared="uuid", **column) == (pa.string(), [text])
    assert _json(code, *wire, declared="uuid", **column) == [text]
    addresses = {
        "::": "",
        "::1": "00000000000000000000000000000001",
        "::ffff:1.2.3.4": "00000000000000000000ffff01020304",
        "2001:db8::1:0:0:1": "20010db8000000000001000000000001",
        "1:2:3:4:5:6:7:8": "00010002000300040005000600070008",
        "1::3:4:5:6:7:8": "00010000000300040005000600070008",  # a single zero word, too
        "ff00::": "ff",
    }
    wire = _prefixed(*(bytes.fromhex(value) for value in addresses.values()))
    assert _json(code, *wire, declared="inet6", **column) == list(addresses)
    inet4: dict[str, Any] = {"length": 4, "collation_id": BINARY, "declared": "inet4"}
    assert _json(code, *_prefixed(b"\x0a", b"\1\2\3\4"), **inet4) == ["10.0.0.0", "1.2.3.4"]


def _compressed(value: bytes) -> bytes:
    return b"\x81" + bytes([len(value)]) + zlib.compress(value)


def test_compressed_columns() -> None:
    text = "ä" * 50
    values = _prefixed(_compressed(text.encode()), b"", b"\x00raw")
    column: dict[str, Any] = {"length": 200, "collation_id": UTF8MB4}
    code = ct.MYSQL_TYPE_VARCHAR_COMPRESSED
    assert _typed(code, *values, **column) == (pa.string(), [text, "", "raw"])
    assert _json(code, *values, **column) == [text, "", "raw"]
    latin: dict[str, Any] = {"length": 200, "collation_id": LATIN1}
    assert _typed(code, *_prefixed(_compressed(b"\xe4" * 9)), **latin) == (pa.string(), ["ä" * 9])
    blob: dict[str, Any] = {"length": 1, "collation_id": BINARY}
    code = ct.MYSQL_TYPE_BLOB_COMPRESSED
    assert _typed(code, *_prefixed(_compressed(bytes(99))), **blob) == (pa.binary(), [bytes(99)])


@pytest.mark.parametrize(
    "value",
    [
        b"\x81\x05" + zlib.compress(b"four"),  # claims more than there is
        b"\x81\x03" + zlib.compress(b"four"),  # claims less
        b"\x87\xff\xff\xff\xff\xff\xff\xff" + zlib.compress(b""),  # claims what cannot be
        b"\x81\x04not zlib",
        b"\x86\x01",
        b"\x91\x01x",
    ],
)
def test_broken_compressed_values(value: bytes) -> None:
    column: dict[str, Any] = {"length": 200, "collation_id": UTF8MB4}
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_VARCHAR_COMPRESSED, **column)
    with pytest.raises(MalformedError, match=r"shop\.t\.c: compressed value"):
        _array(kind, *_prefixed(value))


@pytest.mark.parametrize("code", [ct.MYSQL_TYPE_DECIMAL, ct.MYSQL_TYPE_TYPED_ARRAY, 99])
def test_types_that_a_log_alone_does_not_tell(code: int) -> None:
    kind, _ = _kind(Target.TYPED, code)
    with pytest.raises(UnsupportedError, match=r"shop\.t\.c"):
        _array(kind, b"\x01")


def test_arrow_fields_contain_the_mysql_type() -> None:
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_VARCHAR, length=80, collation_id=UTF8MB4)
    metadata = {k.decode(): v.decode() for k, v in kind.field().metadata.items()}
    assert metadata["mysql.type"] == "varchar(20)"
    assert metadata["mysql.length"] == "80"
    assert metadata["mysql.charset"] == "utf8mb4"
    assert metadata["binlake.name_source"] == "none"
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_DATETIME2, decimals=3)
    assert kind.field().metadata[b"mysql.type"] == b"datetime(3)"
    assert kind.field().metadata[b"mysql.fractional_digits"] == b"3"
    kind, _ = _kind(Target.TYPED, ct.MYSQL_TYPE_ENUM, length=1, members=("a", "b"))
    assert json.loads(kind.field().metadata[b"mysql.members"]) == ["a", "b"]


def test_nulls_stay_null_in_every_family() -> None:
    families: dict[int, dict[str, Any]] = {
        ct.MYSQL_TYPE_LONG: {"unsigned": False},
        ct.MYSQL_TYPE_VARCHAR: {"length": 9, "collation_id": GBK},
        ct.MYSQL_TYPE_BLOB: {"length": 1, "collation_id": BINARY},
        ct.MYSQL_TYPE_VECTOR: {"length": 4},
        ct.MYSQL_TYPE_SET: {"length": 1, "members": ("a",)},
        ct.MYSQL_TYPE_VARCHAR_COMPRESSED: {"length": 9, "collation_id": LATIN1},
        ct.MYSQL_TYPE_NULL: {},
    }
    for code, column in families.items():
        kind, _ = _kind(Target.TEXT, code, **column)
        nulls = ByteValues(2, 2, validity=b"\0", offsets=bytes(12), data=bytes(32))
        made = kind.finish(nulls)
        assert made.to_pylist() == [None, None], code
        assert json_texts(kind, made) == ["null", "null"], code
