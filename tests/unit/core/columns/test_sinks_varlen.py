"""Strings, bytes, JSON documents: prefixes of every size, padding, character tables, growth."""

from __future__ import annotations

import itertools

import pytest

from binlake.core.columns.sink import SinkBuffers, make_sink
from binlake.errors import MalformedError, TruncatedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

COLUMN = ColumnDefinition(0, "c", 0)


def values(found: SinkBuffers) -> list[bytes]:
    assert found.offsets is not None
    ends = found.offsets.cast("B").cast("i").tolist()
    assert (ends[0], ends[-1], len(ends)) == (0, len(found.data), found.count + 1)
    return [bytes(found.data[a:b]) for a, b in itertools.pairwise(ends)]


def prefixed(value: bytes, prefix: int) -> bytes:
    return len(value).to_bytes(prefix, "little") + value


@pytest.mark.parametrize(
    ("prefix", "sizes"),
    [
        (1, [0, 1, 7, 8, 9, 255]),
        (2, [0, 1, 255, 256, 65_535]),
        (3, [0, 65_536, 300_000]),
        (4, [0, 70_000]),
    ],
)
def test_bytes(prefix: int, sizes: list[int]) -> None:
    data = [bytes(i & 0xFF for i in range(size)) for size in sizes]
    sink = make_sink(ColumnPlan(COLUMN, Kernel.BYTES, prefix))
    assert values(sink.decode(b"".join(prefixed(v, prefix) for v in data), len(data))) == data
    # the same sink again: earlier buffers do not change
    kept = sink.decode(prefixed(b"ab", prefix), 1)
    assert values(sink.decode(prefixed(b"xyz", prefix) * 2, 2)) == [b"xyz", b"xyz"]
    assert values(kept) == [b"ab"]


def test_padding_comes_back() -> None:
    data = [b"", b"a", b"abc", b"abcd"]
    sink = make_sink(ColumnPlan(COLUMN, Kernel.BYTES, 1, 4))
    found = sink.decode(b"".join(prefixed(v, 1) for v in data), len(data))
    assert values(found) == [b"\0\0\0\0", b"a\0\0\0", b"abc\0", b"abcd"]


@pytest.mark.parametrize("kernel", [Kernel.BYTES, Kernel.LATIN, Kernel.JSON])
@pytest.mark.parametrize("prefix", [1, 2, 3, 4])
def test_a_length_beyond_the_end(kernel: Kernel, prefix: int) -> None:
    table = tuple(bytes([i]) if i < 128 else None for i in range(256))
    plan = ColumnPlan(COLUMN, kernel, prefix, table=table)
    largest = b"\xff" * prefix + b"abc"
    for wire in [largest[:cut] for cut in range(len(largest) + 1)]:
        with pytest.raises(TruncatedError):
            make_sink(plan).decode(wire, 1)


LATIN1 = tuple(chr(i).encode() for i in range(256))
SOME = tuple(
    None if i == 0x81 else "\N{EURO SIGN}".encode() if i == 0x80 else b"?" for i in range(256)
)


def test_a_table_of_characters() -> None:
    every = bytes(range(256))
    sink = make_sink(ColumnPlan(COLUMN, Kernel.LATIN, 2, table=LATIN1))
    assert values(sink.decode(prefixed(every, 2) * 3, 3)) == [every.decode("latin-1").encode()] * 3
    sink = make_sink(ColumnPlan(COLUMN, Kernel.LATIN, 1, table=SOME))
    assert values(sink.decode(prefixed(b"\x80a", 1), 1)) == ["\N{EURO SIGN}?".encode()]
    with pytest.raises(MalformedError, match="0x81"):
        sink.decode(prefixed(b"a\x81", 1), 1)


def test_a_table_has_256_entries() -> None:
    with pytest.raises(ValueError, match="256"):
        make_sink(ColumnPlan(COLUMN, Kernel.LATIN, 1, table=LATIN1[:255]))


@pytest.mark.parametrize("prefix", [1, 4])
def test_json(prefix: int) -> None:
    documents = [b"", b"\x04\x01", b"\x05\xff\xff", b'\x0c\x03a"b']
    sink = make_sink(ColumnPlan(COLUMN, Kernel.JSON, prefix))
    found = sink.decode(b"".join(prefixed(d, prefix) for d in documents), len(documents))
    assert values(found) == [b"null", b"true", b"-1", b'"a\\"b"']
    with pytest.raises(MalformedError):
        make_sink(ColumnPlan(COLUMN, Kernel.JSON, prefix)).decode(prefixed(b"\x03\x00", prefix), 1)
