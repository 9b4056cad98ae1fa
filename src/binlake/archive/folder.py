"""What an archive needs of the directory that it is written to.

A folder writes a file whole and durable or not at all, and a log that grows (`LogWriter`).
`local_folder.py` is a directory of this machine, `store.py` one in an object store;
`folders.py` opens either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from binlake.errors import SourceError
from binlake.source.bytes import write_whole
from binlake.source.reader import ByteReader, what, without_secrets

__all__ = ["Folder", "LogWriter", "writing_error"]


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

    @abstractmethod
    def sub(self, name: str) -> Folder:
        """A directory in it, which need not be there yet. Raises SourceError."""


def writing_error(path: str, error: OSError) -> SourceError:
    """What the operating system or the store said, as one line."""
    reason = error.strerror or what(error, path)
    return SourceError(f"{without_secrets(path)} cannot be written: {reason}", errno=error.errno)
