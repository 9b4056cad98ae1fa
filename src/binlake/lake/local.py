"""The local engine: tasks run on the cores of this machine, without Spark and Java.

At most one task per core runs at a time, so memory is bounded however many tasks there are. On a few
cores tasks run on threads of this process: a worker process would first import what this one has
imported. On more cores they run in worker processes, each with an interpreter of its own, because many
threads would wait for the lock of one. A worker is a fresh Python (`lake/worker.py`) and no fork or
spawn of this one: the caller's program is not imported again, so it needs no
`if __name__ == "__main__"`.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO

from binlake.errors import BinlogError, OptionError
from binlake.lake.engine import Engine, Progress, Task
from binlake.lake.worker import read_message, write_message
from binlake.stream.lanes import in_order, usable_cores

_MOST_THREADS = 4


class LocalEngine(Engine):
    """Runs tasks here, on at most `workers` cores; by default on all that this process may use."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise OptionError(f"workers {workers}: expected at least 1", name="workers")
        self._workers = workers or usable_cores()

    @property
    def cores(self) -> int:
        return self._workers

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        count = min(self._workers, len(tasks))
        progress(0, len(tasks))
        if count > _MOST_THREADS:
            return _Pool(count, tasks, progress).run()
        results = []
        for result in _on_threads(tasks, count) if count > 1 else (task.run() for task in tasks):
            results.append(result)
            progress(len(results), len(tasks))
        return results


@dataclass(frozen=True, slots=True)
class _Portion:
    """A task as work of a thread. It waits outside of memory: its log is read when it runs."""

    task: Task
    bytes: int = 0
    is_alone: bool = False


def _on_threads(tasks: Sequence[Task], threads: int) -> Iterator[str]:
    """Yield the results in the order of the tasks. At an error, or at Ctrl-C, all tasks end soon."""

    def end_all() -> None:
        for task in tasks:
            task.give_up()

    portions = (_Portion(task) for task in tasks)
    return in_order(
        portions, lambda: lambda portion: iter([portion.task.run()]), threads, 1, end_all
    )


# A worker finds modules where this process does.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[1:]
from binlake.values.lean import leave_out_numpy
leave_out_numpy()
from binlake.lake.worker import main
main()
"""


class _Pool:
    """Worker processes, each with a thread that sends it one task after the other.

    Tasks start in order. After a failure no task starts, and the raised error is that of the first
    task that failed. Then, and at Ctrl-C, all workers are killed; their files do not count.
    """

    def __init__(self, count: int, tasks: Sequence[Task], progress: Progress) -> None:
        self._tasks = tasks
        self._progress = progress
        self._waiting: SimpleQueue[int] = SimpleQueue()
        for number in range(len(tasks)):
            self._waiting.put(number)
        self._answers: SimpleQueue[tuple[int, str | Exception]] = SimpleQueue()
        self._workers = [_start_worker() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name="binlake-worker", daemon=True)
            for worker in self._workers
        ]

    def run(self) -> list[str]:
        for thread in self._threads:
            thread.start()
        try:
            return self._collect()
        except BaseException:
            for worker in self._workers:
                worker.kill()
            raise
        finally:
            for thread in self._threads:
                thread.join()
            for worker in self._workers:
                _end(worker)

    def _collect(self) -> list[str]:
        results: dict[int, str] = {}
        failures: dict[int, Exception] = {}
        wanted = len(self._tasks)  # the tasks before the first that failed
        while any(number not in results for number in range(wanted)):
            number, answer = self._answers.get()
            if isinstance(answer, Exception):
                failures[number] = answer
                wanted = min(wanted, number)
                self._hand_out_no_more()
            else:
                results[number] = answer
                self._progress(len(results), len(self._tasks))
        if failures:
            raise failures[wanted]
        return [results[number] for number in range(wanted)]

    def _hand_out_no_more(self) -> None:
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()

    def _serve(self, worker: subprocess.Popen[bytes]) -> None:
        with suppress(Empty):
            while True:
                number = self._waiting.get_nowait()
                self._answers.put((number, _asked(worker, self._tasks[number])))


def _start_worker() -> subprocess.Popen[bytes]:
    # a process group of its own: Ctrl-C reaches this process only, which ends its workers
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )


def _asked(worker: subprocess.Popen[bytes], task: Task) -> str | Exception:
    """A worker's answer to a task: its result, or the error that it raised."""
    requests, answers = _pipes(worker)
    try:
        write_message(requests, pickle.dumps(task))
        answer: str | Exception = pickle.loads(read_message(answers))
    except (OSError, EOFError):
        code = worker.wait()
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return BinlogError(
            f"a worker process ended with {ending}",
            hint="use fewer workers (--workers) to save memory",
        )
    return answer


def _pipes(worker: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    return worker.stdin, worker.stdout


def _end(worker: subprocess.Popen[bytes]) -> None:
    requests, answers = _pipes(worker)
    with suppress(BrokenPipeError):
        requests.close()
    worker.wait()
    answers.close()
