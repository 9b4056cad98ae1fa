"""An archive in a directory of this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from binlake.archive.folder import Folder, LogWriter
from binlake.archive.growing import GrowingFile
from binlake.archive.layout import LOCK
from binlake.errors import SourceError
from binlake.source.bytes import (
    LOG_DIRECTORY_MODE,
    LOG_FILE_MODE,
    LocalReader,
    remove_partials,
    sync_directory,
    writing,
)
from binlake.source.reader import ByteReader, source_error

# A link in place of one of binlake's files is an error: it would make binlake write elsewhere.
_WRITING = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalFolder(Folder):
    """A directory of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._folder = Path(self.path)
        self._lock: int | None = None

    @property
    def cheap_sync(self) -> bool:
        return True

    def sizes(self) -> dict[str, int]:
        try:
            with os.scandir(self._folder) as entries:
                return dict(_sizes(entries))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise source_error(self.path, error) from error

    def directories(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise source_error(self.path, error) from error

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise source_error(self.path_of(name), error) from error

    def remove(self, name: str) -> None:
        with writing(self.path_of(name)):
            (self._folder / name).unlink(missing_ok=True)
            sync_directory(self._folder)

    def open_log(self, name: str) -> LogWriter:
        return LocalLog(self._folder / name)

    def unfinished(self) -> list[str]:
        return []

    def remove_partials(self, names: Iterable[str]) -> list[str]:
        with writing(self.path):
            return remove_partials(self._folder, names)

    def lock(self) -> None:
        path = self.path_of(LOCK)
        with writing(path):
            self._make()
            descriptor = os.open(path, _WRITING, LOG_FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise SourceError(f"{self.path}: another process writes this archive") from None
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def sub(self, name: str) -> Folder:
        return LocalFolder(self.path_of(name))

    def _make(self) -> None:
        missing = [p for p in (self._folder, *self._folder.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir(LOG_DIRECTORY_MODE, exist_ok=True)
        for path in missing:
            sync_directory(path.parent)


class LocalLog(LogWriter):
    """A log as a file that grows."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        with writing(str(path)):
            new = not path.exists()
            descriptor = os.open(path, _WRITING, LOG_FILE_MODE)
            self._file = GrowingFile(descriptor, os.fstat(descriptor).st_size)
            if new:
                sync_directory(path.parent)
            # bytes of a killed process may be in the system's memory only
            self.durable = 0 if new else self._file.sync()

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: bytes) -> None:
        with writing(str(self._path)):
            self._file.append(data)

    def sync(self) -> None:
        if self.durable == self.size:
            return
        with writing(str(self._path)):
            self.durable = self._file.sync()

    def truncate(self, size: int) -> None:
        with writing(str(self._path)):
            self._file.truncate(size)
        self.durable = size

    def reader(self) -> ByteReader:
        return LocalReader(str(self._path), self.durable)

    def finish(self) -> None:
        self.sync()

    def close(self) -> None:
        self._file.close()


def _sizes(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, int]]:
    """Return names and lengths of files, without those that another process removes meanwhile."""
    for entry in entries:
        with suppress(FileNotFoundError):
            if entry.is_file():
                yield entry.name, entry.stat().st_size
