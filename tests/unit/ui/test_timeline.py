"""The timeline adds up to what the log contains, whatever its unit of time is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.source.arrays import array
from binlake.table.counting.counted import CHANGES, TRANSACTIONS
from binlake.ui.timeline import MEASURES, Timeline

_SECOND = 1_000_000
_START = 1_795_257_069 * _SECOND


def batch(times: list[int], tables: list[int]) -> tuple[pa.Table, pa.Table]:
    """A transaction of one insert for each time."""
    count = len(times)
    facts: dict[str, Any] = {
        "file": ["binlog.000001"] * count, "pos": list(range(count)), "end_pos": list(range(1, count + 1)),
        "bytes": [100] * count, "commit_us": times, "duration_us": [0] * count, "server_id": [1] * count,
        "thread_id": [None] * count, "gtid": [None] * count, "counted": [True] * count,
    }  # fmt: skip
    changes = {"transaction": list(range(count)), "table": tables, "op": [0] * count,
               "rows": [1] * count, "bytes": [40] * count}  # fmt: skip
    return tuple(
        pa.table({name: array(values[name], schema.field(name).type) for name in schema.names})
        for values, schema in ((facts, TRANSACTIONS), (changes, CHANGES))
    )


def test_it_adds_up_to_the_row_changes(demo: Path, session_of: Any) -> None:
    found = session_of(demo).overview.timeline.buckets(bars=1000)
    rows = binlake.open(demo).to_pylist()
    counts = Counter((f"{row['database']}.{row['table']}", row["op"]) for row in rows)
    assert {
        (one["table"], name[:-1]): one[name]
        for one in found["sums"]
        for name in MEASURES[2:]
        if one[name]
    } == counts
    transactions = list(binlake.open(demo).transactions())
    assert sum(found["total"]["transactions"]) == len(transactions)
    assert sum(found["total"]["bytes"]) == sum(one.bytes for one in transactions)
    by_bar = Counter(one.commit_us // found["width_us"] for one in transactions)
    shown = zip(found["starts"], found["total"]["transactions"], strict=True)
    assert {start // found["width_us"]: n for start, n in shown} == by_bar
    for name in MEASURES[2:]:
        tables = [one[name] for one in found["tables"]]
        assert [sum(bar) for bar in zip(*tables, strict=True)] == found["total"][name]


def test_the_unit_grows_and_the_sums_stay() -> None:
    timeline = Timeline(most_cells=500)
    times = [_START + number * 7 * _SECOND + 1 for number in range(20_000)]
    for low in range(0, len(times), 1000):
        part = times[low : low + 1000]
        timeline.add(*batch(part, [n % 3 for n in range(1000)]), ("a.a", "a.b", "a.c"))
    assert timeline.unit_us >= 3600 * _SECOND
    found = timeline.buckets(bars=400)
    assert sum(found["total"]["inserts"]) == 20_000
    assert sorted(one["inserts"] for one in found["sums"]) == [6660, 6660, 6680]


def test_tables_beyond_the_limit_are_counted_together() -> None:
    timeline = Timeline(most_tables=12)
    names = tuple(f"d.t{n}" for n in range(30))
    timeline.add(*batch([_START] * 30, list(range(30))), names)
    found = timeline.buckets(most_tables=4)
    assert found["sums"][0] == {
        "table": "20 other tables",
        **dict(zip(MEASURES, (20, 800, 20, 0, 0), strict=True)),
    }
    assert sum(one["inserts"][0] for one in found["tables"]) == 30


@pytest.mark.parametrize(
    ("seconds", "fraction", "width_us"),
    [
        (0, 1, 10_000), (1, 1, 10_000), (10, 1, 50_000), (60, 1, 200_000), (3600, 1, 10 * _SECOND), (0, 0, _SECOND),
        (86_400, 0, 300 * _SECOND), (90 * 86_400, 0, 6 * 3600 * _SECOND),
    ],
)  # fmt: skip
def test_bars_fit_the_span(seconds: int, fraction: int, width_us: int) -> None:
    timeline = Timeline()
    timeline.add(
        *batch([_START + fraction, _START + fraction + seconds * _SECOND], [0, 0]), ("a.b",)
    )
    assert timeline.buckets(bars=400)["width_us"] == width_us


def test_a_span_and_tables_narrow_it() -> None:
    timeline = Timeline()
    timeline.add(*batch([_START + n * _SECOND for n in range(10)], [0, 1] * 5), ("a.even", "a.odd"))
    found = timeline.buckets(_START + 2 * _SECOND, _START + 5 * _SECOND)
    assert sum(found["total"]["inserts"]) == 3
    found = timeline.buckets(only=["a.odd"])
    assert [one["table"] for one in found["sums"]] == ["a.odd"]
    assert sum(found["total"]["transactions"]) == 5
    assert timeline.buckets(only=[])["starts"] == []
    assert Timeline().buckets()["starts"] == []
