"""Ask a store about several logs at the same time, because each answer takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

from binlake.background import Background

T = TypeVar("T")
R = TypeVar("R")

# Each has at most 64 KB in memory until its turn has come.
_OPENED_TOGETHER = 16


def opened_ahead(
    items: Sequence[T], opened: Callable[[T], R], takes_long: Callable[[T], object]
) -> Iterator[R]:
    """Yield `opened(item)` of each item, in order.

    Of items that take long, such as logs in a store, 16 are opened at the same time. Others are opened
    one after the other, each when its turn has come. Raises what `opened` raises when the turn of its item has come, and MemoryError.
    """
    for first in range(0, len(items), _OPENED_TOGETHER):
        group = items[first : first + _OPENED_TOGETHER]
        if len(group) == 1 or not all(map(takes_long, group)):
            yield from map(opened, group)
            continue
        coming = [_Coming(partial(opened, item)) for item in group]
        coming.reverse()
        while coming:
            yield coming.pop().result()


class _Coming(Generic[R]):
    """The result of a call that runs in the background."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._made: SimpleQueue[tuple[R] | Exception] = SimpleQueue()
        self._thread = Background(partial(self._run, call), "binlake-open")

    def result(self) -> R:
        """Return it when it is there. Raises what the call raises, and MemoryError."""
        made = self._thread.get(self._made)
        if isinstance(made, Exception):
            raise made
        return made[0]

    def _run(self, call: Callable[[], R]) -> None:
        try:
            self._made.put((call(),))
        except Exception as error:  # noqa: BLE001 - raised where the result is wanted
            self._made.put(error)
