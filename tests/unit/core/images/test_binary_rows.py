"""Rows of the binary protocol: the values of row images, in batches, whatever is cut or damaged."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.columns.sink import SinkBuffers, make_sink
from binlake.core.images.binary_rows import (
    DURATION,
    FULL,
    MOMENT,
    MORE,
    SPECIAL,
    STRING,
    BinaryRows,
)
from binlake.errors import BinlogError
from binlake.table.types.decimal import decimal_bytes
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

Value = tuple[bytes, bytes]  # in a result, in a row image


def plan(kernel: Kernel, p0: int = 0, p1: int = 0) -> ColumnPlan:
    return ColumnPlan(ColumnDefinition(0, "c", 0), kernel, p0, p1)


def _integer(width: int, wire: int) -> st.SearchStrategy[Value]:
    most = 1 << 8 * width - 1
    return st.integers(-most, most - 1).map(
        lambda v: (
            v.to_bytes(wire, "little", signed=True),
            v.to_bytes(width, "little", signed=True),
        )
    )


def _text(raw: bytes, prefix: int) -> Value:
    return lenenc(len(raw)) + raw, len(raw).to_bytes(prefix, "little") + raw


def lenenc(count: int) -> bytes:
    if count < 0xFB:
        return bytes([count])
    return (
        b"\xfc" + struct.pack("<H", count)
        if count < 1 << 16
        else b"\xfd" + struct.pack("<I", count)[:3]
    )


def _decimal(precision: int, scale: int) -> st.SearchStrategy[Value]:
    most = 10**precision - 1

    def both(number: int) -> Value:
        digits = str(abs(number)).rjust(scale + 1, "0")
        text = f"{'-' if number < 0 else ''}{digits[: len(digits) - scale]}.{digits[-scale:]}"
        return lenenc(len(text)) + text.encode(), decimal_bytes(text, precision, scale)

    return st.integers(-most, most).filter(bool).map(both)


def _moment(parts: tuple[int, ...]) -> Value:
    year, month, day, hour, minute, second, us = parts
    sent = struct.pack("<HBBBBBI", year, month, day, hour, minute, second, us)
    size = 11 if us else 7 if hour or minute or second else 4 if year or month or day else 0
    packed = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    return bytes([size]) + sent[:size], (packed + (1 << 39)).to_bytes(5, "big") + us.to_bytes(
        3, "big"
    )


def _duration(parts: tuple[bool, int, int, int, int]) -> Value:
    negative, hour, minute, second, us = parts
    sent = struct.pack("<BIBBBI", negative, hour // 24, hour % 24, minute, second, us)
    size = 12 if us else 8 if hour or minute or second else 0
    number = (hour << 12 | minute << 6 | second) << 24 | us
    number = (1 << 47) - number if negative else (1 << 47) + number
    return bytes([size]) + sent[:size], number.to_bytes(6, "big")


_MOMENTS = st.tuples(
    st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31), st.integers(0, 23),
    st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999),
).map(_moment)  # fmt: skip
_DURATIONS = st.tuples(
    st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999)
).map(_duration)  # fmt: skip
_LATIN = tuple(bytes([i]) if i < 128 else chr(i).encode() for i in range(256))

#: What the server sends, the plan, and values in both forms.
_KINDS: list[tuple[int, ColumnPlan, st.SearchStrategy[Value]]] = [
    (1, plan(Kernel.INT, 1), _integer(1, 1)),
    (2, plan(Kernel.INT, 2), _integer(2, 2)),
    (4, plan(Kernel.INT, 3), _integer(3, 4)),
    (4, plan(Kernel.INT, 4), _integer(4, 4)),
    (8, plan(Kernel.INT, 8), _integer(8, 8)),
    (8, plan(Kernel.UINT64_DECIMAL), _integer(8, 8)),
    (8, plan(Kernel.DOUBLE), st.binary(min_size=8, max_size=8).map(lambda b: (b, b))),
    (2, plan(Kernel.YEAR), st.integers(1, 255).map(lambda y: (struct.pack("<H", 1900 + y), bytes([y])))),
    (STRING, plan(Kernel.BYTES, 2, 5), st.binary(max_size=300).map(lambda b: _text(b, 2))),
    (STRING, ColumnPlan(ColumnDefinition(0, "c", 0), Kernel.LATIN, 2, table=_LATIN), st.binary(max_size=300).map(lambda b: _text(b, 2))),
    (STRING, plan(Kernel.BIT, 5), st.binary(min_size=5, max_size=5).map(lambda b: (lenenc(5) + b, b))),
    (STRING, plan(Kernel.DECIMAL, 9, 4), _decimal(9, 4)),
    (STRING, plan(Kernel.DECIMAL, 38, 38), _decimal(38, 38)),
    (STRING, plan(Kernel.DECIMAL_TEXT, 65, 30), _decimal(65, 30)),
    (MOMENT, plan(Kernel.DATETIME2, 6), _MOMENTS),
    (MOMENT, plan(Kernel.DATETIME2_TEXT, 6), _MOMENTS),
    (DURATION, plan(Kernel.TIME2, 6), _DURATIONS),
    (DURATION, plan(Kernel.TIME2_TEXT, 6), _DURATIONS),
]  # fmt: skip


def packet(values: list[bytes | None]) -> bytes:
    bitmap = sum(1 << i + 2 for i, value in enumerate(values) if value is None)
    payload = b"\0" + bitmap.to_bytes((len(values) + 9) // 8, "little")
    payload += b"".join(value for value in values if value is not None)
    return len(payload).to_bytes(3, "little") + b"\0" + payload


def told(buffers: SinkBuffers) -> list[Any]:
    """The buffers without the memory of nulls, which may be anything."""
    return [
        buffers.count,
        buffers.null_count,
        buffers.zero_dates,
        None if buffers.offsets is None else bytes(buffers.offsets),
        bytes(buffers.data),
    ]


@given(st.data())
def test_values_are_those_of_row_images(data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=12))
    rows = [
        [data.draw(values) for _, _, values in columns] for _ in range(data.draw(st.integers(0, 9)))
    ]
    sent = b"".join(packet([value for value, _ in row]) for row in rows)
    kernel = BinaryRows([p for _, p, _ in columns], bytes(w for w, _, _ in columns), 1000, 1 << 20)
    cut = data.draw(st.integers(0, len(sent)))
    pos, why = kernel.feed(sent[:cut], 0, cut)
    assert why == MORE
    assert kernel.feed(sent, pos, len(sent)) == (len(sent), MORE)
    found = kernel.finish()
    assert found.count == len(rows)
    for number, (_, kind, _) in enumerate(columns):
        image = b"".join(row[number][1] for row in rows)
        decoded = found.columns[number]
        assert decoded is not None
        assert told(decoded) == told(make_sink(kind).decode(image, len(rows)))


@given(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=20), st.data())
def test_nulls_take_no_bytes(
    columns: list[tuple[int, ColumnPlan, st.SearchStrategy[Value]]], data: st.DataObject
) -> None:
    nulls = [data.draw(st.booleans()) for _ in columns]
    values = [
        None if null else data.draw(of)[0] for null, (_, _, of) in zip(nulls, columns, strict=True)
    ]
    kernel = BinaryRows([p for _, p, _ in columns], bytes(w for w, _, _ in columns), 10, 1 << 20)
    sent = packet(values)
    kernel.feed(sent, 0, len(sent))
    for null, decoded in zip(nulls, kernel.finish().columns, strict=True):
        assert decoded is not None
        assert decoded.null_count == max(null, decoded.zero_dates)


@given(st.data())
def test_damage_is_an_error_or_a_row(data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6))
    sent = bytearray(packet([data.draw(values)[0] for _, _, values in columns]))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(4, len(sent) - 1))] = data.draw(st.integers(0, 255))
    kernel = BinaryRows([p for _, p, _ in columns], bytes(w for w, _, _ in columns), 10, 1 << 20)
    good = packet([None] * len(columns))
    try:
        _, why = kernel.feed(bytes(sent), 0, len(sent))
    except BinlogError:
        why = None
    before = kernel.rows
    assert before == (why == MORE)
    kernel.feed(good, 0, len(good))  # a row that failed leaves nothing behind
    assert kernel.finish().count == before + 1


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1", "1.2", "1.234", "12.34", "1x.00", "1.00.", "--1.00"]
)
def test_invalid_decimals_of_the_column(text: str) -> None:
    kernel = BinaryRows([plan(Kernel.DECIMAL, 3, 2)], bytes([STRING]), 10, 1000)
    sent = packet([lenenc(len(text)) + text.encode()])
    with pytest.raises(BinlogError, match="DECIMAL"):
        kernel.feed(sent, 0, len(sent))


@pytest.mark.parametrize(("text", "value"), [("000000012.30", 1230), ("0.00", 0), ("-0.05", -5)])
def test_decimals_with_zeros(text: str, value: int) -> None:
    kernel = BinaryRows([plan(Kernel.DECIMAL, 9, 2)], bytes([STRING]), 10, 1000)
    sent = packet([lenenc(len(text)) + text.encode()])
    kernel.feed(sent, 0, len(sent))
    decoded = kernel.finish().columns[0]
    assert decoded is not None
    assert int.from_bytes(decoded.data, "little", signed=True) == value


def test_batches_are_bounded() -> None:
    sent = packet([struct.pack("<q", 7)]) * 10
    by_rows = BinaryRows([plan(Kernel.INT, 8)], bytes([8]), 4, 1 << 20)
    pos, why = by_rows.feed(sent, 0, len(sent))
    assert (by_rows.finish().count, why) == (4, FULL)
    assert by_rows.feed(sent, pos, len(sent))[1] == FULL
    by_bytes = BinaryRows([plan(Kernel.INT, 8)], bytes([8]), 100, 25)
    assert by_bytes.feed(sent, 0, len(sent))[1] == FULL
    assert by_bytes.finish().count == 3


def test_other_packets_are_left_to_the_caller() -> None:
    kernel = BinaryRows([plan(Kernel.INT, 8)], bytes([8]), 4, 1 << 20)
    for payload in (b"\xfe\0\0\2\0", b"\xff\x10\x04#HY000no", b""):
        sent = len(payload).to_bytes(3, "little") + b"\1" + payload
        assert kernel.feed(sent, 0, len(sent)) == (0, SPECIAL)
    large = b"\xff\xff\xff\1\0" + bytes((1 << 24) - 2)
    assert kernel.feed(large, 0, len(large)) == (0, SPECIAL)


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="another type"):
        BinaryRows([plan(Kernel.INT, 4)], bytes([8]), 1, 1)
    with pytest.raises(ValueError, match="another type"):
        BinaryRows([plan(Kernel.TIME2, 0)], bytes([MOMENT]), 1, 1)
    with pytest.raises(ValueError, match="1 columns for 0 plans"):
        BinaryRows([], bytes([8]), 1, 1)
    with pytest.raises(IndexError):
        BinaryRows([plan(Kernel.INT, 4)], bytes([4]), 1, 1).feed(b"abc", 0, 4)
