"""What a mirror writes of itself between commits, and what is read from it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from binlake.mirror.reporting.pulse import Beat, Pulse, behind_bytes, last_beat
from binlake.mirror.reporting.report import _lag_s
from binlake.source.chain import LogPath
from binlake.spark.streaming.logs import LogsNow
from binlake.values.position import Position

LOGS = LogsNow(
    ("mysql://db1/",),
    {
        n: LogPath(f"/logs/binlog.00000{n}", f"binlog.00000{n}", n, size)
        for n, size in ((2, 1000), (3, 500), (4, 9999))
    },
    "uuid",
    Position("uuid", "binlog.000004", 300),
)


@pytest.mark.parametrize(
    ("file", "offset", "behind"),
    [("binlog.000004", 300, 0), ("binlog.000004", 100, 200), ("binlog.000002", 900, 900), ("binlog.000001", 7, 1800)],
)  # fmt: skip
def test_bytes_behind(file: str, offset: int, behind: int) -> None:
    assert behind_bytes(LOGS, Position("uuid", file, offset)) == behind


def test_a_beat_is_read_back(tmp_path: Path) -> None:
    shown: list[int] = []
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: shown.append(1))
    pulse.applied(120)
    place = Position("uuid", "binlog.000003", 400)
    pulse.beat(place)
    pulse.beat(place)  # too early
    found = last_beat(tmp_path)
    assert found is not None
    assert (found.behind_bytes, found.changes_per_second, found.different) == (400, 2.0, ())
    assert len(shown) == 1
    pulse.verified(("a.b",))
    pulse.beat(place)
    again = Pulse(tmp_path, lambda: LOGS, lambda: None)
    again.beat_now(place)
    found = last_beat(tmp_path)
    assert found is not None
    assert found.different == ("a.b",)
    assert found.verified_s == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    "content",
    [None, "", "{", "[]", '{"checked_s": 1}', '{"other": 1, "different": []}', '{"a":' * 200_000],
    ids=range(7),
)
def test_a_file_that_is_lost_or_damaged_says_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "pulse.json").write_text(content)
    assert last_beat(tmp_path) is None


def test_the_lag_of_an_idle_source_is_the_age_of_the_last_look() -> None:
    now = time.time()
    old_us = int((now - 5000) * 1e6)
    assert _lag_s(None, None) is None
    assert _lag_s(old_us, None) == pytest.approx(5000, abs=60)
    assert _lag_s(old_us, Beat(now - 3, 0, 0.0)) == pytest.approx(3, abs=60)
    assert _lag_s(old_us, Beat(now - 3, 10, 0.0)) == pytest.approx(5000, abs=60)
