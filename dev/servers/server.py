"""One running server: start, stop, kill, and SQL over its socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from dev.servers.catalog import Installation, installation
from dev.servers.packages import SetupError, home, made_once
from dev.servers.ports import ReservedPort

__all__ = ["RefusedError", "Server", "Session", "running"]

# Deadlines only, for a machine that has much else to do.
START_SECONDS = 300
STOP_SECONDS = 300
CONNECT_SECONDS = 120


class RefusedError(Exception):
    """The server refused a statement."""


class Session:
    """One connection. Statements run in order; values come back as text, None for NULL."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, *statements: str) -> None:
        """Run statements. Raises RefusedError, naming the statement."""
        for statement in statements:
            with self.connection.cursor() as cursor:
                try:
                    cursor.execute(statement)
                    while cursor.nextset():
                        pass
                except pymysql.MySQLError as error:
                    raise RefusedError(f"{error}: {statement[:2000]}") from error

    def rows(self, query: str) -> list[list[str | None]]:
        """The rows of one query, every value as the server's text protocol writes it."""
        with self.connection.cursor() as cursor:
            try:
                cursor.execute(query)
            except pymysql.MySQLError as error:
                raise RefusedError(f"{error}: {query[:2000]}") from error
            return [[_text(value) for value in row] for row in cursor.fetchall()]


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _refuse_real_time() -> None:
    """Raise SetupError under `chrt`: threads of InnoDB that spin would then keep all processors from everything else."""
    if sys.platform == "linux" and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        raise SetupError(
            "a server with real-time priority can stop the machine: start this without chrt"
        )


class Server:
    """A server with its data under `run`, reached over a socket there and on 127.0.0.1."""

    def __init__(self, kind: Installation, run: Path) -> None:
        self.kind = kind
        self.run = run
        self.data = run / "data"
        self.port = 0
        self._reserved: ReservedPort | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The server's name in the catalog."""
        return self.kind.name

    @property
    def flavour(self) -> str:
        """`mysql` or `mariadb`."""
        return self.kind.flavour

    def prepare(self) -> list[str]:
        """Make the data directory when there is none; returns the options of every start."""
        self.run.mkdir(parents=True, exist_ok=True)
        if self._reserved is None:
            self._reserved = ReservedPort()
            self.port = self._reserved.number
        base = self.kind.options(self.run, self.port)
        if not self.data.exists():
            # its own UUID is made when it starts
            shutil.copytree(
                _new_data(self.kind), self.data, ignore=shutil.ignore_patterns("auto.cnf")
            )
        return base

    def start(self, options: Sequence[str] = ()) -> None:
        """Start with the binary log `binlog` on; makes the data directory when there is none.

        `options` come last, so they win. Raises SetupError with the end of the error log.
        """
        _refuse_real_time()
        base = self.prepare()
        log = [f"--log-bin={self.data / 'binlog'}", "--binlog-format=ROW", "--server-id=1"]
        command = [*self.kind.server_command(), *base, *log, *options]
        with (self.run / "stdout.log").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=self.kind.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        (self.run / "pid").write_text(str(self._process.pid))
        self._await_answer(self._process)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if self._listens():
                with contextlib.suppress(pymysql.MySQLError), self.session():
                    return
            time.sleep(0.05)
        raise SetupError(f"{self.name} did not start:\n{_end_of(self.run / 'error.log')}")

    def _listens(self) -> bool:
        # asked first, because PyMySQL leaves its socket open when a connection is refused
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.run / "server.sock")) == 0

    def _pid(self) -> int | None:
        """The process that `start` launched here, when it still runs."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.run / "pid").read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            # only ever a process that works on this very data directory
            if os.fsencode(f"--datadir={self.data}") in arguments:
                return pid
        return None

    def _end(self, number: signal.Signals) -> None:
        pid = self._pid()
        if pid is None:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while self._pid() is not None:
            if self._process is not None:
                self._process.poll()  # an ended child stays in /proc until it is asked for
            if time.monotonic() > deadline:
                raise SetupError(f"{self.name}, process {pid}, does not end")
            time.sleep(0.02)
        if self._process is not None:
            self._process.wait()

    def condition(self) -> str:
        """Whether the process runs, and the end of its error log: for the report of a failure."""
        state = "runs" if self._pid() is not None else "does not run"
        return f"{self.name} {state}; the end of its error log:\n{_end_of(self.run / 'error.log')}"

    def stop(self) -> None:
        """Shut down in order, and wait for it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """End it, and give back its folder and its port."""
        self.kill()
        shutil.rmtree(self.run, ignore_errors=True)
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None

    @contextlib.contextmanager
    def session(self, database: str | None = None) -> Iterator[Session]:
        """A new connection as root."""
        connection = pymysql.connect(
            unix_socket=str(self.run / "server.sock"),
            user="root",
            database=database,
            charset="utf8mb4",
            connect_timeout=CONNECT_SECONDS,
            autocommit=None,
            local_infile=True,
            ssl_disabled=True,  # PyMySQL would load all authorities of the system for each connection
            client_flag=CLIENT.MULTI_STATEMENTS,
            max_allowed_packet=256 << 20,
            conv={},
        )
        try:
            yield Session(connection)
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        """Run statements in a session of their own."""
        with self.session() as session:
            session.execute(*statements)

    def rows(self, query: str) -> list[list[str | None]]:
        """The rows of a query in a session of its own."""
        with self.session() as session:
            return session.rows(query)

    def position(self) -> tuple[str, int]:
        """The current log's base name and the end of what is in it."""
        name, offset = self.rows(self.kind.position_query)[0][:2]
        return name or "", int(offset or 0)

    def log_files(self) -> list[Path]:
        """The log files in the order of the index."""
        lines = (self.data / "binlog.index").read_text().split()
        return [self.data / Path(line).name for line in lines]

    def settle(self) -> None:
        """Wait until the server adds nothing to its log by itself.

        MariaDB notes in a new log, when InnoDB has flushed what the one before tells, that a
        recovery would begin with the new one (BINLOG_CHECKPOINT): up to seconds later.
        """
        if self.flavour != "mariadb":
            return
        deadline = time.monotonic() + STOP_SECONDS
        while not self._has_noted_its_log():
            if time.monotonic() > deadline:
                raise SetupError(f"{self.name} does not note its log as the one to recover from")
            time.sleep(0.02)

    def _has_noted_its_log(self) -> bool:
        log, _ = self.position()
        events = self.rows(f"SHOW BINLOG EVENTS IN '{log}'")
        noted = [what for _, _, kind, _, _, what in events if kind == "Binlog_checkpoint"]
        return noted[-1:] == [log]

    def purge_before(self, log: str) -> None:
        """Purge the logs before one. A server keeps in silence what a dump thread still has
        open, and sees only later that its client has gone.
        """
        deadline = time.monotonic() + STOP_SECONDS
        while self.rows("SHOW BINARY LOGS")[0][0] != log:
            if time.monotonic() > deadline:
                raise SetupError(f"{self.name} does not purge the logs before {log}")
            self.execute(f"PURGE BINARY LOGS TO '{log}'")
            time.sleep(0.02)

    def run_script(self, script: bytes, database: str | None = None) -> None:
        """Feed a script to the command-line client, as people do. Raises RefusedError."""
        self._client([*self.kind.client_command(), *self._login()], [database or "mysql"], script)

    def dump(self, database: str, *options: str) -> bytes:
        """The output of mysqldump for a database. Raises RefusedError."""
        command = [*self.kind.dump_command(), *self._login(), "--single-transaction", *options]
        return self._client(command, [database])

    def _login(self) -> list[str]:
        socket_file = self.run / "server.sock"
        return [
            f"--socket={socket_file}",
            "--user=root",
            "--max-allowed-packet=256M",
        ]

    def _client(self, command: list[str], arguments: list[str], given: bytes = b"") -> bytes:
        run = subprocess.run([*command, *arguments], input=given, capture_output=True, check=False)
        if run.returncode:
            raise RefusedError(run.stderr.decode(errors="replace")[:2000])
        return run.stdout

    def read_log(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the server's own reader of binary logs."""
        command = [*self.kind.reader_command(), *arguments]
        return subprocess.run(command, capture_output=True, check=False)

    def feed(self, text: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the server's own client on `text`, as root."""
        command = [
            *self.kind.client_command(),
            f"--socket={self.run / 'server.sock'}",
            "--user=root",
            "--local-infile=1",
            "--binary-mode",
            *arguments,
        ]
        return subprocess.run(command, input=text, capture_output=True, check=False)


def _new_data(kind: Installation) -> Path:
    """The data directory of a server that has never run; made once, which takes seconds."""
    _ = kind.root  # what makes this folder, too, has it made before

    def fill(folder: Path) -> None:
        try:
            kind.initialise(folder / "data", kind.options(folder, 0))
        except SetupError as error:
            raise SetupError(f"{error}\n{_end_of(folder / 'error.log')}") from None

    return made_once(home() / "data" / kind.name, fill) / "data"


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:] if log.exists() else ""


@contextlib.contextmanager
def running(name: str, options: Sequence[str] = ()) -> Iterator[Server]:
    """A new server in a temporary folder, killed and removed at the end."""
    server = Server(installation(name), Path(tempfile.mkdtemp(prefix="binlake-")))
    try:
        server.start(options)
        yield server
    finally:
        server.remove()


@contextlib.contextmanager
def busy(server: Server, work: Callable[[Server, threading.Event], None]) -> Iterator[None]:
    """`work` changes rows in a thread, until its event is set at the end."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(server, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
