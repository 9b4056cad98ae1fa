"""Run several archivers in one process: each in a thread, and a failure of one does not end the
others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from binlake.archive.archiver import ArchiveOptions, Archiver
from binlake.archive.folders import open_folder
from binlake.archive.metrics import ArchiveMetrics
from binlake.errors import BinlogError
from binlake.source.replica.url import ServerUrl

_LONGEST_PAUSE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """One archive to make: `urls` are servers that replicate one another, `name` is for messages."""

    name: str
    urls: tuple[ServerUrl, ...]
    target: str
    options: ArchiveOptions


class Archives:
    """Archives of several servers. `say` receives messages for the user, one line each.

    An archiver that fails with an error that no reconnection solves is started again after a
    pause of `first_pause_s`, since an operator may solve it meanwhile; the pause doubles. With `until_current` it is not, and the error
    counts.
    """

    def __init__(
        self,
        jobs: Sequence[ArchiveJob],
        say: Callable[[str], None],
        *,
        until_current: bool,
        first_pause_s: float = 60.0,
    ) -> None:
        self._first_pause_s = first_pause_s
        self.metrics = {job.name: ArchiveMetrics() for job in jobs}
        for name, metrics in self.metrics.items():
            metrics.server = name  # until it is known in which directory its logs are
        self.failed = 0
        self._jobs = jobs
        self._say = say
        self._until_current = until_current
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, Archiver] = {}

    def run(self) -> None:
        """Archive until `close`, or with `until_current` until the ends of all servers."""
        threads = [
            threading.Thread(target=self._keep_running, args=(job,), name=f"archive-{job.name}")
            for job in self._jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            # in steps, so that a signal is handled meanwhile
            while thread.is_alive():
                thread.join(1.0)

    def close(self) -> None:
        """End `run`; received data is made durable."""
        self._closed.set()
        with self._lock:
            for archiver in self._running.values():
                archiver.close()

    def _keep_running(self, job: ArchiveJob) -> None:
        pause = self._first_pause_s
        while not self._closed.is_set():
            came = self.metrics[job.name].bytes
            try:
                self._run(job)
                return
            except Exception as error:  # noqa: BLE001 - the others go on
                what = "" if isinstance(error, BinlogError) else f"{type(error).__name__}: "
                again = "" if self._until_current else f"; the next try is in {pause:.0f} s"
                self._say(f"{job.name}: {what}{error}{again}")
            if self._until_current:
                with self._lock:
                    self.failed += 1
                return
            if self.metrics[job.name].bytes > came:
                pause = self._first_pause_s
            self._closed.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _run(self, job: ArchiveJob) -> None:
        options = job.options
        if self._until_current:
            options = replace(options, until_current=True, attempts=5)
        archiver = Archiver(
            job.urls,
            open_folder(job.target),
            options,
            lambda line: self._say(f"{job.name}: {line}"),
            self.metrics[job.name],
        )
        with self._lock:
            if self._closed.is_set():
                return
            self._running[job.name] = archiver
        try:
            archiver.run()
        finally:
            with self._lock:
                self.failed += archiver.failed if self._until_current else 0
                del self._running[job.name]
