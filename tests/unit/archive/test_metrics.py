"""The metrics of an archive: all exist from the start, and an unknown value is not a number."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest

from binlake.archive.metrics import ArchiveMetrics, archive_families
from binlake.metrics_port import registry_of

pytest.importorskip("prometheus_client")

PREFIX = "binlake_archive_"
# https://prometheus.io/docs/practices/naming/: base units; what is counted without a unit is named
UNITS = ("_bytes", "_seconds", "_per_second")
COUNTED = (
    *("connected", "logs_finished", "logs_unfinished", "syncs", "reconnections"),
    "retention_blocked",
)


def shown(metrics: ArchiveMetrics) -> dict[str, float]:
    """Sample by name, as it is scraped."""
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    text = generate_latest(registry_of(lambda: archive_families([metrics]))).decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            assert sample.name not in found
            assert sample.labels["server"] == metrics.server
            found[sample.name.removeprefix(PREFIX)] = sample.value
    return found


def test_everything_is_there_from_the_start() -> None:
    metrics = ArchiveMetrics()
    before = shown(metrics)
    assert before["connected"] == 0
    assert before["received_bytes_total"] == 0
    assert all(
        math.isnan(before[name])
        for name in ("lag_seconds", "behind_bytes", "last_event_timestamp_seconds")
    )
    metrics.server, metrics.file, metrics.connected = "1-2-3", "binlog.000001", True
    metrics.has_more(100)
    metrics.came(30, int(time.time()) - 50)
    metrics.nothing_more()
    assert shown(metrics).keys() == before.keys()


def test_names_are_those_of_the_page_and_of_prometheus(request: pytest.FixtureRequest) -> None:
    page = (Path(request.config.rootpath) / "docs/archive.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `binlake_archive_")]
    told = set()
    for row in rows:
        first, *more = re.findall(r"`([^`]+)`", row.split("|")[1])
        told |= {first.removeprefix(PREFIX), *(name.removeprefix("…_") for name in more)}
    names = set(shown(ArchiveMetrics()))
    assert names == told
    for name in names:
        base = name.removesuffix("_total")
        assert base.endswith(UNITS) or base in COUNTED, name


def test_how_far_behind() -> None:
    metrics = ArchiveMetrics()
    metrics.connected = True
    metrics.has_more(1000)
    assert metrics.behind_bytes == 1000
    metrics.came(300, 0)
    assert metrics.behind_bytes == 700
    metrics.came(900, 0)
    assert metrics.behind_bytes == 0
    metrics.has_more(50)
    metrics.nothing_more()
    assert (metrics.behind_bytes, metrics.lag_s) == (0, 0)


def test_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("binlake.archive.metrics.time.time", lambda: now)
    metrics = ArchiveMetrics()
    metrics.connected = True
    metrics.came(10, int(now) - 60)
    assert metrics.lag_s == 60
    metrics.nothing_more()
    assert metrics.lag_s == 0
    now += 100
    assert metrics.lag_s == 0, "an idle server is not behind"
    metrics.lost_connection()
    assert metrics.lag_s == 100, "up to date was 100 seconds ago"
    assert "not connected" in metrics.line()
    now += 10
    metrics.connected = True
    metrics.came(10, int(now) - 20)
    assert metrics.lag_s == 20
