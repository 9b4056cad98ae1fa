"""Integers, floats, BIT, YEAR: boundary values of every width and sign; skipping of all kernels."""

from __future__ import annotations

import struct

import pytest

from binlake.core.columns.sink import SinkBuffers, make_sink, make_skip
from binlake.errors import MalformedError, TruncatedError, UnsupportedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.values.core_walk import numbers as integers

COLUMN = ColumnDefinition(0, "c", 0)


def decode(plan: ColumnPlan, values: list[bytes]) -> SinkBuffers:
    return make_sink(plan).decode(b"".join(values), len(values))


def numbers(found: SinkBuffers, code: str) -> list[int]:
    assert (found.null_count, found.validity, found.offsets) == (0, None, None)
    return integers(found.data, code)


@pytest.mark.parametrize(("width", "code"), [(1, "b"), (2, "h"), (3, "i"), (4, "i"), (8, "q")])
def test_signed(width: int, code: str) -> None:
    top = 1 << 8 * width - 1
    values = [0, 1, -1, top - 1, -top, 0x55 % top]
    wire = [v.to_bytes(width, "little", signed=True) for v in values]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.INT, width), wire), code) == values


@pytest.mark.parametrize(("width", "code"), [(1, "h"), (2, "i"), (3, "i"), (4, "q")])
def test_unsigned_in_the_next_wider_signed(width: int, code: str) -> None:
    values = [0, 1, (1 << 8 * width) - 1, 1 << 8 * width - 1]
    wire = [v.to_bytes(width, "little") for v in values]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.INT, width, 1), wire), code) == values


def test_unsigned_64() -> None:
    values = [0, 1, (1 << 64) - 1, 1 << 63]
    wire = [v.to_bytes(8, "little") for v in values]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.UINT64), wire), "Q") == values
    data = bytes(decode(ColumnPlan(COLUMN, Kernel.UINT64_DECIMAL), wire).data)
    assert data == b"".join(v.to_bytes(16, "little") for v in values)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
def test_enum_indexes_and_set_bits(width: int) -> None:
    values = [0, 1, (1 << 8 * width) - 1]
    wire = [v.to_bytes(width, "little") for v in values]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.FIXED_UINT, width), wire), "Q") == values


@pytest.mark.parametrize("width", range(1, 9))
def test_bit(width: int) -> None:
    values = [0, 1, (1 << 8 * width) - 1, 0x0102030405060708 >> 8 * (8 - width)]
    wire = [v.to_bytes(width, "big") for v in values]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.BIT, width), wire), "Q") == values


def test_bit_64_as_decimal() -> None:
    values = [0, 1, (1 << 64) - 1]
    wire = [v.to_bytes(8, "big") for v in values]
    data = bytes(decode(ColumnPlan(COLUMN, Kernel.BIT_DECIMAL, 8), wire).data)
    assert data == b"".join(v.to_bytes(16, "little") for v in values)


@pytest.mark.parametrize(
    ("kernel", "code"), [(Kernel.FLOAT, "f"), (Kernel.DOUBLE, "d")], ids=["float", "double"]
)
def test_floats_keep_their_bits(kernel: Kernel, code: str) -> None:
    values = [0.0, -0.0, 1.5, -1.5, 3.4028234663852886e38, 1e-45, float("inf"), float("nan")]
    wire = [struct.pack("<" + code, v) for v in values]
    assert bytes(decode(ColumnPlan(COLUMN, kernel), wire).data) == b"".join(wire)


def test_year() -> None:
    wire = [bytes([v]) for v in (0, 1, 70, 255)]
    assert numbers(decode(ColumnPlan(COLUMN, Kernel.YEAR), wire), "h") == [0, 1901, 1970, 2155]


#: kernel, p0, p1, bytes of one value
WIDTHS = [
    *[(Kernel.INT, w, s, w) for w in (1, 2, 3, 4) for s in (0, 1)],
    (Kernel.INT, 8, 0, 8), (Kernel.UINT64, 0, 0, 8), (Kernel.UINT64_DECIMAL, 0, 0, 8),
    (Kernel.FLOAT, 0, 0, 4), (Kernel.DOUBLE, 0, 0, 8), (Kernel.BIT_DECIMAL, 8, 0, 8),
    *[(Kernel.BIT, w, 0, w) for w in range(1, 9)],
    (Kernel.YEAR, 0, 0, 1), (Kernel.DATE, 0, 0, 3), (Kernel.DATE_TEXT, 0, 0, 3),
    *[(k, f, 0, 3 + (f + 1) // 2) for k in (Kernel.TIME2, Kernel.TIME2_TEXT) for f in range(7)],
    *[(k, f, 0, 5 + (f + 1) // 2) for k in (Kernel.DATETIME2, Kernel.DATETIME2_TEXT) for f in range(7)],
    *[(k, f, 0, 4 + (f + 1) // 2) for k in (Kernel.TIMESTAMP2, Kernel.TIMESTAMP2_TEXT) for f in range(7)],
    *[(k, f, 0, (3, 4, 4, 5, 5, 5, 6)[f]) for k in (Kernel.TIME_OLD, Kernel.TIME_OLD_TEXT) for f in range(7)],
    *[(k, f, 0, (8, 6, 6, 7, 7, 7, 8)[f]) for k in (Kernel.DATETIME_OLD, Kernel.DATETIME_OLD_TEXT) for f in range(7)],
    *[(k, f, 0, 4 + (f + 1) // 2) for k in (Kernel.TIMESTAMP_OLD, Kernel.TIMESTAMP_OLD_TEXT) for f in range(7)],
    (Kernel.DECIMAL, 10, 2, 5), (Kernel.DECIMAL_TEXT, 65, 30, 30),
    *[(Kernel.FIXED_UINT, w, 0, w) for w in (1, 2, 3, 4, 8)],
]  # fmt: skip

PREFIXED = [(Kernel.BYTES, p, 0) for p in (1, 2, 3, 4)] + [
    (Kernel.JSON, 4, 0),
    (Kernel.LATIN, 2, 0),
]


def test_every_kernel_is_here() -> None:
    assert {w[0] for w in WIDTHS} | {p[0] for p in PREFIXED} | {Kernel.NULL} == set(Kernel)


@pytest.mark.parametrize(("kernel", "p0", "p1", "width"), WIDTHS)
def test_skipping_steps_over_as_much_as_decoding(
    kernel: Kernel, p0: int, p1: int, width: int
) -> None:
    plan = ColumnPlan(COLUMN, kernel, p0, p1)
    value = bytes(width)
    if "TIME2" in kernel.name or kernel.name.startswith("DECIMAL"):
        value = (b"\x80" + value)[:width]  # zero, whose bytes are not
    if kernel in (Kernel.TIME_OLD, Kernel.TIME_OLD_TEXT) and p0:
        value = (839 * 3600 * 10**p0).to_bytes(width, "big")
    assert make_sink(plan).decode(value * 3, 3).count == 3
    with pytest.raises(MalformedError, match="1 bytes are left over after 3"):
        make_skip(plan).decode(value * 3 + b"x", 3)
    for make in (make_sink, make_skip):
        with pytest.raises(TruncatedError):
            make(plan).decode((value * 3)[:-1], 3)


@pytest.mark.parametrize(("kernel", "p0", "p1"), PREFIXED)
def test_skipping_length_prefixed_values(kernel: Kernel, p0: int, p1: int) -> None:
    plan = ColumnPlan(COLUMN, kernel, p0, p1)
    value = (5).to_bytes(p0, "little") + b"abcde"
    with pytest.raises(MalformedError, match="1 bytes are left over"):
        make_skip(plan).decode(value * 2 + b"x", 2)
    for cut in range(1, len(value)):
        with pytest.raises(TruncatedError):
            make_skip(plan).decode(value[:cut], 1)


def test_the_error_of_an_undecodable_column_contains_the_reason() -> None:
    plan = ColumnPlan(COLUMN, None, why="column a.b.c: old DECIMAL")
    for sink in (make_sink(plan), make_skip(plan)):
        with pytest.raises(UnsupportedError, match="old DECIMAL"):
            sink.decode(b"\0", 1)


def test_null_column() -> None:
    found = make_sink(ColumnPlan(COLUMN, Kernel.NULL)).decode(b"", 9)
    assert (found.count, found.null_count, len(found.data)) == (9, 9, 0)
    assert found.validity is not None
    assert int.from_bytes(found.validity, "little") & 0x1FF == 0
