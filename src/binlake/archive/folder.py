"""The directory that an archive is written to: on this machine, or in an object store.

Both write a file whole and durable or not at all, and a log that grows (`LogWriter`). In an object
store nothing can grow: there a log is put down in parts, objects named by the bytes they hold, and
put together when it is finished. Until then it is not to be seen under its name.

Long: the two places side by side, so that what one promises can be compared with the other.
"""

from __future__ import annotations

import fcntl
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from binlake.archive.growing import GrowingFile
from binlake.archive.layout import LOCK
from binlake.errors import OptionError, SourceError
from binlake.source.bytes import (
    LocalReader,
    file_system_for,
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
    return StoreFolder(path) if is_uri(path) else LocalFolder(path)


def writing_error(path: str, error: OSError) -> SourceError:
    """What the operating system or the store said, as one line."""
    reason = error.strerror or what(error, path)
    return SourceError(f"{without_secrets(path)} cannot be written: {reason}")


# -- on this machine -------------------------------------------------------------------------------


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
        except OSError as error:
            raise writing_error(str(path), error) from error
        self.durable = self._file.size

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


# -- in an object store ----------------------------------------------------------------------------

_PARTS = ".parts"
#: Where a file is not to be seen before it is closed, as pyarrow names them.
_OBJECT_STORES = ("s3", "gcs", "abfs")
_COPY_BYTES = 8 << 20
# As much is put down at once; less when it has to be durable sooner.
_PART_BYTES = 16 << 20


class StoreFolder(Folder):
    """A directory of a pyarrow file system. Nothing keeps two processes from writing here."""

    def __init__(self, uri: str) -> None:
        self.path = uri.rstrip("/")
        self._files, self._inner = file_system_for(self.path)
        self._inner = self._inner.rstrip("/")

    @property
    def cheap_sync(self) -> bool:
        return False

    def sizes(self) -> dict[str, int]:
        from pyarrow import fs

        found = self._listing(self._inner)
        return {info.base_name: info.size or 0 for info in found if info.type == fs.FileType.File}

    def directories(self) -> list[str]:
        from pyarrow import fs

        found = self._listing(self._inner)
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def _listing(self, inner: str) -> list[Any]:
        from pyarrow import fs

        try:
            found: list[Any] = self._files.get_file_info(
                fs.FileSelector(inner, allow_not_found=True)
            )
        except OSError as error:
            raise source_error(self.path, error) from error
        return found

    def read(self, name: str) -> bytes | None:
        from pyarrow import fs

        inner = f"{self._inner}/{name}"
        try:
            if self._files.get_file_info(inner).type != fs.FileType.File:
                return None
            with self._files.open_input_file(inner) as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            raise source_error(self.path_of(name), error) from error

    def write(self, name: str, data: bytes) -> None:
        self._make()
        super().write(name, data)

    def remove(self, name: str) -> None:
        from pyarrow import fs

        inner = f"{self._inner}/{name}"
        try:
            if self._files.get_file_info(inner).type == fs.FileType.File:
                self._files.delete_file(inner)
        except OSError as error:
            raise writing_error(self.path_of(name), error) from error

    def open_log(self, name: str) -> LogWriter:
        return StoreLog(self, name)

    def unfinished(self) -> list[str]:
        names = [name.removesuffix(_PARTS) for name in self.directories() if name.endswith(_PARTS)]
        return [name for name in names if self.parts(name)]

    def remove_partials(self, names: Iterable[str]) -> list[str]:
        return []  # what is not complete has no name in a store

    def lock(self) -> None:
        return

    def unlock(self) -> None:
        return

    def _make(self) -> None:
        try:
            self._files.create_dir(self._inner, recursive=True)
        except OSError as error:
            raise writing_error(self.path, error) from error

    # -- parts ---------------------------------------------------------------------------------

    def parts(self, name: str) -> list[tuple[int, int, str]]:
        """The parts of a log that join from its beginning on: (start, end, path in the store)."""
        from pyarrow import fs

        found = []
        for info in self._listing(f"{self._inner}/{name}{_PARTS}"):
            start, _, end = info.base_name.partition("-")
            if info.type == fs.FileType.File and start.isdecimal() and end.isdecimal():
                whole = info.size == int(end) - int(start)
                found.append((int(start), int(end), info.path, whole))
        joined: list[tuple[int, int, str]] = []
        reached = 0
        for first, last, path, whole in sorted(found):
            if first == reached and last > first and whole:
                joined.append((first, last, path))
                reached = last
        return joined

    def write_part(self, name: str, start: int, data: bytes) -> None:
        """Put down bytes of a log."""
        folder = f"{self._inner}/{name}{_PARTS}"
        inner = f"{folder}/{start:018d}-{start + len(data):018d}"
        try:
            if start == 0:
                self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(inner, compression=None) as out:
                out.write(data)
        except OSError as error:
            raise writing_error(self.path_of(name), error) from error

    def join_parts(self, name: str) -> None:
        """Make the log of its parts, and remove them."""
        parts = self.parts(name)
        size = parts[-1][1] if parts else 0
        if not size:
            return
        final, partial = f"{self._inner}/{name}", f"{self._inner}/{name}.partial"
        try:
            # an object appears when it is whole; elsewhere it is given its name then
            at_once = self._files.type_name in _OBJECT_STORES
            with self._files.open_output_stream(
                final if at_once else partial, compression=None
            ) as out:
                for _, _, path in parts:
                    with self._files.open_input_stream(path, compression=None) as part:
                        while data := part.read(_COPY_BYTES):
                            out.write(data)
            if not at_once:
                self._files.move(partial, final)
            if self._files.get_file_info(final).size != size:
                raise OSError("the store has not kept all of it")
        except OSError as error:
            raise writing_error(self.path_of(name), error) from error
        self.forget_parts(name)

    def forget_parts(self, name: str) -> None:
        """Remove what there is in parts of a log."""
        from pyarrow import fs

        folder = f"{self._inner}/{name}{_PARTS}"
        try:
            if self._files.get_file_info(folder).type == fs.FileType.Directory:
                self._files.delete_dir(folder)
        except OSError as error:
            raise writing_error(self.path_of(name), error) from error

    def part_bytes(self, path: str) -> bytes:
        """One part."""
        try:
            with self._files.open_input_file(path) as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            raise source_error(self.path, error) from error


class StoreLog(LogWriter):
    """A log in parts. Bytes wait in memory until they are enough for one, or `sync` asks."""

    def __init__(self, folder: StoreFolder, name: str) -> None:
        self.name = name
        self._folder = folder
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._changing = threading.Lock()  # of what waits
        self._syncing = threading.Lock()  # parts are put down one after the other
        self._taken_up(folder.sizes().get(name))

    def _taken_up(self, finished: int | None) -> None:
        """Find out what there is."""
        parts = self._folder.parts(self.name)
        self._size = self.durable = parts[-1][1] if parts else 0
        if finished is not None and finished >= self._size:  # put together before a crash
            self._folder.forget_parts(self.name)
            self._size = self.durable = finished
            self._finished = True
        else:
            self._finished = False

    @property
    def size(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        if self._finished:
            raise SourceError(f"{self._folder.path_of(self.name)} is complete: it cannot grow")
        with self._changing:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self._size += len(data)
        if self._waiting_bytes >= _PART_BYTES:
            self.sync()

    def sync(self) -> None:
        with self._syncing:
            with self._changing:
                data, self._waiting, self._waiting_bytes = b"".join(self._waiting), [], 0
            if not data:
                return
            try:
                self._folder.write_part(self.name, self.durable, data)
            except BaseException:
                with self._changing:
                    self._waiting.insert(0, data)
                    self._waiting_bytes += len(data)
                raise
            self.durable += len(data)

    def truncate(self, size: int) -> None:
        self._waiting, self._waiting_bytes, self._size = [], 0, size
        if size == self.durable:
            return
        kept = self.reader().read_at(0, size)
        self._folder.forget_parts(self.name)
        self.durable = 0
        if kept:
            self._waiting, self._waiting_bytes = [kept], size
        self.sync()

    def reader(self) -> ByteReader:
        if self._finished:
            from binlake.source.bytes import open_reader

            return open_reader(self._folder.path_of(self.name))
        return _PartsReader(self._folder, self.name)

    def finish(self) -> None:
        if not self._finished:
            self.sync()
            self._folder.join_parts(self.name)
            self._finished = True

    def close(self) -> None:
        self._waiting, self._waiting_bytes = [], 0


class _PartsReader(ByteReader):
    """The durable bytes of a log in parts; one part is kept in memory."""

    def __init__(self, folder: StoreFolder, name: str) -> None:
        self.name = folder.path_of(name)
        self._folder = folder
        self._parts = folder.parts(name)
        self.size: int = self._parts[-1][1] if self._parts else 0
        self._held: tuple[int, bytes] = (-1, b"")

    def read_at(self, offset: int, size: int) -> bytes:
        out = []
        end = min(offset + size, self.size)
        for start, stop, path in self._parts:
            if start < end and stop > offset:
                held, data = self._held
                if held != start:
                    data = self._folder.part_bytes(path)
                    self._held = (start, data)
                out.append(data[max(offset - start, 0) : end - start])
        return b"".join(out)

    def close(self) -> None:
        self._held = (-1, b"")
