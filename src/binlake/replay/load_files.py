"""The files of LOAD DATA, put together from their blocks in the log.

The log contains only a number for a file. binlake chooses the name, so a log cannot name a path on
this machine.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from binlake.errors import SourceError

_MOST_NAMES = 1 << 16


class LoadFiles:
    """Files under `folder` (the folder for temporary files when None), by their number in the log.

    They are left there: the text that is printed reads them when it is replayed.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder or tempfile.gettempdir())
        self._paths: dict[int, Path] = {}

    def begin(self, file_id: int, block: bytes) -> None:
        """A new file and its first block. Raises SourceError."""
        for version in range(_MOST_NAMES):
            path = self._folder / f"SQL_LOAD_MB-{file_id:x}-{version:x}"
            try:
                handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            except FileExistsError:
                continue
            except OSError as error:
                raise _not_written(error) from None
            with os.fdopen(handle, "wb") as file:
                file.write(block)
            self._paths[file_id] = path
            return
        raise SourceError(f"{self._folder} is full of files of LOAD DATA; remove the old ones")

    def append(self, file_id: int, block: bytes) -> bool:
        """One more block; False if the file's beginning was not in what was read. Raises SourceError."""
        path = self._paths.get(file_id)
        if path is None:
            return False
        # another user may have replaced the file by a link, in a directory that all may change
        try:
            handle = os.open(path, os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise _not_written(error) from None
        with os.fdopen(handle, "ab") as file:
            file.write(block)
        return True

    def take(self, file_id: int) -> Path | None:
        """The file, which is whole; None if its beginning was not in what was read."""
        return self._paths.pop(file_id, None)

    def drop(self, file_id: int) -> None:
        """The statement failed: its file is not needed."""
        path = self._paths.pop(file_id, None)
        if path is not None:
            path.unlink()


def _not_written(error: OSError) -> SourceError:
    return SourceError(
        f"a file of LOAD DATA cannot be written: {error}",
        hint="--local-load names a folder for them",
        errno=error.errno,
    )
