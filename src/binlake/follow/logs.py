"""The logs that a stream follows, at one moment.

Logs grow, are compressed and are purged during a look. A look therefore contains the existing
files, each with a length that it has at least, and only the newest of them may grow: a server
begins a file when it is done with the one before.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from binlake.archive.layout import STATE, ArchiveState
from binlake.errors import (
    BinlogError,
    OptionError,
    PositionLostError,
    SourceError,
    UnsupportedError,
)
from binlake.source.access import Access
from binlake.source.bytes import is_uri, pipe_in
from binlake.source.chain import Chain, LogPath, of_source
from binlake.source.locations import location
from binlake.source.log_file import LogFile
from binlake.source.reader import source_error
from binlake.source.resolve import survey
from binlake.source.stores.heads import ObjectHeads
from binlake.source.stores.opened_ahead import opened_ahead
from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.stream.positions.splits import numbered
from binlake.values.options import ReadOptions
from binlake.values.position import Position
from binlake.values.quantities import first_to_last

_LONGEST_WAIT_S = 0.25
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class LogsNow:
    """A listing: the files by number, oldest first; `inputs` are what tasks resolve to find them.

    `server_uuid` is "" if it is unknown. `end` is the boundary up to which the logs reach, if the
    source reports it.
    """

    inputs: tuple[str, ...]
    files: Mapping[int, LogPath]
    server_uuid: str = ""
    end: Position | None = None

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the files, ascending."""
        return tuple(self.files)

    def number_of(self, name: str) -> int | None:
        """Return the number of the file of this base name, None if it is not there."""
        return next((n for n, file in self.files.items() if file.name == name), None)

    @property
    def shown(self) -> str:
        """The files in the form that messages use."""
        return first_to_last([file.name for file in self.files.values()])

    def between(self, first: int, last: int, remedy: str) -> list[int]:
        """Return the numbers from one file to another. Raises PositionLostError if one is missing; `remedy`: what the
        user can do without it.
        """
        found = [number for number in self.files if first <= number <= last]
        for before, after in pairwise(found):
            if after != before + 1:
                raise PositionLostError(
                    f"the log between {self.files[before].name} and {self.files[after].name} is "
                    "missing, and binlake does not skip missing logs",
                    hint=f"restore it; or {remedy}",
                )
        return found


class StreamLogs(ABC):
    """The location of a stream's logs."""

    #: Minimum seconds between two looks while nothing is new.
    pause_s = 0.0
    #: Whether several files are opened at the same time to plan a batch.
    opens_together = False

    def __init__(self, options: ReadOptions) -> None:
        self._access = Access.of(options)
        self._last: LogsNow | None = None
        self._ends: dict[Hashable, int] = {}
        self._known: set[tuple[str, str, LogFingerprint]] = set()
        self._wait_s = 0.0

    #: How many connections to a server the looks have needed; 0 for files.
    connections = 0

    def look(self) -> LogsNow:
        """List the logs. Raises BinlogError.

        Spark asks every 10 ms while nothing is new; then listing takes at most a fifth of the time.
        """
        time.sleep(self._wait_s)
        begun = time.monotonic()
        found = self._look()
        cost_s = time.monotonic() - begun
        idle = found == self._last
        self._wait_s = min(_LONGEST_WAIT_S, max(self.pause_s, 4 * cost_s)) if idle else 0.0
        self._last = found
        return found

    @abstractmethod
    def _look(self) -> LogsNow:
        """Look. Raises BinlogError."""

    def open(self, now: LogsNow, number: int, start: int = 0) -> LogFile:
        """Open a file that a look has found; `start` as in LogFile.open. Raises BinlogError."""
        log = self._access.open(now.files[number], number, start)
        if log.is_relay:
            log.close()
            raise UnsupportedError(
                "relay logs cannot be streamed",
                file=log.name,
                hint="stream the binary log: of the source, or of the replica (log_replica_updates)",
            )
        return log

    def created(self, now: LogsNow, number: int) -> int | None:
        """`LogFile.created` of a file that a look has found. Raises BinlogError."""
        with self.open(now, number) as log:
            return log.created

    def in_turn(self, now: LogsNow, numbers: Sequence[int]) -> Iterator[int]:
        """The numbers of files that will be opened in this order, if reading comes so far."""
        yield from numbers

    def created_all(self, now: LogsNow, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return `created` of several files. For object stores, the requests run in parallel. Raises the BinlogError
        of the first file that has one.
        """
        found = opened_ahead(
            numbers,
            lambda number: self.created(now, number),
            lambda _: self.opens_together,
        )
        return dict(zip(numbers, found, strict=True))

    def has(self, now: LogsNow, number: int, fingerprint: LogFingerprint) -> bool:
        """Return whether a file of a look holds these events.

        It is checked once, since a reader that continues there checks again. Raises BinlogError.
        """
        if (now.server_uuid, now.files[number].name, fingerprint) not in self._known:
            with self.open(now, number, fingerprint.start) as log:
                if not fingerprint.is_in(log):
                    return False
            self.saw(now, number, fingerprint)
        return True

    def saw(self, now: LogsNow, number: int, fingerprint: LogFingerprint) -> None:
        """Note that a file has these events."""
        self._known.add((now.server_uuid, now.files[number].name, fingerprint))
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()

    def stamp(self, now: LogsNow, number: int) -> Hashable:
        """Return what changes with the content of a compressed file; None for another file, and where it is not known. Raises BinlogError."""
        file = now.files[number]
        if file.size is not None or (is_uri(file.path) and not file.version):
            return None
        if file.version:
            return file.path, file.version
        try:
            state = Path(file.path).stat()
        except OSError as error:
            raise source_error(file.path, error) from error
        return file.path, state.st_size, state.st_mtime_ns

    def has_ended(self, stamp: Hashable, offset: int) -> None:
        """Note where the last transaction of a compressed file ends, of the `stamp` from before it was read."""
        self._ends = {stamp: offset}  # only of the newest: the others have a next file

    def end_of(self, now: LogsNow, number: int) -> int | None:
        """Return how far a file has been read, or, if it is not compressed, its size; None if that is unknown. Raises BinlogError."""
        size = now.files[number].size
        return size if size is not None else self._ends.get(self.stamp(now, number))

    def unlogged_gtids(self, now: LogsNow) -> str:
        """Return the GTIDs of transactions that a server of MySQL has, but never had in a log: those of the backup or clone from which
        it was set up. No PREVIOUS_GTIDS contains them. "" if it has none, for files, and for a server that does not log what it
        replicates. Raises BinlogError.
        """
        return ""

    def gives_gtids(self) -> bool | None:
        """Return whether every new transaction gets a GTID; None: unknown, as for files. Raises BinlogError."""
        return None

    def close(self) -> None:
        """Release resources."""
        self._known.clear()


class DirectoryLogs(StreamLogs):
    """Files: a directory, a glob, an index file, of one server."""

    # a store's answer takes long, not the work here
    opens_together = True

    def __init__(self, paths: Sequence[str], options: ReadOptions) -> None:
        super().__init__(options)
        self._access = replace(self._access, heads=ObjectHeads())
        self._created: dict[tuple[str, str], int | None] = {}  # by path and version of objects
        self._paths = tuple(paths)
        self._source = options.source
        self._index_directories = options.index_directory
        self._servers: dict[str, str] = {}  # by directory of an archive

    def open(self, now: LogsNow, number: int, start: int = 0) -> LogFile:
        try:
            return super().open(now, number, start)
        except SourceError:
            again = self._look()
            file = again.files.get(number)
            if file is None or file.path == now.files[number].path:
                raise
            return super().open(again, number, start)  # it has been compressed since the look

    def created(self, now: LogsNow, number: int) -> int | None:
        file = now.files[number]
        key = file.path, file.version
        if not file.version:
            return super().created(now, number)
        if key not in self._created:
            created = super().created(now, number)
            if len(self._created) >= _MOST_KNOWN:
                self._created.clear()
            self._created[key] = created
        return self._created[key]

    def in_turn(self, now: LogsNow, numbers: Sequence[int]) -> Iterator[int]:
        # Of a store, the beginnings of the next few are asked for at the same time; they stay, so
        # none is asked for in vain if a batch ends before it.
        warm = opened_ahead(
            numbers,
            lambda number: self._warm(now, number),
            lambda number: now.files[number].version,
        )
        for number, _ in zip(numbers, warm, strict=True):
            yield number

    def _warm(self, now: LogsNow, number: int) -> None:
        if now.files[number].version:
            with contextlib.suppress(BinlogError):  # it comes again when the file's turn has come
                self.created(now, number)

    def close(self) -> None:
        super().close()
        self._created.clear()
        self._access = replace(self._access, heads=ObjectHeads())

    def _look(self) -> LogsNow:
        # The names first, then the lengths: a file that had a successor when its length was taken
        # is finished, so the length is all of it. (And a file may be compressed in between.)
        names = {file.name for file in self._chain().files}
        files = [_sized(file) for file in self._chain().files if file.name in names]
        if not files:
            raise SourceError(f"no binary log in {', '.join(self._paths)}")
        return LogsNow(self._paths, numbered(files), self._server_of(files[-1]))

    def _server_of(self, file: LogPath) -> str:
        """The identity of the server of these logs, if an archive records it; else ""."""
        directory, slash, _ = file.path.rpartition("/")
        if directory not in self._servers:
            state = location(f"{directory}{slash}{STATE}")
            known = state.kind() == "file"
            self._servers[directory] = (
                ArchiveState.from_bytes(state.read(), state.shown).identity if known else ""
            )
        return self._servers[directory]

    def _chain(self) -> Chain:
        chains = of_source(survey(self._paths, self._index_directories), self._source)
        chain = the_only_chain(chains, "a stream follows one server", "path")
        numbers = [file.number or 0 for file in chain.files]
        if sorted(set(numbers)) != numbers:
            raise SourceError(
                f"the index file {chain.index} does not list the logs in the order of their numbers",
                hint="give their directory instead",
            )
        if (pipe := pipe_in(chain.paths)) is not None:
            raise OptionError(f"{pipe} cannot be streamed", name="path")
        return chain


def _sized(file: LogPath) -> LogPath:
    """A file with the size of its log, which is unknown for a compressed file."""
    return replace(file, size=None) if file.path.endswith((".gz", ".zst")) else file
