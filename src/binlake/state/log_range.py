"""Which transactions of the log lie between two moments: options of a read, and proof that none is missing."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from binlake.errors import FormatError, OptionError, SourceError
from binlake.format.event_types import ROTATE_EVENT
from binlake.format.magic import FIRST_EVENT
from binlake.source.access import Access
from binlake.source.bytes import is_read_once
from binlake.source.chain import Chain
from binlake.source.replica.url import is_server_url
from binlake.state.origin import Origin
from binlake.stream.holes import refusing
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.boundary import UNLIMITED, BoundaryScan
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.stream.positions.gtid_search import LocatedTransaction, head_gtids, locate
from binlake.values.gtid import Gtid, GtidSet, MariaGtid, MariaGtidSet
from binlake.values.ledger import Ledger
from binlake.values.option_texts import parse_at, parse_time_us
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition

# The name of a log may begin with a date, too.
_DATE_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_MOST_NAMED = 4  # of the logs, in messages
#: Raises SourceError for a hole in the logs, because a state needs every change.
refuse_hole = refusing("give all logs between the two moments")


@dataclass(frozen=True, slots=True)
class StateMoment:
    """A moment as a user names it: a time (microseconds since 1970 UTC), a GTID, or a position."""

    text: str
    time_us: int | None = None
    position: FilePosition | Gtid | MariaGtid | None = None

    @classmethod
    def of(cls, value: str | datetime) -> StateMoment:
        """Return the moment of a text or a time; one without a zone is UTC. Raises OptionError."""
        if isinstance(value, str):
            return cls.parse(value)
        return cls.parse((value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat())

    @classmethod
    def parse(cls, text: str) -> StateMoment:
        """Parse the value of --as-of. Raises OptionError, also for a time in the future."""
        try:
            moment = parse_time_us(text)
        except ValueError:
            moment = None
        if moment is not None:
            if moment > time.time_ns() // 1000:
                raise OptionError(f"--as-of {text}: this time is in the future", name="as_of")
            return cls(text, time_us=moment)
        try:
            position = parse_at(text)
        except ValueError:
            position = None
        if isinstance(position, FilePosition) and (
            not position.file or _DATE_OR_TIME.fullmatch(position.file)
        ):
            position = None  # 2026-11-21T25:00 is a wrong time
        if position is None:
            raise OptionError(
                f"--as-of {text!r}: expected a time like 2026-11-21 14:00:00, a GTID, or FILE:POS",
                name="as_of",
                value=text,
            )
        return cls(text, position=position)


def range_before(
    chain: Chain, origin: Origin, base: str, moment: StateMoment, options: ReadOptions
) -> ReadOptions:
    """The options of a read of everything between an earlier moment and the place of some rows.

    Raises SourceError if the logs do not contain all of it, OptionError for a later moment.
    """
    _check_begun(chain, moment, options)
    options = _after_moment(chain, moment, options)
    assert origin.position is not None, "a live server has a position"
    options = replace(options, stop=_inside(chain, origin.position, base))
    if not _is_in_order(chain, options):
        raise OptionError(f"--as-of is after the rows of {base}", name="as_of")
    _check_without_gaps(chain, options)
    return options


def range_after(
    chain: Chain, origin: Origin, base: str, moment: StateMoment, options: ReadOptions
) -> ReadOptions:
    """The options of a read of everything between the place of some rows and a later moment.

    Raises SourceError if the logs do not contain all of it, OptionError for an earlier moment.
    """
    options = from_origin(chain, origin, base, options)
    _check_not_later(chain, moment, base, options)
    options = _up_to_moment(chain, moment, options)
    if not _is_in_order(chain, options):
        raise OptionError(f"--as-of is before {base}", name="as_of")
    _check_without_gaps(chain, options)
    return options


def _is_in_order(chain: Chain, options: ReadOptions) -> bool:
    """Whether a range does not end before it begins."""
    if options.start is None or options.stop is None:
        return True
    names = list(chain.names)
    first = (names.index(options.start.file), options.start.offset)
    return first <= (names.index(options.stop.file), options.stop.offset)


def _up_to_moment(chain: Chain, moment: StateMoment, options: ReadOptions) -> ReadOptions:
    """The options of a read of everything before a moment; a GTID's transaction is included.

    Raises SourceError if the logs do not contain it.
    """
    if moment.time_us is not None:
        return replace(options, until=moment.time_us)
    if isinstance(moment.position, FilePosition):
        return replace(options, stop=_inside(chain, moment.position, "--as-of"))
    found = _located(chain, moment.position, options)
    return replace(options, stop=FilePosition(found.name, found.pos + 1))


def _check_begun(chain: Chain, moment: StateMoment, options: ReadOptions) -> None:
    """Raise SourceError if the logs may begin after a time. A GTID or a position is in the logs itself."""
    if moment.time_us is None:
        return
    first = None
    for reader in LogReader.of_chains([chain], options.opening(), Ledger()):
        first = next(reader.transactions(), None)
    if first is not None and first.commit_us < moment.time_us:
        return
    with Access.of(options).open(chain.files[0], 0) as log:
        before = head_gtids(log)
    if before is None or bool(before):
        raise SourceError(
            f"the logs begin with {chain.names[0]}, and their first transaction is not older than"
            f" {moment.text}",
            hint="give older logs, too",
        )


def _after_moment(chain: Chain, moment: StateMoment, options: ReadOptions) -> ReadOptions:
    """The options of a read of everything after a moment. Raises SourceError."""
    if moment.time_us is not None:
        return replace(options, since=moment.time_us)
    if isinstance(moment.position, FilePosition):
        return replace(options, start=_inside(chain, moment.position, "--as-of"))
    found = _located(chain, moment.position, options)
    return replace(options, start=FilePosition(found.name, found.end_pos))


def from_origin(chain: Chain, origin: Origin, base: str, options: ReadOptions) -> ReadOptions:
    """The options of a read of everything after the place of some rows.

    Raises SourceError if the logs do not begin before it.
    """
    place = origin.position
    if place is not None and (origin.mysql is None or _is_at(chain, place, origin.mysql, options)):
        return replace(options, start=_inside(chain, place, base))
    if origin.mysql is not None:
        if origin.may_be_later:
            raise SourceError(
                f"the GTIDs of {base} may contain transactions that its rows do not: mysqldump"
                f" {'.'.join(map(str, origin.mysqldump))} reads them without a lock, unless it runs with --lock-all-tables",
                hint="if the dump was made with --lock-all-tables, or no client wrote during it, give its GTIDs with"
                " --from-gtid; otherwise make the dump with --source-data=2 (or --master-data=2)",
            )
        return _from_gtids(chain, origin.mysql, base, options)
    assert origin.mariadb is not None, "an origin has a place"
    return replace(options, start=_after_gtids(chain, origin.mariadb, base, options))


def _is_at(chain: Chain, position: FilePosition, executed: GtidSet, options: ReadOptions) -> bool:
    """Whether exactly these transactions, and perhaps ones without a GTID, lie before a position of the logs. Then
    the logs are those of the server that the position is of, or that makes no difference. Raises BinlogError.
    """
    if position.file not in chain.names:
        return False
    ordinal = chain.names.index(position.file)
    scan = BoundaryScan(UNLIMITED, GtidProgress())
    try:
        with Access.of(options).open(chain.files[ordinal], ordinal) as log:
            scan.through(log, FIRST_EVENT, position.offset)
    except FormatError:  # the read may begin behind the damage
        return False
    return scan.offset == position.offset and scan.gtids.text == GtidProgress(str(executed)).text


def _after_gtids(
    chain: Chain, position: MariaGtidSet, base: str, options: ReadOptions
) -> FilePosition:
    """Return the place after the last of MariaDB's GTIDs. A domain without transactions since the beginning of the
    logs needs no place in them. Raises SourceError.
    """
    if not len(position):
        raise OptionError(f"{base} has an empty GTID position", name="from_gtid")
    with Access.of(options).open(chain.files[0], 0) as log:
        before = head_gtids(log)
    quiet = set(before.position().values()) if isinstance(before, MariaGtidSet) else set()
    places = [_located(chain, gtid, options) for gtid in position if gtid not in quiet]
    if not places:
        return FilePosition(chain.names[0], FIRST_EVENT)
    last = max(places, key=lambda one: (chain.names.index(one.name), one.pos))
    return FilePosition(last.name, last.end_pos)


def _check_not_later(chain: Chain, moment: StateMoment, base: str, options: ReadOptions) -> None:
    """Raise SourceError if rows from `options.start` on contain transactions of after a moment."""
    assert options.start is not None, "the read starts at the place of the rows"
    names = list(chain.names)
    began = names.index(options.start.file)
    later = _after_moment(chain, moment, options.opening())
    if later.start is None:
        # the transactions before the rows, of which the last one is enough
        later = replace(later, start=FilePosition(names[max(0, began - 1)], FIRST_EVENT))
    if options.exclude_gtid is not None:
        later = replace(later, gtid=options.exclude_gtid)
    else:
        assert later.start is not None
        if (names.index(later.start.file), later.start.offset) >= (began, options.start.offset):
            return
        later = replace(later, stop=options.start)
    if _has_transactions(chain, later):
        raise SourceError(
            f"{base} was taken after {moment.text}",
            hint="use a dump or a Parquet file made before this moment, or go back from the live server",
        )


def remark_on_end(chain: Chain, moment: StateMoment, options: ReadOptions) -> str:
    """Return a remark if the logs may end before a time, or "". Raises SourceError if they do."""
    last = chain.files[-1]
    if moment.time_us is None or is_server_url(last.path):
        return ""
    begin = FilePosition(last.name, FIRST_EVENT)
    read = options.opening(since=moment.time_us, start=begin)
    if is_read_once(last.path) or _has_transactions(chain, read):
        return ""
    with Access.of(options).open(last, len(chain.files) - 1) as log:
        code = None
        for window in log.windows(verify=False):
            code = window.block.type_code[len(window) - 1] if len(window) else code
    if code == ROTATE_EVENT:
        raise SourceError(
            f"the logs end with {last.name} before {moment.text}, and another log follows it",
            hint="give all logs up to this moment",
        )
    return f"the logs contain no transaction at or after {moment.text}: this is the state at the end of the logs"


def _has_transactions(chain: Chain, options: ReadOptions) -> bool:
    for reader in LogReader.of_chains([chain], options, Ledger()):
        if any(True for _ in reader.transactions()):
            return True
    return False


def _check_without_gaps(chain: Chain, options: ReadOptions) -> None:
    """Raise SourceError if a log between those that a read starts and ends with is missing. The read itself finds
    logs that are cut off, and those that are missing within times (`refuse_hole`).
    """
    if options.since is not None or options.until is not None:
        return
    names = list(chain.names)
    first = names.index(options.start.file) if options.start is not None else 0
    last = names.index(options.stop.file) if options.stop is not None else len(names) - 1
    for ordinal in range(first + 1, last + 1):
        if gap := chain.gap_before(ordinal):
            refuse_hole(gap)


def _from_gtids(chain: Chain, executed: GtidSet, base: str, options: ReadOptions) -> ReadOptions:
    """Start with the last file before which everything is in the rows."""
    access = Access.of(options)

    def is_in_rows(ordinal: int) -> bool:
        """Whether everything before a file is in the rows."""
        with access.open(chain.files[ordinal], ordinal) as log:
            before = head_gtids(log)
        if isinstance(before, MariaGtidSet):
            raise OptionError(f"{base} has GTIDs of MySQL, and {log.name} is a log of MariaDB")
        return before is not None and not before - executed

    low, high = -1, len(chain.files) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_in_rows(middle) else (low, middle - 1)
    if low < 0:
        raise SourceError(
            f"{base} was taken before the logs begin: {chain.names[0]} follows transactions that it does"
            " not contain",
            hint="give older logs, too",
        )
    excluded = str(executed) if executed else None
    start = FilePosition(chain.names[low], FIRST_EVENT)
    return replace(options, start=start, exclude_gtid=excluded)


def _inside(chain: Chain, position: FilePosition, base: str) -> FilePosition:
    """The position, if the logs reach it. Raises SourceError."""
    names = chain.names
    if position.file not in names:
        span = ", ".join(names) if len(names) <= _MOST_NAMED else f"{names[0]} to {names[-1]}"
        raise SourceError(
            f"{base} is at {position}, but the logs do not contain this file; they are {span}",
            hint="give all logs between the two moments",
        )
    try:
        chosen_chains([chain], ReadOptions(start=position))
    except OptionError as error:
        what = error.message.removeprefix("option start: ")
        raise SourceError(f"{base} is at {position}, but {what}", hint=error.hint) from None
    return position


def _located(chain: Chain, gtid: object, options: ReadOptions) -> LocatedTransaction:
    assert isinstance(gtid, Gtid | MariaGtid)
    found = locate(chain, gtid, Access.of(options))
    if not isinstance(found, LocatedTransaction):
        raise SourceError(found.message, hint="`binlake gtid locate` searches other logs")
    if not found.complete:
        raise SourceError(f"{found.name} ends before the end of transaction {gtid}")
    return found
