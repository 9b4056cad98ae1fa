"""The connected replicas: for SHOW REPLICAS, for metrics, and to allow one stream per replica."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from binlake.serve.dump import DumpProgress


@dataclass(slots=True)
class Replica:
    """One client that registered or follows. `uuid` "" where the replica has none.

    `address` is its host and port, `progress` its progress, `end` stops its stream from any
    thread.
    """

    connection_id: int
    address: str
    end: Callable[[], None]
    server_id: int = 0
    uuid: str = ""
    host: str = ""
    port: int = 0
    progress: DumpProgress = field(default_factory=DumpProgress)
    following: bool = False

    @property
    def name(self) -> str:
        """The replica in one word, for messages."""
        return f"server_id {self.server_id}" if self.server_id else self.address


class Replicas:
    """All of them, by connection. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[int, Replica] = {}

    def add(self, replica: Replica) -> None:
        """Add a client."""
        with self._lock:
            self._all[replica.connection_id] = replica

    def remove(self, replica: Replica) -> None:
        """Remove a client."""
        with self._lock:
            self._all.pop(replica.connection_id, None)

    def end(self, connection_id: int) -> bool:
        """End a connection; False if there is none with that number."""
        with self._lock:
            replica = self._all.get(connection_id)
        if replica is not None:
            replica.end()
        return replica is not None

    def listed(self) -> list[Replica]:
        """Return those that registered or follow, oldest first."""
        with self._lock:
            return [one for one in self._all.values() if one.server_id or one.following]

    def following(self) -> list[Replica]:
        """Return those that follow now, oldest first."""
        with self._lock:
            return [one for one in self._all.values() if one.following]

    def follow(self, replica: Replica) -> None:
        """Note that a stream begins, and end an older stream of the same replica, as a server
        does.

        The replica is the same by UUID, else by its server id; tools that send 0 are all
        different.
        """
        with self._lock:
            replica.following = True
            for other in self._all.values():
                if other is replica or not other.following or not replica.server_id:
                    continue
                if (other.uuid or replica.uuid) and other.uuid != replica.uuid:
                    continue
                if replica.uuid or other.server_id == replica.server_id:
                    other.end()
