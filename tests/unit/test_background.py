"""A thread that ends without a word does not leave others waiting."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from binlake.background import Background, running
from binlake.stream.lanes import in_order


@pytest.fixture
def died(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[type[BaseException]]]:
    """Why threads have ended without reporting it: Python can only print that."""
    found: list[type[BaseException]] = []
    monkeypatch.setattr("sys.unraisablehook", lambda why: found.append(why.exc_type))
    yield found
    gc.collect()


def test_items_and_the_end(died: list[type[BaseException]]) -> None:
    made: SimpleQueue[int] = SimpleQueue()
    go = threading.Event()

    def run() -> None:
        made.put(1)
        go.wait()
        made.put(2)

    thread = Background(run, "a test")
    assert thread.get(made) == 1
    assert "a test" in running()
    go.set()
    thread.join()
    thread.join()
    assert "a test" not in running()
    assert thread.get(made) == 2
    with pytest.raises(MemoryError, match="a thread ended"):
        thread.get(made)
    assert not died


def test_a_thread_that_cannot_report_its_error(died: list[type[BaseException]]) -> None:
    made: SimpleQueue[int] = SimpleQueue()

    def run() -> None:
        made.put(1)
        raise MemoryError

    thread = Background(run, "a test")
    assert thread.get(made) == 1
    with pytest.raises(MemoryError, match="a thread ended"):
        thread.get(made)
    thread.join()
    assert died == [MemoryError]


def test_threads_that_begin_and_end_while_they_are_listed() -> None:
    """Python switches threads as often as it can: a set that is iterated over would fail."""
    interval = sys.getswitchinterval()
    done: SimpleQueue[None] = SimpleQueue()
    seen: set[str] = set()

    def start_others() -> None:
        for _ in range(2000):
            Background(lambda: None, "a short one").join()
        done.put(None)

    sys.setswitchinterval(1e-6)
    try:
        starters = [Background(start_others, "a starter") for _ in range(4)]
        while done.qsize() < len(starters):
            seen.update(running())
        for one in starters:
            one.join()
    finally:
        sys.setswitchinterval(interval)
    assert {"a starter", "a short one"} <= seen
    assert "a starter" not in running()


class _Portion:
    bytes = 1
    is_alone = False


def test_a_decoding_thread_that_cannot_report_its_error(
    died: list[type[BaseException]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker() -> Callable[[_Portion], Iterator[int]]:
        raise ValueError

    class Full(SimpleQueue[Any]):
        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            if isinstance(item, tuple) and isinstance(item[0], BaseException):
                raise MemoryError
            super().put(item, block, timeout)

    monkeypatch.setattr("binlake.stream.lanes.SimpleQueue", Full)
    with pytest.raises(MemoryError, match="a thread ended"):
        list(in_order(iter([_Portion(), _Portion()]), worker, 2, 1 << 20))
    assert died
    assert set(died) == {MemoryError}


ABANDONED = """
from binlake.background import Background
from queue import SimpleQueue

def items(wanted, made):
    thread = Background(lambda: [made.put(1) for _ in iter(wanted.get, None)], "a test")
    try:
        wanted.put(True)
        while True:
            yield thread.get(made)
    finally:
        thread.join()

def fails():
    kept = items(SimpleQueue(), SimpleQueue())
    next(kept)
    raise ValueError("the traceback keeps the generator until the interpreter is nearly gone")

fails()
"""


def test_a_process_ends_with_an_unfinished_generator() -> None:
    """Its `finally` runs when other threads no longer run: it must not wait for them."""
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "ValueError: the traceback keeps the generator" in done.stderr


def test_what_the_function_holds_is_freed_before_join_returns() -> None:
    """A destructor that lets other threads run must not do so while the process ends."""
    freed: list[int] = []

    class Slow:
        def __del__(self) -> None:
            threading.Event().wait(0.2)  # other threads run
            freed.append(1)

        def run(self) -> None:
            pass

    thread = Background(Slow().run, "a test")
    thread.join()
    assert freed == [1]
