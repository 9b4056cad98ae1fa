"""Where bytes come from: one interface over files, object stores, pipes and compressed inputs.

    open_reader("binlog.000001")        a local file, read with pread
    open_reader("s3://bucket/b.000001") anything pyarrow.fs knows
    open_reader("binlog.000001.gz")     inflated on the way (.gz, .zst; told by the magic)
    open_reader("mysql://u@db1/b.000001")  a log of a live server
    open_reader("-")                    standard input, compressed or not

A *seekable* reader reads anywhere at any time. A stream reads forward; it keeps the bytes that
may still be wanted (`retain`, `release`), in memory at first, then in a temporary file.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from binlake.errors import SourceError
from binlake.source.inflate import MAGIC_BYTES, decompressor_for
from binlake.source.reader import ByteReader, source_error, what, without_secrets
from binlake.source.replica.url import is_server_url
from binlake.source.streams import StreamReader

__all__ = [
    "ByteReader",
    "file_system_for",
    "is_uri",
    "local_path",
    "open_reader",
    "sync_directory",
    "write_whole",
]


class LocalReader(ByteReader):
    """A regular local file. Its length is pinned when it is opened: a growing file reads as it was."""

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
        if len(data) < wanted:
            raise SourceError(
                f"{self.name} has become shorter than the {self.size} bytes it had when opened"
            )
        return data

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RemoteReader(ByteReader):
    """A file of a pyarrow.fs file system, read by ranges. Its length is pinned when it is opened."""

    def __init__(self, uri: str, size: int | None = None) -> None:
        self.name = uri
        file_system, path = file_system_for(uri)
        try:
            self._file = file_system.open_input_file(path)
            actual = self._file.size()
        except OSError as error:
            raise source_error(uri, error) from error
        self.size: int = _pinned(uri, actual, size)

    def read_at(self, offset: int, size: int) -> bytes:
        wanted = min(size, self.size - offset)
        if wanted <= 0:
            return b""
        try:
            data: bytes = self._file.read_at(wanted, offset)
        except (OSError, ValueError) as error:
            raise source_error(self.name, error) from error
        if len(data) < wanted:
            raise SourceError(
                f"{self.name} has become shorter than the {self.size} bytes it had when opened"
            )
        return data

    def close(self) -> None:
        self._file.close()


def open_reader(path: str, size: int | None = None, start: int = 0) -> ByteReader:
    """Open a local path, a pyarrow.fs URI, or "-" (standard input); inflate .gz and .zst.

    `size` pins the length that was seen when the work was planned (ignored for compressed
    inputs and pipes). `start` is the event from which on a server's log will be read.
    Raises SourceError.
    """
    if path == "-":
        return StreamReader("-", _open_stdin, reopenable=False)
    if is_server_url(path):
        from binlake.source.replica.server_log import open_server_log

        return open_server_log(path, size, start)
    if is_uri(path):
        reader: ByteReader = RemoteReader(path, size)
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
    """A local path: `file://` URIs lose their scheme, all else is returned as it is."""
    if path.lower().startswith("file://"):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise SourceError(f"{path}: a file URI names this machine: file:///path")
        return unquote(parts.path)
    return path


def file_system_for(uri: str) -> tuple[Any, str]:
    """The pyarrow file system of a URI, and the path in it. Raises SourceError.

    Credentials come from where the file system finds them (environment, instance profile).
    """
    import pyarrow
    from pyarrow import fs

    scheme, _, rest = uri.partition("://")
    if is_server_url(uri):
        raise SourceError(f"{without_secrets(uri)} is a live server, which holds no files")
    if scheme.lower() in ("s3a", "s3n"):  # Hadoop's names for what pyarrow calls s3
        uri = f"s3://{rest}"
    try:
        file_system, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise SourceError(f"cannot open {without_secrets(uri)}: {what(error, uri)}") from None
    return file_system, path


def write_whole(path: str, data: bytes) -> None:
    """Make a file of a local path or URI, or replace it: whole and durable, or not at all.

    Raises SourceError.
    """
    if is_uri(path):
        files, inner = file_system_for(path)
        try:
            with files.open_output_stream(inner, compression=None) as out:  # there when closed
                out.write(data)
        except OSError as error:
            raise _write_error(path, error) from error
        return
    target = Path(local_path(path))
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _write_error(path, error) from error


def sync_directory(folder: Path) -> None:
    """Make names in a directory durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_error(path: str, error: OSError) -> SourceError:
    reason = error.strerror or what(error, path)
    return SourceError(f"{without_secrets(path)} cannot be written: {reason}")


def _is_regular(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise source_error(path, error) from error
    if stat.S_ISDIR(mode):
        raise SourceError(f"{path} is a directory")
    return stat.S_ISREG(mode)


def _open_stdin() -> Any:
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)


def _open_stream(path: str) -> Any:
    if not is_uri(path):
        return Path(path).open("rb", buffering=0)
    file_system, inner = file_system_for(path)
    return file_system.open_input_stream(inner, compression=None)


def _pinned(path: str, actual: int, wanted: int | None) -> int:
    if wanted is None:
        return actual
    if wanted > actual:
        raise SourceError(f"{path} has {actual} bytes, {wanted} when the work was planned")
    return wanted
