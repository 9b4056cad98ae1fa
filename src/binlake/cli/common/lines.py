"""Text lines on stdout and stderr: printable for any content of a log, a server or a file name."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from binlake.printable import for_terminal, printable, shortened

_MOST_CHARACTERS = 4000


def show(line: str) -> None:
    """Print one line of a text result. JSON and scripts are written unchanged."""
    print(printable(line))


def print_message(message: str) -> None:
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
    with text_output() as file:
        yield file.write


@contextmanager
def text_output() -> Iterator[BinaryIO]:
    """Return standard output for text of a log that is no JSON: see `script_output`."""
    sys.stdout.flush()
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _Terminal() as file:
        yield cast(BinaryIO, file)


class _Terminal(io.BufferedIOBase):
    """Writes to a terminal, with escapes for unprintable characters."""

    def __init__(self) -> None:
        self._begun = bytearray()  # an incomplete line or character, whose rest comes later

    def writable(self) -> bool:
        return True

    def write(self, text: Any) -> int:
        self._begun.extend(text)
        end = self._begun.rfind(b"\n") + 1
        sys.stdout.buffer.write(for_terminal(bytes(self._begun[:end])))
        del self._begun[:end]
        return len(text)

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def close(self) -> None:
        if not self.closed:
            sys.stdout.buffer.write(for_terminal(bytes(self._begun)))
            sys.stdout.buffer.flush()
        super().close()
