"""Handle Ctrl-C and SIGTERM while output is written that has to be complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Make SIGTERM raise KeyboardInterrupt as Ctrl-C does; in `later` both wait for its end.

    In threads other than the main one, which receive no signals, it does nothing.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._waits = False
        self._came = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def later(self) -> Iterator[None]:
        """Delay an interrupt until the end of this block. Raises KeyboardInterrupt there."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    def _on_signal(self, *_: object) -> None:
        if not self._waits:
            raise KeyboardInterrupt
        self._came = True


@contextmanager
def end_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """In this block, SIGTERM and Ctrl-C end work in order, by `end`. A second Ctrl-C does not wait for that."""

    def on_signal(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end()

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
