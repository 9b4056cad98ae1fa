"""Checksums of a block of frames, against zlib's of the same bytes."""

from __future__ import annotations

import random
import re
import struct
import zlib

import pytest

from binlake.core.events.checksum import crc32_library, event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import FrameBlock, scan

HEADER = struct.Struct("<IBIIIH")


def signed(type_code: int, body: bytes, flags: int = 0, signed_flags: int | None = None) -> bytes:
    """An event whose checksum was computed with `signed_flags` in the place of `flags`."""
    length = 19 + len(body) + 4
    raw = HEADER.pack(9, type_code, 1, length, 0, flags) + body
    seen = flags if signed_flags is None else signed_flags
    seen_raw = HEADER.pack(9, type_code, 1, length, 0, seen) + body
    return raw + struct.pack("<I", zlib.crc32(seen_raw))


def block_of(data: bytes, base: int = 0) -> FrameBlock:
    block = FrameBlock()
    pos = 0
    while pos < len(data):
        pos, _ = scan(data, base, pos, len(data), 23, block)
    return block


def test_right_checksums_of_all_lengths() -> None:
    rng = random.Random(2)
    data = b"".join(signed(2, rng.randbytes(n)) for n in range(200))
    block = block_of(data, base=1 << 33)
    assert first_bad(data, 1 << 33, block, 0, len(block)) == -1


def test_every_flipped_bit_is_found_in_its_event() -> None:
    events = [signed(2, b"abc"), signed(19, b"defgh"), signed(16, b"")]
    data = b"".join(events)
    block = block_of(data)
    starts = [0, len(events[0]), len(events[0]) + len(events[1]), len(data)]
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        index = max(i for i in range(3) if starts[i] <= bit // 8)
        # a type that becomes 15 is checked by the other rule, and is as wrong
        assert first_bad(bytes(damaged), 0, block, 0, 3) == index
        assert first_bad(bytes(damaged), 0, block, 0, index) == -1


@pytest.mark.parametrize("flags", [0, 1, 0x41, 0xFFFF])
def test_a_format_description_is_signed_as_if_not_in_use(flags: int) -> None:
    data = signed(15, bytes(80), flags, signed_flags=flags & ~1)
    assert first_bad(data, 0, block_of(data), 0, 1) == -1
    assert event_crc32(data) == stored_crc32(data)


def test_other_events_are_signed_with_all_their_flags() -> None:
    right = signed(2, b"x", 1)
    assert first_bad(right, 0, block_of(right), 0, 1) == -1
    wrong = signed(2, b"x", 1, signed_flags=0)
    assert first_bad(wrong, 0, block_of(wrong), 0, 1) == 0


def test_frames_that_are_not_in_the_data_are_refused() -> None:
    data = signed(2, b"abc") + signed(2, b"def")
    block = block_of(data)
    for part, base in [(data[:-1], 0), (data, 1), (b"", 0)]:
        with pytest.raises(IndexError):
            first_bad(part, base, block, 0, 2)
    for first, last in [(-1, 1), (0, 3), (2, 1)]:
        with pytest.raises(IndexError):
            first_bad(data, 0, block, first, last)
    short = HEADER.pack(0, 2, 0, 20, 0, 0) + b"x"
    block = FrameBlock()
    scan(short, 0, 0, len(short), 19, block)
    with pytest.raises(IndexError):
        first_bad(short, 0, block, 0, 1)
    with pytest.raises(IndexError):
        event_crc32(bytes(22))
    with pytest.raises(IndexError):
        stored_crc32(b"abc")


def test_the_library_in_use_has_a_name_and_a_version() -> None:
    assert re.fullmatch(r"(libdeflate|zlib) \d+\.\d[\w.-]*", crc32_library())
