"""Shared by the tests of archives: a process that archives, and a server's own files to compare with."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from binlake.source.bytes import open_reader
from binlake.source.resolve import resolve
from dev.servers import Server
from support.forked_commands import run_binlake

SECONDS = 120  # a deadline only
_IN_USE_AT = 21  # the flag byte of the format description that the server clears when it sends it


def url_of(server: Server) -> str:
    """The URL of a server's socket, as root."""
    path = str(server.run / "server.sock").replace("/", "%2F")
    return f"{server.flavour}://root@{path}/"


def command(*arguments: str | Path) -> list[str]:
    """A command line of ours."""
    return [sys.executable, "-m", "binlake.cli.main", *map(str, arguments)]


def archive(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `binlake archive --until-current`."""
    done = run_binlake("archive", *arguments, "--until-current", timeout_s=2 * SECONDS)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@contextlib.contextmanager
def archiving(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """`binlake archive` in the background; ended by SIGTERM, or killed."""
    process = subprocess.Popen(command("archive", *arguments), stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()


def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for a condition, a bounded time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.005)


def await_another_second(server: Server) -> None:
    """Logs of one name are told apart by the second in which they began: wait for the next one."""
    began = int.from_bytes(server.log_files()[-1].read_bytes()[4:8], "little")
    until(lambda: time.time() >= began + 1)


def as_sent(data: bytes) -> bytes:
    """A file of a server as the server sends it: without the flag that it is in use."""
    if len(data) > _IN_USE_AT:
        return data[:_IN_USE_AT] + bytes([data[_IN_USE_AT] & ~1]) + data[_IN_USE_AT + 1 :]
    return data


def contents(folder: Path | str) -> dict[str, bytes]:
    """The logs of a directory by name, decompressed."""
    found = {}
    for chain in resolve([str(folder)]):
        for file in chain.files:
            with open_reader(file.path) as reader:
                data = b""
                while more := reader.read_at(len(data), 1 << 20):
                    data += more
                found[file.name] = data
    return found


def of_server(server: Server) -> dict[str, bytes]:
    """A server's own logs by name, as it sends them."""
    return {path.name: as_sent(path.read_bytes()) for path in server.log_files()}


def state(folder: Path) -> dict[str, Any]:
    """The content of `archive.json`; {} if the file does not exist."""
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((folder / "archive.json").read_text())
        return found
    return {}


def has_caught_up(server: Server, folder: Path) -> bool:
    """Whether everything that a server has is durable in a directory."""
    found = state(folder)
    return bool(found) and (found["file"], found["offset"]) == server.position()


class Growth:
    """How many bytes were added to files below a directory, whatever was removed or compressed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last = self._stored()
        self.bytes = 0

    def look(self) -> int:
        """Look again; the bytes since this was made."""
        now = self._stored()
        self.bytes += max(now - self._last, 0)
        self._last = now
        return self.bytes

    def _stored(self) -> int:
        total = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += (Path(folder) / name).stat().st_size
        return total


class Load:
    """Keeps a server writing, in transactions of all sizes, until the block ends."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.error: BaseException | None = None

    def __enter__(self) -> Load:
        self._server.execute(
            "CREATE DATABASE IF NOT EXISTS shop",
            "CREATE TABLE IF NOT EXISTS shop.notes"
            " (id INT PRIMARY KEY AUTO_INCREMENT, text LONGBLOB) ENGINE=InnoDB",
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        assert self.error is None, self.error
        self._server.settle()

    def _run(self) -> None:
        try:
            with self._server.session("shop") as session:
                while not self._over.is_set():
                    rows = self._random.choice((1, 1, 2, 30))
                    size = self._random.choice((10, 200, 3000, 40_000))
                    values = ", ".join(f"(REPEAT('{rows}', {size}))" for _ in range(rows))
                    session.execute("BEGIN", f"INSERT INTO notes (text) VALUES {values}", "COMMIT")
                    if self._random.random() < 0.02:
                        session.execute("FLUSH BINARY LOGS")
                    if self._random.random() < 0.02:
                        session.execute("ALTER TABLE notes COMMENT 'again'")
                    self._over.wait(0.003)
        except Exception as error:  # noqa: BLE001 - told at the end
            self.error = error


def write(server: Server, count: int, size: int = 100) -> None:
    """Create a table if it does not exist, and write so many transactions; then the log does not change."""
    with server.session() as session:
        session.execute(
            "CREATE DATABASE IF NOT EXISTS shop",
            "CREATE TABLE IF NOT EXISTS shop.notes"
            " (id INT PRIMARY KEY AUTO_INCREMENT, text LONGBLOB) ENGINE=InnoDB",
        )
        for _ in range(count):
            session.execute(f"INSERT INTO shop.notes (text) VALUES (REPEAT('x', {size}))", "COMMIT")
    server.settle()
