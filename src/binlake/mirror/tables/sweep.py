"""Work over all tables of a lake, in parts between which the mirror makes rounds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator


class Sweep:
    """Work in steps, such as one for each table. A part of it takes about `part_s` seconds, or as long as its last step.

    After a part it rests for `rest` times as long: with thousands of tables, a sweep takes hours in which there must be rounds.
    """

    def __init__(self, part_s: float, rest: float) -> None:
        self._part_s = part_s
        self._rest = rest
        self._steps: Iterator[None] | None = None
        self._rest_until = float("-inf")

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self._steps is None

    def begin(self, steps: Iterable[None]) -> None:
        """Make these steps from now on."""
        self._steps = iter(steps)

    def work(self) -> None:
        """Make the next part if it is time to."""
        if time.monotonic() >= self._rest_until:
            self.work_now()

    def work_now(self) -> None:
        """Make the next part in any case. An error of a step ends the sweep."""
        began = time.monotonic()
        steps, self._steps = self._steps or iter(()), None
        try:
            for _ in steps:
                if time.monotonic() - began >= self._part_s:
                    self._steps = steps
                    break
        finally:
            done = time.monotonic()
            self._rest_until = done + self._rest * (done - began)
