"""MariaDB's compressed event data."""

from __future__ import annotations

import zlib

import pytest

from binlake.core.events.inflate import inflate_event_data
from binlake.errors import MalformedError, UnsupportedError

PLAIN = b"INSERT INTO t VALUES (1), (2), (3), (4)" * 20


def packed(plain: bytes, *, width: int = 2, claimed: int | None = None) -> bytes:
    size = len(plain) if claimed is None else claimed
    return bytes((0x80 | width,)) + size.to_bytes(width, "big") + zlib.compress(plain)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_length_of_every_width(width: int) -> None:
    assert inflate_event_data(packed(PLAIN, width=width)) == PLAIN


def test_empty() -> None:
    assert inflate_event_data(packed(b"", width=1)) == b""


def test_every_cut_is_an_error() -> None:
    data = packed(PLAIN)
    for cut in range(len(data)):
        with pytest.raises(MalformedError):
            inflate_event_data(data[:cut])


@pytest.mark.parametrize(
    "data",
    [
        packed(PLAIN, claimed=len(PLAIN) - 1),
        packed(PLAIN, claimed=len(PLAIN) + 1),
        packed(PLAIN) + b"\x00",
        b"\x02" + packed(PLAIN)[1:],  # the high bit is missing
        b"\x80" + packed(PLAIN)[1:],  # no length
        b"\x87" + packed(PLAIN)[1:],  # a length of 7 bytes
        packed(PLAIN, width=4, claimed=0xFFFFFFFF),  # more than deflate can pack
    ],
)
def test_wrong_head_or_length(data: bytes) -> None:
    with pytest.raises(MalformedError):
        inflate_event_data(data)


def test_unknown_algorithm() -> None:
    with pytest.raises(UnsupportedError, match="algorithm 1"):
        inflate_event_data(b"\x92" + packed(PLAIN)[1:])


def test_bomb_stops_at_the_claimed_length() -> None:
    data = packed(bytes(1 << 26), width=4, claimed=1000)
    with pytest.raises(MalformedError, match="1000 bytes"):
        inflate_event_data(data)
