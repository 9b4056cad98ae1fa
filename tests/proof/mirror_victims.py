"""The victims that a soak of the mirror kills with -9, one class each: the command, its JVM, a worker, an executor, the server."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from binlake.mirror import status
from proof.mirror_load import Load
from support.servers.live import url_of
from support.spark.mirrored import Lake
from support.spark.spark_processes import Cluster, environment

__all__ = ["DURABLE", "KINDS", "Victims"]

PATIENCE_S = 300
#: Options of a server that loses nothing which its log has: the mirror has it already.
DURABLE = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
#: The longest time that a mirror may take to notice that its JVM has gone, and to end.
ENDS_IN_S = 120


@dataclass
class Victims:
    """Starts the command on a lake, and kills something of it. Each method returns what the command did after that.

    `master` is where the tasks of the command run; an executor is always one of `cluster`. `log` receives what the command says.
    """

    lake: Lake
    load: Load
    log: Path
    options: dict[str, object]
    cluster: Callable[[], Cluster]
    rng: random.Random = field(default_factory=random.Random)
    master: str = "local[2]"
    others: frozenset[int] = field(default=frozenset(), init=False)  # executors of other commands
    newest: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def end(self) -> None:
        """End the newest command, if it still runs."""
        if self.newest is not None:
            _kill_group(self.newest)
            self.newest.wait()

    def command(self) -> str:
        """The driver and all that it has started, at any moment."""
        process = self._started(self.master)
        self._let_run(process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "killed"

    def jvm(self) -> str:
        """The JVM alone: the command has to notice, and to end with an error."""
        process = self._started(self.master)
        self._let_run(process)
        [jvm, *_] = _descendants(process.pid, "java")
        os.kill(jvm, signal.SIGKILL)
        try:
            code = process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(
                f"the mirror hangs when its JVM is killed\n{self._said()}"
            ) from None
        _kill_group(process)
        assert code not in (0, -signal.SIGKILL), f"exit code {code}\n{self._said()}"
        assert self._last_line().startswith("binlake: the JVM of Spark has ended: "), self._said()
        assert "Traceback" not in self._said(), self._said()
        return f"ended with {code}"

    def worker(self) -> str:
        """A Python process that runs tasks."""
        process = self._started(self.master)
        self._let_run(process)
        [jvm, *_] = _descendants(process.pid, "java")
        parents = [jvm] if self.master.startswith("local") else self._executors(process)
        workers = _await(
            lambda: [one for parent in parents for one in _descendants(parent, "python")], process
        )
        os.kill(self.rng.choice(workers), signal.SIGKILL)
        return self._stopped(process)

    def executor(self) -> str:
        """An executor of a cluster, with its workers."""
        cluster = self.cluster()
        process = self._started(cluster.url)
        self._let_run(process)
        os.kill(self.rng.choice(self._executors(process)), signal.SIGKILL)
        return self._stopped(process)

    def source(self) -> str:
        """The server, which comes back a moment later."""
        process = self._started(self.master)
        self._let_run(process)
        self.lake.server.kill()
        time.sleep(self.rng.random() * 2)
        self.lake.server.start(DURABLE)
        return self._stopped(process)

    def source_at_rest(self) -> str:
        """The server when nothing is written, and the mirror has read its log to the end, which no event marks then."""
        process = self._started(self.master)
        self._let_run(process)
        with self.load.at_rest:
            self._await_end(process)
            self.lake.server.kill()
            self.lake.server.start(DURABLE)
        return self._stopped(process)

    # -- the command -------------------------------------------------------------------------------

    def _executors(self, process: subprocess.Popen[bytes]) -> list[int]:
        """The executors of a command, whose program may have some of its own."""
        return _await(
            lambda: [one for one in self.cluster().executors() if one not in self.others], process
        )

    def _started(self, master: str) -> subprocess.Popen[bytes]:
        more = ["--master", master]
        if not master.startswith("local"):
            self.others = frozenset(self.cluster().executors())
            more += ["--conf", "spark.cores.max=2"]
        program = [sys.executable, "-m", "binlake_program", "mirror"]
        words = [*program, "--config", str(self._configured()), *self.lake.words(), *more]
        with self.log.open("wb") as log:
            self.newest = subprocess.Popen(
                words, stdout=log, stderr=log, env=environment(), start_new_session=True
            )
        return self.newest

    def _configured(self) -> Path:
        """A file of options: some of them have no flag."""
        values = {
            "url": url_of(self.lake.server),
            "lake": self.lake.location,
            "interval_seconds": 0.05,
            **({"state": self.lake.state} if self.lake.state else {}),
        }
        lines = (f"{name} = {json.dumps(value)}" for name, value in (values | self.options).items())
        made = self.log.with_suffix(".toml")
        made.write_text("[mirror]\n" + "\n".join(lines) + "\n")
        return made

    def _let_run(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for some commits, then for a part of a second."""
        self._await_commits(process, self.rng.randrange(1, 12))
        assert process.poll() is None, self._said()
        time.sleep(self.rng.random() * 0.5)

    def _stopped(self, process: subprocess.Popen[bytes]) -> str:
        """Have a command that goes on commit again, and stop it; one that has ended has said why."""
        self._await_commits(process, 3)
        ended = process.poll()
        if ended is None:
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE_S)
            assert code == 0, f"stopped, exit code {code}\n{self._said()}"
        _kill_group(process)
        assert "Traceback" not in self._said(), self._said()
        assert not ended or self._last_line().startswith("binlake: "), self._said()
        return "went on" if ended is None else f"ended with {ended}: {self._last_line()}"

    def _await_commits(self, process: subprocess.Popen[bytes], commits: int) -> None:
        target = self.lake.versions() + commits
        deadline = time.monotonic() + PATIENCE_S
        while self.lake.versions() < target and process.poll() is None:
            assert time.monotonic() < deadline, f"no commits\n{self._said()}"
            time.sleep(0.02)

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the mirror has read everything that the server has written until now."""
        lake, began = self.lake, datetime.now(UTC)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = status(lake.location, spark=lake.spark, catalog=lake.catalog, state=lake.state)
            checked = datetime.fromisoformat(found.checked_at) if found.checked_at else began
            if found.behind_bytes == 0 and checked > began:
                return
            assert process.poll() is None, self._said()
            assert time.monotonic() < deadline, f"{found.behind_bytes} bytes\n{self._said()}"
            time.sleep(0.2)

    def _last_line(self) -> str:
        return self._said().strip().rpartition("\n")[2]

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


#: Names of kills, and what makes them.
KINDS: dict[str, Callable[[Victims], str]] = {
    "command": Victims.command,
    "JVM": Victims.jvm,
    "worker": Victims.worker,
    "executor": Victims.executor,
    "server": Victims.source,
    "server at rest": Victims.source_at_rest,
}


def _await(processes: Callable[[], list[int]], command: subprocess.Popen[bytes]) -> list[int]:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := processes()):
        assert command.poll() is None, "the mirror has ended"
        assert time.monotonic() < deadline, "no such process"
        time.sleep(0.02)
    return found


def _descendants(parent: int, program: str) -> list[int]:
    """The processes below one that run a program, the oldest first."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            found = re.fullmatch(r"(\d+) \((.*)\) \S (\d+) .*", entry.read_text().strip(), re.S)
            if found:
                children.setdefault(int(found[3]), []).append(int(found[1]))
                names[int(found[1])] = Path(f"/proc/{found[1]}/exe").readlink().name
        except OSError:
            continue
    below, left = [], [parent]
    while left:
        more = sorted(children.get(left.pop(0), ()))
        below += more
        left += more
    return [pid for pid in below if names.get(pid, "").startswith(program)]


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what a command has left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
