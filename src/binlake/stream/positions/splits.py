"""Splits: byte ranges of log files that tasks read on their own.

The driver cuts files by their sizes alone and reads none of their bytes. A task takes the
transactions that start in its range: both ends are moved to the first transaction start at or
after them, by the same rule in all tasks (`source.resync`), so neighbours meet exactly. Every
task says what it really covered, and `Ledger.join_problems` proves that nothing is missing or
double. A task whose last transaction is not whole at its end, although the file goes on with it,
raises IncompleteError itself.

A compressed file, a stream, a log of a live server and a relay log are one split: the ranges of such a file after the
first are empty. A transaction of a relay log may go on in the next file; the task in whose file
it starts reads on there, and the task of that file begins after it (`stream.relay`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from binlake.errors import PositionLostError, SourceError
from binlake.source.chain import LogPath, resolve
from binlake.source.locations import location
from binlake.source.log_file import LogFile
from binlake.source.replica.url import is_server_url, without_password
from binlake.source.resync import first_sync
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.elsewhere import Elsewhere, ElsewhereInStream, OpensFiles
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.stream.runs import ChainPosition
from binlake.values.builds import PickledByName
from binlake.values.frame import FIRST_EVENT
from binlake.values.options import ReadOptions

__all__ = ["Split", "StreamSplit", "cut", "numbered", "pack", "plan_splits"]


@dataclass(frozen=True, slots=True)
class Split(PickledByName):
    """Bytes [start, end) of one file of a chain; `end` None: to the file's end.

    `inputs` are the paths as the user gave them: where the rest of the chain is, should it be needed
    (XA). `ordinal` is the file's location in its chain. `filters` were resolved against all chains of the input. `gap`, of
    the first range of a file, says which files before it are missing. `index_directories` is the option of
    that name. Picklable.
    """

    inputs: tuple[str, ...]
    log: LogPath
    ordinal: int
    start: int
    end: int | None
    filters: TransactionFilter
    gap: str = ""
    index_directories: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Its length as planned; 0 where the file's size is not known."""
        end = self.log.size if self.end is None else self.end
        return max(0, end - self.start) if end is not None else 0

    def chain_files(self) -> Mapping[int, LogPath]:
        """The files of its chain by ordinal, resolved again, oldest first. Raises SourceError."""
        return dict(enumerate(self._chain()))

    def _chain(self) -> Sequence[LogPath]:
        for chain in resolve(self.inputs, self.index_directories):
            if any(file.chain == self.log.chain for file in chain.files):
                return chain.files
        raise SourceError(f"the logs with {self.log.path} are not there any more")

    @property
    def known_start(self) -> int:
        """An event that is known to be one and from which on it will be read; 0: none."""
        return 0

    def found(self) -> Split:
        """The same split, where its file is now."""
        return self

    def border(self, log: LogFile, at: int) -> int:
        """Where the first transaction starts that starts at or after byte `at`, one of its ends."""
        return first_sync(log, at)

    def elsewhere(self, chain: OpensFiles, first: ChainPosition) -> Elsewhere:
        """The rest of its chain, for XA transactions; `first` is where it begins."""
        return Elsewhere(chain, first)


@dataclass(frozen=True, slots=True)
class StreamSplit(Split):
    """A split of a stream, whose chain grows at one end and is purged at the other.

    A file's ordinal is therefore its number (0 where it has none). `borders` are offsets known to
    be transaction boundaries, which need not be looked for, and could not be in every log.
    `created` is that of the file that was planned (`LogFile.created`), None where nobody knows;
    `fingerprint` the events before its start, likewise.
    """

    borders: tuple[int, ...] = ()
    created: int | None = None
    fingerprint: LogFingerprint | None = None

    def chain_files(self) -> Mapping[int, LogPath]:
        return numbered(self._chain())

    @property
    def known_start(self) -> int:
        if self.fingerprint is not None:
            return self.fingerprint.start
        return self.start if self.start in self.borders else 0

    def found(self) -> Split:
        """A log may be compressed between planning and reading: then its other file is read.

        Raises SourceError where only a part of it was wanted, whose ends nobody knows.
        """
        path = self.log.path
        if is_server_url(path) or location(path).kind() != "missing":
            return self
        now = self.chain_files().get(self.ordinal)
        if now is None or now.path == path:
            return self
        if not {self.start, self.end} <= {*self.borders, FIRST_EVENT, None}:
            raise SourceError(
                f"{path} was compressed while a batch of it was read in parts",
                hint="start the query again, with the same checkpoint: it reads the whole file then",
            )
        return replace(self, log=replace(now, size=None))

    def border(self, log: LogFile, at: int) -> int:
        known = at != self.start or self.fingerprint is None or self.fingerprint.is_in(log)
        if self.created not in (None, log.created) or not known:
            raise PositionLostError(
                f"{log.path} is another log than the one that the batch was planned for",
                hint="it was replaced, or another server answers; start the query again",
            )
        return at if at in self.borders else first_sync(log, at)

    def elsewhere(self, chain: OpensFiles, first: ChainPosition) -> Elsewhere:
        return ElsewhereInStream(chain, first)


def numbered(files: Iterable[LogPath]) -> dict[int, LogPath]:
    """The files of a chain by their numbers, in the order of the chain."""
    return {file.number or 0: file for file in files}


def plan_splits(inputs: Sequence[str], options: ReadOptions, split_bytes: int) -> list[Split]:
    """Cut the files that `inputs` mean into ranges of about `split_bytes`, in chain order.

    Files in which no wanted transaction can start (options start, stop, at) are left out.
    Raises SourceError, OptionError.
    """
    if split_bytes <= 0:
        raise ValueError("a split has at least one byte")
    splits: list[Split] = []
    chains = chosen_chains(resolve(inputs, options.index_directory), options)
    inputs = [without_password(path) for path in inputs]  # splits travel, in plans that are logged
    filters_of = TransactionFilter.of_chains(options, [chain.names for chain in chains])
    for chain, filters in zip(chains, filters_of, strict=True):
        reads_before = False
        for ordinal, log in enumerate(chain.files):
            if filters.byte_range(ordinal) is not None:
                gap = chain.gap_before(ordinal) if reads_before else ""
                for start, end in cut(log, split_bytes):
                    named = (tuple(inputs), log, ordinal, start, end, filters, gap)
                    splits.append(Split(*named, options.index_directory))
                    gap = ""
                reads_before = True
    return splits


def cut(
    log: LogPath, split_bytes: int, start: int = FIRST_EVENT, end: int | None = None
) -> list[tuple[int, int | None]]:
    """Ranges of about equal size of bytes [start, end) (None: the file's end); one where the file
    cannot be cut.
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
    """Put splits, in order, together into partitions of at most `partition_bytes`, where
    opening a file counts as `file_bytes` (a thousand small files make few tasks). Logs of different
    chains are not put together where one is a server's, who is asked about its tables.
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
