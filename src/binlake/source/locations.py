"""Directories, globs and index files, on this machine and in object stores."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import socket
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from binlake.errors import OptionError, SourceError
from binlake.source.bytes import file_system_for, is_uri, local_path, refuse_secrets
from binlake.source.reader import source_error
from binlake.source.replica.url import holds_password, is_server_url

_WILDCARDS = re.compile(r"[*?\[]")
_MAX_INDEX_BYTES = 64 << 20


def location(path: str) -> Location:
    """Return the place that a local path or a URI names. Raises SourceError."""
    return _StorePath(path) if is_uri(path) else _LocalPath(path)


def check_visible(path: str) -> None:
    """Raise SourceError naming this host when it does not see a local path."""
    if not is_uri(path) and not os.path.exists(local_path(path)):  # noqa: PTH110 - False, too, where it may not look
        raise SourceError(
            f"host {socket.gethostname()} does not see {path}",
            hint="local paths are read where the tasks run: use storage that every executor "
            "mounts, or a URI (s3a://, hdfs://)",
        )


def check_no_password(path: str, name: str) -> None:
    """Raise OptionError if the value of the option `name` is a URL with a password, SourceError if it is the URI of a store with keys.

    Spark shows options in plans, in its UI and in logs, and sends them to every executor.
    """
    _, separator, rest = path.partition("://")
    user = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[0]
    if holds_password(path) if is_server_url(path) else separator and ":" in user:
        raise OptionError(
            f"option {name}: the URL contains a password, which Spark would show in plans and logs",
            name=name,
            hint="remove it, and put it in BINLAKE_PASSWORD, a password file or ~/.my.cnf, on the "
            "driver and on every executor",
        )
    refuse_secrets(path)  # here, before Spark makes a plan of it


def has_wildcards(path: str) -> bool:
    """Whether a path that does not exist may be meant as a glob."""
    return _WILDCARDS.search(path) is not None


class Listed(NamedTuple):
    """A file of a listing. `size` is in bytes, None if the place does not provide it.

    `version` is the size and time of an object, so it changes when the object is replaced. It is ""
    for local files.
    """

    path: str
    size: int | None
    version: str = ""


class Location(ABC):
    """The operations on a path that finding log files needs; it is a file, a directory, a glob, or
    nothing.
    """

    shown: str

    @abstractmethod
    def kind(self) -> str:
        """One of file, directory, missing."""

    @abstractmethod
    def size(self) -> int | None:
        """Return the length in bytes of the file, None if the place does not provide it."""

    @abstractmethod
    def entries(self) -> list[Listed]:
        """Return the files of the directory, not those below it."""

    @abstractmethod
    def directories(self) -> list[str]:
        """Return the directories in the directory, in the order of their names."""

    @abstractmethod
    def matches(self) -> list[Listed]:
        """Return the files that the wildcards match."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the content of the file: an index file, which is small."""

    @abstractmethod
    def beside(self, entry: str) -> str:
        """Return the path of an entry relative to the directory of this file."""

    @abstractmethod
    def size_of(self, path: str) -> int | None:
        """Return the size of another file, None if it does not exist."""

    @abstractmethod
    def files_beside(self) -> dict[str, Listed | None]:
        """Return the regular files in the directory of this file, by their names.

        Returns None for a link to a file in another directory.
        """

    @abstractmethod
    def regular_file(self, path: str) -> Listed | None:
        """Return a regular file in this directory, None if `path` is not one."""

    @abstractmethod
    def is_elsewhere(self, entry: str) -> bool:
        """Whether an entry of this index file is a file that lies in another directory."""


class _LocalPath(Location):
    def __init__(self, path: str) -> None:
        self.shown = path
        self._path = Path(path)

    def kind(self) -> str:
        try:
            if self._path.is_dir():
                return "directory"
            return "file" if self._path.exists() else "missing"
        except OSError as error:
            raise source_error(self.shown, error) from error

    def size(self) -> int | None:
        return self.size_of(self.shown)

    def entries(self) -> list[Listed]:
        try:
            with os.scandir(self._path) as entries:
                return [
                    Listed(os.path.join(self.shown, entry.name), entry.stat().st_size)  # noqa: PTH118
                    for entry in entries
                    if entry.is_file()
                ]
        except OSError as error:
            raise source_error(self.shown, error) from error

    def directories(self) -> list[str]:
        try:
            return sorted(str(path) for path in self._path.iterdir() if path.is_dir())
        except OSError as error:
            raise source_error(self.shown, error) from error

    def matches(self) -> list[Listed]:
        return [
            Listed(path, found.st_size)
            for path in glob.glob(self.shown)  # noqa: PTH207
            if (found := _regular(path)) is not None
        ]

    def read(self) -> bytes:
        try:
            # a pipe without a writer is opened too, instead of waiting for one
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise SourceError(f"{self.shown} is not a regular file")
                return _whole(file, self.shown)
        except OSError as error:
            raise source_error(self.shown, error) from error

    def beside(self, entry: str) -> str:
        return os.path.normpath(self._path.parent / entry)

    def size_of(self, path: str) -> int | None:
        found = _regular(path)
        return None if found is None else found.st_size

    def files_beside(self) -> dict[str, Listed | None]:
        folder = _LocalPath(str(self._path.parent))
        real = os.path.realpath(folder.shown)
        return {
            Path(path).name: Listed(os.path.normpath(path), size)
            if not Path(path).is_symlink() or _is_below(path, real)
            else None
            for path, size, _ in folder.entries()
        }

    def regular_file(self, path: str) -> Listed | None:
        found = _regular(path)
        if found is None or not _is_below(path, os.path.realpath(self.shown)):
            return None
        return Listed(path, found.st_size)

    def is_elsewhere(self, entry: str) -> bool:
        path = os.path.join(self._path.parent, entry)  # noqa: PTH118 -- there may be very many
        if not os.path.exists(path):  # noqa: PTH110
            return False
        return not _is_below(path, os.path.realpath(self._path.parent))


def _whole(file: Any, shown: str) -> bytes:
    """Return the content of an open index file. Raises SourceError for one that is too large."""
    data: bytes = file.read(_MAX_INDEX_BYTES + 1)
    if len(data) > _MAX_INDEX_BYTES:
        raise SourceError(f"{shown} is larger than the {_MAX_INDEX_BYTES:,} bytes of an index file")
    return data


def _regular(path: str) -> os.stat_result | None:
    """Return the stat result of a regular file; None for a device, a pipe, or nothing."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _is_below(path: str, real_directory: str) -> bool:
    """Whether a path lies in a directory or below it, links followed."""
    return os.path.realpath(path).startswith(real_directory.rstrip("/") + "/")


class _StorePath(Location):
    """A place in a pyarrow file system. Paths stay URIs, so that workers can open them."""

    def __init__(self, uri: str) -> None:
        refuse_secrets(uri)  # the whole URI: ? is a wildcard here
        self.shown = uri
        self._uri = uri.rstrip("/")
        self._files, self._path = file_system_for(self._literal(uri))

    def kind(self) -> str:
        from pyarrow import fs

        if has_wildcards(self._uri):
            return "missing"
        kind = self._info(self._path).type
        names = {fs.FileType.File: "file", fs.FileType.Directory: "directory"}
        return names.get(kind, "missing")

    def size(self) -> int | None:
        return self._known_size(self._info(self._path))

    def entries(self) -> list[Listed]:
        return self._listing(self._path, self._uri)

    def directories(self) -> list[str]:
        from pyarrow import fs

        found = self._children(self._path, fs.FileType.Directory)
        return sorted(f"{self._uri}/{info.base_name}" for info in found)

    def matches(self) -> list[Listed]:
        parent, _, pattern = self._uri.rpartition("/")
        if has_wildcards(parent):
            raise SourceError(f"{self._uri}: wildcards may only stand in the last part")
        path = self._path.rstrip("/")
        names = self._listing(path, parent)
        return [one for one in names if fnmatch.fnmatchcase(one.path.rpartition("/")[2], pattern)]

    def read(self) -> bytes:
        try:
            with self._files.open_input_file(self._path) as file:
                return _whole(file, self.shown)
        except OSError as error:
            raise source_error(self.shown, error) from error

    def beside(self, entry: str) -> str:
        return f"{self._uri.rpartition('/')[0]}/{entry.removeprefix('./')}"

    def size_of(self, path: str) -> int | None:
        from pyarrow import fs

        files, inner = file_system_for(path)
        info = files.get_file_info(inner)
        return self._known_size(info) if info.type == fs.FileType.File else None

    def files_beside(self) -> dict[str, Listed | None]:
        folder = _StorePath(self._uri.rpartition("/")[0])
        return {entry.path.rpartition("/")[2]: entry for entry in folder.entries()}

    def regular_file(self, path: str) -> Listed | None:
        folder, _, name = path.rpartition("/")
        if folder != self._uri:
            return None
        return next((item for item in self.entries() if item.path == f"{folder}/{name}"), None)

    def is_elsewhere(self, entry: str) -> bool:
        return is_uri(entry) and entry.rpartition("/")[0] != self._uri.rpartition("/")[0]

    def _literal(self, uri: str) -> str:
        """Return the URI, or that of the directory of a glob: wildcards mean nothing to the store."""
        return uri.rpartition("/")[0] if has_wildcards(uri.rpartition("/")[2]) else uri

    def _info(self, path: str) -> Any:
        try:
            return self._files.get_file_info(path)
        except OSError as error:
            raise source_error(self.shown, error) from error

    def _listing(self, path: str, uri: str) -> list[Listed]:
        from pyarrow import fs

        found = self._children(path, fs.FileType.File)
        return [
            Listed(f"{uri}/{info.base_name}", self._known_size(info), _version(info))
            for info in found
        ]

    def _children(self, path: str, kind: Any) -> list[Any]:
        from pyarrow import fs

        try:
            infos = self._files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise source_error(self.shown, error) from error
        return [info for info in infos if info.type == kind]

    @staticmethod
    def _known_size(info: Any) -> int | None:
        return None if info.size is None else int(info.size)


def _version(info: Any) -> str:
    """Return the properties in a listing that tell two objects of the same name apart."""
    return "" if info.mtime_ns is None else f"{info.size}-{info.mtime_ns}"
