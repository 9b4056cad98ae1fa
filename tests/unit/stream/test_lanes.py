"""Work on threads: results in order, errors in their place, bounded, and ended when the consumer stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from binlake.background import running
from binlake.source.chain import Chain, LogPath
from binlake.stream import spread
from binlake.stream.lanes import in_order
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


@dataclass
class Work:
    number: int
    results: int = 1
    bytes: int = 1
    is_alone: bool = False


def _works(count: int) -> Iterator[Work]:
    return (Work(number, results=number % 4) for number in range(count))


def _names(work: Work) -> Iterator[str]:
    for result in range(work.results):
        yield f"{work.number}.{result}"


def _worker() -> Callable[[Work], Iterator[str]]:
    return _names


def _threads() -> list[str]:
    return [name for name in running() if name.startswith("binlake-decode")]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_results_come_in_the_order_of_the_portions(threads: int, count: int) -> None:
    wanted = [name for work in _works(count) for name in _names(work)]
    assert list(in_order(_works(count), _worker, threads, 1 << 20)) == wanted
    assert _threads() == []


def test_each_thread_sees_every_nth_portion_in_order() -> None:
    seen: list[list[int]] = []

    def worker() -> Callable[[Work], Iterator[str]]:
        mine: list[int] = []
        seen.append(mine)

        def work(portion: Work) -> Iterator[str]:
            mine.append(portion.number)
            return _names(portion)

        return work

    list(in_order(_works(20), worker, 3, 1 << 20))
    assert sorted(seen) == [list(range(first, 20, 3)) for first in range(3)]


@pytest.mark.parametrize("bad", [0, 1, 5])
def test_an_error_comes_after_all_results_before_it(bad: int) -> None:
    """The first of several errors in the order is raised, also if portions fail behind it."""

    def works() -> Iterator[Work]:
        for number in range(bad + 3):
            yield Work(number, results=2)
        raise KeyError("of the portions")

    def worker() -> Callable[[Work], Iterator[str]]:
        def work(portion: Work) -> Iterator[str]:
            yield f"{portion.number}.0"
            if portion.number >= bad:
                raise ValueError(portion.number)
            yield f"{portion.number}.1"

        return work

    found: list[str] = []
    with pytest.raises(ValueError, match=f"^{bad}$"):
        found.extend(in_order(works(), worker, 2, 1 << 20))
    wanted = [f"{number}.{result}" for number in range(bad) for result in range(2)]
    assert found == [*wanted, f"{bad}.0"]
    assert _threads() == []


def test_an_error_of_the_portions_comes_after_their_results() -> None:
    def works() -> Iterator[Work]:
        yield from _works(5)
        raise KeyError

    found: list[str] = []
    with pytest.raises(KeyError):
        found.extend(in_order(works(), _worker, 3, 1 << 20))
    assert found == [name for work in _works(5) for name in _names(work)]


def test_memory_does_not_grow_with_the_input() -> None:
    """Portions are asked for as results are taken; a thread makes two results ahead at most."""
    asked, made = 0, 0

    def works() -> Iterator[Work]:
        nonlocal asked
        for number in range(1000):
            asked += 1
            yield Work(number, results=50)

    def worker() -> Callable[[Work], Iterator[int]]:
        def work(portion: Work) -> Iterator[int]:
            nonlocal made
            for _ in range(portion.results):
                made += 1
                yield portion.number

        return work

    results = in_order(works(), worker, 4, 1 << 20)
    for taken, _ in enumerate(results, 1):
        assert made <= taken + 4 * 2
        assert asked <= taken // 50 + 2 * 4 + 1
        if taken == 500:
            break
    results.close()  # type: ignore[attr-defined]
    assert _threads() == []


def test_held_bytes_bound_the_portions_ahead() -> None:
    asked = 0

    def works() -> Iterator[Work]:
        nonlocal asked
        for number in range(100):
            asked += 1
            yield Work(number, bytes=60)

    for taken, _ in enumerate(in_order(works(), _worker, 8, 100)):
        assert asked <= taken + 1 + 2


def test_nothing_is_read_beside_a_portion_that_is_alone() -> None:
    taken = 0

    def works() -> Iterator[Work]:
        for number in range(30):
            yield Work(number, results=2, is_alone=number % 3 == 0)
            if number % 3 == 0:
                assert taken == 2 * (number + 1)

    for _ in in_order(works(), _worker, 4, 1 << 20):
        taken += 1
    assert taken == 60


def test_first_results_do_not_wait_for_the_last_portion() -> None:
    """Every thread has work, and what is ready is given out."""
    asked = 0

    def works() -> Iterator[Work]:
        nonlocal asked
        for number in range(1000):
            asked += 1
            yield Work(number)

    results = in_order(works(), _worker, 2, 1 << 20)
    assert next(results) == "0.0"
    assert asked <= 4
    results.close()  # type: ignore[attr-defined]


def test_an_interrupt_ends_the_wait_for_a_result() -> None:
    """The thread that waits for a result gets the signal at once."""
    interrupted = threading.Event()

    def worker() -> Callable[[Work], Iterator[str]]:
        def work(portion: Work) -> Iterator[str]:
            if portion.number == 1:
                os.kill(os.getpid(), signal.SIGINT)
                assert interrupted.wait(60)  # no result before the interrupt
            return _names(portion)

        return work

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    found: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            found.extend(in_order(map(Work, range(10)), worker, 2, 1 << 20))
    finally:
        signal.signal(signal.SIGINT, before)
    assert found in (
        [],
        ["0.0"],
    )  # the second thread may interrupt before the first result is taken
    assert _threads() == []


@pytest.mark.parametrize(
    ("sizes", "given", "expected"),
    [
        ([1 << 20], None, 1),
        ([8 << 20], None, 2),
        ([4 << 20, 60 << 20], None, 8),
        ([100 << 20], None, 8),
        ([1 << 20, None], None, 8),  # the length of a server's log or a pipe is unknown
        ([1 << 20], 3, 3),
    ],
)
def test_small_logs_are_decoded_by_few_threads(
    sizes: list[int | None], given: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "usable_cores", lambda: 8)
    chain = Chain("binlog", tuple(LogPath("binlog", "binlog", size=size) for size in sizes))
    read = spread.Spread[int](ReadOptions(threads=given), Ledger(), chains=[chain])
    assert read.threads == expected
