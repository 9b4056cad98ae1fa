"""Lines for people, on stdout and stderr: printable whatever a log, a server or a file name holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from binlake.printable import for_terminal, printable, shortened

__all__ = ["script_output", "show", "tell"]

_MOST_CHARACTERS = 4000


def show(line: str) -> None:
    """One line of a result that people read. JSON and scripts are written as they are."""
    print(printable(line))


def tell(message: str) -> None:
    """One line on stderr, of bounded length."""
    print(shortened(printable(message), _MOST_CHARACTERS), file=sys.stderr, flush=True)


@contextmanager
def script_output() -> Iterator[Callable[[bytes | memoryview], object]]:
    """What writes a script to stdout: the bytes as they are, for a client; on a terminal, which nobody
    replays, with escapes for what is not printable.
    """
    sys.stdout.flush()
    if not sys.stdout.isatty():
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    begun = bytearray()  # a line, or a character, of which the rest comes later

    def write(text: bytes | memoryview) -> None:
        begun.extend(text)
        end = begun.rfind(b"\n") + 1
        sys.stdout.buffer.write(for_terminal(bytes(begun[:end])))
        del begun[:end]

    try:
        yield write
    finally:
        sys.stdout.buffer.write(for_terminal(bytes(begun)))
        sys.stdout.buffer.flush()
