"""A TCP proxy that fails as networks do: it cuts connections inside of a packet, stalls, refuses."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from functools import partial

__all__ = ["FlakyProxy"]

_PIECE_BYTES = 16 << 10


class FlakyProxy:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`target`, which may be changed while it runs.

    `cut(n)` closes every connection after `n` more bytes from the server, which is hardly ever
    where a packet ends (`cut(n, m)` again after `m` bytes more); `stall()` keeps connections open and forwards nothing until `resume()`;
    `refuse()` closes all and accepts none until `resume()`.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = False
        self._left: int | None = None
        self._next: list[int] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, after_bytes: int = 0, *again: int) -> None:
        """Close all connections, when the servers have sent `after_bytes` more bytes; and `again`
        those that come then.
        """
        with self._lock:
            self._left, self._next = after_bytes, list(again)
        if not after_bytes:
            self._close_all()

    def stall(self) -> None:
        """Forward nothing more, and say nothing."""
        self._flows.clear()

    def refuse(self) -> None:
        """Close all connections and accept no new one."""
        self._refuses = True
        self._close_all()

    def resume(self) -> None:
        """End `stall` and `refuse`."""
        self._refuses = False
        self._flows.set()

    def disturb(self, rng: random.Random, wait: Callable[[float], None]) -> str:
        """One fault, chosen at random; returns its name. `wait` passes seconds while it lasts."""
        kind = rng.choice(("cut", "cut now", "stall", "refuse"))
        if kind == "cut":
            self.cut(rng.randrange(1, 200_000))
        elif kind == "cut now":
            self.cut()
        else:
            self.stall() if kind == "stall" else self.refuse()
            wait(rng.uniform(0.1, 0.8))
            self.resume()
        return kind

    def close(self) -> None:
        """End it and every connection."""
        self._closed = True
        self._flows.set()
        self._listener.close()
        self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            self.cuts += bool(self._open)
            self._left = self._next.pop(0) if self._next else None
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._refuses:
                    raise OSError("refused")
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
            ends = threading.Barrier(2, action=partial(self._forget, near, far))
            for source, sink, counted in ((near, far, False), (far, near, True)):
                threading.Thread(
                    target=self._forward, args=(source, sink, counted, ends), daemon=True
                ).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, counted: bool, ends: threading.Barrier
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                self._flows.wait()
                if counted and (keep := self._allowed(len(data))) is not None:
                    sink.sendall(data[:keep])
                    self._close_all()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        ends.wait()

    def _allowed(self, size: int) -> int | None:
        """How many of `size` bytes may still pass before a cut; None: all, and no cut yet."""
        with self._lock:
            if self._left is None:
                return None
            if size < self._left:
                self._left -= size
                return None
            return self._left

    def _forget(self, near: socket.socket, far: socket.socket) -> None:
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()
