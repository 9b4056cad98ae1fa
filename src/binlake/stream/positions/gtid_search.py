"""Find a GTID in a chain of logs, and the GTIDs that a chain has, by reading few bytes.

Every file begins with the GTIDs executed before it (PREVIOUS_GTIDS, GTID_LIST). So a GTID is in
the last file whose beginning does not include it. Bisection finds that file, and only it is read.
The GTIDs of a whole chain are those at the beginning of its last file and those in it. Files
without this information (servers before GTIDs, MariaDB's relay logs) are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from binlake.core.events.gtid import GtidFields
from binlake.errors import OptionError
from binlake.events.body.reader import BodyReader
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, GTID_EVENT
from binlake.format.magic import FIRST_EVENT
from binlake.source.access import DEFAULT_ACCESS, Access
from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain, LogPath
from binlake.source.log_file import LogFile
from binlake.stream.event_at import event_at
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.groups.step_table import STEP_OF_TYPE
from binlake.stream.index.index_file import from_index
from binlake.stream.runs import Outcome, PlainRun
from binlake.values.gtid import Gtid, GtidSet, MariaGtid, MariaGtidIntervals, MariaGtidSet
from binlake.values.gtid_filter import GtidFilter, parse_gtid_filter
from binlake.values.step import Step

AnyGtid = Gtid | MariaGtid
AnyGtidSet = GtidSet | MariaGtidIntervals

#: How many bytes of a file are searched for this event, which is its second or third.
HEAD_BYTES = 64 << 10

_BEFORE_BODY = frozenset((Step.CONTROL, Step.NEUTRAL, Step.UNKNOWN, Step.UNDECIDED))


class Absence(StrEnum):
    """Why a GTID is not in a chain."""

    BEFORE = "before"  # executed before the first file begins: purged, or restored from a backup
    LATER = "later"  # not executed when the last file ends
    SKIPPED = "skipped"  # counted as executed between two files, but the file does not contain it


@dataclass(frozen=True, slots=True)
class LocatedTransaction:
    """The position of a transaction: bytes [pos, end_pos) of the file `name` at `path`.

    `commit_us`: commit time, microseconds since 1970 UTC. `complete` is false if the file ends, or
    another transaction starts, before its end.
    """

    gtid: str
    path: str
    name: str
    pos: int
    end_pos: int
    commit_us: int
    server_id: int
    complete: bool


@dataclass(frozen=True, slots=True)
class NotFound:
    """The reason why a GTID is not there, and `message`, the same as a sentence."""

    why: Absence
    message: str


def locate(
    chain: Chain, gtid: AnyGtid, access: Access = DEFAULT_ACCESS
) -> LocatedTransaction | NotFound:
    """Return the position of the transaction `gtid`. `access` opens the logs. Raises BinlogError;
    OptionError for a GTID of the other flavour.
    """
    count = len(chain.files)
    if (pipe := pipe_in(chain.paths)) is not None:  # its head cannot be read separately
        places = (_look_into(chain, ordinal, gtid, access) for ordinal in range(count))
        found = next((place for place in places if place is not None), None)
        return found or NotFound(
            Absence.LATER, f"{gtid} is not in {pipe if count == 1 else 'the logs'}"
        )
    heads = _Heads(chain, gtid, access)
    likely = heads.last_without() if count > 1 else 0
    found = _look_into(chain, likely, gtid, access)
    if found is not None:
        return found
    for ordinal in range(count):
        if ordinal != likely and heads.may_hold(ordinal):
            found = _look_into(chain, ordinal, gtid, access)
            if found is not None:
                return found
    return heads.absence()


def executed(chain: Chain, access: Access = DEFAULT_ACCESS) -> AnyGtidSet:
    """Return all GTIDs that the server had executed at the end of the chain: the values of
    `@@gtid_executed` and `@@gtid_binlog_state` there. Raises BinlogError.

    If no file records the GTIDs before it, these are the GTIDs in the files.
    """
    return _accumulated(chain, access, stop_at=(GtidSet, MariaGtidIntervals))


def accounted(chain: Chain, access: Access = DEFAULT_ACCESS) -> AnyGtidSet:
    """Return all GTIDs that the server had executed at the end of the chain, without the gaps that lists hide.

    Raises BinlogError.

    MariaDB's lists contain the last number of each server, not gaps below it. So binlake reads all
    of its files, and takes only the GTIDs before the first file from a list.
    """
    return _accumulated(chain, access, stop_at=(GtidSet,))


def _accumulated(chain: Chain, access: Access, stop_at: tuple[type, ...]) -> AnyGtidSet:
    """Return the GTIDs in the files, from the last one back to one whose beginning is of a type in
    `stop_at` (or the first), and the GTIDs before that file.
    """
    result: AnyGtidSet | None = None
    before: AnyGtidSet | None = None
    for path in reversed(chain.files):
        with access.open(path) as log:
            before = None if path.path == "-" else _previous(log)
            result = _union(result, _held_by(log))
        if isinstance(before, stop_at):
            break
    result = _union(result, before)
    return GtidSet() if result is None else result


def holds_any(chain: Chain, wanted: GtidFilter, access: Access = DEFAULT_ACCESS) -> bool:
    """Whether a chain holds a transaction of a set. Raises BinlogError.

    A file is read only if its beginning and that of the next do not decide.
    """
    before = [_previous_of(file, access) for file in chain.files]
    for ordinal, file in enumerate(chain.files):
        after = before[ordinal + 1] if ordinal + 1 < len(before) else None
        holds = _decided_by_heads(wanted, before[ordinal], after)
        if holds is None:
            with access.open(file, ordinal) as log:
                holds = _common(wanted, _held_by(log))
        if holds:
            return True
    return False


def _decided_by_heads(
    wanted: GtidFilter, before: AnyGtidSet | None, after: AnyGtidSet | None
) -> bool | None:
    """Whether a file holds a wanted GTID, by its beginning and that of the next; None: unknown."""
    if before is None:
        return None
    if isinstance(before, GtidSet):
        left = wanted.mysql - before
        if isinstance(after, GtidSet):
            return bool(left & after)
        return None if left else False
    # servers share the numbers of a domain, so only a read can tell them apart
    rest = wanted.mariadb - before
    if isinstance(after, MariaGtidIntervals):
        rest = rest & after
    return None if rest else False


def _common(wanted: GtidFilter, held: AnyGtidSet | None) -> bool:
    if isinstance(held, GtidSet):
        return bool(wanted.mysql & held)
    return held is not None and bool(wanted.mariadb & held)


def _previous_of(file: LogPath, access: Access) -> AnyGtidSet | None:
    with access.open(file) as log:
        return _previous(log)


def _union(left: AnyGtidSet | None, right: AnyGtidSet | None) -> AnyGtidSet | None:
    if not left or not right:
        return left or right
    if isinstance(left, GtidSet) and isinstance(right, GtidSet):
        return left | right
    if isinstance(left, MariaGtidIntervals) and isinstance(right, MariaGtidIntervals):
        return left | right
    raise OptionError("the logs contain GTIDs of both MySQL and MariaDB")


def head_gtids(log: LogFile) -> GtidSet | MariaGtidSet | None:
    """Return the GTIDs executed before a file, by its beginning; None if the file does not record
    them.

    MariaDB's relay logs do not: a list in them is the source's, from when the replica connected.
    Raises BinlogError.
    """
    event = head_event(log)
    if isinstance(event, GtidListEvent):
        return None if log.is_relay else event.gtid_set
    return None if event is None else event.gtids


def head_event(log: LogFile) -> PreviousGtidsEvent | GtidListEvent | None:
    """Return the event that records the GTIDs executed before a file, or None.

    Reads the beginning of the file only. Raises BinlogError.
    """
    if log.format is None:
        return None
    for window in log.windows(None, FIRST_EVENT + HEAD_BYTES):
        for index in range(len(window)):
            event = event_at(window, index) if _is_head(window.block.type_code[index]) else None
            if event is None or isinstance(event, PreviousGtidsEvent | GtidListEvent):
                return event
    return None


def is_barely_begun(log: LogFile) -> bool:
    """Return whether a file has no event but its format description, or not even that, as after a crash of a server that
    began the file. Reads the beginning of the file only. Raises BinlogError.
    """
    if log.format is None:
        return True
    return all(
        code == FORMAT_DESCRIPTION_EVENT
        for window in log.windows(None, FIRST_EVENT + HEAD_BYTES)
        for code in window.block.type_code[: len(window)]
    )


def _previous(log: LogFile) -> AnyGtidSet | None:
    """Return the same as a set of all numbers: MariaDB records the last number only, so all up to
    it.
    """
    before = head_gtids(log)
    return MariaGtidIntervals.up_to(before) if isinstance(before, MariaGtidSet) else before


def state_at(log: LogFile, offset: int) -> MariaGtidSet:
    """MariaDB: return how far each server had come at byte `offset` of a file. Raises BinlogError."""
    event = head_event(log)
    state = event.gtid_set if isinstance(event, GtidListEvent) else MariaGtidSet()
    fields = GtidFields()
    for window in log.windows(None, offset):
        codes = bytes(window.block.type_code[: len(window)])
        at = codes.find(GTID_EVENT)
        while at >= 0:
            fields.parse_mariadb(BodyReader(window.body(at)).at("gtid"))
            state.add(MariaGtid(fields.domain_id, window.block.server_id[at], fields.seq_no))
            at = codes.find(GTID_EVENT, at + 1)
    return state


def _is_head(type_code: int) -> bool:
    return STEP_OF_TYPE[type_code] in _BEFORE_BODY


class _Heads:
    """Looks one GTID up in the beginnings of the files of a chain; reads each at most once."""

    def __init__(self, chain: Chain, gtid: AnyGtid, access: Access) -> None:
        self._files = chain.files
        self._access = access
        self._gtid = gtid
        self._known: dict[int, bool | None] = {}

    def executed_before(self, ordinal: int) -> bool | None:
        """Whether the GTID was executed before a file began; None if the file does not record it."""
        if ordinal not in self._known:
            with self._access.open(self._files[ordinal]) as log:
                self._known[ordinal] = _has(_previous(log), self._gtid, log.name)
        return self._known[ordinal]

    def last_without(self) -> int:
        """Return the last file before which the GTID was not executed (the first, if there is
        none).
        """
        low, high = 0, len(self._files) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.executed_before(middle):
                high = middle - 1
            else:
                low = middle
        return low

    def may_hold(self, ordinal: int) -> bool:
        """Whether a file may hold the GTID."""
        if self.executed_before(ordinal):
            return False
        return ordinal + 1 == len(self._files) or self.executed_before(ordinal + 1) is not False

    def absence(self) -> NotFound:
        """Return the reason why none of the files holds it."""
        first, last = self._files[0].name, self._files[-1].name
        if self.executed_before(0):
            return NotFound(
                Absence.BEFORE, f"{self._gtid} was executed before {first} begins: it is in a log"
                " that has been purged, or came with a backup",
            )  # fmt: skip
        for ordinal, file in enumerate(self._files):
            if self.executed_before(ordinal):
                return NotFound(
                    Absence.SKIPPED, f"{self._gtid} counts as executed before {file.name} begins,"
                    " but the files before it do not contain it",
                )  # fmt: skip
        return NotFound(Absence.LATER, f"{self._gtid} is not in {first}" + (
            f" to {last}" if first != last else "") + ": not executed yet, or on another server")  # fmt: skip


def _has(gtids: AnyGtidSet | None, gtid: AnyGtid, name: str) -> bool | None:
    if gtids is None:
        return None
    if isinstance(gtids, GtidSet) and isinstance(gtid, Gtid):
        return gtid in gtids
    if isinstance(gtids, MariaGtidIntervals) and isinstance(gtid, MariaGtid):
        return gtid in gtids
    of_log, of_gtid = ("MySQL", "MariaDB") if isinstance(gtids, GtidSet) else ("MariaDB", "MySQL")
    raise OptionError(f"{gtid} is a GTID of {of_gtid}, but {name} is a log of {of_log}")


# -- contents of a file -----------------------------------------------------------------------------


def _look_into(
    chain: Chain, ordinal: int, gtid: AnyGtid, access: Access
) -> LocatedTransaction | None:
    """Return the transaction in one file, or None."""
    path = chain.files[ordinal]
    with access.open(path, ordinal) as log:
        row = from_index(log, lambda index: index.find(str(gtid)))
        if isinstance(row, dict):
            return LocatedTransaction(str(gtid), path.path, path.name, row["pos"], row["end_pos"],
                         row["commit_us"], row["server_id"], True)  # fmt: skip
        wanted = TransactionFilter(gtids=parse_gtid_filter(str(gtid)))
        for item in _items(log):
            if isinstance(item, Ended):
                if item.group.gtid == str(gtid):
                    return _found_group(path, item)
                continue
            for run in wanted.select(item)[0]:
                return _found_plain(path, run, str(gtid))
    return None


def _found_plain(path: LogPath, run: PlainRun, gtid: str) -> LocatedTransaction:
    server_id = run.window.frame(run.first).server_id
    commit_us = run.plain.commit_us[run.low]
    return LocatedTransaction(
        gtid, path.path, path.name, run.start, run.end, commit_us, server_id, True
    )


def _found_group(path: LogPath, ended: Ended) -> LocatedTransaction:
    group = ended.group
    return LocatedTransaction(
        gtid=str(group.gtid),
        path=path.path,
        name=path.name,
        pos=group.start.offset,
        end_pos=group.end.offset,
        commit_us=group.commit_us,
        server_id=group.server_id,
        complete=ended.outcome is not Outcome.TORN,
    )


def _items(log: LogFile) -> Iterator[PlainRun | Ended]:
    """Yield all transactions of a file."""
    grouper = Grouper()
    for window in log.windows():
        yield from grouper.window(window)
    yield from grouper.finish()


def _held_by(log: LogFile) -> AnyGtidSet | None:
    """Return the GTIDs of the whole transactions in a file; None if it has none."""
    mysql, mariadb = GtidSet(), MariaGtidIntervals()
    for item in _items(log):
        if isinstance(item, PlainRun):
            for sid, first, last in item.plain.mysql_intervals(item.low, item.high):
                mysql.add_interval(sid, "", first, last + 1)
            for of_mariadb in item.plain.mariadb_intervals(item.low, item.high):
                domain, server, first, last = of_mariadb
                mariadb.add_interval(domain, server, first, last + 1)
        elif item.outcome is not Outcome.TORN:
            event = item.group.gtid_event
            if isinstance(event, MariadbGtidEvent):
                seq_no = event.seq_no
                mariadb.add_interval(event.domain_id, event.frame.server_id, seq_no, seq_no + 1)
            elif event is not None and event.gtid is not None:
                mysql.add(event.sid, event.gno, event.tag)
    if mysql and mariadb:
        raise OptionError(f"{log.name} contains GTIDs of both MySQL and MariaDB")
    return mysql or mariadb or None
