"""Damaged logs: seeded mutations of real ones, with checksums made right again.

A mutation that a checksum finds says nothing about the decoders behind it; so after most
mutations every event is given its right CRC32, as an attacker would.
"""

from __future__ import annotations

import os
import random
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

__all__ = [
    "IS_THOROUGH",
    "all_or_a_third",
    "changed_text",
    "every_or_some",
    "frames",
    "has_checksums",
    "mutated",
    "mutated_packet",
    "signed",
    "snippets",
]

#: `make fuzz`: every byte of small logs is tried.
IS_THOROUGH = int(os.environ.get("BINLAKE_FUZZ_CASES", "0")) >= 100_000
MAGIC = 4
HEADER = 19
FORMAT_DESCRIPTION = 15
_GTID_TYPES = (33, 34, 42, 162)
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_WIDE_EDGES = (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def every_or_some(places: Sequence[int], most: int, bounds: Iterable[int]) -> Sequence[int]:
    """Places in a log: all of them with `make fuzz`; otherwise the first and the last, those at and beside `bounds`, and some of
    the others, the same in each run.
    """
    if IS_THOROUGH or len(places) <= most:
        return places
    beside = {bound + move for bound in bounds for move in (-1, 0, 1)}
    inner = random.Random(len(places)).sample(places, most)
    return sorted({places[0], *inner, *beside.intersection(places), places[-1]})


Item = TypeVar("Item")


def all_or_a_third(items: Sequence[Item], first: int = 0) -> Sequence[Item]:
    """Logs for a test that reads each of them many times: all with `make fuzz`, otherwise every third one from `first` on."""
    return items if IS_THOROUGH else items[first::3]


def frames(log: bytes | bytearray) -> Iterator[tuple[int, int, int]]:
    """(offset, length, type) of each event, as far as the lengths make sense."""
    at = MAGIC
    while at + HEADER <= len(log):
        kind = log[at + 4]
        length = struct.unpack_from("<I", log, at + 9)[0]
        if length < HEADER or at + length > len(log):
            return
        yield at, length, kind
        at += length


def has_checksums(log: bytes) -> bool:
    """Whether the log's format description says CRC32."""
    for at, length, kind in frames(log):
        if kind == FORMAT_DESCRIPTION:
            return log[at + length - 5] == 1
    return False


def signed(log: bytes) -> bytes:
    """A copy whose events have right checksums."""
    data = bytearray(log)
    _sign(data)
    return bytes(data)


def _sign(log: bytearray) -> None:
    for at, length, kind in frames(log):
        event = bytearray(log[at : at + length - 4])
        if kind == FORMAT_DESCRIPTION:
            event[17] &= 0xFE  # the flag that the file is in use is left out
        struct.pack_into("<I", log, at + length - 4, zlib.crc32(event))


def snippets(log: bytes) -> list[bytes]:
    """The log cut into small ones: what stands before its first transaction, and one of them."""
    found = list(frames(log))
    starts = [i for i, (_, _, kind) in enumerate(found) if kind in _GTID_TYPES]
    if not starts:
        return [log]
    head = log[: found[starts[0]][0]]
    bounds = [found[i][0] for i in starts] + [len(log)]
    return [head + log[a:b] for a, b in pairwise(bounds)]


def mutated(log: bytes, chance: random.Random) -> bytes:
    """A copy with one to four mutations; nine times of ten with right checksums."""
    data = bytearray(log)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        events = [event for event in frames(data) if event[0] > MAGIC] or list(frames(data))
        if events:
            chance.choice(_MUTATIONS)(data, chance.choice(events), chance)
    if has_checksums(log) and chance.random() < 0.9:
        _sign(data)
    return bytes(data)


# --- mutations: of the log, given one of its events (offset, length, type) ---

Event = tuple[int, int, int]


def _place(event: Event, chance: random.Random) -> int:
    return event[0] + chance.randrange(HEADER, max(HEADER + 1, event[1] - 4))


def _flip_bit(data: bytearray, event: Event, chance: random.Random) -> None:
    at = min(_place(event, chance), len(data) - 1)
    data[at] ^= 1 << chance.randrange(8)


def _set_byte(data: bytearray, event: Event, chance: random.Random) -> None:
    data[min(_place(event, chance), len(data) - 1)] = chance.choice(_EDGES)


def _set_number(data: bytearray, event: Event, chance: random.Random) -> None:
    width = chance.choice((2, 4, 8))
    at = min(_place(event, chance), len(data) - width)
    value = chance.choice(_WIDE_EDGES)
    data[at : at + width] = (value * 0x100000001 & (1 << 8 * width) - 1).to_bytes(width, "little")


def _set_header(data: bytearray, event: Event, chance: random.Random) -> None:
    data[event[0] + chance.randrange(HEADER)] = chance.choice((*_EDGES, chance.randrange(256)))


def _set_type(data: bytearray, event: Event, chance: random.Random) -> None:
    data[event[0] + 4] = chance.choice((*range(46), *range(158, 174)))


def _resized(data: bytearray, event: Event, at: int, removed: int, added: bytes) -> None:
    """Replace bytes inside an event and keep its length right."""
    data[at : at + removed] = added
    length = event[1] - removed + len(added)
    struct.pack_into("<I", data, event[0] + 9, length)


def _shorten(data: bytearray, event: Event, chance: random.Random) -> None:
    inside = event[1] - HEADER - 4
    if inside > 0:
        count = chance.randint(1, min(inside, 64))
        _resized(data, event, event[0] + event[1] - 4 - count, count, b"")


def _cut_out(data: bytearray, event: Event, chance: random.Random) -> None:
    inside = event[1] - HEADER - 4
    if inside > 1:
        start = chance.randrange(inside)
        _resized(data, event, event[0] + HEADER + start, chance.randint(1, inside - start), b"")


def _grow(data: bytearray, event: Event, chance: random.Random) -> None:
    added = bytes(chance.choice(_EDGES) for _ in range(chance.randint(1, 40)))
    _resized(data, event, _place(event, chance), 0, added)


def _copy_inside(data: bytearray, event: Event, chance: random.Random) -> None:
    count = chance.randint(1, 16)
    source, target = _place(event, chance), _place(event, chance)
    piece = data[source : source + count]
    data[target : target + len(piece)] = piece


def _drop_event(data: bytearray, event: Event, chance: random.Random) -> None:
    del data[event[0] : event[0] + event[1]]


def _repeat_event(data: bytearray, event: Event, chance: random.Random) -> None:
    data[event[0] : event[0]] = data[event[0] : event[0] + event[1]]


def _cut_file(data: bytearray, event: Event, chance: random.Random) -> None:
    del data[_place(event, chance) :]


_MUTATIONS = (
    _flip_bit, _flip_bit, _flip_bit, _set_byte, _set_byte, _set_byte, _set_number, _set_number, _set_header,
    _set_type, _shorten, _cut_out, _grow, _copy_inside, _drop_event, _repeat_event, _cut_file,
)  # fmt: skip


def mutated_packet(data: bytes, rng: random.Random) -> bytes:
    """A packet with one change: a byte, a length, a cut, a doubled or a foreign piece."""
    out = bytearray(data)
    at = rng.randrange(len(out)) if out else 0
    match rng.randrange(7):
        case 0 if out:
            out[at] = rng.randrange(256)
        case 1 if out:
            out[at] ^= 1 << rng.randrange(8)
        case 2:
            del out[at:]
        case 3:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 300)))
        case 4:
            out[at:at] = out[at : at + 40]
        case 5:
            out[:3] = rng.choice((b"\0\0\0", b"\xff\xff\xff", b"\1\0\0", b"\5\0\0"))
        case _ if len(out) > 4:
            out[4 + (at % (len(out) - 4))] = rng.choice((0, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF))
    return bytes(out)


_WORDS = (
    *(b"'", b'"', b"`", b"\\", b"/*", b"*/", b"/*!", b"-- ", b"#", b";", b"\n", b"\r", b"\0", b"(", b")"),
    *(b",", b"[", b"]", b"{", b"=", b"\xff", b"\xc3", b"\xe2\x80\xae", b"..", b"/", b"CREATE TABLE "),
    *(b"INSERT ", b"DELIMITER ", b"9" * 5000, b"-1", b"1e999", b"null", b"!include my.cnf\n", b"[client]\n"),
)  # fmt: skip


def changed_text(text: bytes, chance: random.Random) -> bytes:
    """A copy with some bytes changed, words put in or repeated many times, or pieces moved or cut off."""
    data = bytearray(text)
    for _ in range(chance.choice((1, 2, 4, 8))):
        at, count = chance.randrange(len(data) + 1), chance.choice((1, 2, 8, 60))
        match chance.randrange(8):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 7 if b":" in data:  # a value that is nested deeply, or another one
                colon = data.index(b":", chance.randrange(data.rindex(b":") + 1))
                data[colon + 1 : colon + 1] = chance.choice(
                    (b"[" * 100_000, b"{}, ", b"true, ", b"-5,")
                )
            case 1:
                data[at:at] = chance.choice(_WORDS)
            case 2:
                data[at:at] = chance.choice(_WORDS) * chance.choice((10, 1000, 20_000))
            case 3:
                del data[at : at + count]
            case 4:
                start = chance.randrange(len(data) + 1)
                data[at:at] = data[start : start + count]
            case 5:
                del data[at:]
            case _:
                data[at:at] = bytes([chance.choice(b" \t0a_'")]) * chance.choice((100, 100_000))
        del data[1 << 20 :]
    return bytes(data)
