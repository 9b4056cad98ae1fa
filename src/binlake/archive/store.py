"""An archive in an object store, or any file system of pyarrow.

Objects cannot grow. So binlake stores a log in parts, objects named by their byte ranges, and
joins them when the log is complete. Until then there is no object with the name of the log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from binlake.archive.folder import Folder, LogWriter
from binlake.errors import SourceError
from binlake.source.bytes import file_system_for, writing
from binlake.source.reader import ByteReader, source_error

_PARTS = ".parts"
#: File systems where a file is invisible before it is closed, by pyarrow's names.
_OBJECT_STORES = ("s3", "gcs", "abfs")
_COPY_BYTES = 8 << 20
# The size of a part; smaller if it has to be durable sooner.
_PART_BYTES = 16 << 20


class StoreFolder(Folder):
    """A directory of a pyarrow file system. There is no lock against a second writing process."""

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
        with writing(self.path_of(name)):
            if self._files.get_file_info(inner).type == fs.FileType.File:
                self._files.delete_file(inner)

    def open_log(self, name: str) -> LogWriter:
        return StoreLog(self, name)

    def unfinished(self) -> list[str]:
        names = [name.removesuffix(_PARTS) for name in self.directories() if name.endswith(_PARTS)]
        return [name for name in names if self.parts(name)]

    def remove_partials(self, names: Iterable[str]) -> list[str]:
        return []  # an incomplete file has no name in a store

    def lock(self) -> None:
        return

    def unlock(self) -> None:
        return

    def sub(self, name: str) -> Folder:
        return StoreFolder(self.path_of(name))

    def _make(self) -> None:
        with writing(self.path):
            self._files.create_dir(self._inner, recursive=True)

    # -- parts ---------------------------------------------------------------------------------

    def parts(self, name: str) -> list[tuple[int, int, str]]:
        """Return the parts of a log that join from its beginning on: (start, end, path in the
        store).
        """
        joined: list[tuple[int, int, str]] = []
        reached = 0
        for first, last, path, whole in self._stored_parts(name):
            if first == reached and last > first and whole:
                joined.append((first, last, path))
                reached = last
        return joined

    def _stored_parts(self, name: str) -> list[tuple[int, int, str, bool]]:
        """Return all parts of a log in order, each with whether it is whole."""
        from pyarrow import fs

        found = []
        for info in self._listing(f"{self._inner}/{name}{_PARTS}"):
            start, _, end = info.base_name.partition("-")
            if info.type == fs.FileType.File and start.isdecimal() and end.isdecimal():
                whole = info.size == int(end) - int(start)
                found.append((int(start), int(end), info.path, whole))
        return sorted(found)

    def write_part(self, name: str, start: int, data: bytes) -> None:
        """Store bytes of a log as a part."""
        folder = f"{self._inner}/{name}{_PARTS}"
        inner = f"{folder}/{start:018d}-{start + len(data):018d}"
        with writing(self.path_of(name)):
            if start == 0:
                self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(inner, compression=None) as out:
                out.write(data)

    def cut_parts(self, name: str, size: int) -> None:
        """Remove the bytes of a log from `size` on. If the process is killed meanwhile, no byte before them is lost.

        The last part goes first, so that no part that is left over joins one that is written later.
        """
        for start, _, path, _ in reversed(self._stored_parts(name)):
            if start >= size:
                self.delete_part(path)
        for start, end, path in self.parts(name):
            if end > size:
                self.write_part(name, start, self.part_bytes(path)[: size - start])
        for _, end, path, _ in reversed(self._stored_parts(name)):
            if end > size:  # the shorter part with the same start comes before it
                self.delete_part(path)

    def delete_part(self, path: str) -> None:
        """Remove one part."""
        with writing(self.path):
            self._files.delete_file(path)

    def join_parts(self, name: str) -> None:
        """Join the parts to the log, and remove them."""
        parts = self.parts(name)
        size = parts[-1][1] if parts else 0
        if not size:
            return
        final, partial = f"{self._inner}/{name}", f"{self._inner}/{name}.partial"
        with writing(self.path_of(name)):
            # an object appears when it is whole; other file systems rename it then
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
                raise OSError("the store does not contain all of it")
        self.forget_parts(name)

    def forget_parts(self, name: str) -> None:
        """Remove the parts of a log."""
        from pyarrow import fs

        folder = f"{self._inner}/{name}{_PARTS}"
        with writing(self.path_of(name)):
            if self._files.get_file_info(folder).type == fs.FileType.Directory:
                self._files.delete_dir(folder)

    def part_bytes(self, path: str) -> bytes:
        """One part."""
        try:
            with self._files.open_input_file(path) as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            raise source_error(self.path, error) from error


class StoreLog(LogWriter):
    """A log in parts. Bytes wait in memory until they make up a part, or until `sync`."""

    def __init__(self, folder: StoreFolder, name: str) -> None:
        self.name = name
        self._folder = folder
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._changing = threading.Lock()  # of the waiting bytes
        self._syncing = threading.Lock()  # parts are stored one after the other
        self._taken_up(folder.sizes().get(name))

    def _taken_up(self, finished: int | None) -> None:
        """Find the existing parts."""
        parts = self._folder.parts(self.name)
        self._size = self.durable = parts[-1][1] if parts else 0
        if finished is not None and finished >= self._size:  # joined before a crash
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
        with self._syncing:
            with self._changing:
                kept = b"".join(self._waiting)[: max(size - self.durable, 0)]
                self._waiting, self._waiting_bytes, self._size = [kept], len(kept), size
            if size < self.durable:
                self._folder.cut_parts(self.name, size)
                self.durable = size

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
    """Reads the durable bytes of a log in parts; one part is kept in memory."""

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
