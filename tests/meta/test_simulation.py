"""The simulation of a cluster (benchmarks/simulation.py), and the figures of it on docs/deployment.md."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measure import Measured
from benchmarks.scale import JOBS, costs_of, scale_page, simulated_s
from benchmarks.simulation import (
    Costs,
    Job,
    simulate,
    slower,
    stops_at,
    without_latency,
)

ROOT = Path(__file__).resolve().parents[2]
RESULTS = max((ROOT / "benchmarks" / "results").glob("*-scale.json"))
MB = 1_000_000

#: A task of 100 MB takes 1 + 2 seconds, and nothing else takes time.
SIMPLE = Costs(
    task_s=1, byte_s=2 / (100 * MB), dispatch_s=0, plan_task_s=0, request_s=0, store_byte_s=0
)


def measured() -> dict[str, Measured]:
    found = json.loads(RESULTS.read_text())["measured"]
    return {one["name"]: Measured(**one) for one in found}


def test_tasks_of_a_job() -> None:
    assert Job(2, 100 * MB, 50 * MB).task_sizes == [50 * MB] * 4
    assert Job(2, 101 * MB, 50 * MB).task_sizes == [101 * MB // 3] * 6
    small = Job(1000, 1 << 20, 100 << 20)  # which counts twice, for its opening
    assert (small.logs_of_a_task, small.task_sizes) == (50, [50 << 20] * 20)


@pytest.mark.parametrize(("cores", "rounds"), [(1, 10), (2, 5), (3, 4), (9, 2), (10, 1), (50, 1)])
def test_equal_tasks_run_in_rounds(cores: int, rounds: int) -> None:
    times = simulate(Job(10, 100 * MB, 100 * MB), SIMPLE, cores)
    assert times.total == times.running == pytest.approx(3 * rounds)
    assert times.busy == pytest.approx(10 / (cores * rounds))


def test_a_driver_that_starts_tasks_slowly() -> None:
    """The last of the tasks starts when all before it were started."""
    job, costs = Job(10, 100 * MB, 100 * MB), replace(SIMPLE, dispatch_s=4)
    assert simulate(job, costs, 1).running == pytest.approx(10 * 4 + 3)
    assert simulate(job, costs, 100).running == pytest.approx(10 * 4 + 3)
    assert stops_at(job, costs).why == "start of tasks"


def test_times_of_the_driver() -> None:
    job = Job(2500, 100 * MB, 100 * MB, files=33)
    costs = replace(SIMPLE, plan_task_s=0.5, request_s=0.25, move_s=2)
    times = simulate(job, costs, 2500)
    assert (times.listing, times.planning, times.commit) == (3 * 0.25, 2500 * 0.5, 3 * 2)
    # two requests to open a log and twelve for its parts, while which a task decodes
    assert times.running == pytest.approx(1 + 2 * 0.25 + max(12 * 0.25, 2))
    assert stops_at(job, costs).why == "planning"


def test_a_store_that_is_slower_than_decoding() -> None:
    job = Job(1, 100 * MB, 100 * MB)
    assert simulate(job, replace(SIMPLE, store_byte_s=5 / (100 * MB)), 1).total == pytest.approx(6)
    slow = replace(SIMPLE, store_byte_s=5 / (100 * MB), request_s=1)
    assert simulate(job, without_latency(slow), 1).total == pytest.approx(3)
    assert simulate(job, slower(SIMPLE, 2), 1).total == pytest.approx(6)


@pytest.mark.parametrize("name", JOBS)
def test_more_cores_are_never_slower(name: str) -> None:
    job, costs = JOBS[name], costs_of(measured())
    stop = stops_at(job, costs)
    cores = [1, 2, 3, 10, 100, stop.cores, 2 * stop.cores, 100 * stop.cores]
    totals = [simulate(job, costs, count).total for count in sorted(cores)]
    assert totals == sorted(totals, reverse=True)
    at_stop = simulate(job, costs, stop.cores).total
    assert at_stop < 2.5 * totals[-1]
    # with half as many cores, the job is much slower
    assert simulate(job, costs, max(1, stop.cores // 4)).total > 1.5 * at_stop


def test_the_simulation_agrees_with_measurements() -> None:
    """Calibrated with one executor. The driver takes time from several, as it shares the cores."""
    done = measured()
    for executors, most in ((1, 1.01), (2, 1.5), (4, 1.5)):
        plural = "s" if executors > 1 else ""
        ratio = done[f"read on {executors} half core{plural}"].seconds / simulated_s(
            done, executors
        )
        assert 0.99 < ratio < most


def test_the_page_of_results_has_the_figures_of_the_code() -> None:
    assert "\n".join(scale_page(measured())) in RESULTS.with_suffix(".md").read_text()


def test_the_figures_of_the_deployment_page() -> None:
    """The page has each figure as the last results have it; no other page has one of its own."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert f"results/{RESULTS.stem}.md" in page
    costs = costs_of(measured())
    assert f"{costs.task_s:.2f} s of a core" in page
    assert f"{costs.dispatch_s * 1e3:.1f} ms" in page
    for job in JOBS.values():
        stop = stops_at(job, costs)
        assert f"| {stop.cores:,} | {stop.why}" in page
    for cores in (100, 1000):
        rate = simulate(JOBS["read"], costs, cores)
        assert f"{JOBS['read'].logs / rate.total:.1f} GB/s" in page
    for other in ("spark.md", "streaming.md"):
        text = (ROOT / "docs" / other).read_text()
        assert not re.search(r"0\.\d+ s\b", "".join(re.findall(r"[^.]*\btask\b[^.]*\.\d", text)))
