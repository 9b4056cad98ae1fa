"""Write a result to a file that the user named."""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from binlake.errors import OptionError

_STANDARD = (1, 2)
# The path of an open descriptor: on Linux (process, descriptor), on macOS (descriptor).
_DESCRIPTOR = re.compile(r"/proc/(\d+)/(?:task/\d+/)?fd/(\d+)|/dev/fd/(\d+)")
_MOST_LINKS = 40
_PERMISSIONS = 0o666

_Naming = Callable[[], AbstractContextManager[None]]


@contextmanager
def output_file(path: Path, option: str) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    A pipe, a device and an open file (`/dev/stdout`, or the file that standard output goes to) are
    written directly: they are not replaced, and keep their content. A link stays, and its target
    is written. Raises OptionError, naming `option`; errors of the block are passed on.
    """
    naming = partial(_naming, path, option)
    with naming():
        descriptor = _as_it_is(path)
        target = Path(os.path.realpath(path))
        incomplete = target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")
        if descriptor is None:
            descriptor = os.open(incomplete, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PERMISSIONS)
        else:
            incomplete = target
    try:
        with _Output(descriptor, naming) as file:
            yield file
        if incomplete != target:
            with naming():
                incomplete.replace(target)
    finally:
        if incomplete != target:
            with suppress(OSError):
                incomplete.unlink(missing_ok=True)


@contextmanager
def growing_file(path: Path, option: str) -> Iterator[BinaryIO]:
    """Open a file that keeps everything written so far, however the block ends. Its old content is
    lost.

    A file that is not regular, or is open already, is written as by `output_file`. Raises
    OptionError, naming `option`.
    """
    naming = partial(_naming, path, option)
    with naming():
        descriptor = _as_it_is(path)
        if descriptor is None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PERMISSIONS)
    with _Output(descriptor, naming) as file:
        yield file


class _Output(io.BufferedWriter):
    """Adds the name of the file to errors of writing it."""

    def __init__(self, descriptor: int, naming: _Naming) -> None:
        self._naming = naming
        super().__init__(io.FileIO(descriptor, "wb"))

    def write(self, data: Any) -> int:
        with self._naming():
            return super().write(data)

    def flush(self) -> None:
        with self._naming():
            super().flush()


@contextmanager
def _naming(path: Path, option: str) -> Iterator[None]:
    """Name the file and the option in errors of writing it; a pipe without a reader is not an
    error.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OptionError(
            f"cannot write {path}: {error.strerror or error}", name=option, errno=error.errno
        ) from None


def _as_it_is(path: Path) -> int | None:
    """Return a descriptor for direct writing, without truncation; None: an ordinary file."""
    named = _named_descriptor(path)
    if named is not None:
        process, number = named
        if process in (None, os.getpid()):
            return os.dup(number)
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    for number in _STANDARD:
        with suppress(OSError):  # it is closed
            if os.path.samestat(there, os.fstat(number)):
                return os.dup(number)
    return None if path.is_file() else os.open(path, os.O_WRONLY)


def _named_descriptor(path: Path) -> tuple[int | None, int] | None:
    """Return the process (None for this one) and the descriptor that a path names; None: it names
    a file.
    """
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent), path.name)
        if found := _DESCRIPTOR.fullmatch(str(path)):
            process, number, ours = found.groups()
            return (None, int(ours)) if ours else (int(process), int(number))
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None
