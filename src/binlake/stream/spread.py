"""The runs of a read, worked on by threads, with the results that one thread would have.

    spread = Spread(options, ledger)
    for reader in LogReader.of_chains(chains, options, spread.reader_ledger):
        for result in spread.results(reader, worker_of):
            …

One thread reads. It finds the transactions in the order of the log, so everything that depends on
earlier events (XA, filters, savepoints, relay logs, damage) is decided there, as with one thread. It
cuts what it finds into portions of whole transactions, and the workers decode or count those side by
side. The meaning of a portion depends on earlier ones in one respect only: the DDL before it. So
every worker receives every DDL statement, at its place between the runs.

A transaction that is too large to be held in memory is read again while a worker decodes it. Nothing
else is read from the log meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Generic, Protocol, TypeVar

from binlake.source.chain import Chain
from binlake.stream.lanes import in_order, usable_cores
from binlake.stream.runs import PlainRun, Run
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

T = TypeVar("T")

# A thread keeps the tables that it meets, each of which takes the log only a byte per column. So
# few bytes are not worth another thread.
_BYTES_OF_A_THREAD = 8 << 20
_LEAST_SHARE_BYTES = 1 << 20
_LEAST_PORTION_BYTES, _MOST_PORTION_BYTES = 256 << 10, 8 << 20
# Rows mostly take up to so many times the bytes of their log. A portion should make one batch: a second one for its last
# rows costs as much as the first.
_DECODED_SIZE = 1.5
# The log that waits for its turn, where few values are decoded.
_HELD_BYTES = 64 << 20


class ReadsRuns(Protocol):
    """Yields runs: `LogReader`, `LiveReader`."""

    def runs(self, on_ddl: TakesDdl, /) -> Iterator[Run]: ...

    def ddl_before(self) -> Iterable[DdlStatement]: ...


class ReaderWithRuns:
    """A reader with other `runs`. The DDL before its start is the DDL before the start of `reader`."""

    def __init__(self, reader: ReadsRuns, runs: Callable[[TakesDdl], Iterator[Run]]) -> None:
        self.runs = runs
        self.ddl_before = reader.ddl_before


class RunWorker(ABC, Generic[T]):
    """Decodes or counts runs. A worker is used by one thread at a time."""

    def begin(self, ddl_before: Callable[[], Iterable[DdlStatement]]) -> None:
        """Start a chain; `ddl_before` returns the DDL that the log holds before that place."""
        return

    @abstractmethod
    def on_ddl(self, ddl: DdlStatement) -> None:
        """Process a DDL statement between two runs."""

    @abstractmethod
    def work(self, runs: Iterator[Run]) -> Iterator[T]:
        """Return all results of some runs; called again for the runs that follow.

        Raises BinlogError.
        """


#: Makes a worker that counts in a ledger; its options have a share of `batch_bytes`.
MakesWorker = Callable[[ReadOptions, Ledger], RunWorker[T]]
#: Keeps a DDL statement in a ledger.
KeepsDdl = Callable[[DdlStatement, Ledger], None]


def _share(options: ReadOptions, threads: int) -> int:
    """The part of `batch_bytes` that a thread has."""
    share = max(options.batch_bytes // threads, _LEAST_SHARE_BYTES)
    return min(share, options.batch_bytes)


def _portion_bytes(options: ReadOptions, threads: int) -> int:
    """How much of the log a thread takes: its share of a batch. Where few values are decoded, the batch that each
    portion ends with is a large part of the work, and portions may be larger.
    """
    portion = max(_share(options, threads), _LEAST_PORTION_BYTES)
    if options.where is not None or options.columns:
        portion = max(portion, _HELD_BYTES // (2 * threads))
    return min(portion, _MOST_PORTION_BYTES)


def _threads(options: ReadOptions, chains: Sequence[Chain]) -> int:
    """How many threads decode the logs: by default one per core, but no more than the logs are worth."""
    if options.threads is not None:
        return options.threads
    known = [chain.known_bytes for chain in chains]
    if not known or None in known:
        return usable_cores()
    return min(usable_cores(), 1 + sum(size or 0 for size in known) // _BYTES_OF_A_THREAD)


class Spread(Generic[T]):
    """How the runs of one read are spread over the threads of the option `threads`.

    `chains` are the logs that are read, if they are known. Readers must count in `reader_ledger`. `ledger` contains the counts up to the last result that
    was taken. `threads` is how many threads decode. `keep` is called once for each DDL statement.
    """

    def __init__(
        self,
        options: ReadOptions,
        ledger: Ledger,
        keep: KeepsDdl = lambda _ddl, _ledger: None,
        *,
        chains: Sequence[Chain] = (),
    ) -> None:
        self.threads = _threads(options, chains)
        self._ledger = ledger
        self.reader_ledger = ledger if self.threads == 1 else Ledger()
        self._keep = keep
        decoded = min(int(_DECODED_SIZE * _share(options, self.threads)), options.batch_bytes)
        self._options = replace(options, batch_bytes=decoded)
        self._portion_bytes = _portion_bytes(options, self.threads)

    def results(self, reader: ReadsRuns, worker_of: MakesWorker[T]) -> Iterator[T]:
        """Yield the results of the workers for all runs of a reader, in the order of the log.

        Raises BinlogError, after the results of everything before the error.
        """
        if self.threads == 1:
            worker = worker_of(self._options, self._ledger)
            worker.begin(reader.ddl_before)

            def on_ddl(ddl: DdlStatement) -> None:
                self._keep(ddl, self._ledger)
                worker.on_ddl(ddl)

            yield from worker.work(reader.runs(on_ddl))
            return
        ddl_before = _Once(reader.ddl_before)

        def worker_and_counts() -> Callable[[_Portion], Iterator[_Result[T]]]:
            counts = Ledger()
            worker = worker_of(self._options, counts)
            worker.begin(ddl_before)
            return partial(_work, worker, counts)

        cutter = _Cutter(reader, self.reader_ledger, self._keep, self._portion_bytes, self.threads)
        held_bytes = 2 * self.threads * self._portion_bytes
        with closing(cutter.portions()) as portions:
            for results, ledgers in in_order(portions, worker_and_counts, self.threads, held_bytes):
                for counts in ledgers:
                    self._ledger += counts
                yield from results
        self._ledger += self.reader_ledger.take()


class _Once:
    """Return the DDL before the start of a read, which is read once for all threads."""

    def __init__(self, ddl_before: Callable[[], Iterable[DdlStatement]]) -> None:
        self._ddl_before = ddl_before
        self._lock = Lock()
        self._found: list[DdlStatement] | None = None

    def __call__(self) -> Iterable[DdlStatement]:
        with self._lock:
            if self._found is None:
                self._found = list(self._ddl_before())
            return self._found


@dataclass(slots=True)
class _Portion:
    """Runs back to back and the DDL between them; `ledger`: the reader's counts for them."""

    items: deque[Run | DdlStatement]
    ddl: list[DdlStatement]
    ledger: Ledger
    bytes: int
    is_alone: bool


_Result = tuple[tuple[T, ...], list[Ledger]]


def _work(worker: RunWorker[T], counts: Ledger, portion: _Portion) -> Iterator[_Result[T]]:
    """Yield the results for a portion, each with the counts since the one before."""
    ledgers = [portion.ledger]

    def runs() -> Iterator[Run]:
        while portion.items:
            item = portion.items.popleft()
            if isinstance(item, DdlStatement):
                worker.on_ddl(item)
            else:
                yield item

    for result in worker.work(runs()):
        yield (result,), [*ledgers, counts.take()]
        ledgers = []
    yield (), [*ledgers, counts.take()]


class _Cutter:
    """Cuts the runs of a reader into portions, for workers that take turns.

    The first portions are small, so the first results come early.
    """

    def __init__(
        self, reader: ReadsRuns, ledger: Ledger, keep: KeepsDdl, portion_bytes: int, workers: int
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._keep = keep
        self._portion_bytes = portion_bytes
        # by worker: the DDL of other workers' portions since its last one
        self._missed: list[list[DdlStatement]] = [[] for _ in range(workers)]
        self._cut = 0
        self._reached = (-1, 0)
        self._start()

    def portions(self) -> Generator[_Portion]:
        """Yield the portions in the order of the log. Raises BinlogError, after all runs before
        it.
        """
        runs = self._reader.runs(self._on_ddl)
        try:
            for run in runs:
                for part in self._parts(run):
                    self._items.append(part)
                    self._bytes += self._held_bytes(part)
                    if part.needs_file or self._bytes >= self._wanted_bytes:
                        yield self._finish(is_alone=part.needs_file)
        except Exception:
            if self._items:
                yield self._finish(is_alone=False)
            raise
        if self._items:
            yield self._finish(is_alone=False)

    def _start(self) -> None:
        self._items: deque[Run | DdlStatement] = deque()
        self._ddl: list[DdlStatement] = []
        self._bytes = 0

    @property
    def _wanted_bytes(self) -> int:
        rounds = self._cut // len(self._missed)
        return min(self._portion_bytes, _LEAST_PORTION_BYTES << min(2 * rounds, 16))

    def _on_ddl(self, ddl: DdlStatement) -> None:
        self._keep(ddl, self._ledger)
        self._items.append(ddl)
        self._ddl.append(ddl)
        self._bytes += len(ddl.sql)

    def _parts(self, run: Run) -> Iterator[Run]:
        """Split a run into parts, none of which makes a portion much larger than it should be."""
        while isinstance(run, PlainRun) and run.bytes > (room := self._wanted_bytes - self._bytes):
            groups = range(run.low + 1, run.high)
            at = bisect_left(groups, run.start + room, key=run.plain.start)
            if at == len(groups):
                break
            yield run.part(run.low, groups[at])
            run = run.part(groups[at], run.high)
        yield run

    def _held_bytes(self, run: Run) -> int:
        """Return the memory that a run adds: its bytes, and the parts of its windows that no run
        before holds.
        """
        if isinstance(run, PlainRun):
            file, start, end, size = run.window.file, run.start, run.end, run.bytes
        else:
            file, start, end, size = run.file, run.start.offset, run.end.offset, run.held_bytes
        ordinal, reached = self._reached
        window_bytes = file.reader.window_bytes
        gap = start - reached if ordinal == file.ordinal else window_bytes
        self._reached = (file.ordinal, end)
        return size + min(max(gap, 0), window_bytes)

    def _finish(self, *, is_alone: bool) -> _Portion:
        turn = self._cut % len(self._missed)
        self._cut += 1
        for worker, missed in enumerate(self._missed):
            if worker != turn:
                missed += self._ddl
        self._items.extendleft(reversed(self._missed[turn]))
        self._missed[turn] = []
        portion = _Portion(self._items, self._ddl, self._ledger.take(), self._bytes, is_alone)
        self._start()
        return portion
