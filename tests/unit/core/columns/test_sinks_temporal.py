"""Dates and times: every number of fractional digits, zero, partial and negative values."""

from __future__ import annotations

import itertools
import random
from datetime import date, datetime, timedelta

import pytest

from binlake.core.columns.sink import SinkBuffers, make_sink
from binlake.errors import MalformedError, TruncatedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.values.core_walk import numbers as integers
from support.values.wire_values import date_bytes, datetime2_bytes, time2_bytes, timestamp2_bytes

EPOCH = datetime(1970, 1, 1)
FSP = range(7)


def decode(kernel: Kernel, values: list[bytes], p0: int = 0) -> SinkBuffers:
    plan = ColumnPlan(ColumnDefinition(0, "c", 0), kernel, p0)
    return make_sink(plan).decode(b"".join(values), len(values))


def numbers(found: SinkBuffers, code: str) -> list[int | None]:
    validity = found.validity
    values = integers(found.data, code)
    assert len(values) == found.count
    valid = [validity is None or validity[i >> 3] >> (i & 7) & 1 for i in range(found.count)]
    assert valid.count(0) == found.null_count
    return [v if ok else None for v, ok in zip(values, valid, strict=True)]


def texts(found: SinkBuffers) -> list[str]:
    assert found.offsets is not None
    ends = found.offsets.cast("B").cast("i").tolist()
    data = bytes(found.data)
    assert ends[-1] == len(data)
    return [data[a:b].decode("ascii") for a, b in itertools.pairwise(ends)]


def fraction_text(us: int, fsp: int) -> str:
    return f".{us:06d}"[: fsp + 1] if fsp else ""


def us_of(fsp: int) -> list[int]:
    """Fractions that a column of so many digits can hold."""
    unit = 10 ** (6 - fsp)
    return sorted({0, unit if fsp else 0, 500_000 if fsp else 0, 1_000_000 - unit})


MOMENTS = [
    datetime(1, 1, 1),
    datetime(1000, 1, 1),
    datetime(1582, 10, 15, 12),
    datetime(1900, 2, 28, 23, 59, 59),
    datetime(1900, 3, 1),
    datetime(1969, 12, 31, 23, 59, 59),
    datetime(1970, 1, 1),
    datetime(2000, 2, 29, 1, 2, 3),
    datetime(2004, 12, 31),
    datetime(2038, 1, 19, 3, 14, 7),
    datetime(2100, 2, 28),
    datetime(9999, 12, 31, 23, 59, 59),
]


@pytest.mark.parametrize("fsp", FSP)
def test_datetime2(fsp: int) -> None:
    cases = [(m, us) for m in MOMENTS for us in us_of(fsp)]
    wire = [
        datetime2_bytes(m.year, m.month, m.day, m.hour, m.minute, m.second, us, fsp)
        for m, us in cases
    ]
    found = decode(Kernel.DATETIME2, wire, fsp)
    expected = [(m - EPOCH) // timedelta(microseconds=1) + us for m, us in cases]
    assert numbers(found, "q") == expected
    assert texts(decode(Kernel.DATETIME2_TEXT, wire, fsp)) == [
        m.isoformat(" ") + fraction_text(us, fsp) for m, us in cases
    ]


#: year, month, day; what no calendar day has, and a server can store
ODD_DATES = [
    (0, 0, 0),
    (2024, 0, 0),
    (2024, 5, 0),
    (0, 5, 3),
    (2023, 2, 29),
    (1900, 2, 29),
    (2024, 4, 31),
]


@pytest.mark.parametrize("fsp", FSP)
def test_zero_and_partial_datetimes(fsp: int) -> None:
    wire = [datetime2_bytes(*ymd, 10, 11, 12, 0, fsp) for ymd in ODD_DATES]
    wire.append(datetime2_bytes(2024, 2, 29, 0, 0, 0, 0, fsp))
    found = decode(Kernel.DATETIME2, wire, fsp)
    leap_day = (datetime(2024, 2, 29) - EPOCH) // timedelta(microseconds=1)
    assert numbers(found, "q") == [None] * len(ODD_DATES) + [leap_day]
    assert found.zero_dates == len(ODD_DATES)
    tail = fraction_text(0, fsp)
    assert texts(decode(Kernel.DATETIME2_TEXT, wire, fsp)) == [
        f"{y:04}-{m:02}-{d:02} 10:11:12{tail}" for y, m, d in ODD_DATES
    ] + [f"2024-02-29 00:00:00{tail}"]


def test_the_zero_datetime_of_the_definition() -> None:
    assert texts(decode(Kernel.DATETIME2_TEXT, [bytes.fromhex("8000000000")])) == [
        "0000-00-00 00:00:00"
    ]


@pytest.mark.parametrize(
    "wire",
    [
        "0000000000",  # negative
        datetime2_bytes(10_000, 1, 1, 0, 0, 0, 0, 0).hex(),
        datetime2_bytes(2024, 1, 1, 24, 0, 0, 0, 0).hex(),
        datetime2_bytes(2024, 1, 1, 0, 60, 0, 0, 0).hex(),
        datetime2_bytes(2024, 1, 1, 0, 0, 60, 0, 0).hex(),
    ],
)
def test_invalid_datetime_values(wire: str) -> None:
    for kernel in (Kernel.DATETIME2, Kernel.DATETIME2_TEXT):
        with pytest.raises(MalformedError):
            decode(kernel, [bytes.fromhex(wire)])


@pytest.mark.parametrize(("fsp", "fraction"), [(2, "64"), (4, "2710"), (6, "0f4240")])
def test_a_fraction_of_a_second_is_below_one(fsp: int, fraction: str) -> None:
    wire = datetime2_bytes(2024, 1, 1, 0, 0, 0, 0, 0) + bytes.fromhex(fraction)
    with pytest.raises(MalformedError):
        decode(Kernel.DATETIME2, [wire], fsp)
    with pytest.raises(MalformedError):
        decode(Kernel.TIMESTAMP2, [b"\x01\x02\x03\x04" + bytes.fromhex(fraction)], fsp)


@pytest.mark.parametrize("fsp", FSP)
def test_timestamp2(fsp: int) -> None:
    cases = [(s, us) for s in (1, 86_399, 951_782_400, 0x7FFFFFFF, 0xFFFFFFFF) for us in us_of(fsp)]
    wire = [timestamp2_bytes(s, us, fsp) for s, us in cases]
    found = decode(Kernel.TIMESTAMP2, wire, fsp)
    assert numbers(found, "q") == [s * 1_000_000 + us for s, us in cases]
    assert texts(decode(Kernel.TIMESTAMP2_TEXT, wire, fsp)) == [
        (EPOCH + timedelta(seconds=s)).isoformat(" ") + fraction_text(us, fsp) for s, us in cases
    ]


@pytest.mark.parametrize("fsp", FSP)
def test_zero_timestamp(fsp: int) -> None:
    wire = [timestamp2_bytes(0, 0, fsp), timestamp2_bytes(1, 0, fsp)]
    found = decode(Kernel.TIMESTAMP2, wire, fsp)
    assert (numbers(found, "q"), found.zero_dates) == ([None, 1_000_000], 1)
    assert texts(decode(Kernel.TIMESTAMP2_TEXT, wire, fsp))[0] == "0000-00-00 00:00:00" + (
        fraction_text(0, fsp)
    )


@pytest.mark.parametrize("fsp", FSP)
def test_time2(fsp: int) -> None:
    clocks = [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (23, 59, 59),
        (99, 59, 59),
        (100, 0, 0),
        (838, 59, 59),
    ]
    cases = [(sign, hms, us) for sign in (1, -1) for hms in clocks for us in us_of(fsp)]
    cases = [c for c in cases if c != (-1, (0, 0, 0), 0)]
    wire = [time2_bytes(sign, *hms, us, fsp) for sign, hms, us in cases]
    found = decode(Kernel.TIME2, wire, fsp)
    assert found.null_count == 0
    assert numbers(found, "q") == [
        sign * ((h * 3600 + m * 60 + s) * 1_000_000 + us) for sign, (h, m, s), us in cases
    ]
    assert texts(decode(Kernel.TIME2_TEXT, wire, fsp)) == [
        f"{'-' if sign < 0 else ''}{h:02}:{m:02}:{s:02}{fraction_text(us, fsp)}"
        for sign, (h, m, s), us in cases
    ]


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ("7fffff9d", "-00:00:00.99"),
        ("7fffffff", "-00:00:00.01"),
        ("7ffffef6", "-00:00:01.10"),
        ("80000000", "00:00:00.00"),
    ],
)
def test_time2_examples_of_the_definition(wire: str, text: str) -> None:
    assert texts(decode(Kernel.TIME2_TEXT, [bytes.fromhex(wire)], 2)) == [text]


@pytest.mark.parametrize("clock", [(839, 0, 0), (0, 60, 0), (0, 0, 60)])
def test_invalid_time_values(clock: tuple[int, int, int]) -> None:
    for sign in (1, -1):
        with pytest.raises(MalformedError):
            decode(Kernel.TIME2, [time2_bytes(sign, *clock, 0, 0)])
    hours, minutes, seconds = clock
    old = hours * 10_000 + minutes * 100 + seconds
    with pytest.raises(MalformedError):
        decode(Kernel.TIME_OLD, [old.to_bytes(3, "little")])


def test_date() -> None:
    days = [m.date() for m in MOMENTS]
    wire = [date_bytes(d.year, d.month, d.day) for d in days]
    assert numbers(decode(Kernel.DATE, wire), "i") == [(d - date(1970, 1, 1)).days for d in days]
    assert texts(decode(Kernel.DATE_TEXT, wire)) == [d.isoformat() for d in days]


def test_every_day_of_some_years() -> None:
    day, wire, expected = date(1999, 12, 1), [], []
    while day.year < 2005:
        wire.append(date_bytes(day.year, day.month, day.day))
        expected.append((day - date(1970, 1, 1)).days)
        day += timedelta(days=1)
    assert numbers(decode(Kernel.DATE, wire), "i") == expected


def test_zero_and_partial_dates() -> None:
    wire = [date_bytes(*ymd) for ymd in ODD_DATES]
    found = decode(Kernel.DATE, wire)
    assert (numbers(found, "i"), found.zero_dates) == ([None] * len(ODD_DATES), len(ODD_DATES))
    assert texts(decode(Kernel.DATE_TEXT, wire)) == [
        f"{y:04}-{m:02}-{d:02}" for y, m, d in ODD_DATES
    ]


@pytest.mark.parametrize("wire", [date_bytes(2024, 13, 1), date_bytes(10_000, 1, 1)])
def test_invalid_date_values(wire: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(Kernel.DATE, [wire])


def test_old_datetime() -> None:
    wire = [int(m.strftime("%Y%m%d%H%M%S")).to_bytes(8, "little") for m in MOMENTS]
    found = decode(Kernel.DATETIME_OLD, [*wire, bytes(8)])
    assert numbers(found, "q") == [(m - EPOCH) // timedelta(microseconds=1) for m in MOMENTS] + [
        None
    ]
    assert found.zero_dates == 1
    assert texts(decode(Kernel.DATETIME_OLD_TEXT, [*wire, bytes(8)])) == [
        m.isoformat(" ") for m in MOMENTS
    ] + ["0000-00-00 00:00:00"]


@pytest.mark.parametrize(
    "number",
    [20241301000000, 20240132000000, 20240101240000, 20240101006000, 20240101000060, 1 << 63],
)
def test_invalid_old_datetime_values(number: int) -> None:
    with pytest.raises(MalformedError):
        decode(Kernel.DATETIME_OLD, [number.to_bytes(8, "little")])


def test_old_time() -> None:
    clocks = [0, 1, 235959, 8385959, -1, -100, -8385959]
    wire = [(n & 0xFFFFFF).to_bytes(3, "little") for n in clocks]
    split = [(abs(n) // 10_000, abs(n) // 100 % 100, abs(n) % 100) for n in clocks]
    signs = [-1 if n < 0 else 1 for n in clocks]
    assert numbers(decode(Kernel.TIME_OLD, wire), "q") == [
        sign * (h * 3600 + m * 60 + s) * 1_000_000
        for sign, (h, m, s) in zip(signs, split, strict=True)
    ]
    assert texts(decode(Kernel.TIME_OLD_TEXT, wire)) == [
        f"{'-' if sign < 0 else ''}{h:02}:{m:02}:{s:02}"
        for sign, (h, m, s) in zip(signs, split, strict=True)
    ]


def test_old_timestamp() -> None:
    seconds = [0, 1, 951_782_400, 0xFFFFFFFF]
    wire = [s.to_bytes(4, "little") for s in seconds]
    found = decode(Kernel.TIMESTAMP_OLD, wire)
    assert numbers(found, "q") == [None, *(s * 1_000_000 for s in seconds[1:])]
    assert texts(decode(Kernel.TIMESTAMP_OLD_TEXT, wire)) == [
        "0000-00-00 00:00:00",
        *((EPOCH + timedelta(seconds=s)).isoformat(" ") for s in seconds[1:]),
    ]


# MariaDB's old formats with a fraction: sql/field.cc, Field_{datetime,time,timestamp}_hires
OLD_WIDTHS = {
    Kernel.DATETIME_OLD: (8, 6, 6, 7, 7, 7, 8),
    Kernel.TIME_OLD: (3, 4, 4, 5, 5, 5, 6),
}


@pytest.mark.parametrize("fsp", FSP[1:])
def test_old_datetime_with_a_fraction(fsp: int) -> None:
    cases = [(m, us) for m in MOMENTS for us in us_of(fsp)]
    wire = []
    for m, us in cases:
        days = (m.year * 13 + m.month) * 32 + m.day
        seconds = ((days * 24 + m.hour) * 60 + m.minute) * 60 + m.second
        number = (seconds * 1_000_000 + us) // 10 ** (6 - fsp)
        wire.append(number.to_bytes(OLD_WIDTHS[Kernel.DATETIME_OLD][fsp], "big"))
    zero = bytes(len(wire[0]))
    assert numbers(decode(Kernel.DATETIME_OLD, [*wire, zero], fsp), "q") == [
        *((m - EPOCH) // timedelta(microseconds=1) + us for m, us in cases),
        None,
    ]
    assert texts(decode(Kernel.DATETIME_OLD_TEXT, wire, fsp)) == [
        m.isoformat(" ") + fraction_text(us, fsp) for m, us in cases
    ]
    with pytest.raises(MalformedError):
        decode(Kernel.DATETIME_OLD, [b"\xff" * len(zero)], fsp)


@pytest.mark.parametrize("fsp", FSP[1:])
def test_old_time_with_a_fraction(fsp: int) -> None:
    clocks = [(0, 0, 0), (0, 0, 1), (23, 59, 59), (838, 59, 58)]
    cases = [(s, *c, us) for s in (1, -1) for c in clocks for us in us_of(fsp) if any(c) or us]
    zero = 839 * 3600 * 10**fsp
    width = OLD_WIDTHS[Kernel.TIME_OLD][fsp]
    us_all = [s * (((h * 60 + m) * 60 + sec) * 1_000_000 + us) for s, h, m, sec, us in cases]
    wire = [
        (zero + sign * (abs(us) // 10 ** (6 - fsp))).to_bytes(width, "big")
        for (sign, *_), us in zip(cases, us_all, strict=True)
    ]
    assert numbers(decode(Kernel.TIME_OLD, wire, fsp), "q") == us_all
    assert texts(decode(Kernel.TIME_OLD_TEXT, wire, fsp)) == [
        f"{'-' if s < 0 else ''}{h:02}:{m:02}:{sec:02}{fraction_text(us, fsp)}"
        for s, h, m, sec, us in cases
    ]
    for bad in (0, 2 * zero):  # -839:00:00 and 839:00:00
        with pytest.raises(MalformedError):
            decode(Kernel.TIME_OLD, [bad.to_bytes(width, "big")], fsp)


@pytest.mark.parametrize("fsp", FSP[1:])
def test_old_timestamp_with_a_fraction(fsp: int) -> None:
    cases = [(s, us) for s in (1, 951_782_400, 0xFFFFFFFF) for us in us_of(fsp)]
    fraction_bytes = (fsp + 1) // 2
    wire = [
        s.to_bytes(4, "big") + (us // 10 ** (6 - fsp)).to_bytes(fraction_bytes, "big")
        for s, us in cases
    ]
    found = decode(Kernel.TIMESTAMP_OLD, [*wire, bytes(4 + fraction_bytes)], fsp)
    assert numbers(found, "q") == [*(s * 1_000_000 + us for s, us in cases), None]
    assert found.zero_dates == 1
    assert texts(decode(Kernel.TIMESTAMP_OLD_TEXT, wire, fsp)) == [
        (EPOCH + timedelta(seconds=s)).isoformat(" ") + fraction_text(us, fsp) for s, us in cases
    ]
    too_much = bytes(4) + (10**fsp).to_bytes(fraction_bytes, "big")
    with pytest.raises(MalformedError):
        decode(Kernel.TIMESTAMP_OLD, [too_much], fsp)


TEMPORAL = [kernel for kernel in Kernel if Kernel.DATE <= kernel <= Kernel.TIMESTAMP_OLD_TEXT]


@pytest.mark.parametrize("kernel", TEMPORAL)
def test_any_bytes_give_values_or_a_format_error(kernel: Kernel) -> None:
    rng = random.Random(kernel)
    for fsp in FSP:
        sink = make_sink(ColumnPlan(ColumnDefinition(0, "c", 0), kernel, fsp))
        for _ in range(300):
            data = rng.randbytes(rng.randrange(10))
            try:
                sink.decode(data, 1)
            except (MalformedError, TruncatedError):
                sink = make_sink(ColumnPlan(ColumnDefinition(0, "c", 0), kernel, fsp))
