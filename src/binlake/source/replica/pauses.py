"""The pauses before connections to a server that has broken off."""

from __future__ import annotations

import random
import time

__all__ = ["Pauses"]

_LASTING = 10  # first pauses


class Pauses:
    """Pauses that double from `first_s` up to `longest_s`.

    They begin again only after a connection that lasted ten times as long as the first one. Received data alone does not shorten them: a
    source may send one event for each connection.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._count = 0
        self._ended = time.monotonic()  # of the last pause

    def next_s(self, servers: int = 1) -> float:
        """Return the next pause in seconds; it doubles after each round of so many servers."""
        now = time.monotonic()
        if now - self._ended >= _LASTING * self._first_s:
            self._count = 0
        longest = min(self._longest_s, self._first_s * 2 ** min(self._count // servers, 16))
        self._count += 1
        # not for secrets: it keeps many followers from reconnecting at the same time
        pause = random.uniform(longest / 2, longest)
        self._ended = now + pause
        return pause
