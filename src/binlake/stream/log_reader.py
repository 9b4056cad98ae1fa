"""Read a chain of log files, or one split of it, as transactions: the base of all readers.

    for reader in LogReader.of_chains(resolve(paths), options, ledger): …
    reader = LogReader.of_split(split, options, ledger)
    for run in reader.runs(): …

The reader opens a file when it gets there and closes it afterwards, so a chain may have more files
than a process may open.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from binlake.errors import BinlogError, FormatError, SourceError
from binlake.format.magic import FIRST_EVENT
from binlake.source.access import Access
from binlake.source.bytes import is_read_once
from binlake.source.chain import Chain, LogPath
from binlake.source.log_file import Damage, LogFile
from binlake.source.replica.url import is_server_url
from binlake.source.resync import event_inside, first_sync, opens_with_gtid, sync_inside
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.elsewhere import Elsewhere
from binlake.stream.groups.grouper import Ended
from binlake.stream.groups.relay import carried_over
from binlake.stream.groups.transactions import FileRange, TransactionReader
from binlake.stream.holes import Holes, TakesHole, cut_off, lacking, wants_gap
from binlake.stream.indexed_ranges import IndexedRanges
from binlake.stream.log_events import LogEvent, OnDamage, events_of_piece, pieces_of_window
from binlake.stream.positions.splits import Split
from binlake.stream.runs import Outcome, Piece, Run, Transaction
from binlake.stream.sql.ddl import DdlStatement, TakesDdl, ignore_ddl
from binlake.stream.table_events import TableEvents
from binlake.values.ledger import Ledger, SkippedRange
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition

if TYPE_CHECKING:
    from binlake.stream.index.key_lookup import LooksUpBlocks

T = TypeVar("T")


class LogReader:
    """Reads the transactions of a chain or a split; `first` is where it begins."""

    def __init__(
        self,
        ranges: Callable[[TransactionReader], Iterator[FileRange]],
        elsewhere: Elsewhere,
        filters: TransactionFilter,
        options: ReadOptions,
        ledger: Ledger,
        ddl_before: Callable[[], Iterator[DdlStatement]] | None = None,
        source: str = "",
        holes: Holes | None = None,
    ) -> None:
        self.first = elsewhere.first
        self._ddl_before = ddl_before
        self._reader = TransactionReader(options, ledger, filters=filters, elsewhere=elsewhere)
        self._filters = filters
        self._options = options
        self._ledger = ledger
        self._ranges = ranges
        self._source = source
        self._holes = holes

    @classmethod
    def of_chains(
        cls,
        chains: Sequence[Chain],
        options: ReadOptions,
        ledger: Ledger,
        passed_to: int = 0,
        lookup: LooksUpBlocks | None = None,
    ) -> Iterator[LogReader]:
        """Return a reader for each chain of an input, for everything that the options select.

        The caller does not need the bytes between the format description and byte `passed_to` of
        the first file; if an event starts there, a server need not send them. `lookup` says what of
        logs with a key index the caller needs. Raises OptionError.
        """
        filters_of = [TransactionFilter.of(options, chain.names) for chain in chains]
        Access.of(options).expect_keyring()
        for chain, filters in zip(chains, filters_of, strict=True):
            yield cls.of_chain(chain, filters, options, ledger, passed_to, lookup)
            passed_to = 0

    @classmethod
    def of_chain(
        cls,
        chain: Chain,
        filters: TransactionFilter,
        options: ReadOptions,
        ledger: Ledger,
        passed_to: int = 0,
        lookup: LooksUpBlocks | None = None,
    ) -> LogReader:
        """Return a reader of one chain, with filters that are already resolved; `passed_to` and `lookup` as in
        `of_chains`.
        """
        opener = _Opener(lambda: dict(enumerate(chain.files)), options)
        first = filters.first_file(len(chain.files))
        opened: dict[int, LogFile] = {}
        indexed = IndexedRanges(filters, options, ledger, lookup)
        holes = Holes(chain, filters, opener, lambda hole: ledger.warn(lacking(hole, filters)))
        if filters.start is not None and filters.start.ordinal == first.ordinal:
            sent = _sent_from(opener, chain.files[first.ordinal], filters.start, sync_inside)
            if sent is not None:
                opened[first.ordinal], offset = sent
            else:
                offset = _start_of_reading(opener, filters.start)
            first = first._replace(offset=offset)

        def ranges(reader: TransactionReader) -> Iterator[FileRange]:
            for ordinal in range(len(chain.files)):
                if filters.byte_range(ordinal) is not None or reader.expects_more:
                    start = first.offset if ordinal == first.ordinal else None
                    if ordinal > first.ordinal:
                        holes.before(ordinal)
                    if ordinal == 0 and passed_to:
                        place = ChainPosition(0, "", passed_to)
                        sent = _sent_from(opener, chain.files[0], place, event_inside)
                        if sent is not None:
                            yield FileRange(opener(0), None, FIRST_EVENT + 1)
                            yield FileRange(*sent)
                            continue
                    if not reader.expects_more:
                        passed = indexed.passed(chain.files[ordinal])
                        if passed is not None:
                            if passed:
                                ledger.transactions[Outcome.COMMITTED] += passed
                            continue
                    log = opened.pop(ordinal, None) or opener(ordinal)
                    yield from indexed.of(log, start, None, reader)
                    holes.after(ordinal, log, start or FIRST_EVENT)

        def ddl_before() -> Iterator[DdlStatement]:
            if not any(is_server_url(path) or is_read_once(path) for path in chain.paths):
                yield from ddl_of(chain, first, options, ledger)

        elsewhere = Elsewhere(opener, first)
        return cls(ranges, elsewhere, filters, options, ledger, ddl_before, chain.source, holes)

    @classmethod
    def of_split(cls, split: Split, options: ReadOptions, ledger: Ledger) -> LogReader:
        """Return a reader of the transactions that start in a split; the ledger gets the bytes
        that it covers.
        """
        opener = _Opener(split.chain_files, options)
        filters = split.filters
        sent = None
        place = filters.start
        if place is not None and place.ordinal == split.ordinal and place.offset > split.start:
            sent = _sent_from(opener, split.log, place, sync_inside)
        if sent is None:
            log = opener.open(split.log, split.ordinal, split.known_start)
            start, end = split.borders_in(log)
            covered_from = start
        else:
            log, start = sent
            covered_from, end = split.borders_in(log)
        opened = [log]
        if log.is_relay and start == FIRST_EVENT:
            start = carried_over(opener, split.ordinal)
        first = ChainPosition(split.ordinal, log.name, start)

        def ranges(reader: TransactionReader) -> Iterator[FileRange]:
            # for a second read, the file has been closed (a pipe cannot be)
            log = opened.pop() if opened else opener.open(split.log, split.ordinal)
            if split.gap and wants_gap(
                filters,
                lambda: opener(split.ordinal - 1),
                lambda: opener.open(split.log, split.ordinal),
            ):
                ledger.warn(lacking(split.gap, filters))
            yield from IndexedRanges(filters, options, ledger).of(log, start, end, reader)
            _cover(log, covered_from, end, reader, ledger)
            if end is not None and log.size is not None and end < log.size:
                reader.prove_border(split.log, split.ordinal, end)
            following = split.following
            if end is None and following is not None:
                hole = cut_off(
                    log,
                    following,
                    lambda: opener.open_now(following, split.ordinal + 1),
                    lambda: split.is_closed(log, covered_from),
                    filters,
                )
                if hole:
                    split.take_hole(hole, ledger)
            if reader.inside_relay:
                yield from _rest_of_transaction(reader, opener, split.ordinal + 1)

        elsewhere = split.elsewhere(opener, first)
        return cls(ranges, elsewhere, filters, options, ledger, source=split.log.source)

    def pass_holes_to(self, take: TakesHole) -> None:
        """Let `take` receive the holes of a chain (`stream.holes`), which are warnings of the ledger otherwise."""
        if self._holes is not None:
            self._holes.take = take

    def runs(
        self,
        on_ddl: TakesDdl = ignore_ddl,
        shown_kinds: Container[str] = (),
        *,
        all_ddl: bool = True,
    ) -> Iterator[Run]:
        """Yield plain runs and single transactions, in commit order; the arguments are as in
        TransactionReader.runs.

        Raises BinlogError.
        """
        ranges = self._ranges(self._reader)
        return self._located(self._reader.runs(ranges, on_ddl, shown_kinds, all_ddl=all_ddl))

    def ddl_before(self) -> Iterator[DdlStatement]:
        """Return the DDL that the chain holds before the start of the read (option start or at),
        in commit order; none for a server's logs, pipes or a split. Raises BinlogError.

        The reader reads everything before the start for it, without decoding rows.
        """
        if self._ddl_before is not None:
            yield from self._ddl_before()

    def transactions(self, on_ddl: TakesDdl = ignore_ddl) -> Iterator[Transaction]:
        """Yield every transaction on its own, in commit order. Raises BinlogError."""
        return self._located(self._reader.transactions(self._ranges(self._reader), on_ddl))

    def groups(self) -> Iterator[Ended]:
        """Yield every wanted transaction group in the order of the log, whatever its outcome.

        Raises BinlogError.
        """
        return self._located(self._reader.groups(self._ranges(self._reader)))

    def events(self) -> Iterator[LogEvent]:
        """Yield every event; those inside payloads follow their payload event.

        With filters, these are the events of the wanted transactions; with filters by table or
        operation, those that `TableEvents` selects. Without filters, the event reports a wrong
        checksum; with filters it is an error, since the selection may depend on it. Damage of the
        framing is always a FormatError. With on_error=skip, an event that cannot be decoded is a
        RawEvent, and the ledger records it. Raises BinlogError.
        """
        if self._options.on_error == Damage.STOP:
            yield from self._events(None)
            return
        for event in self._events(self._note_damage):
            try:
                _ = event.event
            except FormatError as error:
                self._note_damage(event, error)
                event.as_raw()
            yield event

    def _note_damage(self, event: LogEvent, error: FormatError) -> None:
        lost = SkippedRange(event.window.file.shown, event.pos, event.end_pos, error.message)
        if lost not in self._ledger.skipped:  # of a payload: the payload event and its content
            self._ledger.skipped.append(lost)

    def _located(self, items: Iterator[T]) -> Iterator[T]:
        """Yield the items; if the logs have several sources, an error names the source of its file."""
        return items if not self._source else self._naming_source(items)

    def _naming_source(self, items: Iterator[T]) -> Iterator[T]:
        try:
            yield from items
        except BinlogError as error:
            if error.file is not None:
                error.context["file"] = f"{self._source}/{error.file}"
            raise

    def _events(self, on_damage: OnDamage | None) -> Iterator[LogEvent]:
        if self._options.chooses_rows:
            chosen = TableEvents(self._options)
            for ended in self.groups():
                yield from chosen.of(ended)
            return
        for piece in self.pieces(on_damage):
            yield from events_of_piece(piece)

    def pieces(self, on_damage: OnDamage | None = None) -> Iterator[Piece]:
        """Yield the frames of every event, or of the wanted transactions; the content of a payload
        follows its payload event. Filters by table and operation do not apply.

        Without filters, checksums are not checked. Raises BinlogError; `on_damage` handles the
        error of a payload that cannot be inflated.
        """
        if self._filters.everything:
            for window in self._located(self._reader.windows(self._ranges(self._reader))):
                yield from pieces_of_window(window, 0, len(window), on_damage)
            return
        for ended in self.groups():
            yield from ended.group.frames.events()


class _Opener:
    """Opens files of a chain by ordinal; it lists the chain only on demand."""

    def __init__(self, files: Callable[[], Mapping[int, LogPath]], options: ReadOptions) -> None:
        self._resolve = files
        self._access = Access.of(options)
        self._files: Mapping[int, LogPath] | None = None

    @property
    def files(self) -> Mapping[int, LogPath]:
        if self._files is None:
            self._files = self._resolve()
        return self._files

    def __call__(self, ordinal: int) -> LogFile:
        return self.open(self.files[ordinal], ordinal)

    def open(self, path: LogPath, ordinal: int, start: int = 0) -> LogFile:
        """Open a file whose place in the chain is known; `start` as in LogFile.open."""
        before = partial(self, ordinal - 1) if ordinal > 0 else None
        return self._access.open(path, ordinal, start, before)

    def open_now(self, path: LogPath, ordinal: int) -> LogFile:
        """Open a file as `open` does; it may have been compressed since its chain was listed."""
        try:
            return self.open(path, ordinal)
        except SourceError:
            now = self.files.get(ordinal)
            if now is None or now.path == path.path or now.number != path.number:
                raise
            return self.open(now, ordinal)

    @property
    def ordinals(self) -> Sequence[int]:
        return tuple(self.files)


def ddl_of(
    chain: Chain, position: ChainPosition | None, options: ReadOptions, ledger: Ledger
) -> Iterator[DdlStatement]:
    """Return the DDL of the transactions of a chain that start before `place` (None: of all); the ledger
    records what damage cost. Raises BinlogError.
    """
    # with an index, only the transactions that are not plain
    plain = options.opening(exclude_table=("*.*",), on_error=str(Damage.SKIP))
    stop = None if position is None else position._replace(offset=max(position.offset, FIRST_EVENT))
    filters = TransactionFilter(stop=stop)
    read = Ledger()
    found: list[DdlStatement] = []
    reader = LogReader.of_chain(chain, filters, plain, read)
    for _ in reader.runs(found.append):
        yield from found
        found.clear()
    yield from found
    for lost in read.skipped:
        ledger.warn(
            f"{lost.file}: cannot read bytes {lost.start} to {lost.end}, before the start:"
            " binlake does not know the DDL in them"
        )


def _start_of_reading(opener: _Opener, start: ChainPosition) -> int:
    """Return an offset from which a read misses no transaction that starts at or after `start`.

    That is `start` itself, or the nearest place that can be found without reading the bytes before
    it. If there is none (old servers, relay logs, streams), it is the beginning of the file.
    """
    if is_read_once(opener.files[start.ordinal].path):
        return FIRST_EVENT
    with opener(start.ordinal) as log:
        if log.format is None or not log.is_splittable:
            return FIRST_EVENT
        return first_sync(log, start.offset) if opens_with_gtid(log.format) else FIRST_EVENT


def _sent_from(
    opener: _Opener, path: LogPath, start: ChainPosition, find: Callable[[LogFile], int | None]
) -> tuple[LogFile, int] | None:
    """Open a server's log so that the server sends it from `start` on; return it and the place
    that `find` finds.

    Returns None for other files, and if the bytes before `start` have to be read.
    """
    if start.offset <= FIRST_EVENT or not is_server_url(path.path):
        return None
    log = opener.open(path, start.ordinal, start.offset)
    found = None
    try:
        found = find(log)
    finally:
        if found is None:
            log.close()
    return None if found is None else (log, found)


def _cover(
    log: LogFile, start: int, end: int | None, reader: TransactionReader, ledger: Ledger
) -> None:
    """Record which part of the file the split was to read, and which part it has read.

    A split ends where its last event really ended. Should two tasks ever disagree on the border
    between them, the ranges do not join, and the driver sees that.
    """
    size = log.size if log.size is not None else reader.reached
    ledger.plan(log.path, FIRST_EVENT, max(size, FIRST_EVENT))
    stop = size if end is None else max(end, reader.reached)
    if stop > start:
        ledger.cover(log.path, start, stop)


def _rest_of_transaction(
    reader: TransactionReader, opener: _Opener, ordinal: int
) -> Iterator[FileRange]:
    """Yield the beginnings of the next relay logs, as far as an open transaction reaches."""
    while reader.inside_relay and ordinal in opener.ordinals:
        stop = carried_over(opener, ordinal)
        yield FileRange(opener(ordinal), None, stop)
        ordinal += 1
