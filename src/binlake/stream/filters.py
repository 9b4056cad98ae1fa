"""Decide which transactions a read wants, from headers and GTID events, before any row is decoded.

These filters choose whole transactions, so binlake never decodes the bytes of the others. Filters
by table, operation and column act later, where rows are decoded. In a plain run the filters are
applied natively (`core.plain_groups`), and the remaining transactions are passed on as runs.

The options are those of `values.options`. Commit time, GTID, server and thread of an XA
transaction are those of its XA COMMIT. Its position is both that of its rows and that of its XA
COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlake.errors import OptionError
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.format.magic import FIRST_EVENT
from binlake.stream.runs import PlainRun
from binlake.values.builds import PickledByName
from binlake.values.gtid_filter import GtidFilter, parse_gtid_filter
from binlake.values.option_texts import parse_at
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition, FilePosition

if TYPE_CHECKING:
    from binlake.stream.groups.group import Group

_EARLIEST_US = -(1 << 62)
#: Later than every time, and behind every place in a log.
LATEST_US = 1 << 62

# Which file of the input a bare position (POS without FILE) means, by the rule of mysqlbinlog.
_BARE_FILE = {"start": 0, "stop": -1}


def _position(position: FilePosition, names: Sequence[str], option: str) -> ChainPosition:
    """Resolve FILE:POS in the chain `names`. A bare position is in the first file, or for `stop`
    in the last.

    Raises OptionError for a file that is not in the chain, and for a bare `at` in a chain of
    several files.
    """
    if not position.file:
        if option not in _BARE_FILE and len(names) > 1:
            raise OptionError(
                f"option {option}: the input has {len(names)} files, and position"
                f" {position.offset} may "
                "lie in any of them",
                name=option,
                value=str(position),
                hint=f"use FILE:POS, for example {names[-1]}:{position.offset}",
            )
        ordinal = range(len(names))[_BARE_FILE.get(option, 0)]
        return ChainPosition(ordinal, names[ordinal], position.offset)
    if position.file in names:
        return ChainPosition(names.index(position.file), position.file, position.offset)
    raise OptionError(
        f"option {option}: the input has no file {position.file}",
        name=option,
        value=str(position),
        hint=f"they are {names[0]} to {names[-1]}" if len(names) > 1 else f"it is {''.join(names)}",
    )


def _gtid_filter(text: str | None, option: str) -> GtidFilter | None:
    if text is None:
        return None
    try:
        return parse_gtid_filter(text)
    except ValueError as error:
        raise OptionError(f"option {option}: {error}", name=option, value=text) from None


@dataclass(frozen=True, slots=True)
class TransactionFilter(PickledByName):
    """The transaction-level part of `ReadOptions`, resolved against a chain of files.

    `start`, `stop` and `at` are places in the chain (`stop` excluded). `everything` is true if
    there is no filter.
    """

    since_us: int | None = None
    until_us: int | None = None
    start: ChainPosition | None = None
    stop: ChainPosition | None = None
    at: ChainPosition | None = None
    gtids: GtidFilter | None = None
    at_gtid: GtidFilter | None = None
    excluded_gtids: GtidFilter | None = None
    server_ids: frozenset[int] = frozenset()
    thread_ids: frozenset[int] = frozenset()

    @classmethod
    def of(cls, options: ReadOptions, names: Sequence[str]) -> TransactionFilter:
        """Return the filter of a chain; `names` are the base names of its files, in order.

        A position lies in one chain, so an input has several chains only without positions
        (stream/positions/chosen_chains.py). Raises OptionError.
        """
        place = None if options.at is None else parse_at(options.at)
        at = _position(place, names, "at") if isinstance(place, FilePosition) else None
        start = _position(options.start, names, "start") if options.start else None
        stop = _position(options.stop, names, "stop") if options.stop else None
        if start is not None and stop is not None and start[::2] >= stop[::2]:
            raise OptionError(
                f"option stop: {stop} is not after option start ({start})", name="stop"
            )
        return cls(
            since_us=options.since,
            until_us=options.until,
            start=start,
            stop=stop,
            at=at,
            gtids=_gtid_filter(options.gtid, "gtid"),
            at_gtid=_gtid_filter(options.at, "at") if at is None else None,
            excluded_gtids=_gtid_filter(options.exclude_gtid, "exclude_gtid"),
            server_ids=frozenset(options.server_id),
            thread_ids=frozenset(options.thread),
        )

    @property
    def everything(self) -> bool:
        """Whether the filter keeps every transaction."""
        return self == TransactionFilter()

    @property
    def chooses_gtids(self) -> bool:
        """Whether the filter wants transactions with certain GTIDs only."""
        return self.gtids is not None or self.at_gtid is not None

    @property
    def only_times(self) -> bool:
        """Whether the filter keeps every transaction of the times since `since_us` and until `until_us`."""
        return replace(self, since_us=None, until_us=None).everything

    def first_file(self, files: int) -> ChainPosition:
        """Return the beginning of the first of `files` files in which a wanted transaction can
        start.
        """
        wanted = (n for n in range(files) if self.byte_range(n) is not None)
        return ChainPosition(next(wanted, 0), "", FIRST_EVENT)

    def byte_range(self, ordinal: int) -> tuple[int, int | None] | None:
        """Return the range of file `ordinal` in which wanted transactions can start.

        The range is (first byte, end), where end None is the end of the file. Returns None if no
        wanted transaction can start in the file, so that it need not be opened.
        """
        first, end = FIRST_EVENT, None
        if self.start is not None:
            if ordinal < self.start.ordinal:
                return None
            if ordinal == self.start.ordinal:
                first = max(first, self.start.offset)
        if self.stop is not None:
            if ordinal > self.stop.ordinal:
                return None
            if ordinal == self.stop.ordinal:
                end = self.stop.offset
        if self.at is not None:
            if ordinal != self.at.ordinal:
                return None
            end = min(end, self.at.offset + 1) if end is not None else self.at.offset + 1
        return (first, end) if end is None or first < end else None

    # -- plain runs -----------------------------------------------------------------------------

    def select(self, run: PlainRun) -> tuple[list[PlainRun], int]:
        """Return the wanted parts of a run, and the number of transactions left out because the
        log does not record their thread.
        """
        mask, unknown_threads = run.mask, 0
        ordinal = run.window.file.ordinal
        low, high = self._offsets(ordinal)
        if low is not None or high is not None:
            mask.keep_offsets(low or 0, LATEST_US if high is None else high)
        if self.at is not None and ordinal == self.at.ordinal:
            mask.keep_around(self.at.offset)
        if self.since_us is not None or self.until_us is not None:
            mask.keep_times(*self._times())
        if self.server_ids:
            mask.keep_servers(self.server_ids)
        for wanted in (self.gtids, self.at_gtid):
            if wanted is not None:
                mask.keep_gtids(_mysql(wanted), wanted.contains_mariadb)
        if self.excluded_gtids is not None:
            mask.drop_gtids(_mysql(self.excluded_gtids), self.excluded_gtids.contains_mariadb)
        if self.thread_ids:
            unknown_threads = mask.keep_threads(self.thread_ids)
        return [run.part(low, high) for low, high in mask.stretches()], unknown_threads

    def _offsets(self, ordinal: int) -> tuple[int | None, int | None]:
        low = high = None
        if self.start is not None and ordinal <= self.start.ordinal:
            low = self.start.offset if ordinal == self.start.ordinal else LATEST_US
        if self.stop is not None and ordinal >= self.stop.ordinal:
            high = self.stop.offset if ordinal == self.stop.ordinal else 0
        return low, high

    def _times(self) -> tuple[int, int]:
        since = _EARLIEST_US if self.since_us is None else self.since_us
        return since, LATEST_US if self.until_us is None else self.until_us

    # -- groups one by one ----------------------------------------------------------------------

    def wants(self, group: Group) -> bool:
        """Whether a transaction is wanted, except for the option `at`
        (stream/groups/at_position.py).
        """
        since, until = self._times()
        start = group.start
        if not since <= group.commit_us < until:
            return False
        if self.start is not None and start[::2] < self.start[::2]:
            return False
        if self.stop is not None and start[::2] >= self.stop[::2]:
            return False
        if self.server_ids and group.server_id not in self.server_ids:
            return False
        if self.thread_ids and group.thread_id not in self.thread_ids:
            return False
        return self._wants_gtid(group.gtid_event)

    def _wants_gtid(self, event: GtidEvent | MariadbGtidEvent | None) -> bool:
        if any(wanted and not _contains(wanted, event) for wanted in (self.gtids, self.at_gtid)):
            return False
        return self.excluded_gtids is None or not _contains(self.excluded_gtids, event)


def _contains(gtids: GtidFilter, event: GtidEvent | MariadbGtidEvent | None) -> bool:
    if isinstance(event, MariadbGtidEvent):
        return gtids.contains_mariadb(event.domain_id, event.frame.server_id, event.seq_no)
    if event is None or event.gtid is None:
        return False
    return gtids.contains_mysql(event.sid, event.tag, event.gno)


def _mysql(gtids: GtidFilter) -> Callable[[bytes, int], bool]:
    """`contains_mysql` for untagged GTIDs, as `GroupMask` asks it."""
    return lambda sid, gno: gtids.contains_mysql(sid, "", gno)
