"""Every column type: values to wire bytes and back, and any bytes whatever to a value or an error."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.core.events.inflate import inflate_event_data
from binlake.errors import BinlogError
from binlake.events.body.deflate import deflate_event_data
from binlake.format import column_types as ct
from binlake.table.types.base import ColumnType, Target
from binlake.values.options import ReadOptions
from support.logs.mutations import IS_THOROUGH
from support.values.column_types import array_of, kind_of

BINARY, LATIN1, UTF8MB4, GBK = 63, 8, 45, 28
HEX = ReadOptions.parse({"invalid": "hex"})

widths = st.sampled_from([1, 2, 3, 4, 8])
fractions = st.integers(0, 6)
collations = st.sampled_from([None, BINARY, LATIN1, UTF8MB4, GBK])
members = st.lists(st.text("aé", max_size=3), min_size=1, max_size=20).map(tuple)

#: Type code -> what a column of it may be. Every type that TABLE_MAP may name is here.
COLUMNS: dict[int, st.SearchStrategy[dict[str, Any]]] = {
    **{
        code: st.fixed_dictionaries({"unsigned": st.sampled_from([None, False, True])})
        for code in (ct.MYSQL_TYPE_TINY, ct.MYSQL_TYPE_SHORT, ct.MYSQL_TYPE_INT24,
                     ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_LONGLONG)
    },
    ct.MYSQL_TYPE_FLOAT: st.just({"length": 4}),
    ct.MYSQL_TYPE_DOUBLE: st.just({"length": 8}),
    ct.MYSQL_TYPE_BIT: st.integers(1, 64).map(lambda bits: {"length": bits}),
    ct.MYSQL_TYPE_NEWDECIMAL: st.integers(1, 65).flatmap(
        lambda p: st.integers(0, min(p, 30)).map(lambda s: {"precision": p, "decimals": s})
    ),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_YEAR, ct.MYSQL_TYPE_DATE, ct.MYSQL_TYPE_NEWDATE, ct.MYSQL_TYPE_NULL), st.just({})
    ),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_TIME, ct.MYSQL_TYPE_DATETIME, ct.MYSQL_TYPE_TIMESTAMP, ct.MYSQL_TYPE_TIME2,
         ct.MYSQL_TYPE_DATETIME2, ct.MYSQL_TYPE_TIMESTAMP2),
        fractions.map(lambda digits: {"decimals": digits}),
    ),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_VAR_STRING, ct.MYSQL_TYPE_STRING),
        st.fixed_dictionaries({"length": st.sampled_from([4, 40, 255, 256, 1020]), "collation_id": collations}),
    ),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_BLOB, ct.MYSQL_TYPE_TINY_BLOB, ct.MYSQL_TYPE_MEDIUM_BLOB, ct.MYSQL_TYPE_LONG_BLOB),
        st.fixed_dictionaries({"length": st.integers(1, 4), "collation_id": collations}),
    ),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_VARCHAR_COMPRESSED, ct.MYSQL_TYPE_BLOB_COMPRESSED),
        st.fixed_dictionaries({"length": st.integers(1, 4), "collation_id": collations}),
    ),
    **dict.fromkeys((ct.MYSQL_TYPE_GEOMETRY, ct.MYSQL_TYPE_JSON, ct.MYSQL_TYPE_VECTOR), st.just({"length": 4})),
    ct.MYSQL_TYPE_ENUM: st.fixed_dictionaries(
        {"length": st.integers(1, 2), "members": members | st.none(), "collation_id": st.just(UTF8MB4)}
    ),
    ct.MYSQL_TYPE_SET: st.fixed_dictionaries(
        {"length": widths, "members": members | st.none(), "collation_id": st.just(UTF8MB4)}
    ),
}  # fmt: skip

#: Never in a log of a server: what they stand for has another code there.
NOT_LOGGED = {
    ct.MYSQL_TYPE_DECIMAL, ct.MYSQL_TYPE_TYPED_ARRAY, ct.MYSQL_TYPE_INVALID, ct.MYSQL_TYPE_BOOL,
}  # fmt: skip


def test_every_type_is_here() -> None:
    assert set(COLUMNS) | NOT_LOGGED == set(ct.COLUMN_TYPES)


def column(code: int, target: Target, fields: dict[str, Any]) -> ColumnType:
    return kind_of(target, code, HEX, **fields)[0]


@pytest.mark.parametrize("code", sorted(COLUMNS), ids=lambda code: ct.COLUMN_TYPES[code].name)
@given(data=st.data())
@settings(max_examples=150 if IS_THOROUGH else 50, deadline=None)
def test_any_bytes_are_a_value_or_an_error(code: int, data: st.DataObject) -> None:
    """Both targets agree, and the bytes of a text are the bytes that it was made from."""
    fields = data.draw(COLUMNS[code])
    raw = data.draw(st.binary(max_size=24))
    typed = column(code, Target.TYPED, fields)
    text = column(code, Target.TEXT, fields)
    found = []
    for kind in (typed, text):
        try:
            found.append(array_of(kind, raw).to_pylist()[0])
        except BinlogError:
            found.append(BinlogError)
    assert (found[0] is BinlogError) == (found[1] is BinlogError)
    if found[1] in (None, BinlogError):
        return
    try:
        end = text.end_of_same(memoryview(raw), 0, found[1])
    except ValueError:
        return  # nothing is made for it: a date that no server stores
    assert end <= len(raw)


def prefixed(raw: bytes, width: int) -> bytes:
    return len(raw).to_bytes(width, "little") + raw


def same(code: int, wire: bytes, fields: dict[str, Any]) -> Any:
    kind = column(code, Target.TEXT, fields)
    (value,) = array_of(kind, wire).to_pylist()
    assert kind.to_wire(value) == wire
    assert kind.end_of_same(memoryview(wire + b"\xee"), 0, value) == len(wire)
    return value


@given(st.integers(1, 64), st.data())
def test_bits(bits: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, (1 << bits) - 1))
    wire = number.to_bytes((bits + 7) // 8, "big")
    assert same(ct.MYSQL_TYPE_BIT, wire, {"length": bits}) == number


@given(st.floats(width=32, allow_nan=False), st.floats(allow_nan=False), st.integers(0, 255))
def test_floats_and_years(single: float, double: float, year: int) -> None:
    assert same(ct.MYSQL_TYPE_FLOAT, struct.pack("<f", single), {"length": 4}) == single
    assert same(ct.MYSQL_TYPE_DOUBLE, struct.pack("<d", double), {"length": 8}) == double
    assert same(ct.MYSQL_TYPE_YEAR, bytes((year,)), {}) == (year and 1900 + year)


@given(st.integers(1, 300), st.data())
def test_enums(count: int, data: st.DataObject) -> None:
    names = tuple(f"é{n}" for n in range(count))
    index = data.draw(st.integers(0, count))
    wire = index.to_bytes(1 if count < 256 else 2, "little")
    fields = {"length": len(wire), "members": names, "collation_id": UTF8MB4}
    assert same(ct.MYSQL_TYPE_ENUM, wire, fields) == ("" if index == 0 else names[index - 1])


@given(st.integers(1, 64), st.data())
def test_sets(count: int, data: st.DataObject) -> None:
    names = tuple(f"s{n}" for n in range(count))
    bits = data.draw(st.integers(0, (1 << count) - 1))
    size = (count + 7) // 8
    width = size if size <= 4 else 8
    fields = {"length": width, "members": names, "collation_id": UTF8MB4}
    chosen = [name for n, name in enumerate(names) if bits >> n & 1]
    assert same(ct.MYSQL_TYPE_SET, bits.to_bytes(width, "little"), fields) == ",".join(chosen)


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=20))
def test_vectors(numbers: list[float]) -> None:
    wire = prefixed(struct.pack(f"<{len(numbers)}f", *numbers), 4)
    assert same(ct.MYSQL_TYPE_VECTOR, wire, {"length": 4}) == numbers


@given(st.integers(1, 4), st.binary(max_size=255))
def test_bytes(width: int, value: bytes) -> None:
    wire = prefixed(value, width)
    fields = {"length": width, "collation_id": BINARY}
    assert same(ct.MYSQL_TYPE_BLOB, wire, fields) == value
    if width == 4:
        assert same(ct.MYSQL_TYPE_GEOMETRY, wire, {"length": 4}) == value


@given(st.integers(1, 4), st.text(max_size=60))
def test_texts(width: int, value: str) -> None:
    wire = prefixed(value.encode("utf-8", "replace"), width)
    fields = {"length": width, "collation_id": UTF8MB4}
    assert same(ct.MYSQL_TYPE_BLOB, wire, fields) == value.encode("utf-8", "replace").decode()


@given(st.integers(1, 4), st.binary(max_size=120), st.integers(0, 9))
def test_compressed_columns(width: int, value: bytes, level: int) -> None:
    """The forms that MariaDB may store: unchanged, or deflated with the length in 1 to 4 bytes."""
    packer = zlib.compressobj(level, wbits=-15)
    body = packer.compress(value) + packer.flush()
    size = len(value).to_bytes(width, "big")
    kind = column(ct.MYSQL_TYPE_BLOB_COMPRESSED, Target.TEXT, {"length": 4, "collation_id": BINARY})
    for stored in (b"\x00" + value, bytes((0x88 | width,)) + size + body):
        if not value:
            stored = b""
        wire = prefixed(stored, 4)
        assert array_of(kind, wire).to_pylist() == [value]
        assert kind.end_of_same(memoryview(wire), 0, value) == len(wire)


@given(st.binary(max_size=400))
def test_compressed_events(plain: bytes) -> None:
    assert inflate_event_data(deflate_event_data(plain)) == plain


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_any_bytes_inflate_or_are_an_error(raw: bytes) -> None:
    with suppress(BinlogError):
        inflate_event_data(raw)
