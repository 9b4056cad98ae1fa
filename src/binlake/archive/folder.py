"""The directory that an archive is written to: on this machine, or in an object store.

Both write a file whole and durable or not at all, and a log that grows (`LogWriter`). What is here
is the first; `store.py` has the other.
"""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from binlake.archive.growing import GrowingFile
from binlake.archive.layout import LOCK
from binlake.errors import OptionError, SourceError
from binlake.source.bytes import (
    LocalReader,
    is_uri,
    local_path,
    remove_partials,
    sync_directory,
    write_whole,
)
from binlake.source.reader import ByteReader, source_error, what, without_secrets

__all__ = ["Folder", "LogWriter", "open_folder", "writing_error"]


class LogWriter(ABC):
    """The log that is being written. `size` bytes of it are there, `durable` of them for good.

    One thread does all of this but `sync`, which another may do meanwhile.
    """

    name: str
    durable: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Its length, with what waits to be written."""

    @abstractmethod
    def append(self, data: bytes) -> None:
        """Put bytes at the end, which are written soon. Raises SourceError, of earlier ones too."""

    @abstractmethod
    def sync(self) -> None:
        """Make everything durable that was appended until now. Raises SourceError."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Forget everything from byte `size` on. Raises SourceError."""

    @abstractmethod
    def reader(self) -> ByteReader:
        """The durable bytes."""

    @abstractmethod
    def finish(self) -> None:
        """The log is complete: make it durable under its name. Raises SourceError."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what is not durable may be lost."""


class Folder(ABC):
    """A directory. `path` is a local path or a URI."""

    path: str

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The files by name, and their lengths in bytes; none where there is no directory."""

    @abstractmethod
    def directories(self) -> list[str]:
        """The names of the directories in it."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """A (small) file, None if it is not there. Raises SourceError."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file; none is fine. Raises SourceError."""

    @abstractmethod
    def open_log(self, name: str) -> LogWriter:
        """Write a log, or go on with what is there of it. Raises SourceError."""

    @abstractmethod
    def unfinished(self) -> list[str]:
        """Logs that are not there under their names yet, though some of them is durable."""

    @abstractmethod
    def remove_partials(self, names: Iterable[str]) -> list[str]:
        """Remove those of the files that killed processes left while they wrote them; returns which.

        What a living process writes is left alone. Raises SourceError.
        """

    @abstractmethod
    def lock(self) -> None:
        """Be the only one who writes here, as long as this process lives. Raises SourceError."""

    @abstractmethod
    def unlock(self) -> None:
        """Let others write."""

    @property
    @abstractmethod
    def cheap_sync(self) -> bool:
        """Whether making a few bytes durable costs little."""

    def path_of(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self.path}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Make or replace a file: whole and durable, or not at all. Raises SourceError."""
        write_whole(self.path_of(name), data)

    def sub(self, name: str) -> Folder:
        """A directory in it, which need not be there yet."""
        return open_folder(self.path_of(name))


def open_folder(path: str) -> Folder:
    """The directory that a local path or a URI names; it need not be there. Raises SourceError."""
    path = local_path(path)
    if is_uri(path) and "?" in path:
        raise OptionError(
            f"{without_secrets(path)}: a store is named without options",
            name="DIR",
            hint="its address comes from the environment: AWS_ENDPOINT_URL, AWS_DEFAULT_REGION",
        )
    if not is_uri(path):
        return LocalFolder(path)
    from binlake.archive.store import StoreFolder

    return StoreFolder(path)


def writing_error(path: str, error: OSError) -> SourceError:
    """What the operating system or the store said, as one line."""
    reason = error.strerror or what(error, path)
    return SourceError(f"{without_secrets(path)} cannot be written: {reason}")


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
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
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
        try:
            (self._folder / name).unlink(missing_ok=True)
            sync_directory(self._folder)
        except OSError as error:
            raise writing_error(self.path_of(name), error) from error

    def open_log(self, name: str) -> LogWriter:
        return LocalLog(self._folder / name)

    def unfinished(self) -> list[str]:
        return []

    def remove_partials(self, names: Iterable[str]) -> list[str]:
        try:
            return remove_partials(self._folder, names)
        except OSError as error:
            raise writing_error(self.path, error) from error

    def lock(self) -> None:
        path = self.path_of(LOCK)
        try:
            self._make()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise writing_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise SourceError(f"{self.path}: another process archives into it") from None
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        missing = [p for p in (self._folder, *self._folder.parents) if not p.exists()]
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_directory(path.parent)


class LocalLog(LogWriter):
    """A log as a file that grows."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        try:
            new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._file = GrowingFile(descriptor, os.fstat(descriptor).st_size)
            if new:
                sync_directory(path.parent)
            # what a killed process wrote may be in the system's memory only
            self.durable = 0 if new else self._file.sync()
        except OSError as error:
            raise writing_error(str(path), error) from error

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: bytes) -> None:
        try:
            self._file.append(data)
        except OSError as error:
            raise writing_error(str(self._path), error) from error

    def sync(self) -> None:
        if self.durable == self.size:
            return
        try:
            self.durable = self._file.sync()
        except OSError as error:
            raise writing_error(str(self._path), error) from error

    def truncate(self, size: int) -> None:
        try:
            self._file.truncate(size)
        except OSError as error:
            raise writing_error(str(self._path), error) from error
        self.durable = size

    def reader(self) -> ByteReader:
        return LocalReader(str(self._path), self.durable)

    def finish(self) -> None:
        self.sync()

    def close(self) -> None:
        self._file.close()
