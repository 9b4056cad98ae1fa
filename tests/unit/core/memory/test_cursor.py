"""The bounds-checked reader: boundary values, every cut, no step over the end."""

from __future__ import annotations

from typing import Literal

import pytest

from binlake.core.memory.cursor import Cursor
from binlake.errors import MalformedError, TruncatedError

#: reader, bytes it takes, whether its integer is signed, byte order
FIXED = [
    ("u8", 1, False, "little"),
    ("u16", 2, False, "little"),
    ("u24", 3, False, "little"),
    ("u32", 4, False, "little"),
    ("u64", 8, False, "little"),
]


def patterns(width: int) -> list[bytes]:
    return [
        bytes(width),
        b"\xff" * width,
        b"\x80" + bytes(width - 1),
        bytes(width - 1) + b"\x80",
        b"\xff" * (width - 1) + b"\x7f",
        bytes(range(1, width + 1)),
    ]


@pytest.mark.parametrize(("name", "width", "signed", "order"), FIXED)
def test_integers(name: str, width: int, signed: bool, order: Literal["little", "big"]) -> None:
    for raw in patterns(width):
        cursor = Cursor(b"\xaa" + raw + b"\xbb", 1)
        assert getattr(cursor, name)() == int.from_bytes(raw, order, signed=signed)
        assert cursor.pos == 1 + width


@pytest.mark.parametrize("width", range(9))
def test_integers_of_any_width(width: int) -> None:
    for raw in patterns(width) if width else [b""]:
        assert Cursor(raw).le_uint(width) == int.from_bytes(raw, "little")


@pytest.mark.parametrize(("name", "width", "signed", "order"), FIXED)
def test_a_read_that_does_not_fit_leaves_the_position(
    name: str, width: int, signed: bool, order: str
) -> None:
    for have in range(width):
        # bytes behind the end are there, but not to be read
        cursor = Cursor(bytes(20), 3, 3 + have)
        with pytest.raises(TruncatedError) as caught:
            getattr(cursor, name)()
        assert (caught.value.need, caught.value.have, caught.value.offset) == (width, have, 0)
        assert cursor.pos == 3


LENENC = [
    (b"\x00", 0),
    (b"\xfa", 250),
    (b"\xfc\xfb\x00", 251),
    (b"\xfc\xff\xff", 0xFFFF),
    (b"\xfd\x00\x00\x01", 0x10000),
    (b"\xfd\xff\xff\xff", 0xFFFFFF),
    (b"\xfe" + b"\xff" * 8, (1 << 64) - 1),
    (b"\xfe\x00\x00\x00\x01\x00\x00\x00\x00", 1 << 24),
]


@pytest.mark.parametrize(("raw", "value"), LENENC)
def test_length_encoded(raw: bytes, value: int) -> None:
    cursor = Cursor(raw + b"\x00")
    assert cursor.lenenc() == value
    assert cursor.pos == len(raw)
    for cut in range(len(raw)):
        cursor = Cursor(raw[:cut])
        with pytest.raises(TruncatedError):
            cursor.lenenc()
        assert cursor.pos == 0


@pytest.mark.parametrize("first", [0xFB, 0xFF])
def test_invalid_first_bytes_of_length_encoded_integers(first: int) -> None:
    cursor = Cursor(bytes([first]) + bytes(9))
    with pytest.raises(MalformedError):
        cursor.lenenc()
    assert cursor.pos == 0


def test_a_claimed_length_is_checked_against_remaining_bytes() -> None:
    assert Cursor(b"\x03abc").length() == 3
    for raw in (b"\x04abc", b"\xfe" + b"\xff" * 8 + b"abc"):
        with pytest.raises(TruncatedError):
            Cursor(raw).length()


def test_take_skip_left() -> None:
    cursor = Cursor(b"abcdef", 1, 5)
    assert cursor.take(2) == b"bc"
    cursor.skip(1)
    assert (cursor.left(), cursor.take(1), cursor.left()) == (1, b"e", 0)
    assert cursor.take(0) == b""
    for read in (cursor.take, cursor.skip, cursor.need):
        with pytest.raises(TruncatedError):
            read(1)
        with pytest.raises(MalformedError):
            read(-1)


def test_enter_moves_inside_the_buffer_only() -> None:
    cursor = Cursor(b"abcdef")
    cursor.enter(2, 4)
    assert (cursor.start, cursor.pos, cursor.end) == (2, 2, 4)
    for start, end in ((-1, 2), (3, 2), (0, 7), (7, 7)):
        with pytest.raises(ValueError, match="outside"):
            cursor.enter(start, end)
    cursor.enter(6, 6)
    assert cursor.left() == 0


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_byte_buffer(make: type) -> None:
    assert Cursor(make(b"\x01\x02")).u16() == 0x0201


def test_bound_stays_inside_the_buffer() -> None:
    cursor = Cursor(b"abcdef", 1)
    cursor.bound(2, 3)
    assert (cursor.start, cursor.take(1), cursor.left()) == (1, b"c", 0)
    for pos, end in ((-1, 2), (3, 2), (0, 7)):
        with pytest.raises(ValueError, match="outside"):
            cursor.bound(pos, end)
