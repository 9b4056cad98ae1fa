"""A result that goes to a file which the user named."""

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

__all__ = ["growing_file", "output_file"]

_STANDARD = (1, 2)
# How an open descriptor is named: by Linux (whose, which), by macOS (which).
_DESCRIPTOR = re.compile(r"/proc/(\d+)/(?:task/\d+/)?fd/(\d+)|/dev/fd/(\d+)")
_MOST_LINKS = 40
_PERMISSIONS = 0o666

_Naming = Callable[[], AbstractContextManager[None]]


@contextmanager
def output_file(path: Path, option: str) -> Iterator[BinaryIO]:
    """A file open for writing, which appears under its name only when it is complete.

    A pipe or a device is written as it is, and so is what is open already (`/dev/stdout`, or the
    file that standard output goes to): nothing takes its place, and what is in it stays. A link
    stays, and what it leads to is written. Raises OptionError, naming `option`; errors of the block
    are passed on.
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
    """A file that has what was written so far, however it ends. What it had before is gone.

    What is no regular file, or is open already, is written as by `output_file`. Raises OptionError,
    naming `option`.
    """
    naming = partial(_naming, path, option)
    with naming():
        descriptor = _as_it_is(path)
        if descriptor is None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PERMISSIONS)
    with _Output(descriptor, naming) as file:
        yield file


class _Output(io.BufferedWriter):
    """Names the file in what goes wrong with writing it."""

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
    """Errors of writing a file name it, and the option; that nobody reads a pipe is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OptionError(
            f"cannot write {path}: {error.strerror or error}", name=option, errno=error.errno
        ) from None


def _as_it_is(path: Path) -> int | None:
    """A descriptor of what is written as it is, without cutting it off; None: an ordinary file."""
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
    """Which process's, None for ours, and which descriptor a path names; None: it names a file."""
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent), path.name)
        if found := _DESCRIPTOR.fullmatch(str(path)):
            process, number, ours = found.groups()
            return (None, int(ours)) if ours else (int(process), int(number))
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None
