"""Receive the ledgers of tasks on a cluster in the user's process, and answer its planner.

Tasks on other hosts have no directory in common with the driver, unless `ledger_path` names one.
So a session that binlake has prepared listens on the driver's address, and each task sends its
ledger there when it has finished. When the ledgers of all tasks of a read have arrived, their
summary is printed on the driver's stderr, before the last task ends.

A message carries a secret that only the plan contains. If a task does not reach the driver, its
ledger is on the stderr of its executor only.

Spark plans a read in a helper process, which asks here how many tasks can run at the same time.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import socketserver
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from binlake.values.ledger import Ledger

_CONNECT_S = 2.0
_ANSWER_S = 30.0
_MOST_BYTES = 64 << 20
# Reads whose tasks have not all finished; those that failed never will.
_MOST_READS = 64
_RECEIVED = b"ok"
_ANSWER_BYTES = 16


class ReadPart(NamedTuple):
    """One task of a read: the name of the read, the start of its messages, its number of tasks."""

    name: str
    label: str
    task: int
    tasks: int


@dataclass(frozen=True)
class CollectorAddress:
    """Where the tasks of a session send their ledgers."""

    host: str
    port: int
    secret: str

    def send(self, part: ReadPart, ledger: Ledger) -> bool:
        """Send the ledger of a finished task; return whether it has arrived."""
        return self._ask({"part": list(part), "ledger": ledger.to_json()}) == _RECEIVED

    def cores(self) -> int | None:
        """Return how many tasks the session can run at the same time; None without an answer."""
        answer = self._ask({"ask": "cores"})
        return int(answer) if answer.isdigit() else None

    def _ask(self, message: dict[str, Any]) -> bytes:
        """Return the answer to a message; empty if it has none."""
        try:
            with socket.create_connection((self.host, self.port), _CONNECT_S) as connection:
                connection.settimeout(_ANSWER_S)
                connection.sendall(json.dumps({"secret": self.secret, **message}).encode())
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(_ANSWER_BYTES)
        except OSError:
            return b""


class LedgerCollector:
    """Listens on the driver's address, in daemon threads, until the process ends or `close`.

    `address` is for the tasks, which reach the driver as `host`. `bind` is the address to listen on,
    `port` 0 any free port. `report` receives the start of the messages and the sum of a read. `cores`
    returns how many tasks the session can run now. The constructor raises OSError if the address
    cannot be bound.
    """

    def __init__(
        self,
        host: str,
        bind: str,
        port: int,
        report: Callable[[str, Ledger], object],
        cores: Callable[[], int],
    ) -> None:
        self._secret = secrets.token_hex(16)
        self._report = report
        self._cores = cores
        self._reads: OrderedDict[str, dict[int, Ledger]] = OrderedDict()
        self._lock = threading.Lock()
        self._server = _server(bind, port, self._receive)
        bound: int = self._server.server_address[1]
        self.address = CollectorAddress(host, bound, self._secret)
        threading.Thread(
            target=self._server.serve_forever, name="binlake-ledgers", daemon=True
        ).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _receive(self, data: bytes) -> bytes:
        """Take a message; return the answer, empty if it is none of ours."""
        try:
            message = json.loads(data)
            if not hmac.compare_digest(str(message["secret"]), self._secret):
                return b""
            if message.get("ask") == "cores":
                return b"%d" % self._cores()
            part, ledger = ReadPart(*message["part"]), Ledger.from_json(message["ledger"])
        except (ValueError, TypeError, KeyError):
            return b""
        whole = self._sum(part, ledger)
        if whole is not None:
            self._report(part.label, whole)
        return _RECEIVED

    def _sum(self, part: ReadPart, ledger: Ledger) -> Ledger | None:
        """Add the ledger of a task; return the sum if all tasks have sent theirs."""
        with self._lock:
            # of a task that ran more than once, the last counts
            tasks = self._reads.setdefault(part.name, {})
            tasks[part.task] = ledger
            if len(tasks) < part.tasks:
                self._reads.move_to_end(part.name)
                while len(self._reads) > _MOST_READS:
                    self._reads.popitem(last=False)
                return None
            del self._reads[part.name]
        whole = Ledger()
        for number in sorted(tasks):
            whole += tasks[number]
        return whole


def _server(bind: str, port: int, receive: Callable[[bytes], bytes]) -> socketserver.TCPServer:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(_ANSWER_S)
            try:
                data = _until_end(self.request)
                if data is not None:
                    self.request.sendall(receive(data))
            except OSError:
                pass  # the task has gone

    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        daemon_threads = True

    return Server((bind, port), Handler)


def _until_end(connection: socket.socket) -> bytes | None:
    """Return all that a client sends; None if it is too much."""
    data = bytearray()
    while block := connection.recv(1 << 16):
        data += block
        if len(data) > _MOST_BYTES:
            return None
    return bytes(data)
