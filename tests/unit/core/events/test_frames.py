"""The frame scan: whole frames only, every header field, every reason to stop."""

from __future__ import annotations

import random
import struct

import pytest

from binlake.core.events.frames import (
    BAD_LENGTH,
    FORMAT,
    MORE,
    FrameBlock,
    find_anchor,
    find_pair,
    first_unanchored,
    read_frame,
    scan,
    scan_v1,
)
from binlake.values.frame import Frame

HEADER = struct.Struct("<IBIIIH")


def raw_event(type_code: int, length: int, log_pos: int = 0, **fields: int) -> bytes:
    head = HEADER.pack(
        fields.get("timestamp", 1),
        type_code,
        fields.get("server_id", 2),
        length,
        log_pos,
        fields.get("flags", 0),
    )
    return head + bytes(length - 19)


def test_every_field_of_the_header_at_its_extremes() -> None:
    data = raw_event(255, 40, 0xFFFFFFFF, timestamp=0xFFFFFFFE, server_id=0xFFFFFFFD, flags=0xFFFC)
    block = FrameBlock()
    base = 5 << 40
    assert scan(data, base, 0, len(data), 19, block) == (40, MORE)
    expected = Frame(base, 255, 40, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF, 0xFFFC)
    assert block.frame(0) == expected
    assert read_frame(data, base, 0) == expected
    assert block.end(0) == base + 40


def test_every_cut_gives_the_whole_frames_before_it() -> None:
    lengths = [19, 20, 300, 19, 77]
    data = b"".join(raw_event(2, length) for length in lengths)
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    for cut in range(len(data) + 1):
        block = FrameBlock(1)
        pos, reason = scan(data, 1000, 0, cut, 19, block)
        whole = [end for end in ends if end <= cut]
        assert len(block) == len(whole)
        assert [block.end(i) - 1000 for i in range(len(block))] == whole
        assert pos == (whole[-1] if whole else 0)
        assert reason == MORE


@pytest.mark.parametrize("minimum", [0, 19, 23])
def test_a_length_below_the_minimum_is_no_header(minimum: int) -> None:
    smallest = max(minimum, 19)
    good = raw_event(2, smallest)
    for length in range(smallest):
        bad = HEADER.pack(0, 2, 0, length, 0, 0) + bytes(50)
        block = FrameBlock()
        data = good + bad
        assert scan(data, 0, 0, len(data), minimum, block) == (smallest, BAD_LENGTH)
        assert len(block) == 1


def test_a_claimed_length_of_4_gib_is_not_followed() -> None:
    data = HEADER.pack(0, 2, 0, 0xFFFFFFFF, 0, 0) + bytes(1000)
    block = FrameBlock()
    assert scan(data, 0, 0, len(data), 19, block) == (0, MORE)
    assert len(block) == 0


def test_a_scan_stops_behind_a_format_description() -> None:
    data = raw_event(2, 30) + raw_event(15, 100) + raw_event(2, 30)
    block = FrameBlock()
    assert scan(data, 0, 0, len(data), 19, block) == (130, FORMAT)
    assert list(block.type_code[: len(block)]) == [2, 15]
    assert scan(data, 0, 130, len(data), 19, block) == (160, MORE)
    assert len(block) == 3


def test_a_growing_block_keeps_its_content() -> None:
    data = b"".join(raw_event(2, 19 + n % 7, n, timestamp=n) for n in range(5000))
    block = FrameBlock(3)
    assert scan(data, 7, 0, len(data), 19, block) == (len(data), MORE)
    assert len(block) == 5000
    offset = 7
    for n in range(5000):
        frame = block.frame(n)
        assert frame == Frame(offset, 2, 19 + n % 7, n, 2, n, 0)
        offset = frame.end


def test_ranges_outside_the_data_are_refused() -> None:
    block = FrameBlock()
    for pos, end in [(-1, 5), (0, 11), (6, 5)]:
        with pytest.raises(IndexError):
            scan(bytes(10), 0, pos, end, 19, block)
        with pytest.raises(IndexError):
            find_anchor(bytes(10), 0, pos, end, 19)
        with pytest.raises(IndexError):
            find_pair(bytes(10), pos, end, 19, bytes(256))
    with pytest.raises(IndexError):
        read_frame(bytes(18), 0, 0)
    with pytest.raises(IndexError):
        read_frame(bytes(30), 0, -1)
    with pytest.raises(IndexError):
        block.frame(0)
    with pytest.raises(IndexError):
        block.end(-1)
    with pytest.raises(IndexError):
        block.truncate(1)
    with pytest.raises(IndexError):
        block.types(0, 1)
    with pytest.raises(ValueError, match="capacity"):
        FrameBlock(0)


def test_find_truncate_and_types() -> None:
    data = raw_event(2, 20) + raw_event(16, 30) + raw_event(2, 40)
    block = FrameBlock()
    scan(data, 100, 0, len(data), 19, block)
    assert [block.find(at) for at in (0, 100, 101, 120, 150, 151, 999)] == [0, 0, 1, 1, 2, 3, 3]
    assert block.types(0, 3)[2] == 2
    assert block.types(1, 3)[16] == 1
    block.truncate(1)
    assert len(block) == 1


def test_an_anchor_is_a_header_whose_position_is_its_end() -> None:
    rng = random.Random(1)
    noise = bytes(rng.randrange(256) for _ in range(500))
    for base in (0, 0xFFFFFF00, (7 << 32) - 300):  # log_pos wraps at 4 GiB
        head = raw_event(2, 60, (base + 500 + 60) & 0xFFFFFFFF)
        data = noise + head + noise
        assert find_anchor(data, base, 0, len(data), 19) == 500
        assert find_anchor(data, base, 500, 519, 19) == 500
        assert find_anchor(data, base, 501, len(data), 19) == -1
        assert find_anchor(data, base, 0, 518, 19) == -1  # the header is cut
        assert find_anchor(data, base, 0, len(data), 61) == -1  # too short to be an event
        assert find_anchor(data, base + 1, 0, len(data), 19) == -1  # another place


def test_zero_bytes_are_no_anchor() -> None:
    assert find_anchor(bytes(1000), 0, 0, 1000, 19) == -1


def test_a_pair_is_two_headers_that_follow_one_another() -> None:
    known = bytes(code == 2 for code in range(256))
    data = b"\xff" * 37 + raw_event(2, 50) + raw_event(2, 10_000)[:19]
    assert find_pair(data, 0, len(data), 19, known) == 37
    assert find_pair(data, 38, len(data), 19, known) == -1
    assert find_pair(data[:-1], 0, len(data) - 1, 19, known) == -1
    assert find_pair(data, 0, len(data), 19, bytes(256)) == -1


def test_first_unanchored_passes_artificial_events() -> None:
    base = (1 << 32) - 30
    data = (
        raw_event(2, 50, (base + 50) & 0xFFFFFFFF)
        + raw_event(2, 50, 0)
        + raw_event(2, 50, (base + 151) & 0xFFFFFFFF)
    )
    block = FrameBlock()
    scan(data, base, 0, len(data), 19, block)
    assert first_unanchored(block, 0, 3) == 2
    assert first_unanchored(block, 0, 2) == -1
    with pytest.raises(IndexError):
        first_unanchored(block, 0, 4)


# --- version 1: headers of 13 bytes -----------------------------------------------------------

HEADER_V1 = struct.Struct("<IBII")


def test_short_headers_of_version_1() -> None:
    data = HEADER_V1.pack(0xFFFFFFFE, 255, 0xFFFFFFFD, 20) + bytes(7)
    data += HEADER_V1.pack(7, 2, 1, 13)
    block = FrameBlock(1)
    assert scan_v1(data, 5 << 40, 0, len(data), block) == (33, MORE)
    assert block.frame(0) == Frame(5 << 40, 255, 20, 0xFFFFFFFE, 0xFFFFFFFD, 0, 0)
    assert block.frame(1) == Frame((5 << 40) + 20, 2, 13, 7, 1, 0, 0)


def test_cuts_and_bad_lengths_of_version_1() -> None:
    lengths = [13, 14, 300, 13]
    data = b"".join(HEADER_V1.pack(0, 2, 0, n) + bytes(n - 13) for n in lengths)
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    for cut in range(len(data) + 1):
        block = FrameBlock(1)
        pos, reason = scan_v1(data, 0, 0, cut, block)
        whole = [end for end in ends if end <= cut]
        assert (len(block), reason) == (len(whole), MORE)
        assert pos == (whole[-1] if whole else 0)
    bad = data + HEADER_V1.pack(0, 2, 0, 12) + bytes(50)
    block = FrameBlock()
    assert scan_v1(bad, 0, 0, len(bad), block) == (len(data), BAD_LENGTH)
    with pytest.raises(IndexError):
        scan_v1(data, 0, 0, len(data) + 1, block)
