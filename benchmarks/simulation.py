"""A job on a cluster that this machine is too small for, simulated from measured costs.

The driver plans and starts tasks one after the other; each executor core takes the next task when it is
free. A task waits for its requests, then decodes while the next request is under way, so it
takes the longer of the two. At the end the driver commits.

`stops_at` says how many cores a job can use. It needs no simulation: more cores do not help if there are no
more tasks, if the driver cannot start tasks as fast as they end, or if the driver's own work takes as long
as the tasks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

__all__ = ["Costs", "Job", "Stop", "Times", "simulate", "slower", "stops_at", "without_latency"]


@dataclass(frozen=True)
class Costs:
    """Seconds: measured, except those of the store, which are assumptions.

    `task_s` is the fixed cost of a task on its core, `byte_s` of decoding a byte and passing its rows
    to Spark. `dispatch_s` and `plan_task_s` are the driver's for each task. `request_s` is the
    store's latency, `store_byte_s` the time of a byte on one connection, `move_s` of a copy inside of
    the store, of which `moves_at_once` run at the same time.
    """

    task_s: float
    byte_s: float
    dispatch_s: float
    plan_task_s: float
    request_s: float = 0.030
    store_byte_s: float = 1 / 80e6
    request_bytes: int = 8 << 20
    requests_to_open: int = 2
    opened_at_once: int = 16
    list_keys: int = 1000
    move_s: float = 0.4
    moves_at_once: int = 16


@dataclass(frozen=True)
class Job:
    """`logs` of `log_bytes` each, read by tasks of `task_bytes`; with `files` an export of that many."""

    logs: int
    log_bytes: int
    task_bytes: int
    files: int = 0

    @property
    def task_sizes(self) -> list[int]:
        """The bytes of each task: large logs are cut, small ones put together."""
        if self.log_bytes >= self.task_bytes:
            parts = -(-self.log_bytes // self.task_bytes)
            return [self.log_bytes // parts] * (parts * self.logs)
        # opening a file counts as 1 MB
        together = max(1, self.task_bytes // (self.log_bytes + (1 << 20)))
        tasks = -(-self.logs // together)
        return [self.logs * self.log_bytes // tasks] * tasks

    @property
    def logs_of_a_task(self) -> int:
        """How many logs a task opens."""
        return max(1, -(-self.logs // len(self.task_sizes)))


@dataclass(frozen=True)
class Times:
    """Seconds of the parts of a job, one after the other; `tasks` is their number."""

    listing: float
    planning: float
    running: float
    commit: float
    tasks: int
    busy: float  # share of the cores' time in which they work

    @property
    def total(self) -> float:
        """Seconds of the whole job."""
        return self.listing + self.planning + self.running + self.commit


@dataclass(frozen=True)
class Stop:
    """More than so many `cores` make a job at most a little faster, and why."""

    cores: int
    why: str


def simulate(job: Job, costs: Costs, cores: int) -> Times:
    """Return the times of a job on so many cores."""
    sizes, logs = job.task_sizes, job.logs_of_a_task
    free = [0.0] * cores
    heapq.heapify(free)
    started = end = work = 0.0
    for size in sizes:
        started += costs.dispatch_s
        begin = max(started, heapq.heappop(free))
        took = _task_s(size, logs, costs)
        work += took
        end = max(end, begin + took)
        heapq.heappush(free, begin + took)
    listing, planning, commit = _serial(job, costs)
    return Times(listing, planning, end, commit, len(sizes), work / (end * cores))


def stops_at(job: Job, costs: Costs) -> Stop:
    """Return how many cores a job can use.

    Of the driver's own parts, listing, planning and commit, the longest is named.
    """
    sizes, logs = job.task_sizes, job.logs_of_a_task
    work = sum(_task_s(size, logs, costs) for size in sizes)
    parts = dict(zip(("listing", "planning", "commit"), _serial(job, costs), strict=True))
    # the driver's seconds that no core can save: while it starts tasks, and while nothing else runs
    alone = {
        "start of tasks": costs.dispatch_s * len(sizes),
        max(parts, key=lambda name: parts[name]): sum(parts.values()),
    }
    stops = [Stop(round(work / seconds), why) for why, seconds in alone.items() if seconds]
    return min(Stop(len(sizes), "no more tasks"), *stops, key=lambda stop: stop.cores)


def _serial(job: Job, costs: Costs) -> tuple[float, float, float]:
    """Return the seconds of listing, planning and commit, which the driver does alone."""
    return (
        -(-job.logs // costs.list_keys) * costs.request_s,
        costs.plan_task_s * len(job.task_sizes),
        -(-job.files // costs.moves_at_once) * costs.move_s,
    )


def _task_s(size: int, logs: int, costs: Costs) -> float:
    opening = -(-logs // costs.opened_at_once) * costs.requests_to_open * costs.request_s
    requests = max(-(-size // costs.request_bytes), logs)
    reading = requests * costs.request_s + size * costs.store_byte_s
    return costs.task_s + opening + max(reading, size * costs.byte_s)


def without_latency(costs: Costs) -> Costs:
    """The costs with logs on a local disk."""
    return replace(costs, request_s=0.0, store_byte_s=0.0)


def slower(costs: Costs, times: float) -> Costs:
    """The costs on cores that are so many times slower."""
    return replace(costs, task_s=costs.task_s * times, byte_s=costs.byte_s * times)
