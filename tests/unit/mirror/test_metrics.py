"""The files of docs/mirror use metrics that there are, and flags that the command has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from binlake.mirror.reporting.metrics import MIRROR_METRICS, TABLE_METRICS, prometheus_text
from binlake.mirror.reporting.report import MirrorStatus, TableStatus

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "mirror"
METRICS = {f"binlake_mirror_{name}" for name, *_ in (*MIRROR_METRICS, *TABLE_METRICS)}
STATUS = MirrorStatus(
    "mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "",
    (TableStatus("shop.orders", "quarantined", "why", rows=30, deleted_rows=10),),
    lag_seconds=2.5,
)  # fmt: skip


@pytest.mark.parametrize("file", ["alerts.yml", "dashboard.json"])
def test_the_files_use_metrics_that_there_are(file: str) -> None:
    used = set(re.findall(r"binlake_mirror_\w+", (FOLDER / file).read_text()))
    assert used
    assert used <= METRICS


def test_the_dashboard_shows_every_metric_of_a_mirror() -> None:
    shown = json.dumps(json.loads((FOLDER / "dashboard.json").read_text())["panels"])
    left_out = {metric for metric in METRICS if metric not in shown}
    assert left_out == {"binlake_mirror_paused", "binlake_mirror_table_quarantined"}


def test_a_status_as_text() -> None:
    lines = prometheus_text(STATUS).splitlines()
    table = 'source="mysql://db1/",table="shop.orders"'
    for line in (
        'binlake_mirror_lag_seconds{source="mysql://db1/"} 2.5',
        'binlake_mirror_behind_bytes{source="mysql://db1/"} NaN',
        'binlake_mirror_tables_quarantined{source="mysql://db1/"} 1.0',
        f"binlake_mirror_table_deleted_share{{{table}}} 0.25",
        f"binlake_mirror_table_quarantined{{{table}}} 1.0",
    ):
        assert line in lines
    assert {line.split()[2] for line in lines if line.startswith("# HELP")} == METRICS
