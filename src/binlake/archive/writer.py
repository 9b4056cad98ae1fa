"""Write blocks of a server's logs to files: append, make durable, complete, and record the state.

    writer = HistoryWriter(folder, state)
    start = writer.resume()                  # a Position: what to ask the server for
    for block in follower:
        writer.take(block)                   # AnotherHistory: the logs were reset
        writer.sync()                        # now, and not before, it may be acknowledged
        writer.sync_soon(gtids)              # or in the background

The order of the steps is: bytes of the log, then the index file that names it, then the state.
Each of them is valid without the next, so a kill between two steps causes no gaps and no
duplicates. A log is durable before the next one begins.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from binlake.archive.folder import Folder, LogWriter
from binlake.archive.layout import (
    STATE,
    ArchiveState,
    checked_name,
    index_file,
    logs_among,
    number_of,
)
from binlake.archive.recovery import Overlap, Resumption, recover
from binlake.errors import ServerError
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.source.reader import ByteReader
from binlake.values.position import NO_POSITION, LogPosition, Position

if TYPE_CHECKING:
    from binlake.source.replica.follower import Block

# The state tells others how far a log is durable; recovery uses it only for a log without
# checksums.
_STATE_SECONDS = 1.0


class AnotherHistory(Exception):  # noqa: N818 - not an error: the archive goes on elsewhere
    """The received data does not continue the archive. The text gives the reason."""


class HistoryWriter:
    """Writes one directory of an archive; no other process may write to it meanwhile.

    `finished` are logs that became complete since the last call, `syncs` the durations of the
    syncs since then (seconds); `state` is the durable state.
    """

    def __init__(self, folder: Folder, state: ArchiveState) -> None:
        self.folder = folder
        self.state = state
        self.finished: list[str] = []
        self.syncs: deque[float] = deque()
        self.resumed: Resumption | None = None
        self._log: LogWriter | None = None
        self._overlap: Overlap | None = None
        self._complete: str | None = None
        self._recorded = state
        self._recorded_at = 0.0
        self._background = ThreadPoolExecutor(1, "binlake-sync")
        self._under_way: Future[None] | None = None

    # -- beginning -----------------------------------------------------------------------------

    def resume(self) -> Position | None:
        """Return the position to request from the server; None if the directory is empty. Raises
        SourceError.
        """
        self.folder.lock()
        try:
            return self._resume()
        except BaseException:
            if self._log is not None:
                self._log.close()
            self.folder.unlock()
            raise

    def _resume(self) -> Position | None:
        names = logs_among([*self.folder.sizes(), *self.folder.unfinished()])
        while names and self._is_growing(names[-1]):
            last = names.pop()
            self._log = self.folder.open_log(last)
            durable = self.state.offset if self.state.file == last else 0
            found = recover(self._log, self.state.flavour, durable)
            if found.size:
                return self._go_on(self._log, found)
            # nothing of it is whole, but the one before it can be compared with the server's
            self._log.close()
            self._log = None
            self.folder.remove(last)
        write_index_file(self.folder)
        if not names:
            self._write_state()
            return None
        self._complete = names[-1]  # it is compressed
        following = f"{names[-1].rpartition('.')[0]}.{number_of(names[-1]) + 1:06d}"
        return Position(self.state.identity, following, FIRST_EVENT, self.state.gtid_set)

    def _is_growing(self, name: str) -> bool:
        return name in self.folder.sizes() or name in self.folder.unfinished()

    def _go_on(self, log: LogWriter, found: Resumption) -> Position:
        self.resumed = found
        self._overlap = Overlap(log.reader(), found.start, found.size)
        write_index_file(self.folder)
        self.state = replace(
            self.state,
            file=log.name,
            offset=found.size,
            gtid_set=found.gtid_set or self.state.gtid_set,
        )
        return Position(self.state.identity, log.name, found.start, found.gtid_set)

    @property
    def end(self) -> LogPosition:
        """The last log and how many bytes of it are in the archive; `NO_POSITION` if there is none."""
        if self._log is not None:
            return LogPosition(self._log.name, self._log.size)
        return NO_POSITION if self._complete is None else LogPosition(self._complete, 0)

    @property
    def last_bytes(self) -> ByteReader | None:
        """Return a reader of the last log, which the caller closes; None if there is none."""
        return None if self._log is None else self._log.reader()

    # -- continuing ----------------------------------------------------------------------------

    def take(self, block: Block) -> None:
        """Write a block. Raises AnotherHistory, ServerError, SourceError."""
        data = block.data
        if self._overlap is not None:
            data = self._compared(block)
            if not data:
                return
        if self._log is None or block.file != self._log.name:
            self._begin(block)
        log = self._log
        assert log is not None
        start = block.end - len(data)
        if log.size == 0 and start == FIRST_EVENT:
            log.append(BINLOG_MAGIC)
        if start != log.size:
            raise ServerError(
                f"the server continues at {block.file}:{start}, but the next position is {log.size}"
            )
        log.append(data)

    def _compared(self, block: Block) -> bytes:
        """Return the new bytes of a block, if the server begins with archived bytes."""
        overlap, log = self._overlap, self._log
        assert overlap is not None
        assert log is not None
        is_next = block.file == log.name and block.start == overlap.at
        if is_next and (rest := overlap.take(block.data)) is not None:
            if overlap.is_over:
                self._end_overlap()
            return rest
        if not is_next or not overlap.has_holes(block.data):
            raise AnotherHistory(f"{log.name} on the server differs from the log in the archive")
        self._end_overlap()
        log.truncate(block.start)
        self.state = replace(self.state, offset=block.start)
        return block.data

    def _end_overlap(self) -> None:
        if self._overlap is not None:
            self._overlap.close()
            self._overlap = None

    def _begin(self, block: Block) -> None:
        """Handle a block of another log than the current one."""
        name = checked_name(block.file)
        before = self._log.name if self._log is not None else self._complete
        if before is not None and not _follows(before, name):
            raise AnotherHistory(f"the server continues with {name} after {before}")
        if block.start != FIRST_EVENT:
            raise ServerError(
                f"the server begins {name} at {block.start}, not with its first event"
            )
        if self._log is not None:
            self.settle()
            self._log.finish()
            self._log.close()
            self.finished.append(self._log.name)
        self._complete = None
        self._log = self.folder.open_log(name)
        if self._log.size:
            raise ServerError(f"{self.folder.path_of(name)} already exists")  # never overwritten

    def sync(self, gtid_set: str | None = None) -> LogPosition:
        """Make the received data durable; return the position before which everything is durable.

        `gtid_set` are the GTIDs up to there, None: as before. Raises SourceError.
        """
        self.settle()
        log = self._log
        if log is not None and self._overlap is None:
            self._make_durable(log, log.size, gtid_set)
        return LogPosition(self.state.file, self.state.offset)

    def sync_soon(self, gtid_set: str) -> bool:
        """Begin to make the received data durable; `state` shows the result. Returns False during
        an earlier sync.

        `gtid_set` as in `sync`. Raises SourceError, also for the earlier sync.
        """
        if self._under_way is not None and not self._under_way.done():
            return False
        self.settle()
        log = self._log
        if log is not None and self._overlap is None:
            self._under_way = self._background.submit(self._make_durable, log, log.size, gtid_set)
        return True

    def settle(self) -> None:
        """Wait for the sync that `sync_soon` began. Raises SourceError."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def _make_durable(self, log: LogWriter, size: int, gtid_set: str | None) -> None:
        """Make `size` bytes of the log durable, and record it."""
        begun = time.monotonic()
        is_new = log.name != self.state.file
        log.sync()
        if is_new:
            write_index_file(self.folder)
        gtid_set = self.state.gtid_set if gtid_set is None else gtid_set
        self.state = replace(self.state, file=log.name, offset=size, gtid_set=gtid_set)
        if is_new or time.monotonic() - self._recorded_at >= _STATE_SECONDS:
            self._write_state()
        self.syncs.append(time.monotonic() - begun)

    def record(self) -> None:
        """Record how far the log is durable, unless that is recorded already. Raises SourceError."""
        self.settle()
        if self.state != self._recorded:
            self._write_state()

    def close(self) -> None:
        """Make everything durable and unlock the directory. Raises SourceError."""
        try:
            if self._overlap is not None:
                self._overlap.close()
            elif self._log is not None:
                self.sync()
            self.record()
        finally:
            self._background.shutdown()
            if self._log is not None:
                self._log.close()
            self.folder.unlock()

    # -- files beside the logs -------------------------------------------------------------------

    def _write_state(self) -> None:
        self.folder.write(STATE, replace(self.state, written=time.time()).to_bytes())
        self._recorded, self._recorded_at = self.state, time.monotonic()


def write_index_file(folder: Folder, without: Collection[str] = ()) -> None:
    """Rewrite the index files of a directory. They do not name the logs `without`, which are removed next. Raises SourceError."""
    by_file: dict[str, list[str]] = {}
    for name in logs_among([*folder.sizes(), *folder.unfinished()]):
        if name in without:
            continue
        by_file.setdefault(index_file(name), []).append(f"./{name}\n")
    for name, lines in by_file.items():
        data = "".join(lines).encode()
        if folder.read(name) != data:
            folder.write(name, data)


def _follows(before: str, name: str) -> bool:
    """Whether a log is the next one by its name."""
    base, _, _ = name.rpartition(".")
    return base == before.rpartition(".")[0] and number_of(name) == number_of(before) + 1
