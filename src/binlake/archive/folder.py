"""The operations on its directory that an archive needs.

A folder writes a file whole and durable or not at all, and a log that grows (`LogWriter`).
`local_folder.py` is a directory of this machine, `store.py` one in an object store; `folders.py`
opens either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from binlake.source.bytes import write_whole
from binlake.source.reader import ByteReader


class LogWriter(ABC):
    """The log that is being written: `size` bytes of it, of which `durable` are durable.

    One thread calls all methods but `sync`, which another thread may call meanwhile.
    """

    name: str
    durable: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Its length, including the bytes that wait to be written."""

    @abstractmethod
    def append(self, data: bytes) -> None:
        """Append bytes, which are written soon. Raises SourceError, also for earlier bytes."""

    @abstractmethod
    def sync(self) -> None:
        """Make everything durable that was appended until now. Raises SourceError."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on. Raises SourceError."""

    @abstractmethod
    def reader(self) -> ByteReader:
        """Return the durable bytes."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the log: make it durable under its name. Raises SourceError."""

    @abstractmethod
    def close(self) -> None:
        """Close it; bytes that are not durable may be lost."""


class Folder(ABC):
    """A directory. `path` is a local path or a URI."""

    path: str

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return the files by name, and their lengths in bytes; none if the directory does not
        exist.
        """

    @abstractmethod
    def directories(self) -> list[str]:
        """Return the names of the directories in it."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a (small) file, None if it does not exist. Raises SourceError."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it exists. Raises SourceError."""

    @abstractmethod
    def open_log(self, name: str) -> LogWriter:
        """Open a log for writing, or continue an existing one. Raises SourceError."""

    @abstractmethod
    def unfinished(self) -> list[str]:
        """Return the logs without a file of their name yet but with durable bytes."""

    @abstractmethod
    def remove_partials(self, names: Iterable[str]) -> list[str]:
        """Remove the partly written files of killed processes; return their names.

        The files of living processes stay. Raises SourceError.
        """

    @abstractmethod
    def lock(self) -> None:
        """Lock the folder: only this process writes here as long as it lives. Raises SourceError."""

    @abstractmethod
    def unlock(self) -> None:
        """Unlock the folder."""

    @property
    @abstractmethod
    def cheap_sync(self) -> bool:
        """Whether making a few bytes durable is cheap."""

    def path_of(self, name: str) -> str:
        """Return the path of a file in it."""
        return f"{self.path}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Create or replace a file: whole and durable, or not at all. Raises SourceError."""
        write_whole(self.path_of(name), data)

    @abstractmethod
    def sub(self, name: str) -> Folder:
        """Return a directory in it, which need not exist yet. Raises SourceError."""
