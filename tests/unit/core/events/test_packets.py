"""Runs of plain event packets: copied whole, in order, and nothing that is special."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.events.packets import FULL, MORE, SPECIAL, copy_events

PLAIN = bytes(code not in (4, 15, 27) for code in range(256))


def event(offset: int, body: bytes, kind: int = 2, flags: int = 0) -> bytes:
    length = 19 + len(body)
    end = (offset + length) & 0xFFFFFFFF
    head = b"\1\0\0\0" + bytes([kind]) + b"\1\0\0\0" + length.to_bytes(4, "little")
    return head + end.to_bytes(4, "little") + flags.to_bytes(2, "little") + body


def packet(payload: bytes, sequence: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([sequence & 255]) + payload


def stream(offset: int, bodies: list[bytes], mark: bytes) -> tuple[bytes, bytes]:
    """The packets of events that follow one another from `offset`, and the events."""
    packets, events = b"", b""
    for number, body in enumerate(bodies):
        raw = event(offset, body)
        packets += packet(mark + raw, number)
        events += raw
        offset += len(raw)
    return packets, events


marks = pytest.mark.parametrize("mark", [b"\0", b"\0\xef\0"], ids=["plain", "semi-sync"])


@marks
@given(
    bodies=st.lists(st.binary(max_size=60), max_size=12),
    offset=st.sampled_from([4, 1 << 31, (1 << 32) - 30, (1 << 40) + 17]),
    data=st.data(),
)
def test_events_do_not_depend_on_packet_boundaries(
    mark: bytes, bodies: list[bytes], offset: int, data: st.DataObject
) -> None:
    packets, events = stream(offset, bodies, mark)
    out = bytearray(len(events))
    pos = written = have = 0
    while True:
        pos, written, reason = copy_events(
            packets, pos, have, out, written, offset + written, len(mark), PLAIN
        )
        assert reason == MORE
        assert out[:written] == events[:written]
        if have == len(packets):
            break
        have = data.draw(st.integers(have + 1, len(packets)))
    assert (pos, written) == (len(packets), len(events))


@marks
def test_no_room_keeps_the_event(mark: bytes) -> None:
    packets, events = stream(4, [b"a" * 10, b"b" * 10], mark)
    out = bytearray(40)
    pos, written, reason = copy_events(packets, 0, len(packets), out, 0, 4, len(mark), PLAIN)
    assert reason == FULL
    assert out[:written] == events[:29]
    assert packets[pos:] == packet(mark + events[29:], 1)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xfe\0\0\2\0",  # the end
        b"\xff\x15\4#HY000no" + b"x" * 30,  # an error
        b"\0" + event(4, b"", kind=4),
        b"\0" + event(4, b"", kind=15),
        b"\0" + event(4, b"", flags=0x20),  # artificial
        b"\0" + event(5, b""),  # elsewhere
        b"\0" + event(4, b"") + b"x",  # longer than it says
        b"\0" + event(4, b"xyz")[:-1],  # shorter
        b"\0" * 5,
        b"",
    ],
    ids=range(10),
)
def test_special_packets_end_the_copy(payload: bytes) -> None:
    before, events = stream(4 - 19, [b""], b"\0")
    data = before + packet(payload) + b"\0" * 40
    out = bytearray(100)
    pos, written, reason = copy_events(data, 0, len(data), out, 0, 4 - 19 + (1 << 32), 1, PLAIN)
    assert (pos, written, reason) == (len(before), len(events), SPECIAL)


def test_semi_synchronous_packets_that_want_an_answer_are_special() -> None:
    data = packet(b"\0\xef\1" + event(4, b""))
    assert copy_events(data, 0, len(data), bytearray(99), 0, 4, 3, PLAIN)[2] == SPECIAL


@given(data=st.binary(max_size=300), wrapped=st.sampled_from([1, 3]), room=st.integers(0, 80))
def test_any_bytes_are_survived(data: bytes, wrapped: int, room: int) -> None:
    out = bytearray(room)
    pos, written, reason = copy_events(data, 0, len(data), out, 0, 4, wrapped, PLAIN)
    assert 0 <= pos <= len(data)
    assert 0 <= written <= room
    assert reason in (MORE, FULL, SPECIAL)


@pytest.mark.parametrize(
    "places", [(-1, 3, 0), (2, 1, 0), (0, 11, 0), (0, 3, -1), (0, 3, 11)], ids=str
)
def test_places_outside_are_refused(places: tuple[int, int, int]) -> None:
    pos, end, out_pos = places
    with pytest.raises(IndexError):
        copy_events(bytes(10), pos, end, bytearray(10), out_pos, 4, 1, PLAIN)
    with pytest.raises(IndexError):
        copy_events(bytes(10), 0, 10, bytearray(10), 0, 4, 2, PLAIN)
