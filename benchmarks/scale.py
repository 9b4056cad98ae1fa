"""Throughput against executors, measured on half cores and simulated for a cluster with S3.

make bench ARGS="--only scale --runs 1"
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cluster import SLOTS_OF_A_CORE
from benchmarks.simulation import (
    Costs,
    Job,
    Times,
    simulate,
    slower,
    stops_at,
    without_latency,
)

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench
    from benchmarks.measure import Measured

__all__ = ["JOBS", "costs_of", "scale", "scale_page", "simulated_s"]

_EXECUTORS = (1, 2, 4)
_READ_TASK_BYTES = 16 << 20  # of scale_read.py
_COPIES = 3  # of the log, so that each half core has several tasks
_LOGS, _LOG_BYTES = 1000, 1_000_000_000
_TASK_BYTES = 128 << 20
_CORES = (1, 10, 50, 100, 200, 400, 1000)
_PLAN = "plan 1,000 logs of 1 GB"
# a log of 1 GB is about 0.3 GB of Parquet, in files of 128 MB
_FILES_OF_A_LOG = 3

#: What is simulated, by name.
JOBS = {
    "read": Job(_LOGS, _LOG_BYTES, _TASK_BYTES),
    "read, tasks of 16 MB": Job(_LOGS, _LOG_BYTES, 16 << 20),
    "read a million logs of 1 MB": Job(1_000_000, 1_000_000, _TASK_BYTES),
    "export of one table": Job(_LOGS, _LOG_BYTES, _TASK_BYTES, files=_LOGS * _FILES_OF_A_LOG),
    "export of 20 tables, small files": Job(
        _LOGS, _LOG_BYTES, _TASK_BYTES, files=_LOGS * _FILES_OF_A_LOG * 20
    ),
}


def scale(bench: Bench, table: str, scratch: Path) -> None:
    """Read the log on clusters of 1, 2 and 4 half cores, and plan a job of 1 TB."""
    folder = scratch / "logs"
    folder.mkdir()
    for number in range(1, _COPIES + 1):
        shutil.copyfile(bench.log, folder / f"binlog.{number:06d}")
    for executors in _EXECUTORS:
        bench.case(_name(executors), "scale_read.py", executors, table, folder, scratch, warmup=0)
    bench.case(_PLAN, "scale_plan.py", _LOGS, _LOG_BYTES, scratch, warmup=0)


def _name(executors: int) -> str:
    return f"read on {executors} half core{'s' if executors > 1 else ''}"


def scale_page(done: Mapping[str, Measured]) -> list[str]:
    """The part of the result page about scale; empty if it was not measured."""
    if _PLAN not in done or any(_name(executors) not in done for executors in _EXECUTORS):
        return []
    costs = costs_of(done)
    ours = (
        f"{costs.task_s:.3f} s for each task, {costs.byte_s * 1e9:.1f} s for 1 GB, of the driver "
        f"{costs.dispatch_s * 1e3:.1f} ms to start a task and {costs.plan_task_s * 1e3:.2f} ms to plan it"
    )
    of_the_store = (
        f"{costs.request_s * 1e3:.0f} ms for each request, "
        f"{1 / costs.store_byte_s / 1e6:.0f} MB/s on a connection, {costs.move_s} s for a copy of a file"
    )
    return [
        "",
        "## Throughput against executors",
        "",
        "Each executor has half of a processor core; the driver shares the cores. Tasks of 16 MB, Spark's sink `noop`.",
        "",
        "The simulation has cores of its own for the driver, and is calibrated with one executor.",
        "",
        "| executors | seconds | simulated, s | MB/s | times one | session start, s | first read, s | empty task on a half core, s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *_measured_rows(done),
        "",
        "## Simulated: 1,000 logs of 1 GB in S3",
        "",
        f"`benchmarks/simulation.py`, with the measured costs of a whole core: {ours}.",
        f"Assumed of the store: {of_the_store}.",
        "",
        "| job | cores | tasks | plan, s | run, s | commit, s | total, s | GB/s | cores busy |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *_simulated_rows(costs),
        "",
        "## Where scaling stops",
        "",
        "More cores make a job at most a little faster when there are no more tasks, when the driver cannot start tasks as fast",
        "as they end, or when the driver's own work (listing, planning, commit) takes as long as the tasks.",
        "",
        "| job | cores | reason |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {stop.cores:,} | {stop.why} |"
            for name, stop in ((name, stops_at(job, costs)) for name, job in JOBS.items())
        ),
    ]


def simulated_s(done: Mapping[str, Measured], executors: int) -> float:
    """The simulated seconds of the read that was measured, on so many half cores."""
    size = done[_name(1)].output["bytes"] // _COPIES
    costs = slower(without_latency(costs_of(done)), SLOTS_OF_A_CORE)
    return simulate(Job(_COPIES, size, _READ_TASK_BYTES), costs, executors).running


def _measured_rows(done: Mapping[str, Measured]) -> Iterator[str]:
    one = done[_name(_EXECUTORS[0])]
    for executors in _EXECUTORS:
        run = done[_name(executors)]
        out = run.output
        yield (
            f"| {executors} | {run.seconds:.2f} | {simulated_s(done, executors):.2f} | {out['bytes'] / run.seconds / 1e6:.1f} "
            f"| {one.seconds / run.seconds:.2f} | {out['start_s']:.1f} | {out['first_s']:.1f} "
            f"| {out['task_s']:.2f} |"
        )


def costs_of(done: Mapping[str, Measured]) -> Costs:
    """The costs of a whole core, of the run on one half core: there nothing waits for another task."""
    run, plan = done[_name(1)], done[_PLAN].output
    task_s = run.output["task_s"] / SLOTS_OF_A_CORE
    decoding = run.seconds / SLOTS_OF_A_CORE - run.output["tasks"] * task_s
    return Costs(
        task_s=task_s,
        byte_s=max(decoding, 0.0) / run.output["bytes"],
        dispatch_s=plan["dispatch_s"],
        plan_task_s=plan["plan_task_s"],
    )


def _simulated_rows(costs: Costs) -> Iterator[str]:
    read = JOBS["read"]
    for cores in _CORES:
        yield _row("read", read, cores, simulate(read, costs, cores))
    yield _row("read, local disk", read, 100, simulate(read, without_latency(costs), 100))
    for name, job in JOBS.items():
        if job is not read:
            yield _row(name, job, 100, simulate(job, costs, 100))


def _row(name: str, job: Job, cores: int, times: Times) -> str:
    planning = times.listing + times.planning
    rate = job.logs * job.log_bytes / times.total / 1e9
    return (
        f"| {name} | {cores} | {times.tasks} | {planning:.1f} | {times.running:.0f} "
        f"| {times.commit:.0f} | {times.total:.0f} | {rate:.2f} | {times.busy:.0%} |"
    )
