"""Threads whose end is detected even if they run out of memory and cannot report it.

    thread = Background(run, "binlake-scan")
    item = thread.get(queue)     # into which `run` puts

`threading.Thread.start` waits until the new thread runs, without a limit. If the thread has no memory
for its first steps, it ends before that, and `start` never returns. A thread that has no memory to
report its error leaves those that wait for its result waiting, too.
"""

from __future__ import annotations

import _thread
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from sys import is_finalizing
from typing import TypeVar

T = TypeVar("T")

# how often a thread that waits looks whether the other one still runs
_LOOK_SECONDS = 1.0


class _Life:
    """Exists as long as the thread that holds it."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name = name


# Not a WeakSet: to iterate over it fails if a thread begins or ends meanwhile. A copy of a set is atomic.
_lives: set[weakref.ref[_Life]] = set()


class Background:
    """A thread that runs a function, and does not keep the process from ending.

    The function must report its errors through a queue. Raises RuntimeError or MemoryError if the
    thread cannot be started.
    """

    def __init__(self, run: Callable[[], None], name: str) -> None:
        life = _Life(name)
        self._life = weakref.ref(life, _lives.discard)
        _lives.add(self._life)
        self._ended: SimpleQueue[None] = SimpleQueue()
        # in lists, because the arguments of a thread are held until after its end
        _thread.start_new_thread(_run, ([life], [run], self._ended))

    def get(self, queue: SimpleQueue[T]) -> T:
        """Return the next item of a queue that the thread fills.

        Raises MemoryError if the thread has ended without it.
        """
        while True:
            # at the end of the process other threads do not run any more, and keep their lives
            ended = self._life() is None or is_finalizing()
            try:
                # the items before its end are there
                return queue.get(block=not ended, timeout=_LOOK_SECONDS)
            except Empty:
                if ended:
                    raise MemoryError("a thread ended for lack of memory") from None

    def join(self) -> None:
        """Wait for the end of the function."""
        try:
            self.get(self._ended)
        except MemoryError:
            return
        self._ended.put(None)  # for the next `join`


def _run(lives: list[_Life], runs: list[Callable[[], None]], ended: SimpleQueue[None]) -> None:
    run = runs.pop()
    try:
        run()
    finally:
        # What it holds is freed before `join` returns: Arrow's destructors release the lock of the interpreter, and a thread
        # that waits for it while the process ends is ended there, which C++ answers with an abort.
        del run
        # takes no memory, and works although the traceback of an error keeps this frame
        lives.clear()
        ended.put(None)


def running() -> list[str]:
    """Return the names of the threads that run."""
    return [life.name for one in _lives.copy() if (life := one()) is not None]
