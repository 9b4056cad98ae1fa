"""Finish a log once it is complete: write an index beside it, and compress it if you want that.

A separate process finishes logs, two at a time if it may use several processors, so that following the server
does not wait. You can kill it at any time, and a log can be finished twice: it stays unchanged until its
replacement is durable and has been read back.

    python -m binlake.archive.finishing DIR/<identity> zstd index

The process reads the names of logs from its standard input, one per line, and reports each one on its
standard output. It exits when its standard input is closed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from binlake.archive.folder import Folder
from binlake.archive.folders import open_folder
from binlake.archive.layout import logs_among, partials_among
from binlake.errors import BinlogError, SourceError, UnsupportedError
from binlake.source.bytes import (
    file_system_for,
    is_uri,
    local_path,
    open_reader,
    writing,
    writing_whole,
)
from binlake.source.chain import LogPath
from binlake.source.resolve import log_name
from binlake.stream.lanes import usable_cores
from binlake.values.lean import leave_out_numpy
from binlake.values.log_names import index_path, key_index_path
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted

#: How finished logs can be compressed, and the suffix of their names.
COMPRESSIONS = {"none": "", "zstd": ".zst"}
_LEVEL = 3
_PIECE_BYTES = 4 << 20
# Indexing reads and inflates without the interpreter's lock: two logs at once keep two processors busy.
_MOST_AT_ONCE = 2
# This process must not slow down the data from the server.
_NICENESS = 10
# What the process reports for each log: it is done; it failed and may succeed later; it will not.
_DONE, _AGAIN, _IN_VAIN = "done", "again", "in-vain"
# How soon a thread that waits for the process notices a request to stop.
_NOTICE_SECONDS = 0.2
# A process that has nothing to do stays this long: where logs end often, each one would wait for a start.
_IDLE_SECONDS = 60.0
# The process gets this many names at most. They fit into its pipe, unless they are unusually long: then writing waits for
# the process.
_MOST_IN_HAND = 100
_TERMINATION_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finish:
    """How complete logs are finished. `compression` is a key of COMPRESSIONS. `key_index` comes with an index."""

    compression: str = "none"
    index: bool = True
    key_index: bool = False

    @property
    def nothing(self) -> bool:
        """Whether logs stay unchanged."""
        return not self.index and not COMPRESSIONS[self.compression]

    def to_words(self) -> list[str]:
        """Return the options as arguments of a command line."""
        indexes = "keys" if self.key_index else "index"
        return [self.compression, indexes if self.index else "no-index"]

    @classmethod
    def of_words(cls, compression: str, indexes: str) -> Finish:
        """Return the options from the words of `to_words`."""
        return cls(compression, indexes != "no-index", indexes == "keys")


def finish_log(folder: Folder, name: str, finish: Finish) -> None:
    """Index and compress a complete log. Raises BinlogError; then the log is unchanged.

    After an archiver is killed, its finishing process may still be at work on the same log. The
    slower of the two can find the log gone at any step, and that is not a failure.
    """
    sizes = folder.sizes()
    if name not in sizes:
        return
    try:
        _finish_log(folder, name, finish, sizes)
    except SourceError:
        if name in folder.sizes():
            raise


def _finish_log(folder: Folder, name: str, finish: Finish, sizes: dict[str, int]) -> None:
    path = folder.path_of(name)
    beside = log_name(index_path(name))
    if finish.index and beside not in sizes:
        _index(folder, LogPath(path, name, None, sizes[name]), finish)
    if suffix := COMPRESSIONS[finish.compression]:
        compress(path, path + suffix)
        folder.remove(name)


def _index(folder: Folder, log: LogPath, finish: Finish) -> None:
    """Write the indexes of a log. The one that marks the log as finished comes last."""
    # loads pyarrow, which a follower of a server does not need
    from binlake.table.counting.indexing import index_of

    options = ReadOptions(threads=1)
    try:
        index = index_of(log, options)
    except UnsupportedError:
        return  # such a log has no index
    if finish.key_index:
        from binlake.table.where.key_indexing import key_index_of

        keys = key_index_of(log, index, options)
        folder.write(log_name(key_index_path(log.name)), keys.to_bytes())
    folder.write(log_name(index_path(log.name)), index.to_bytes())


def unfinished_logs(folder: Folder, finish: Finish, growing: str) -> list[str]:
    """Return the complete logs of a directory that were not finished, for example after a kill."""
    if finish.nothing:
        return []
    sizes = folder.sizes()
    names = [name for name in logs_among(sizes) if name in sizes and name != growing]
    if COMPRESSIONS[finish.compression]:
        return names
    return [name for name in names if log_name(index_path(name)) not in sizes]


def remove_leftovers(folder: Folder) -> list[str]:
    """Remove the partly written files of killed processes. Raises SourceError."""
    return folder.remove_partials(partials_among(folder.sizes()))


def compress(path: str, target: str) -> None:
    """Write a zstd file of a log, durable, and read it back to compare. Raises SourceError."""
    with open_reader(path) as log:
        size, digest = _written(log, target)
    with open_reader(target) as packed:
        at, found = 0, hashlib.sha256()
        while data := packed.read_at(at, _PIECE_BYTES):
            found.update(data)
            at += len(data)
            packed.release(at)
    if at != size or found.digest() != digest:
        raise SourceError(f"{target} does not decompress to {path}; the log stays uncompressed")


def _written(log: Any, target: str) -> tuple[int, bytes]:
    """Compress a log into a file that gets its name when it is durable; return size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    compressor = zstandard.ZstdCompressor(
        level=_LEVEL, write_checksum=True, write_content_size=True
    )
    with (
        writing(target),
        _output(target) as out,
        compressor.stream_writer(out, size=log.size, closefd=False) as packed,
    ):
        for data in _pieces(log):
            digest.update(data)
            size += len(data)
            packed.write(data)
    return size, digest.digest()


def _output(path: str) -> AbstractContextManager[Any]:
    if is_uri(path):
        files, inner = file_system_for(path)
        out: AbstractContextManager[Any] = files.open_output_stream(inner, compression=None)
        return out
    return writing_whole(Path(local_path(path)))


def _pieces(log: Any) -> Iterator[bytes]:
    at = 0
    while data := log.read_at(at, _PIECE_BYTES):
        yield data
        at += len(data)


class Finisher:
    """Finishes logs of one directory in a separate process.

    A failure that may be temporary (a full disk, a store that does not answer, a killed process)
    is retried after a pause, which doubles up to `longest_pause_s`. For any other failure (a damaged log) the process has
    reported the reason, and the log is counted and not tried again. `say` receives a line about
    temporary failures. Once `closed` is set, no work starts and nothing waits.
    """

    def __init__(
        self,
        folder: Folder,
        finish: Finish,
        say: Callable[[str], None] = lambda _: None,
        closed: threading.Event | None = None,
        pause_s: float = 30.0,
        longest_pause_s: float = 3600.0,
    ) -> None:
        self._pauses_s = (pause_s, longest_pause_s)
        self._folder = folder
        self._finish = finish
        self._say = say
        self._closed = threading.Event() if closed is None else closed
        self._waiting: list[str] = []
        self._under_way: list[str] = []  # the process has their names
        self._failed_now: list[str] = []  # since the process last had no names
        self._failed: list[str] = []  # until the next attempt
        self._given_up: set[str] = set()
        self._done: set[str] = set()  # also those that cannot have an index, and so seem unfinished
        self._failures = 0
        self._again_at = 0.0
        self._process: _Process | None = None

    @property
    def unfinished(self) -> int:
        """How many logs wait, are in progress, have failed, or are given up."""
        failed = {*self._failed, *self._failed_now, *self._given_up}
        return len({*self._waiting, *self._under_way, *failed})

    @property
    def failed(self) -> int:
        """How many logs have failed, whether they are retried or given up."""
        return len({*self._failed, *self._failed_now, *self._given_up})

    def is_at(self, name: str) -> bool:
        """Whether a log may be in progress now."""
        return name in self._under_way

    def begin(self, growing: str) -> None:
        """Continue with a directory in the state in which an earlier process left it. Raises
        SourceError.
        """
        remove_leftovers(self._folder)
        self.add(unfinished_logs(self._folder, self._finish, growing))

    def add(self, names: Iterable[str]) -> None:
        """Add complete logs, except those that are known already."""
        if not self._finish.nothing:
            known = {*self._waiting, *self._under_way, *self._failed_now, *self._failed}
            known |= self._given_up | self._done
            self._waiting += [name for name in names if name not in known]
        self.poll()

    def forget(self, names: Iterable[str]) -> None:
        """Drop logs that have been removed."""
        gone = set(names)
        for some in (self._waiting, self._failed_now, self._failed):
            some[:] = [name for name in some if name not in gone]
        self._given_up -= gone
        self._done -= gone

    def poll(self) -> None:
        """Take the reports of the process, and give it the next logs."""
        self._hear()
        if self._closed.is_set():
            return
        if self._failed and not self._under_way and time.monotonic() >= self._again_at:
            self._waiting, self._failed = [*self._failed, *self._waiting], []
        if self._waiting:
            self._hand_over()
        elif self._process is not None and not self._under_way and self._process.is_idle:
            self._process.let_go()

    def wait(self) -> None:
        """Wait until everything is done or has failed, or `closed` is set."""
        while not self._closed.is_set() and (self._process is not None or self._waiting):
            self.poll()
            if self._process is not None:
                if not self._waiting:
                    self._process.let_go()
                self._process.wait(_NOTICE_SECONDS)

    def stop(self) -> None:
        """Drop waiting logs, and end the process: the next one continues its work."""
        self._waiting = []
        process, self._process = self._process, None
        if process is not None:
            process.end()
        self._under_way = []

    def _hand_over(self) -> None:
        """Give waiting logs to the process. Start it if there is none."""
        if self._process is None:
            try:
                self._process = _Process(self._folder, self._finish)
            except OSError as error:
                self._failed_now, self._waiting = self._waiting, []
                self._settle(f"cannot start a process: {error.strerror}")
                return
        room = _MOST_IN_HAND - len(self._under_way)
        given = self._process.take(self._waiting[:room])
        self._under_way += given
        self._waiting = self._waiting[len(given) :]

    def _hear(self) -> None:
        """Note what the process has reported, and whether it has ended."""
        if self._process is None:
            return
        code = self._process.code  # before the reports: it reports nothing afterwards
        for outcome, name in self._process.reports():
            if name in self._under_way:
                self._under_way.remove(name)
                self._note(outcome, name)
        why = ""
        if code is not None:
            self._process.close()
            self._process = None
            names, self._under_way = self._under_way, []
            self._failed_now += self._unfinished_of(names)
            if code < 0:
                why = f"signal {-code} ended their process"
        if not self._under_way:
            self._settle(why)

    def _unfinished_of(self, names: list[str]) -> list[str]:
        """Return the logs that a process left when it ended; all of them if the directory cannot be read now."""
        if not names:
            return []
        try:
            left = set(unfinished_logs(self._folder, self._finish, ""))
        except SourceError:
            return names
        return [name for name in names if name in left]

    def _note(self, outcome: str, name: str) -> None:
        if outcome == _DONE:
            self._done.add(name)
        elif outcome == _IN_VAIN:
            self._given_up.add(name)
        else:
            self._failed_now.append(name)

    def _settle(self, why: str) -> None:
        """Pause before failed logs are tried again."""
        if not self._failed_now:
            if not self._failed and not self._waiting:
                self._failures = 0
            return
        self._failed += self._failed_now
        self._failed_now = []
        first_s, longest_s = self._pauses_s
        pause_s = min(longest_s, first_s * 2 ** min(self._failures, 16))
        self._failures += 1
        self._again_at = time.monotonic() + pause_s
        logs = counted(len(self._failed), "log")
        because = f": {why}" if why else ""
        self._say(f"{logs} could not be finished{because}; the next try is in {pause_s:.0f} s")


class _Process:
    """The process of a Finisher, which gets names of logs and reports each. Raises OSError if it does not start."""

    def __init__(self, folder: Folder, finish: Finish) -> None:
        # A file: reading from it never waits. `close` closes it.
        self._report: IO[bytes] = tempfile.TemporaryFile(prefix="binlake-")  # noqa: SIM115
        self._heard_bytes = 0
        self._busy_at = time.monotonic()
        command = [sys.executable, "-m", __name__, folder.path, *finish.to_words()]
        try:
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self._report,
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            self._report.close()
            raise

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._running.poll()

    @property
    def is_idle(self) -> bool:
        """Whether it got no name and reported none for a while."""
        return time.monotonic() - self._busy_at > _IDLE_SECONDS

    def take(self, names: list[str]) -> list[str]:
        """Give it names of logs; return those that it got."""
        pipe = self._running.stdin
        if not names or pipe is None or pipe.closed:
            return []
        self._busy_at = time.monotonic()
        with suppress(BrokenPipeError):  # it has ended
            pipe.write(os.fsencode("".join(f"{name}\n" for name in names)))
        return names

    def reports(self) -> list[tuple[str, str]]:
        """Return what it has reported since the last call: outcomes and names."""
        new = os.pread(self._report.fileno(), _PIECE_BYTES, self._heard_bytes)
        whole = new[: new.rfind(b"\n") + 1]
        if not whole:
            return []
        self._busy_at = time.monotonic()
        self._heard_bytes += len(whole)
        # A name may contain any other space, and any other end of a line.
        words = [line.partition(" ") for line in os.fsdecode(whole).split("\n")]
        return [(outcome, name) for outcome, _, name in words if name]

    def let_go(self) -> None:
        """Let it end when it has finished the logs that it got."""
        if self._running.stdin is not None:
            self._running.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, or for some seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._running.wait(seconds)

    def end(self) -> None:
        """End it in the middle of its work."""
        self._running.terminate()
        try:
            self._running.wait(_TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self.close()

    def close(self) -> None:
        """Close the files of a process that has ended."""
        self.let_go()
        self._report.close()


def _main(arguments: list[str]) -> int:
    path, compression, index = arguments
    finish = Finish.of_words(compression, index)
    os.nice(_NICENESS)
    work = _Work(open_folder(path), finish)
    with ThreadPoolExecutor(min(_MOST_AT_ONCE, usable_cores())) as threads:
        for line in sys.stdin.buffer:
            threads.submit(work.finish, os.fsdecode(line.removesuffix(b"\n")))
    return 0


class _Work:
    """The logs that this process finishes, each in a thread."""

    def __init__(self, folder: Folder, finish: Finish) -> None:
        self._folder = folder
        self._finish = finish
        self._lock = threading.Lock()

    def finish(self, name: str) -> None:
        """Finish a log and report the outcome. If that is impossible, the process ends, and its logs are tried again."""
        try:
            self._report(self._outcome(name), name)
        except BaseException:  # noqa: BLE001 - a thread cannot end the process by raising it
            traceback.print_exc()
            os._exit(1)

    def _outcome(self, name: str) -> str:
        try:
            finish_log(self._folder, name, self._finish)
        except BinlogError as error:
            print(f"binlake: {name} is not finished: {error}", file=sys.stderr)
            return _AGAIN if isinstance(error, SourceError) else _IN_VAIN
        except Exception:  # noqa: BLE001 - the other logs do not fail with this one
            traceback.print_exc()
            return _AGAIN
        return _DONE

    def _report(self, outcome: str, name: str) -> None:
        with self._lock:
            sys.stdout.buffer.write(os.fsencode(f"{outcome} {name}\n"))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    leave_out_numpy()
    sys.exit(_main(sys.argv[1:]))
