"""Sums in bounded memory: what is folded is said, and nothing is lost."""

from __future__ import annotations

import random

import pytest

from binlake.stream.statistics import UNITS, Measures, Tally, Times


def test_few_keys_are_exact() -> None:
    tally = Tally()
    tally.add("a", Measures(1, 10, 1, 0, 0))
    tally.add("b", Measures(1, 30, 0, 2, 0))
    tally.add("a", Measures(2, 5, 0, 0, 3))
    found = tally.to_json("table", 1)
    assert (found["count"], found["exact"]) == (2, True)
    assert found["top"] == [
        {"table": "b", "transactions": 1, "bytes": 30, "inserts": 0, "updates": 2, "deletes": 0, "rows": 2}
    ]  # fmt: skip
    assert found["others"]["bytes"] == 15
    assert found["others"]["rows"] == 4


def test_of_very_many_keys_the_largest_stay_and_the_sum_is_right() -> None:
    rng = random.Random(3)
    tally = Tally(most=64)
    total = 0
    for number in range(5000):
        size = 1_000_000 + number if number % 1000 == 7 else rng.randrange(100)
        tally.add(number, Measures(1, size))
        total += size
        assert len(tally.by_key) <= 64
    found = tally.to_json("thread_id", 5)
    assert [entry["thread_id"] for entry in found["top"]] == [4007, 3007, 2007, 1007, 7]
    assert not found["exact"]
    assert found["count"] == 5000
    assert sum(e["bytes"] for e in found["top"]) + found["others"]["bytes"] == total


def test_a_long_time_is_reported_in_longer_units() -> None:
    times = Times(most=100, most_short=100)
    for minute in range(30_000):
        times.add(minute * UNITS["minute"], Measures(1, 2))
    assert times.unit == "day"
    assert len(times.by_start) <= 100
    assert times.chosen_unit("minute", 300) == "day"
    assert sum(m.bytes for m in times.in_units("day").values()) == 60_000


@pytest.mark.parametrize(
    ("span", "wanted", "unit"),
    [
        (UNITS["10ms"], None, "10ms"),
        (UNITS["second"] * 2, None, "second"),
        (UNITS["second"] * 2 + 10_000, None, "10ms"),
        (UNITS["minute"], None, "second"),
        (6 * UNITS["minute"], None, "minute"),
        (4 * UNITS["hour"], None, "minute"),
        (9 * UNITS["hour"], None, "hour"),
        (40 * UNITS["day"], None, "day"),
        (40 * UNITS["day"], "hour", "hour"),
    ],
)
def test_the_unit_suits_the_span(span: int, wanted: str | None, unit: str) -> None:
    times = Times()
    times.make_room(0, span)
    times.add(0, Measures(1))
    times.add(span, Measures(1))
    assert times.chosen_unit(wanted, 300) == unit
    assert next(iter(times.in_units("day"))) == 0
