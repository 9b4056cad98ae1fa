"""Lines for people, on stdout and stderr: printable for any content of a log, a server or a file
name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from binlake.printable import for_terminal, printable, shortened

__all__ = ["script_output", "show", "tell"]

_MOST_CHARACTERS = 4000


def show(line: str) -> None:
    """Print one line of a result for people. JSON and scripts are written unchanged."""
    print(printable(line))


def tell(message: str) -> None:
    """Print one line on stderr, of bounded length."""
    print(shortened(printable(message), _MOST_CHARACTERS), file=sys.stderr, flush=True)


@contextmanager
def script_output() -> Iterator[Callable[[bytes | memoryview], object]]:
    """Return a writer of a script to stdout: unchanged bytes for a client; on a terminal, escapes
    for unprintable characters.
    """
    sys.stdout.flush()
    if not hasattr(
        sys.stdout, "buffer"
    ):  # a stream of text, as callers in the same process put there
        yield lambda text: sys.stdout.write(bytes(text).decode("utf-8", "replace"))
        return
    if not sys.stdout.isatty():
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    begun = bytearray()  # an incomplete line or character, whose rest comes later

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
