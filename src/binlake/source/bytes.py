"""Open sources of bytes: one interface over files, object stores, pipes and compressed inputs.

    open_reader("binlog.000001")        a local file, read with pread
    open_reader("s3://bucket/b.000001") anything pyarrow.fs knows
    open_reader("binlog.000001.gz")     inflated on the way (.gz, .zst; told by the magic)
    open_reader("mysql://u@db1/b.000001")  a log of a live server
    open_reader("-")                    standard input, compressed or not

A *seekable* reader reads anywhere at any time. A stream reads forward. It keeps the bytes that may
be read again (`retain`, `release`), in memory at first, then in a temporary file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from binlake.errors import SourceError
from binlake.source.durable import sync_file
from binlake.source.inflate import MAGIC_BYTES, decompressor_for
from binlake.source.reader import ByteReader, holds_secret, source_error, what, without_secrets
from binlake.source.replica.url import is_server_url
from binlake.source.stores.errors import credentials_of, hint_of_opening, needs_hadoop
from binlake.source.stores.hadoop import shared_hadoop
from binlake.source.stores.heads import KeptHead
from binlake.source.stores.s3 import shared_s3
from binlake.source.streams import StreamReader

#: Permissions of files and directories with data from logs, as on the servers.
LOG_FILE_MODE, LOG_DIRECTORY_MODE = 0o640, 0o750


def _whole(reader: ByteReader, data: bytes, wanted: int) -> bytes:
    """Return `data`. Raises SourceError for fewer bytes than `wanted`."""
    if len(data) < wanted:
        raise SourceError(
            f"{reader.name} has become shorter than the {reader.size} bytes it had when opened"
        )
    return data


class LocalReader(ByteReader):
    """A regular local file. Its length is pinned when it is opened: a growing file reads as it was."""

    # A window of 2 MB stays in the processor's cache between reading, checksums and decoding.
    window_bytes = 2 << 20

    def __init__(self, path: str, size: int | None = None) -> None:
        self.name = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise source_error(path, error) from error
        self.size: int = _pinned(path, os.fstat(self._descriptor).st_size, size)

    def read_at(self, offset: int, size: int) -> bytes:
        if self._descriptor < 0:
            raise SourceError(f"{self.name} is closed")
        wanted = min(size, self.size - offset)
        if wanted <= 0:
            return b""
        try:
            data = os.pread(self._descriptor, wanted, offset)
            while 0 < len(data) < wanted:  # Linux reads at most 2 GiB at once
                more = os.pread(self._descriptor, wanted - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise source_error(self.name, error) from error
        return _whole(self, data, wanted)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


# The first request to an object reads this much: the head of a log, or all of a small one.
_HEAD_BYTES = 64 << 10


class RemoteReader(ByteReader):
    """A file of a pyarrow.fs file system, read by ranges. Its length is pinned when it is opened.

    Reads inside the first 64 KB share one request, or need none if `kept` contains these bytes.
    Opening the object is a request, too; with `kept` only a read beyond them opens it.
    """

    def __init__(self, uri: str, size: int | None = None, kept: KeptHead | None = None) -> None:
        self.name = uri
        self._kept = kept
        self._head = None if kept is None else kept.data
        self._opening = threading.Lock()
        self._opened: Any = None
        self._closed = False
        self.size: int = self._open().size() if self._head is None or size is None else size
        self.size = _pinned(uri, self.size, size)
        self.in_one_request = self.size <= _HEAD_BYTES

    def read_at(self, offset: int, size: int) -> bytes:
        wanted = min(size, self.size - offset)
        if wanted <= 0:
            return b""
        if offset + wanted > _HEAD_BYTES:
            return self._request(offset, wanted)
        if self._head is None:
            self._head = self._request(0, min(_HEAD_BYTES, self.size))
            if self._kept is not None:
                self._kept.keep(self._head)
        return self._head[offset : offset + wanted]

    def _open(self) -> Any:
        with self._opening:
            if self._closed:
                raise SourceError(f"{self.name} is closed")
            if self._opened is None:
                file_system, path = file_system_for(self.name)
                try:
                    self._opened = file_system.open_input_file(path)
                    self._opened.size()
                except OSError as error:
                    raise source_error(self.name, error) from error
            return self._opened

    def _request(self, offset: int, wanted: int) -> bytes:
        file = self._open()
        try:
            data: bytes = file.read_at(wanted, offset)
        except (OSError, ValueError) as error:
            raise source_error(self.name, error) from error
        return _whole(self, data, wanted)

    def close(self) -> None:
        with self._opening:
            self._closed, self._head = True, None
            if self._opened is not None:
                self._opened.close()


def is_read_once(path: str) -> bool:
    """Whether a path is a pipe, which cannot be read again: "-" (standard input), or a FIFO."""
    if path == "-" or is_uri(path):
        return path == "-"
    try:
        return Path(local_path(path)).is_fifo()
    except OSError:  # opening it reports why
        return False


def pipe_in(paths: Iterable[str]) -> str | None:
    """Return the first pipe among paths, as messages name it: standard input, or its path; None if there is none."""
    pipe = next(filter(is_read_once, paths), None)
    return "standard input" if pipe == "-" else pipe


def refuse_pipes(paths: Iterable[str], reason: str) -> None:
    """Raise SourceError if a path is a pipe. `reason` says what reads a log several times."""
    if (pipe := pipe_in(paths)) is not None:
        raise SourceError(
            f"{pipe}: {reason}, and a pipe can be read once only",
            hint="write the log to a file first",
        )


def open_reader(
    path: str, size: int | None = None, start: int = 0, kept: KeptHead | None = None
) -> ByteReader:
    """Open a local path, a pyarrow.fs URI, or "-" (standard input); inflate .gz and .zst.

    `size` pins the length that was seen when the work was planned (ignored for compressed inputs
    and pipes). `start` is the event at which reading of a server's log will start. `kept` holds the
    beginning of an object. Raises SourceError.
    """
    if path == "-":
        return StreamReader(
            "-", lambda: os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0), reopenable=False
        )
    if is_server_url(path):
        from binlake.source.replica.server_log import open_server_log

        return open_server_log(path, size, start)
    if is_uri(path):
        reader: ByteReader = RemoteReader(path, size, kept)
    else:
        if not _is_regular(path):
            return StreamReader(path, lambda: Path(path).open("rb", buffering=0), reopenable=False)
        reader = LocalReader(path, size)
    try:
        magic = reader.read_at(0, MAGIC_BYTES)
    except BaseException:
        reader.close()
        raise
    if decompressor_for(magic) is None:
        return reader
    reader.close()
    return StreamReader(path, lambda: _open_stream(path), reopenable=True)


def is_uri(path: str) -> bool:
    """Whether `path` is a URI of a pyarrow file system; file:// URIs are local paths."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier() and scheme.lower() != "file"


def local_path(path: str) -> str:
    """Return a local path: `file://` URIs without their scheme, anything else unchanged."""
    if path.lower().startswith("file://"):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise SourceError(f"{path}: a file URI has no host: file:///path")
        return unquote(parts.path)
    return path


def refuse_secrets(uri: str) -> None:
    """Raise SourceError if the URI of a store contains credentials."""
    if holds_secret(uri) and not is_server_url(uri):
        raise SourceError(
            f"{without_secrets(uri)}: binlake refuses credentials in a URI, because process"
            " lists, plans and"
            " messages show them",
            hint=credentials_of(uri) or "put them where the tools of the store look for them",
        )


def file_system_for(uri: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a URI, and the path in it. Raises SourceError.

    Credentials come from where the file system finds them (environment, profile, role of the
    machine); those in a URI are refused.
    """
    import pyarrow
    from pyarrow import fs

    scheme, _, rest = uri.partition("://")
    if is_server_url(uri):
        raise SourceError(f"{without_secrets(uri)} is a live server, not a store of files")
    refuse_secrets(uri)
    try:
        if scheme.lower() in ("s3", "s3a", "s3n"):  # the latter are Hadoop's names
            file_system, path = shared_s3(f"s3://{rest}")
        elif needs_hadoop(uri):
            file_system, path = shared_hadoop(uri)
        else:
            file_system, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise SourceError(
            f"cannot open {without_secrets(uri)}: {what(error, uri)}", hint=hint_of_opening(uri)
        ) from None
    return file_system, path


def write_whole(path: str, data: bytes, mode: int = LOG_FILE_MODE) -> None:
    """Create or replace the file at a local path or URI: whole and durable, or not at all.

    Raises SourceError.
    """
    if is_uri(path):
        files, inner = file_system_for(path)
        try:
            with files.open_output_stream(inner, compression=None) as out:  # there when closed
                out.write(data)
        except OSError as error:
            raise writing_error(path, error) from error
        return
    target = Path(local_path(path))
    try:
        with writing_whole(target, mode) as file:
            file.write(data)
    except OSError as error:
        raise writing_error(path, error) from error


def create_new(path: Path) -> IO[bytes]:
    """Create a file for data from logs, under a name that no file has. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, LOG_FILE_MODE), "wb")


def keep_from_others(directory: Path) -> None:
    """Make a directory of binlake's own, which an earlier version may have left open to other users.

    Raises OSError, but not for a directory of another owner.
    """
    directory.mkdir(LOG_DIRECTORY_MODE, parents=True, exist_ok=True)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & ~LOG_DIRECTORY_MODE & 0o777:
        with contextlib.suppress(PermissionError):
            directory.chmod(mode & ~0o777 | mode & LOG_DIRECTORY_MODE)


_PARTIAL = re.compile(r".+\.[0-9a-f]+\.partial")


def mode_like(path: str) -> int:
    """Return permissions for a file derived from another one: the readers of that file may read
    it.
    """
    try:
        return stat.S_IMODE(Path(local_path(path)).stat().st_mode) & 0o666
    except OSError:  # of a store
        return LOG_FILE_MODE


@contextlib.contextmanager
def writing_whole(target: Path, mode: int = LOG_FILE_MODE) -> Iterator[IO[bytes]]:
    """Open a file to write to that becomes `target`, durable, when the block ends well; otherwise
    it is removed.

    The file is locked meanwhile, so that `remove_partials` can distinguish it from the remains of
    a killed process. Raises OSError.
    """
    with replacing(target, mode) as file:
        yield file
        file.flush()
        sync_file(file.fileno())
    sync_directory(target.parent)


@contextlib.contextmanager
def replacing(target: Path, mode: int = LOG_FILE_MODE) -> Iterator[IO[bytes]]:
    """Open a file to write to that becomes `target` when the block ends without an error; otherwise it is removed.

    The file is complete, but not durable: it may be lost when the machine fails. Raises OSError.
    """
    file, partial = _open_partial(target, mode)
    with file:
        try:
            yield file
            file.flush()
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _open_partial(target: Path, mode: int) -> tuple[IO[bytes], Path]:
    """Create a new file beside `target`, locked. It follows no link, and no other process has
    created it.
    """
    while True:
        path = target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.fdopen(os.open(path, flags, mode), "wb")
        except FileExistsError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):
                return file, path
        except BaseException:
            file.close()
            raise
        file.close()  # `remove_partials` of another process came between the two steps: once more


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one with that name."""
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))


def remove_partials(folder: Path, names: Iterable[str]) -> list[str]:
    """Remove files that killed processes left partly written.

    A living process locks its files, so they stay. Raises OSError.
    """
    removed = []
    for name in names:
        if not _PARTIAL.fullmatch(name):
            continue
        path = folder / name
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not _is_at(file, path):
                    continue
                path.unlink()
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link is not one of binlake's files
                raise
            continue
        removed.append(name)
    return removed


def sync_directory(folder: Path) -> None:
    """Make names in a directory durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def writing_error(path: str, error: OSError) -> SourceError:
    """Return the error of the operating system or the store as one line."""
    reason = os.strerror(error.errno) if error.errno else what(error, path)
    return SourceError(f"cannot write {without_secrets(path)}: {reason}", errno=error.errno)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Name the path in the errors of writing to it. Raises SourceError."""
    try:
        yield
    except OSError as error:
        raise writing_error(path, error) from error


def _is_regular(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 -- there may be very many
    except OSError as error:
        raise source_error(path, error) from error
    if stat.S_ISDIR(mode):
        raise SourceError(f"{path} is a directory")
    return stat.S_ISREG(mode)


def _open_stream(path: str) -> Any:
    if not is_uri(path):
        return Path(path).open("rb", buffering=0)
    file_system, inner = file_system_for(path)
    return file_system.open_input_stream(inner, compression=None)


def _pinned(path: str, actual: int, wanted: int | None) -> int:
    if wanted is None:
        return actual
    if wanted > actual:
        raise SourceError(f"{path} has {actual} bytes, but had {wanted} when the work was planned")
    return wanted
