"""What is done with a log once it is complete: an index beside it, and, if wanted, compression.

Done by a process of its own, one log after the other, so that following the server does not wait
for it. It may be killed at any time, and done twice: a log is what it was until what takes its
place is durable and has been read back.

    python -m binlake.archive.finishing DIR/<identity> zstd index binlog.000012 …
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from binlake.archive.folder import Folder, open_folder, writing_error
from binlake.archive.layout import logs_among
from binlake.errors import BinlogError, SourceError, UnsupportedError
from binlake.source.bytes import file_system_for, is_uri, local_path, open_reader, sync_directory
from binlake.source.chain import LogPath, log_name
from binlake.values.log_names import index_path

__all__ = ["COMPRESSIONS", "Finish", "Finisher", "finish_log", "unfinished_logs"]

#: How finished logs can be compressed, and what that adds to their names.
COMPRESSIONS = {"none": "", "zstd": ".zst"}
_LEVEL = 3
_PIECE_BYTES = 4 << 20
# What is done here must not be in the way of what comes from the server.
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Finish:
    """What is done with complete logs. `compression` is a key of COMPRESSIONS."""

    compression: str = "none"
    index: bool = True

    @property
    def nothing(self) -> bool:
        """Whether they stay as they are."""
        return not self.index and not COMPRESSIONS[self.compression]

    def to_words(self) -> list[str]:
        """As arguments of a command line."""
        return [self.compression, "index" if self.index else "no-index"]

    @classmethod
    def of_words(cls, compression: str, index: str) -> Finish:
        """What `to_words` made."""
        return cls(compression, index == "index")


def finish_log(folder: Folder, name: str, finish: Finish) -> None:
    """Index and compress a complete log. Raises BinlogError; then the log is as it was."""
    path = folder.path_of(name)
    sizes = folder.sizes()
    if name not in sizes:
        return  # somebody else has done it
    beside = log_name(index_path(name))
    if finish.index and beside not in sizes:
        # loads pyarrow, which who follows a server has no use for
        from binlake.table.indexing import index_of

        try:
            index = index_of(LogPath(path, name, None, sizes[name]))
            folder.write(beside, index.to_bytes())
        except UnsupportedError:
            pass  # such a log has none
    if suffix := COMPRESSIONS[finish.compression]:
        compress(path, path + suffix)
        folder.remove(name)


def unfinished_logs(folder: Folder, finish: Finish, growing: str) -> list[str]:
    """The complete logs of a directory that were not finished, as after a kill."""
    if finish.nothing:
        return []
    sizes = folder.sizes()
    names = [name for name in logs_among(sizes) if name in sizes and name != growing]
    if COMPRESSIONS[finish.compression]:
        return names
    return [name for name in names if log_name(index_path(name)) not in sizes]


def compress(path: str, target: str) -> None:
    """Make a zstd file of a log: durable, and read back to be the same. Raises SourceError."""
    with open_reader(path) as log:
        size, digest = _written(log, target)
    with open_reader(target) as packed:
        at, found = 0, hashlib.sha256()
        while data := packed.read_at(at, _PIECE_BYTES):
            found.update(data)
            at += len(data)
            packed.release(at)
    if at != size or found.digest() != digest:
        raise SourceError(f"{target} does not give back {path}; the log is kept as it is")


def _written(log: Any, target: str) -> tuple[int, bytes]:
    """Compress a log into a file that gets its name when it is durable; size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    compressor = zstandard.ZstdCompressor(
        level=_LEVEL, write_checksum=True, write_content_size=True
    )
    partial = target if is_uri(target) else f"{local_path(target)}.{os.getpid()}.partial"
    try:
        with (
            _output(partial) as out,
            compressor.stream_writer(out, size=log.size, closefd=False) as packed,
        ):
            for data in _pieces(log):
                digest.update(data)
                size += len(data)
                packed.write(data)
        if partial != target:
            _settle(Path(partial), Path(local_path(target)))
    except OSError as error:
        raise writing_error(target, error) from error
    return size, digest.digest()


def _output(path: str) -> Any:
    if is_uri(path):
        files, inner = file_system_for(path)
        return files.open_output_stream(inner, compression=None)
    return Path(path).open("wb")


def _pieces(log: Any) -> Iterator[bytes]:
    at = 0
    while data := log.read_at(at, _PIECE_BYTES):
        yield data
        at += len(data)


def _settle(partial: Path, target: Path) -> None:
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)
    sync_directory(target.parent)


class Finisher:
    """Finishes logs of one directory in a process of its own, one after the other."""

    def __init__(self, folder: Folder, finish: Finish) -> None:
        self._folder = folder
        self._finish = finish
        self._waiting: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, names: Iterable[str]) -> None:
        """More logs are complete."""
        if not self._finish.nothing:
            self._waiting += [name for name in names if name not in self._waiting]
        self.poll()

    def poll(self) -> None:
        """Go on with the next ones, if nothing is under way."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        if self._process is None and self._waiting:
            names, self._waiting = self._waiting, []
            command = [
                *(sys.executable, "-m", __name__, self._folder.path),
                *self._finish.to_words(),
                *names,
            ]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def wait(self) -> None:
        """Until everything is done."""
        while self._process is not None or self._waiting:
            self.poll()
            if self._process is not None:
                self._process.wait()


def _main(arguments: list[str]) -> int:
    path, compression, index, *names = arguments
    finish = Finish.of_words(compression, index)
    os.nice(_NICENESS)
    folder = open_folder(path)
    code = 0
    for name in names:
        try:
            finish_log(folder, name, finish)
        except BinlogError as error:
            print(f"binlake: {name} is not finished: {error}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
