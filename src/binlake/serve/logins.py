"""Connections that have not logged in yet: counted separately from replicas; the oldest makes
room.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from binlake.serve.channel import Channel

_MOST_OF_ALL_HOSTS = 4  # the total limit, as a multiple of that of one host
# A wrong password is answered later each time, up to this.
_FIRST_DELAY_SECONDS = 0.2
_LAST_DELAY_SECONDS = 5.0
_FORGET_SECONDS = 60.0
_HOSTS_REMEMBERED = 1024


@dataclass(slots=True, eq=False)
class Pending:
    """A connection that is logging in; `dropped` is set when it has to make room."""

    channel: Channel
    host: str
    dropped: threading.Event = field(default_factory=threading.Event)

    def drop(self) -> None:
        """End it, whatever its thread waits for."""
        self.dropped.set()
        self.channel.abort()


class Logins:
    """Logins in progress and wrong passwords, by host. `max_logins` is the limit of one host."""

    def __init__(self, max_logins: int) -> None:
        self._max_logins = max_logins
        self._lock = threading.Lock()
        self._pending: list[Pending] = []  # oldest first
        self._by_host: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, channel: Channel, host: str) -> tuple[Pending, Pending | None]:
        """Add a login; return the one that has to make room for it (the caller drops it)."""
        with self._lock:
            made = Pending(channel, host)
            self._pending.append(made)
            return made, self._one_too_many(host)

    def end(self, pending: Pending) -> bool:
        """Note that a login has ended; return whether it may continue, unless it was dropped
        meanwhile.
        """
        with self._lock:
            if pending in self._pending:
                self._pending.remove(pending)
            return not pending.dropped.is_set()

    def drop_all(self) -> None:
        """End every login."""
        with self._lock:
            for pending in self._pending:
                pending.drop()

    def delay(self, host: str) -> float:
        """Return how many seconds to wait before telling a host again that its password is wrong."""
        with self._lock:
            count, at = self._by_host.pop(host, (0, 0.0))
            now = time.monotonic()
            count = 1 if now - at > _FORGET_SECONDS else count + 1
            self._by_host[host] = count, now
            while len(self._by_host) > _HOSTS_REMEMBERED:
                self._by_host.popitem(last=False)
        return min(_FIRST_DELAY_SECONDS * 2.0 ** min(count - 1, 10), _LAST_DELAY_SECONDS)

    def forget(self, host: str) -> None:
        """Note that a host has logged in."""
        with self._lock:
            self._by_host.pop(host, None)

    def _one_too_many(self, host: str) -> Pending | None:
        """Return the oldest login of a host that has too many, or of the host with the most."""
        counts = Counter(one.host for one in self._pending)
        if counts[host] <= self._max_logins:
            if len(self._pending) <= self._max_logins * _MOST_OF_ALL_HOSTS:
                return None
            host = counts.most_common(1)[0][0]
        oldest = next(one for one in self._pending if one.host == host)
        self._pending.remove(oldest)
        oldest.dropped.set()
        return oldest
