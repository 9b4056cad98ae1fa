"""Splits: byte ranges of log files that tasks read independently.

The driver cuts files by their sizes alone and reads none of their bytes. A task takes the
transactions that start in its range. It moves both ends to the first transaction start at or after
them, by the same rule in all tasks (`source.resync`), so neighbours meet exactly. Every task
reports the range that it covered, and `Ledger.join_problems` proves that nothing is missing or
duplicate. A task raises IncompleteError if its last transaction is not whole at its end although
it continues in the file.

A compressed file, a stream, a log of a live server and a relay log are one split each: the ranges
of such a file after the first are empty. A transaction of a relay log may continue in the next
file. The task in whose file it starts reads on there, and the task of that file begins after it
(`stream.groups.relay`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from binlake.errors import PositionLostError, SourceError
from binlake.format.magic import FIRST_EVENT
from binlake.source.chain import Chain, LogPath
from binlake.source.locations import location
from binlake.source.log_file import LogFile
from binlake.source.replica.url import is_server_url, without_password
from binlake.source.resolve import resolve
from binlake.source.resync import END, first_sync_before
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.elsewhere import Elsewhere, ElsewhereInStream, OpensFiles
from binlake.stream.holes import closed, closed_as_read, lacking, next_log
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.values.builds import PickledByName
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition


@dataclass(frozen=True, slots=True)
class Split(PickledByName):
    """Bytes [start, end) of one file of a chain; `end` None: to the file's end.

    `inputs` are the paths as the user gave them, to find the rest of the chain for XA
    transactions. `ordinal` is the file's position in its chain. `filters` were resolved against
    all chains of the input. `gap`, on the first range of a file, names the files before it that
    are missing. `following` is the next file, if the read wants it and none is missing before it.
    `index_directories` is the option of that name. Picklable.
    """

    inputs: tuple[str, ...]
    log: LogPath
    ordinal: int
    start: int
    end: int | None
    filters: TransactionFilter
    gap: str = ""
    index_directories: tuple[str, ...] = ()
    following: LogPath | None = None

    @property
    def bytes(self) -> int:
        """Its length as planned; 0 where the file's size is not known."""
        end = self.log.size if self.end is None else self.end
        return max(0, end - self.start) if end is not None else 0

    def chain_files(self) -> Mapping[int, LogPath]:
        """Return the files of its chain by ordinal, resolved again, oldest first. Raises
        SourceError, also if logs up to its own have been removed or added since the split was planned.
        """
        files = dict(enumerate(self._chain()))
        now = files.get(self.ordinal)
        if now is None or now.number != self.log.number:
            raise SourceError(
                f"logs up to {self.log.path} have been removed or added since the read was planned",
                hint="start the read again",
            )
        return files

    def _chain(self) -> Sequence[LogPath]:
        for chain in resolve(self.inputs, self.index_directories):
            if any(file.chain == self.log.chain for file in chain.files):
                return chain.files
        raise SourceError(f"the logs with {self.log.path} do not exist any more")

    def ranges(self, split_bytes: int) -> Iterator[Self]:
        """Yield its ranges of about `split_bytes`."""
        for start, end in cut(self.log, split_bytes, self.start, self.end):
            begins = start == self.start
            yield replace(self if begins else self._without_beginning(), start=start, end=end)

    def _without_beginning(self) -> Self:
        """Return the split without the facts about its beginning, for a range that starts later."""
        return replace(self, gap="")

    def is_closed(self, log: LogFile, begin: int) -> bool | None:
        """Whether the server has closed the log, which the task has read from byte `begin` on; None if that is not known."""
        return closed_as_read(log, begin)

    def take_hole(self, hole: str, ledger: Ledger) -> None:
        """Warn about a hole in the chain (`stream.holes`)."""
        ledger.warn(lacking(hole, self.filters))

    @property
    def known_start(self) -> int:
        """An offset that is known to be the start of an event, from which the task reads; 0: none."""
        return 0

    def found(self) -> Split:
        """Return the same split with the current location of its file."""
        return self

    def borders_in(self, log: LogFile) -> tuple[int, int | None]:
        """Return where the first transaction of the split starts, and the first one after it (None: the
        split is the end of the file). They are equal if none starts in the split.
        """
        if self.end is None:
            return self._border(log, self.start), None
        # not to the end of a transaction that is longer than the split: each split in it would do that
        start = self._border_before(log, self.start, self.end)
        return (self.end, self.end) if start is None else (start, self._border(log, self.end))

    def _border(self, log: LogFile, at: int) -> int:
        """Return where the first transaction starts at or after byte `at`, one of the ends."""
        found = self._border_before(log, at, END)
        assert found is not None
        return found

    def _border_before(self, log: LogFile, at: int, before: int) -> int | None:
        """Return where the first transaction starts at or after byte `at`; None if none starts before `before`."""
        return first_sync_before(log, at, before)

    def elsewhere(self, chain: OpensFiles, first: ChainPosition) -> Elsewhere:
        """Return access to the rest of its chain, for XA transactions; `first` is where it begins."""
        return Elsewhere(chain, first)


@dataclass(frozen=True, slots=True)
class StreamSplit(Split):
    """A split of a stream, whose chain grows at one end and is purged at the other.

    A file's ordinal is therefore its number (0 if it has none). `borders` are offsets known to be
    transaction boundaries: the task need not search for them, and could not in every log.
    `created` is that of the planned file (`LogFile.created`), `fingerprint` describes the events
    before its start; both are None if unknown.
    """

    borders: tuple[int, ...] = ()
    created: int | None = None
    fingerprint: LogFingerprint | None = None

    def chain_files(self) -> Mapping[int, LogPath]:
        return numbered(self._chain())

    def _without_beginning(self) -> Self:
        return replace(self, fingerprint=None)

    def is_closed(self, log: LogFile, begin: int) -> bool | None:
        # an earlier batch may have read the log to its end, before the next log was there
        return closed(log, begin)

    def take_hole(self, hole: str, ledger: Ledger) -> None:
        """Raise PositionLostError: a stream does not read the log again."""
        raise PositionLostError(
            f"{hole}; a stream does not skip missing transactions",
            hint=f"copy {self.log.name} again, then restart",
        )

    @property
    def known_start(self) -> int:
        if self.fingerprint is not None:
            return self.fingerprint.start
        return self.start if self.start in self.borders else 0

    def found(self) -> Split:
        """A log may be compressed between planning and reading; then the task reads the compressed
        file.

        Raises SourceError if the split is a part of the file with unknown ends.
        """
        path = self.log.path
        if is_server_url(path) or location(path).kind() != "missing":
            return self
        now = self.chain_files().get(self.ordinal)
        if now is None or now.path == path:
            return self
        if not {self.start, self.end} <= {*self.borders, FIRST_EVENT, None}:
            raise SourceError(
                f"{path} was compressed while a batch read it in parts",
                hint="start the query again with the same checkpoint: it then reads the whole file",
            )
        return replace(self, log=replace(now, size=None))

    def _border_before(self, log: LogFile, at: int, before: int) -> int | None:
        known = at != self.start or self.fingerprint is None or self.fingerprint.is_in(log)
        if self.created not in (None, log.created) or not known:
            raise PositionLostError(
                f"{log.path} is not the log that the batch was planned for",
                hint="it was replaced, or another server answers; start the query again",
            )
        return at if at in self.borders else first_sync_before(log, at, before)

    def elsewhere(self, chain: OpensFiles, first: ChainPosition) -> Elsewhere:
        return ElsewhereInStream(chain, first)


def numbered(files: Iterable[LogPath]) -> dict[int, LogPath]:
    """The files of a chain by their numbers, in the order of the chain."""
    return {file.number or 0: file for file in files}


def plan_splits(inputs: Sequence[str], options: ReadOptions, split_bytes: int) -> list[Split]:
    """Cut the files that `inputs` mean into ranges of about `split_bytes`, in chain order.

    Raises SourceError, OptionError.
    """
    if split_bytes <= 0:
        raise ValueError("a split must have at least one byte")
    return [part for file in plan_files(inputs, options) for part in file.ranges(split_bytes)]


def plan_files(inputs: Sequence[str], options: ReadOptions) -> list[Split]:
    """Return a split for each file that `inputs` mean, as `files_of_chains`. Raises SourceError, OptionError."""
    chains = chosen_chains(resolve(inputs, options.index_directory), options)
    return files_of_chains(inputs, chains, options)


def files_of_chains(
    inputs: Sequence[str], chains: Sequence[Chain], options: ReadOptions
) -> list[Split]:
    """Return a split for each file of the chains that `inputs` mean, in chain order.

    Files in which no wanted transaction can start (options start, stop, at) are left out. Raises OptionError.
    """
    splits: list[Split] = []
    inputs = [without_password(path) for path in inputs]  # splits travel, in plans that are logged
    filters_of = [TransactionFilter.of(options, chain.names) for chain in chains]
    for chain, filters in zip(chains, filters_of, strict=True):
        reads_before = False
        for ordinal, log in enumerate(chain.files):
            if filters.byte_range(ordinal) is not None:
                gap = chain.gap_before(ordinal) if reads_before else ""
                wanted = filters.byte_range(ordinal + 1) is not None
                following = next_log(chain, ordinal) if wanted else None
                named = (tuple(inputs), log, ordinal, FIRST_EVENT, None, filters, gap)
                splits.append(Split(*named, options.index_directory, following))
                reads_before = True
    return splits


def cut(
    log: LogPath, split_bytes: int, start: int, end: int | None
) -> list[tuple[int, int | None]]:
    """Return ranges of about equal size of bytes [start, end) (None: the file's end); one range if
    the file cannot be cut.
    """
    streamed = (
        log.path == "-" or log.path.endswith((".gz", ".zst", ".ibb")) or is_server_url(log.path)
    )
    if log.size is None or streamed:
        return [(start, end)]
    first = 0 if start == FIRST_EVENT else start
    size = (log.size if end is None else end) - first
    count = max(1, -(-size // split_bytes))
    bounds = [first + size * part // count for part in range(1, count)]
    return list(zip([start, *bounds], [*bounds, end], strict=True))


def pack(splits: Sequence[Split], partition_bytes: int, file_bytes: int) -> list[list[Split]]:
    """Combine splits, in order, into partitions of at most `partition_bytes`.

    Opening a file counts as `file_bytes`, so a thousand small files make few tasks. Logs of
    different chains stay apart if one is a server's, since the task asks the server about its
    tables.
    """
    partitions: list[list[Split]] = []
    room = 0
    for split in splits:
        cost = split.bytes + file_bytes
        if not partitions or cost > room or _is_of_another_server(split, partitions[-1][-1]):
            partitions.append([])
            room = partition_bytes
        partitions[-1].append(split)
        room -= cost
    return partitions


def _is_of_another_server(split: Split, before: Split) -> bool:
    paths = (split.log.path, before.log.path)
    return split.log.chain != before.log.chain and any(map(is_server_url, paths))
