"""Values back to wire bytes: every family takes what its kernel made, and makes the same bytes."""

from __future__ import annotations

import struct
import zlib
from datetime import date, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.format import column_types as ct
from binlake.format.charsets import CHARSETS
from binlake.table.types.base import ColumnType, Target
from binlake.table.types.compressed import deflate_value, inflate_value
from binlake.values.charset_text import decode, encode
from binlake.values.options import ReadOptions
from support.values.column_types import array_of, json_texts, kind_of
from support.values.wire_values import datetime2_bytes, decimal_bytes, time2_bytes, timestamp2_bytes

BINARY, LATIN1, UTF8MB4, CP932 = 63, 8, 45, 95


def column(code: int, **fields: Any) -> ColumnType:
    options = ReadOptions.parse({"invalid": "hex"})
    return kind_of(Target.TEXT, code, options, **fields)[0]


def same(kind: ColumnType, *wire: bytes) -> list[Any]:
    """The values of the wire bytes, which have to be what `to_wire` makes of them."""
    values: list[Any] = array_of(kind, *wire).to_pylist()
    assert [kind.to_wire(value) for value in values] == list(wire)
    for raw, value in zip(wire, values, strict=True):
        image = memoryview(b"\xee" + raw + b"\xee")
        assert kind.end_of_same(image, 1, value) == 1 + len(raw)
        assert kind.end_of_same(image[: len(raw)], 1, value) == -1  # cut
    return values


INTEGERS = {ct.MYSQL_TYPE_TINY: 1, ct.MYSQL_TYPE_SHORT: 2, ct.MYSQL_TYPE_INT24: 3,
            ct.MYSQL_TYPE_LONG: 4, ct.MYSQL_TYPE_LONGLONG: 8}  # fmt: skip


@pytest.mark.parametrize("unsigned", [None, False, True])
@pytest.mark.parametrize("code", INTEGERS)
@given(data=st.data())
def test_integers(code: int, unsigned: bool | None, data: st.DataObject) -> None:
    width = INTEGERS[code]
    same(column(code, unsigned=unsigned), data.draw(st.binary(min_size=width, max_size=width)))


def test_year_bit_and_floats() -> None:
    same(column(ct.MYSQL_TYPE_YEAR), *(bytes((n,)) for n in range(256)))
    for bits in (1, 8, 9, 63, 64):
        full = ((1 << bits) - 1).to_bytes((bits + 7) // 8, "big")
        same(column(ct.MYSQL_TYPE_BIT, length=bits), full, bytes(len(full)))
    floats = (0.0, -0.0, 1.5, 3.4028234663852886e38, 1e-45, float("inf"))
    same(column(ct.MYSQL_TYPE_FLOAT, length=4), *(struct.pack("<f", n) for n in floats))
    doubles = (0.1, -0.0, 1.7976931348623157e308, 5e-324)
    same(column(ct.MYSQL_TYPE_DOUBLE, length=8), *(struct.pack("<d", n) for n in doubles))


@given(data=st.data())
@settings(max_examples=300)
def test_decimals(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 30)))
    digits = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    with localcontext(prec=80):
        wire = decimal_bytes(
            Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -scale)), precision, scale
        )
    same(column(ct.MYSQL_TYPE_NEWDECIMAL, precision=precision, decimals=scale), wire)


@given(
    st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31),
    st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999),
    st.integers(0, 6),
)  # fmt: skip
@settings(max_examples=300)
def test_dates_and_datetimes(
    year: int, month: int, day: int, hour: int, minute: int, second: int, us: int, digits: int
) -> None:
    us -= us % 10 ** (6 - digits)
    same(column(ct.MYSQL_TYPE_DATE), (year << 9 | month << 5 | day).to_bytes(3, "little"))
    wire = datetime2_bytes(year, month, day, hour, minute, second, us, digits)
    same(column(ct.MYSQL_TYPE_DATETIME2, decimals=digits), wire)
    old = int(f"{year}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
    same(column(ct.MYSQL_TYPE_DATETIME), old.to_bytes(8, "little"))
    if digits:  # MariaDB's old format with a fraction
        days = (year * 13 + month) * 32 + day
        seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
        number = seconds * 10**digits + us // 10 ** (6 - digits)
        wire = number.to_bytes((6, 6, 7, 7, 7, 8)[digits - 1], "big")
        same(column(ct.MYSQL_TYPE_DATETIME, decimals=digits), wire)


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 999_999), st.integers(0, 6))
@settings(max_examples=300)
def test_timestamps(seconds: int, us: int, digits: int) -> None:
    us -= us % 10 ** (6 - digits)
    same(column(ct.MYSQL_TYPE_TIMESTAMP2, decimals=digits), timestamp2_bytes(seconds, us, digits))
    same(column(ct.MYSQL_TYPE_TIMESTAMP), seconds.to_bytes(4, "little"))
    if digits:
        fraction = (us // 10 ** (6 - digits)).to_bytes((digits + 1) // 2, "big")
        old = seconds.to_bytes(4, "big") + fraction
        same(column(ct.MYSQL_TYPE_TIMESTAMP, decimals=digits), old)


@given(
    st.sampled_from([1, -1]), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59),
    st.integers(0, 999_999), st.integers(0, 6),
)  # fmt: skip
@settings(max_examples=300)
def test_times(sign: int, hour: int, minute: int, second: int, us: int, digits: int) -> None:
    us -= us % 10 ** (6 - digits)
    wire = time2_bytes(sign, hour, minute, second, us, digits)
    same(column(ct.MYSQL_TYPE_TIME2, decimals=digits), wire)
    old = sign * (hour * 10000 + minute * 100 + second)
    same(column(ct.MYSQL_TYPE_TIME), old.to_bytes(3, "little", signed=True))
    if digits:
        units = ((hour * 60 + minute) * 60 + second) * 10**digits + us // 10 ** (6 - digits)
        wire = (839 * 3600 * 10**digits + sign * units).to_bytes(
            (4, 4, 5, 5, 5, 6)[digits - 1], "big"
        )
        same(column(ct.MYSQL_TYPE_TIME, decimals=digits), wire)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ct.MYSQL_TYPE_DATE, "2026-1-1"),
        (ct.MYSQL_TYPE_DATETIME2, "2026-01-01"),
        (ct.MYSQL_TYPE_DATETIME2, "2026-01-01 00:00:00.5"),  # a column without fractions
        (ct.MYSQL_TYPE_TIME2, "900:00"),
        (ct.MYSQL_TYPE_TIMESTAMP2, "2200-01-01 00:00:00"),
        (ct.MYSQL_TYPE_TIME, "9999:00:00"),
    ],
)
def test_texts_that_no_such_column_has(code: int, text: str) -> None:
    with pytest.raises(ValueError):
        column(code).to_wire(text)


def test_enum_and_set() -> None:
    members = tuple("abc")
    enum = column(ct.MYSQL_TYPE_ENUM, length=1, members=members, collation_id=UTF8MB4)
    assert same(enum, b"\0", b"\1", b"\3") == ["", "a", "c"]
    bits = column(ct.MYSQL_TYPE_SET, length=1, members=members, collation_id=UTF8MB4)
    assert same(bits, b"\0", b"\5", b"\7") == ["", "a,c", "a,b,c"]
    same(column(ct.MYSQL_TYPE_ENUM, length=2), b"\x01\x02")
    same(column(ct.MYSQL_TYPE_SET, length=8), b"\xff" * 8)


def test_an_empty_member_differs_from_no_member() -> None:
    """By its number, which SQL compares; as a text it is not, and its bytes are either's."""
    kind = column(ct.MYSQL_TYPE_ENUM, length=1, members=("x", ""), collation_id=UTF8MB4)
    values = array_of(kind, b"\0", b"\2", b"\1")
    assert json_texts(kind, values) == ['""', '""', '"x"']
    assert [kind.to_wire(value) for value in values.to_pylist()] == [b"\0", b"\2", b"\1"]
    assert kind.end_of_same(memoryview(b"\0"), 0, 2) == -1
    literals = kind.to_sql(values)
    assert literals.to_pylist() == ["0", "''", "'x'"]
    needs = kind.sql_needs_any_value(values)
    assert needs is not None
    assert needs.to_pylist() == [True, False, False]
    name = kind.sql_name
    assert kind.sql_equal(values, literals).to_pylist() == [f"{name} <=> {n}" for n in (0, 2, 1)]
    assert kind.end_of_same(memoryview(b"\0"), 0, "") == 1
    assert kind.end_of_same(memoryview(b"\2"), 0, "") == 1
    assert kind.end_of_same(memoryview(b"\1"), 0, "") == -1


def test_bytes() -> None:
    same(column(ct.MYSQL_TYPE_STRING, length=4, collation_id=BINARY), b"\0", b"\2ab", b"\4abcd")
    same(column(ct.MYSQL_TYPE_VARCHAR, length=300, collation_id=BINARY), b"\3\0ab\0")
    same(column(ct.MYSQL_TYPE_BLOB, length=3, collation_id=BINARY), b"\2\0\0\xff\0")
    same(column(ct.MYSQL_TYPE_GEOMETRY, length=4), b"\2\0\0\0ab")
    same(column(ct.MYSQL_TYPE_VECTOR, length=4), struct.pack("<I3f", 12, 1.5, -0.0, 1e-45))
    same(column(ct.MYSQL_TYPE_VARCHAR, length=20), b"\2\xff\0")  # its charset is unknown
    uuid = bytes(range(16))
    same(
        column(ct.MYSQL_TYPE_STRING, length=16, collation_id=BINARY, declared="uuid"),
        b"\x10" + uuid,
    )
    inet6 = column(ct.MYSQL_TYPE_STRING, length=16, collation_id=BINARY, declared="inet6")
    assert (
        same(inet6, b"\x01\x20", b"\x10" + bytes(10) + b"\xff\xff\1\2\3\4")[1] == "::ffff:1.2.3.4"
    )
    inet4 = column(ct.MYSQL_TYPE_STRING, length=4, collation_id=BINARY, declared="inet4")
    assert same(inet4, b"\x02\x0a\x01") == ["10.1.0.0"]


def test_a_binary_value_that_was_not_trimmed_is_another() -> None:
    kind = column(ct.MYSQL_TYPE_STRING, length=4, collation_id=BINARY)
    (value,) = array_of(kind, b"\3ab\0").to_pylist()
    assert kind.end_of_same(memoryview(b"\3ab\0"), 0, value) == -1


def test_texts() -> None:
    utf8 = column(ct.MYSQL_TYPE_VARCHAR, length=80, collation_id=UTF8MB4)
    assert same(utf8, b"\0", b"\6\xc3\xa9\xf0\x9f\x98\x80", b"\1\xff") == [
        "",
        "é😀",
        "_utf8mb4 0xff",
    ]
    same(column(ct.MYSQL_TYPE_BLOB, length=2, collation_id=LATIN1), b"\3\0\x80\x81\xe9")
    # a text that only looks like the rendering of an invalid one
    assert utf8.to_wire("_utf8mb4 0x41") == b"\x0d_utf8mb4 0x41"
    assert utf8.to_wire("_utf8mb4 0xzz") == b"\x0d_utf8mb4 0xzz"


def test_a_character_with_two_codes_is_the_same_in_either() -> None:
    kind = column(ct.MYSQL_TYPE_VARCHAR, length=80, collation_id=CP932)
    for code in (b"\xfa\x68", b"\xed\x4c"):
        (value,) = array_of(kind, b"\2" + code).to_pylist()
        assert kind.end_of_same(memoryview(b"\2" + code), 0, value) == 3
    assert kind.end_of_same(memoryview(b"\2\xfa\x69"), 0, value) == -1


def test_compressed_values_are_compared_inflated() -> None:
    kind = column(ct.MYSQL_TYPE_VARCHAR_COMPRESSED, length=300, collation_id=UTF8MB4)
    plain = b"text " * 50
    raw = zlib.compressobj(1, wbits=-15)
    stored = b"\x89" + bytes((len(plain),)) + raw.compress(plain) + raw.flush()
    wire = len(stored).to_bytes(2, "little") + stored
    (value,) = array_of(kind, wire).to_pylist()
    assert kind.to_wire(value) != wire
    assert kind.end_of_same(memoryview(wire), 0, value) == len(wire)
    assert kind.end_of_same(memoryview(wire), 0, value + "x") == -1
    assert kind.end_of_same(memoryview(b"\2\0\x81\x05"), 0, value) == -1
    assert array_of(kind, kind.to_wire(value)).to_pylist() == [value]


@given(st.binary(max_size=300))
def test_deflated_values_inflate(value: bytes) -> None:
    assert inflate_value(deflate_value(value)) == value
    assert inflate_value(deflate_value(value * 50)) == value * 50


def test_an_unknown_type_gets_no_values() -> None:
    with pytest.raises(ValueError):
        column(ct.MYSQL_TYPE_DECIMAL).to_wire("1")


# --- character sets ---


def codes(charset: str) -> list[bytes]:
    """All codes of one and two bytes."""
    single = [bytes((n,)) for n in range(256)]
    return single + [first + last for first in single[0x80:] for last in single[0x20:]]


@pytest.mark.parametrize(
    "charset", [name for name, known in CHARSETS.items() if known.kind != "utf8"]
)
def test_every_character_comes_back(charset: str) -> None:
    """The bytes too, but where a set has a character twice."""
    others = 0
    for raw in codes(charset):
        try:
            text = decode(charset, raw)
        except UnicodeDecodeError:
            continue
        again = encode(charset, text)
        assert decode(charset, again) == text
        others += again != raw
    twice = CHARSETS[charset].kind == "multi" or charset == "armscii8"
    assert bool(others) <= twice


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("latin1", "一"),
        ("swe7", "["),
        ("ascii", "é"),
        ("big5", "\ue000"),
        ("utf8mb3", "😀"),
        ("ucs2", "😀"),
        ("cp932", "\x80"),
        ("eucjpms", "¢"),
    ],
)
def test_text_that_a_set_cannot_hold(charset: str, text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        encode(charset, text)


def test_dates_of_a_whole_century_come_back() -> None:
    kind = column(ct.MYSQL_TYPE_DATE)
    days = [date(1990, 1, 1) + timedelta(days=37 * n) for n in range(900)]
    same(kind, *((d.year << 9 | d.month << 5 | d.day).to_bytes(3, "little") for d in days))
