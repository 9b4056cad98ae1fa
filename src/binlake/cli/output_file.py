"""A result that goes to a file which the user named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from binlake.errors import OptionError

__all__ = ["output_file"]


@contextmanager
def output_file(path: Path, option: str) -> Iterator[BinaryIO]:
    """A file open for writing, which appears under its name only when it is complete.

    A pipe or a device is written as it is: nothing takes the place of `/dev/stdout`. A link stays,
    and what it leads to is written. Raises OptionError, naming `option`.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        partial = target.with_name(target.name + ".partial")
        try:
            with partial.open("wb") as file:
                yield file
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OptionError(f"cannot write {path}: {error.strerror or error}", name=option) from None
