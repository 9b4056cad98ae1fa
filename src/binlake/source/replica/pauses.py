"""The pauses before connections to a server that has broken off."""

from __future__ import annotations

import random
import time

_LASTING = 10  # first pauses


class Pauses:
    """Pauses that double from `first_s` up to `longest_s`.

    They begin again only after a connection on which something arrived for ten times as long as the first pause. Received data
    alone does not shorten them: a source may send one event on each connection.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._count = 0
        self._connected_at: float | None = None  # since the last pause

    def connected(self) -> None:
        """Note that the server has sent something."""
        if self._connected_at is None:
            self._connected_at = time.monotonic()

    def next_s(self, servers: int = 1) -> float:
        """Return the next pause in seconds; it doubles after each round of so many servers."""
        began, self._connected_at = self._connected_at, None
        if began is not None and time.monotonic() - began >= _LASTING * self._first_s:
            self._count = 0
        longest = min(self._longest_s, self._first_s * 2 ** min(self._count // servers, 16))
        self._count += 1
        # not for secrets: it keeps many followers from reconnecting at the same time
        return random.uniform(longest / 2, longest)
