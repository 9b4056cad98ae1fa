"""The files of docs/mirror use metrics that there are, and flags that the command has."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

pytest.importorskip("pyspark", reason="needs the extra [mirror]")
pytest.importorskip("prometheus_client", reason="needs the extra [server]")
from binlake.mirror.reporting.metrics import (
    COLUMN_METRICS,
    MIRROR_METRICS,
    TABLE_METRICS,
    Exporter,
    prometheus_text,
)
from binlake.mirror.reporting.pulse import Beat
from binlake.mirror.reporting.report import MirrorStatus, TableStatus, with_beat
from binlake.values.times import utc_time

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "mirror"
METRICS = {
    f"binlake_mirror_{name}" for name, *_ in (*MIRROR_METRICS, *TABLE_METRICS, *COLUMN_METRICS)
}
STATUS = MirrorStatus(
    "mysql://db1/", False, 7, "binlog.000003", 4711, "", "", utc_time(1.5e9),
    (TableStatus("shop.orders", "quarantined", "why", rows=30, deleted_rows=10),),
    not_compared={"shop.orders": "why"},
    zero_dates={"shop.orders.paid": 3},
    fresh_at=utc_time(1.6e9),
    checked_at=utc_time(1.7e9),
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
        'binlake_mirror_committed_timestamp_seconds{source="mysql://db1/"} 1.5e+09',
        'binlake_mirror_checked_timestamp_seconds{source="mysql://db1/"} 1.7e+09',
        'binlake_mirror_behind_bytes{source="mysql://db1/"} NaN',
        'binlake_mirror_tables_quarantined{source="mysql://db1/"} 1.0',
        'binlake_mirror_tables_not_compared{source="mysql://db1/"} 1.0',
        'binlake_mirror_zero_dates_total{column="shop.orders.paid",source="mysql://db1/"} 3.0',
        f"binlake_mirror_table_deleted_share{{{table}}} 0.25",
        f"binlake_mirror_table_quarantined{{{table}}} 1.0",
    ):
        assert line in lines
    assert {line.split()[2] for line in lines if line.startswith("# HELP")} == METRICS
    assert value_of("lag_seconds", lines) == pytest.approx(time.time() - 1.6e9, abs=60)


def test_tables_that_wait_for_a_copy_are_counted() -> None:
    """Their old rows do not count in the lag, which is that of the tables that are followed."""
    states = ("mirrored", "copying", "resync", "quarantined", "gone", "removed")
    tables = tuple(TableStatus(f"shop.{state}", state) for state in states)
    lines = prometheus_text(replace(STATUS, tables=tables)).splitlines()
    assert value_of("tables_to_copy", lines) == 2.0
    waiting = [line for line in lines if line.startswith("binlake_mirror_table_to_copy{")]
    assert {line.split('"')[3]: line[-3:] for line in waiting} == {
        **dict.fromkeys((f"shop.{state}" for state in states), "0.0"),
        **dict.fromkeys(("shop.copying", "shop.resync"), "1.0"),
    }


def test_a_table_without_anything_in_the_lake_is_counted() -> None:
    """Its copy may wait without an end, for example for a lock."""
    beat = Beat(1.7e9, 0, 0.0, waiting={"shop.new": "its copy waits: it is locked"})
    lines = prometheus_text(with_beat(STATUS, beat)).splitlines()
    assert value_of("tables_to_copy", lines) == 1.0
    [table] = [line for line in lines if line.startswith("binlake_mirror_table_to_copy{") and "shop.new" in line]  # fmt: skip
    assert table.endswith(" 1.0")


def test_a_comparison_that_was_never_made_is_overdue() -> None:
    """The rule compares a time with now, and NaN is neither before nor after it."""
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    [rule] = [r["expr"] for g in groups for r in g["rules"] if r["alert"] == "BinlakeMirrorNotVerified"]  # fmt: skip
    [name] = re.findall(r"binlake_mirror_(\w+)", rule)
    due_s = time.time() - 90_000

    def overdue_s(beat: Beat) -> float:
        lines = prometheus_text(with_beat(STATUS, beat)).splitlines()
        return time.time() - value_of(name, lines)

    assert overdue_s(Beat(1.7e9, 0, 0.0, verify_due_s=due_s)) == pytest.approx(90_000, abs=60)
    none_is_scheduled = overdue_s(Beat(1.7e9, 0, 0.0, verified_s=1.6e9))
    assert none_is_scheduled != none_is_scheduled  # NaN


def value_of(name: str, lines: list[str]) -> float:
    """The value of a metric of the mirror."""
    [found] = [line for line in lines if line.startswith(f"binlake_mirror_{name}{{")]
    return float(found.split()[-1])


def test_the_lag_grows_while_the_mirror_hangs(tmp_path: Path) -> None:
    """The status was shown when the lake had everything, and no beat has followed."""
    exporter = Exporter("127.0.0.1", 0, tmp_path)

    def asked(path: str) -> tuple[int, list[str]]:
        try:
            with urlopen(exporter.url.replace("/metrics", path), timeout=60) as answer:
                return answer.status, answer.read().decode().splitlines()
        except HTTPError as error:
            return error.code, error.read().decode().splitlines()

    def beat(age_s: float, behind: int | None) -> None:
        now = time.time()
        (tmp_path / "pulse.json").write_text(
            json.dumps(asdict(Beat(now - age_s, behind, 0.0, complete_s=now - age_s)))
        )

    try:
        beat(1, 0)
        assert asked("/readyz") == (503, ["the mirror has not checked the log yet"])
        exporter.show(STATUS)
        assert asked("/readyz") == (200, ["ok"])
        assert value_of("lag_seconds", asked("/metrics")[1]) < 60
        beat(400, 0)
        lines = asked("/metrics")[1]
        assert value_of("lag_seconds", lines) == pytest.approx(400, abs=60)
        age_s = time.time() - value_of("checked_timestamp_seconds", lines)
        assert age_s == pytest.approx(400, abs=60)
        code, [why] = asked("/readyz")
        assert code == 503
        assert why.startswith("the mirror has not checked the log since 20")
        assert asked("/healthz")[0] == 200
        beat(2, None)
        lines = asked("/metrics")[1]
        assert value_of("behind_bytes", lines) != value_of("behind_bytes", lines)  # NaN
    finally:
        exporter.close()


def test_the_share_of_deleted_rows_in_json() -> None:
    [table] = STATUS.to_json()["tables"]
    assert (table["rows"], table["deleted_rows"], table["deleted_share"]) == (30, 10, 0.25)
