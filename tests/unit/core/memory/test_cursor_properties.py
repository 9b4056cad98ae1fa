"""Numbers, lengths and bytes through the cursor: written by Python, read back, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.core.memory.cursor import Cursor
from binlake.errors import BinlogError, TruncatedError

WIDTHS = {"u8": 1, "u16": 2, "u24": 3, "u32": 4, "u64": 8}


def lenenc(value: int) -> bytes:
    """Servers write the shortest form."""
    if value < 251:
        return bytes((value,))
    mark, width = next((m, w) for m, w in ((0xFC, 2), (0xFD, 3), (0xFE, 8)) if value < 1 << 8 * w)
    return bytes((mark,)) + value.to_bytes(width, "little")


@pytest.mark.parametrize("name", WIDTHS)
@given(data=st.data())
def test_numbers(name: str, data: st.DataObject) -> None:
    width = WIDTHS[name]
    value = data.draw(st.integers(0, (1 << 8 * width) - 1))
    raw = value.to_bytes(width, "little") + b"\xee"
    cursor = Cursor(raw, 0, len(raw))
    assert getattr(cursor, name)() == value
    assert cursor.left() == 1
    for cut in range(width):
        with pytest.raises(TruncatedError):
            getattr(Cursor(raw, 0, cut), name)()


@given(st.integers(0, (1 << 64) - 1))
@settings(max_examples=300)
def test_lengths(value: int) -> None:
    raw = lenenc(value)
    assert Cursor(raw, 0, len(raw)).lenenc() == value
    for cut in range(len(raw)):
        with pytest.raises(TruncatedError):
            Cursor(raw, 0, cut).lenenc()


@given(st.binary(max_size=30), st.integers(0, 40), st.integers(0, 40))
def test_no_byte_outside_is_given(raw: bytes, start: int, size: int) -> None:
    if start > len(raw):
        with pytest.raises((BinlogError, ValueError)):
            Cursor(raw, start, len(raw)).take(size)
        return
    cursor = Cursor(raw, start, len(raw))
    if size > len(raw) - start:
        with pytest.raises(TruncatedError):
            cursor.take(size)
    else:
        assert bytes(cursor.take(size)) == raw[start : start + size]
