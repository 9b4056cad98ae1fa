"""Work on threads, with the results in the order of the work.

    for result in in_order(portions, worker, threads=4, held_bytes=64 << 20):
        …

The threads take turns: thread k of n works on portions k, k + n, k + 2n, so each sees its portions
in order and can keep state from one to the next. A thread makes one result ahead of the one that
waits to be taken. So the memory in use depends on the number of threads, not on the input.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, NamedTuple, Protocol, TypeVar

from binlake.background import Background

_HELD_RESULTS = 2  # of a thread: one that waits, one in the making


class Portion(Protocol):
    """A piece of work."""

    @property
    def bytes(self) -> int:
        """The approximate memory that it holds."""

    @property
    def is_alone(self) -> bool:
        """Whether the next one may be requested only after the results of this one were taken."""


P = TypeVar("P", bound=Portion)
T = TypeVar("T")


def usable_cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    portions: Iterator[P],
    worker: Callable[[], Callable[[P], Iterator[T]]],
    threads: int,
    held_bytes: int,
    on_close: Callable[[], None] = lambda: None,
) -> Iterator[T]:
    """Yield the results of all portions, in the order of the portions.

    Each thread calls `worker` once, before its first portion, for the function that works on its
    portions. The caller's thread iterates `portions`, ahead of the results by at most two portions
    per thread and `held_bytes`, or one larger portion. An error of a worker or of `portions` is
    raised after all results before it. Closing the iterator calls `on_close`, and ends the threads
    as soon as each has finished its current result.
    """
    lanes: list[_Lane[P, T]] = []
    try:
        yield from _results(portions, lanes, worker, threads, held_bytes)
    finally:
        on_close()
        for lane in lanes:
            lane.stop()
        for lane in lanes:
            lane.join()


def _results(
    portions: Iterator[P],
    lanes: list[_Lane[P, T]],
    worker: Callable[[], Callable[[P], Iterator[T]]],
    threads: int,
    held_bytes: int,
) -> Iterator[T]:
    source = _Source(portions)
    waiting: deque[tuple[_Lane[P, T], P]] = deque()
    given = held = 0
    while True:
        head = waiting[0][0] if waiting else None
        if head is None or (
            len(waiting) < 2 * threads
            and held < held_bytes
            and not waiting[-1][1].is_alone
            # results that are ready go first, once every thread has work
            and (len(waiting) <= threads or not head.is_ready)
        ):
            portion = source.next()
            if portion is not None:
                if given < threads:
                    lanes.append(_Lane(worker, given))
                lane = lanes[given % threads]
                given += 1
                held += portion.bytes
                waiting.append((lane, portion))
                lane.give(portion)
                continue
            if head is None:
                break
        result = head.take()
        if result is None:
            held -= waiting.popleft()[1].bytes
        else:
            yield result[0]
            del result
    source.fail()


class _Source(Generic[P]):
    """Yield portions until there are no more; keep an error of theirs for later."""

    def __init__(self, portions: Iterator[P]) -> None:
        self._portions = portions
        self._ended = False
        self._error: Exception | None = None

    def next(self) -> P | None:
        if self._ended:
            return None
        try:
            portion = next(self._portions, None)
        except Exception as error:  # noqa: BLE001 - raised in its place, by `fail`
            portion, self._error = None, error
        self._ended = portion is None
        return portion

    def fail(self) -> None:
        if self._error is not None:
            raise self._error


class _Failed(NamedTuple):
    error: BaseException


class _Lane(Generic[P, T]):
    """A thread with its portions and results."""

    def __init__(self, worker: Callable[[], Callable[[P], Iterator[T]]], number: int) -> None:
        self._worker = worker
        self._given: SimpleQueue[P | None] = SimpleQueue()
        # a result in a tuple, None at the end of a portion
        self._made: SimpleQueue[tuple[T] | _Failed | None] = SimpleQueue()
        self._room = threading.Semaphore(_HELD_RESULTS)
        self._stopped = False
        self._thread = Background(self._run, f"binlake-decode-{number}")

    @property
    def is_ready(self) -> bool:
        """Whether `take` returns at once."""
        return not self._made.empty()

    def give(self, portion: P) -> None:
        """Add a portion to work on after those before it."""
        self._given.put(portion)

    def take(self) -> tuple[T] | None:
        """The next result, or None at the end of a portion. Raises what the worker raised, and
        MemoryError if the thread has ended without a result.
        """
        made = self._thread.get(self._made)
        if isinstance(made, _Failed):
            raise made.error
        if made is not None:
            self._room.release()
        return made

    def stop(self) -> None:
        """Start no more work; the current result is finished."""
        self._stopped = True
        self._room.release(_HELD_RESULTS)
        self._given.put(None)

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            work = self._worker()
            while (portion := self._given.get()) is not None and not self._stopped:
                self._make(work(portion))
                del portion
                self._made.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where the result is taken
            self._made.put(_Failed(error))

    def _make(self, results: Iterator[T]) -> None:
        while True:
            self._room.acquire()
            if self._stopped:
                break
            result = next(results, _NOTHING)
            if result is _NOTHING:
                self._room.release()
                return
            self._made.put((result,))  # type: ignore[arg-type]
            del result


_NOTHING = object()
