"""Verify one log file: framing, checksums, and the facts that the checks of the chain need.

Every event is checked by its header and its checksum; in a log without checksums its body is
decoded (`verify_bodies`). Neither error ends the walk: the header before the event led there, and
if its own length leads to another event, the framing is right. A bad length ends the walk: nothing
after it is known to be an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from binlake.core.events.checksum import first_bad, stored_crc32
from binlake.core.events.gtid import GtidFields
from binlake.core.events.gtid_runs import gtid_runs
from binlake.core.memory.cursor import Cursor
from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    KeyringError,
    SourceError,
    TruncatedError,
    UnsupportedError,
)
from binlake.events.common.incident import IncidentEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format import event_types as types
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F
from binlake.format.magic import FIRST_EVENT
from binlake.source.access import DEFAULT_ACCESS, Access
from binlake.source.chain import LogPath
from binlake.source.ibb_log import IbbReader
from binlake.source.log_file import BAD_MAGIC, Damage, LogFile
from binlake.source.reader import TORN_TAIL
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.stream.holes import closes_log
from binlake.stream.verify.bodies import BodyCheck, ImageCheck, no_images
from binlake.stream.verify.problems import Kind, Problem
from binlake.values.frame import Frame
from binlake.values.gtid import GtidSet, MariaGtid, MariaGtidSet

#: Bad checksums, and bad bodies, that are listed one by one; all are counted.
LISTED_BAD = 1000

_ALGORITHMS = {0: "NONE", 1: "CRC32"}
_PAGES = "CRC32C"


@dataclass(slots=True)
class FileReport:
    """Facts about a file, and its problems.

    `bytes` is its length (inflated), `types` its complete events by type code. `algorithm` is that
    of its checksums ("CRC32", "NONE", None for servers that know none; "CRC32C": those of the
    pages of an .ibb file); `verified` and `bad` count checksums. `previous` is the set that its
    beginning records as executed before it, in its flavour, None if it has none; `gtids` are the
    transactions in it. `terminated`: it ends in ROTATE or STOP; `successor`: the file that its
    ROTATE names; `at_startup`: it began with a start of the server, None if that is not known; `is_relay`: it is a
    relay log.
    """

    file: str
    number: int | None
    bytes: int = 0
    types: Counter[int] = field(default_factory=Counter)
    algorithm: str | None = None
    verified: int = 0
    bad: int = 0
    problems: list[Problem] = field(default_factory=list)
    previous: GtidSet | MariaGtidSet | None = None
    gtids: GtidSet = field(default_factory=GtidSet)
    maria_gtids: MariaGtidSet = field(default_factory=MariaGtidSet)
    terminated: bool = False
    successor: str | None = None
    at_startup: bool | None = None
    is_relay: bool = False

    @property
    def complete(self) -> bool:
        """Whether the file could be walked to its end: its last event is known."""
        hidden = (Kind.LOCKED, Kind.UNSUPPORTED, Kind.BAD_MAGIC, Kind.BAD_EVENT)
        return bool(self.types) and all(p.kind not in hidden for p in self.problems)

    @property
    def ok(self) -> bool:
        """No problem, or none but being in use."""
        return all(problem.kind is Kind.IN_USE for problem in self.problems)

    def add(self, pos: int, kind: Kind, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(pos, kind, message))

    def to_json(self) -> dict[str, Any]:
        """The file's entry in `binlake verify --json`."""
        return {
            "file": self.file,
            "bytes": self.bytes,
            "events": self.types.total(),
            "types": {str(code): count for code, count in sorted(self.types.items())},
            "checksum": {
                "algorithm": self.algorithm,
                "verified": self.verified,
                "bad": self.bad,
            },
            "problems": [
                {"pos": p.pos, "kind": p.kind.value, "message": p.message} for p in self.problems
            ],
        }


def verify_file(
    path: LogPath,
    ordinal: int,
    images: ImageCheck = no_images,
    *,
    access: Access = DEFAULT_ACCESS,
) -> FileReport:
    """Verify one file from beginning to end. Raises SourceError if it cannot be read at all.

    `images` checks the rows of a log without checksums; `access` opens the log.
    """
    report = FileReport(path.name, path.number, bytes=path.size or 0)
    try:
        log = access.open(path, ordinal)
    except SourceError as error:
        if error.kind != BAD_MAGIC:
            raise
        report.add(0, Kind.BAD_MAGIC, error.message)
        return report
    except KeyringError as error:
        report.add(0, Kind.LOCKED, _with_hint(error))
        return report
    except UnsupportedError as error:
        report.add(0, Kind.UNSUPPORTED, error.message)
        return report
    except FormatError as error:
        report.add(error.event_pos or 0, Kind.BAD_EVENT, error.message)
        return report
    with log:
        _Walk(log, report, BodyCheck(images)).run()
        report.bytes = log.size if log.size is not None else report.bytes
    return report


def _with_hint(error: BinlogError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


class _Bodies:
    """Cursors on event bodies of one window: there is a GTID event per transaction."""

    def __init__(self, window: Window) -> None:
        self._cursor = Cursor(window.data)
        self._offset = window.block.offset
        self._length = window.block.length
        self._head = window.format.header_length - window.base
        self._tail = -window.base - window.format.checksum_bytes

    def at(self, index: int) -> Cursor:
        """Return a cursor at the body of event `index`, valid until the next call."""
        offset = self._offset[index]
        start = offset + self._head
        self._cursor.enter(start, max(start, offset + self._length[index] + self._tail))
        return self._cursor


@dataclass(slots=True)
class _GtidRun:
    """Consecutive GTIDs of one source and tag, [start, end), the first at `pos`."""

    sid: bytes
    tag: str
    start: int
    end: int
    pos: int


class _Walk:
    """Walks over one file and fills a report."""

    def __init__(self, log: LogFile, report: FileReport, check: BodyCheck) -> None:
        self._log = log
        self._report = report
        self._check = check
        self._bad_bodies = 0
        self._gtid = GtidFields()
        self._bodies: _Bodies
        self._run: _GtidRun | None = None
        self._last: Frame | None = None

    def run(self) -> None:
        report, log = self._report, self._log
        report.at_startup, report.is_relay = log.at_startup, log.is_relay
        if log.format is not None:
            report.algorithm = _ALGORITHMS.get(log.format.checksum_alg or 0)
            if log.format.checksum_alg is None:
                report.algorithm = None
        if log.in_use:
            report.add(FIRST_EVENT, Kind.IN_USE, "the server has not closed this file")
        try:
            # damage in one place of an .ibb file does not affect the places after it
            damage = Damage.STOP if log.ibb is None else Damage.SKIP
            for window in log.windows(verify=False, on_damage=damage):
                self._window(window)
        except TruncatedError as error:
            kind = Kind.TORN_TAIL if error.kind == TORN_TAIL else Kind.BAD_EVENT
            report.add(error.event_pos or 0, kind, error.message)
        except FormatError as error:
            report.add(error.event_pos or 0, Kind.BAD_LENGTH, error.message)
        except KeyringError as error:
            report.add(error.event_pos or 0, Kind.LOCKED, _with_hint(error))
        except UnsupportedError as error:
            report.add(error.event_pos or 0, Kind.UNSUPPORTED, error.message)
        self._end_run()
        if log.ibb is not None:
            self._pages(log.ibb)
        if (more := self._bad_bodies - LISTED_BAD) > 0:
            last = report.problems[-1].pos
            report.add(last, Kind.BAD_EVENT, f"{more} more events after it cannot be decoded")
        if log.tail is not None and (log.tail.in_use or log.ibb is not None):
            report.add(log.tail.offset, Kind.TORN_TAIL, log.tail.message)
        if self._last is not None:
            report.terminated = closes_log(self._last)
        if log.ibb is not None:  # its files end where they are full
            report.terminated = True

    def _pages(self, ibb: IbbReader) -> None:
        """Report the damage of an .ibb file; it has the checksums of its pages."""
        report = self._report
        report.algorithm = _PAGES
        report.verified, report.bad = ibb.pages.verified, ibb.pages.bad
        for offset, error in ibb.damages:
            bad_sum = isinstance(error, ChecksumError)
            kind = Kind.BAD_CHECKSUM if bad_sum else Kind.BAD_EVENT
            report.add(offset, kind, _with_hint(error))

    def _window(self, window: Window) -> None:
        report = self._report
        count = len(window)
        for code, seen in enumerate(window.block.types(0, count)):
            if seen:
                report.types[code] += seen
        bad = self._checksums(window) if window.format.checksum_bytes else self._decoded(window)
        codes = bytes(window.block.type_code[:count])
        self._bodies = _Bodies(window)
        for first, last in _checked_frames(window, codes, bad):
            if self._event(window, first, codes[first]) and last > first:
                self._event(window, last, codes[last], _LAST_CHECKS)
            else:
                for match in _CHECKED.finditer(codes, first + 1, last + 1):
                    self._event(window, match.start(), codes[match.start()])
        self._last = window.frame(count - 1)

    def _checksums(self, window: Window) -> set[int]:
        """Verify all checksums of a window; return the frames whose checksum is wrong."""
        bad: set[int] = set()
        report = self._report
        count, first = len(window), 0
        while (index := first_bad(window.data, window.base, window.block, first, count)) >= 0:
            bad.add(index)
            if report.bad + len(bad) <= LISTED_BAD:
                frame = window.frame(index)
                stored = stored_crc32(window.raw(index))
                report.add(
                    frame.offset,
                    Kind.BAD_CHECKSUM,
                    f"{types.event_name(frame.type_code)} of {frame.length} bytes does not have "
                    f"the checksum {stored:08x} that it stores",
                )
            first = index + 1
        report.bad += len(bad)
        report.verified += count - len(bad)
        return bad

    def _decoded(self, window: Window) -> set[int]:
        """Decode all events of a window without checksums; return the frames that fail."""
        problems = self._check.problems(window)
        listed = max(0, LISTED_BAD - self._bad_bodies)
        self._report.problems += list(problems.values())[:listed]
        self._bad_bodies += len(problems)
        return set(problems)

    def _event(
        self, window: Window, index: int, type_code: int, checks: _Checks | None = None
    ) -> bool:
        """Read an event that the checks need; return whether it can be decoded."""
        try:
            (checks or _CHECKS)[type_code](self, window, index)
        except BinlogError as error:
            name = types.event_name(type_code)
            offset = window.frame(index).offset
            self._report.add(offset, Kind.BAD_EVENT, f"{name} cannot be decoded: {error.message}")
            return False
        return True

    def _last_of_run(self, window: Window, index: int) -> None:
        """Return the last of the GTID events that continue the numbers of the previous one."""
        self._gtid.parse_mysql(self._bodies.at(index))
        assert self._run is not None, "it has begun"
        self._run.end = self._gtid.gno + 1

    def _mysql_gtid(self, window: Window, index: int) -> None:
        self._gtid.parse_mysql(self._bodies.at(index))
        self._add_gtid(window, index, self._gtid.sid, self._gtid.gno, "")

    def _tagged_gtid(self, window: Window, index: int) -> None:
        event = event_at(window, index)
        if isinstance(event, GtidEvent) and event.gno > 0:
            self._add_gtid(window, index, event.sid, event.gno, event.tag)

    def _add_gtid(self, window: Window, index: int, sid: bytes, gno: int, tag: str) -> None:
        """Extend the run of consecutive GTIDs, or begin another: sets take a whole run."""
        run = self._run
        if run is not None and run.sid == sid and run.end == gno and run.tag == tag:
            run.end += 1
            return
        self._end_run()
        self._run = _GtidRun(sid, tag, gno, gno + 1, window.frame(index).offset)

    def _end_run(self) -> None:
        run, report = self._run, self._report
        self._run = None
        if run is None:
            return
        seen = run.sid, run.tag, run.start, run.end
        repeated = report.gtids.in_interval(*seen)
        if isinstance(report.previous, GtidSet):
            repeated |= report.previous.in_interval(*seen)
        # a replica's relay log contains a transaction again after the connection broke inside it
        if repeated and not self._log.is_relay:
            report.add(run.pos, Kind.GTID_REPEATED, f"{repeated} was in the log before")
        report.gtids.add_interval(*seen)

    def _mariadb_gtid(self, window: Window, index: int) -> None:
        self._gtid.parse_mariadb(self._bodies.at(index))
        server_id = window.frame(index).server_id
        self._report.maria_gtids.add(MariaGtid(self._gtid.domain_id, server_id, self._gtid.seq_no))

    def _previous_gtids(self, window: Window, index: int) -> None:
        event = event_at(window, index)
        if isinstance(event, PreviousGtidsEvent) and self._report.previous is None:
            self._report.previous = event.gtids

    def _gtid_list(self, window: Window, index: int) -> None:
        event = event_at(window, index)
        if window.frame(index).flags & LOG_EVENT_ARTIFICIAL_F or not isinstance(
            event, GtidListEvent
        ):
            return
        if self._report.previous is None:
            self._report.previous = event.gtid_set

    def _incident(self, window: Window, index: int) -> None:
        event = event_at(window, index)
        if isinstance(event, IncidentEvent):
            self._report.add(
                window.frame(index).offset,
                Kind.INCIDENT,
                f"{event.incident}: {event.message or 'events may be missing'}",
            )

    def _rotate(self, window: Window, index: int) -> None:
        event = event_at(window, index)
        flags = window.frame(index).flags
        # a relay log contains its source's rotations too; its own has a flag
        own = not self._log.is_relay or flags & LOG_EVENT_RELAY_LOG_F
        if isinstance(event, RotateEvent) and own and not flags & LOG_EVENT_ARTIFICIAL_F:
            self._report.successor = event.next_file.rpartition("/")[2]


_Checks = dict[int, Callable[[_Walk, Window, int], None]]
_CHECKS: _Checks = {
    types.GTID_LOG_EVENT: _Walk._mysql_gtid,
    types.GTID_TAGGED_LOG_EVENT: _Walk._tagged_gtid,
    types.GTID_EVENT: _Walk._mariadb_gtid,
    types.PREVIOUS_GTIDS_LOG_EVENT: _Walk._previous_gtids,
    types.GTID_LIST_EVENT: _Walk._gtid_list,
    types.INCIDENT_EVENT: _Walk._incident,
    types.ROTATE_EVENT: _Walk._rotate,
}
#: For the last event of a run of GTIDs.
_LAST_CHECKS: _Checks = {
    types.GTID_LOG_EVENT: _Walk._last_of_run,
    types.GTID_EVENT: _Walk._mariadb_gtid,
}
_CHECKED = types.any_code(_CHECKS)
_NO_GTIDS = types.any_code(_CHECKS.keys() - {*_LAST_CHECKS, types.GTID_TAGGED_LOG_EVENT})


def _checked_frames(window: Window, codes: bytes, bad: set[int]) -> list[tuple[int, int]]:
    """Return the frames that the checks read, except bad ones: first and last of each run of
    GTIDs, any other frame alone.
    """
    if bad:
        found = (match.start() for match in _CHECKED.finditer(codes))
        return [(index, index) for index in found if index not in bad]
    others = [(match.start(), match.start()) for match in _NO_GTIDS.finditer(codes)]
    return sorted([*others, *gtid_runs(window.data, window.base, window.block)])
