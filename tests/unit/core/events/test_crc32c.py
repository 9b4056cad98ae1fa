"""CRC-32C: the published check values, and a second implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.events.crc32c import crc32c
from support.logs import ibb_log


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_check_values(data: bytes, expected: int) -> None:
    assert crc32c(data, 0, len(data)) == expected


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_of_a_part(data: bytes, a: int, b: int) -> None:
    start, end = sorted((min(a, len(data)), min(b, len(data))))
    assert crc32c(data, start, end) == ibb_log.crc32c(data[start:end])


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 4), (3, 2)])
def test_outside_of_the_data(start: int, end: int) -> None:
    with pytest.raises(IndexError):
        crc32c(b"abc", start, end)
