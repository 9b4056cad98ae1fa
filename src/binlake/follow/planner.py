"""The planner of a stream: its start, the end of the next batch, and the splits of its tasks.

    planner = StreamPlanner(logs, options)
    start = planner.begin()
    end = planner.advance(start, limits)
    splits = planner.splits(start, end)

The planner checks an offset against the logs whenever it uses it. If they are not the logs of the
offset (another server has taken over, or a new file has the same name), the planner finds the
place again by GTID set, or the place is lost. A stream never begins elsewhere on its own.

One class, although it is long: each place that it finds or checks belongs to one look at the logs, and finding one needs the walk of a batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from binlake.errors import OptionError, PositionLostError, TruncatedError
from binlake.follow.logs import LogsNow, StreamLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.same_log import another_log, is_of, misfit
from binlake.follow.stream_filter import excluded_gtids, number_in, stream_filter
from binlake.format.magic import FIRST_EVENT
from binlake.source.log_file import Damage, LogFile
from binlake.stream.filters import LATEST_US, TransactionFilter
from binlake.stream.positions.boundary import UNLIMITED, BoundaryScan, Keeps, Limits, Wants, seek
from binlake.stream.positions.gtid_progress import GtidProgress, shown_before
from binlake.stream.positions.gtid_search import head_gtids, is_barely_begun
from binlake.stream.positions.splits import Split, StreamSplit
from binlake.table.counting.row_totals import RowTotals
from binlake.values.gtid import MariaGtid
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition, Position, is_log_of

_PURGED = "the logs before may have had transactions without GTIDs (gtid_mode)"
_NEW_CHECKPOINT = "start with a new checkpoint, and set starting_offsets to where it begins"


class StreamPlanner:
    """Plans batches over `logs`; `options` are the options of the read.

    `remedy`: what the user can do if the position is lost, as the end of a hint. `is_cut`: whether limits have ended the newest
    batch before the end of the logs; nothing else is kept between calls.
    """

    is_cut = False

    def __init__(
        self, logs: StreamLogs, options: ReadOptions, remedy: str = _NEW_CHECKPOINT
    ) -> None:
        self._logs = logs
        self._options = options
        self._remedy = remedy
        self._on_damage = Damage(options.on_error)

    # -- the start of a new query ---------------------------------------------------------------

    def earliest(self) -> StreamOffset:
        """Return the beginning of the oldest file. Raises BinlogError."""
        now = self._logs.look()
        return self._file_start(now, now.numbers[0])

    def latest(self) -> StreamOffset:
        """Return the last existing boundary. Raises BinlogError."""
        return self._latest(self._logs.look())

    def _latest(self, now: LogsNow) -> StreamOffset:
        # the beginning of a file that is barely begun does not have the GTIDs before it
        start = self._first_start(now, [*reversed(now.numbers)])
        return self._advanced(now, start, UNLIMITED, None)

    def after_gtids(self, gtids: str) -> StreamOffset:
        """Return the place before the first transaction that is not in a GTID set. Raises BinlogError."""
        return self._by_gtids(self._logs.look(), gtids, "option starting_offsets", is_known=True)

    def head(self) -> StreamOffset:
        """Return approximately where the logs end, without reading them, except a compressed newest one, once. Raises BinlogError."""
        now = self._logs.look()
        newest = now.files[now.numbers[-1]]
        size = self._logs.end_of(now, now.numbers[-1])
        if size is None and self._logs.stamp(now, now.numbers[-1]) is not None:
            with contextlib.suppress(TruncatedError):  # it is still copied
                return self._latest(now)
        return StreamOffset(now.end or Position(now.server_uuid, newest.name, size or FIRST_EVENT))

    def at_time(self, time_us: int) -> StreamOffset:
        """Return the place before the first transaction committed at a time or later. Raises BinlogError."""
        now = self._logs.look()
        numbers = now.numbers
        first = next((n for n in reversed(numbers) if self._begun_before(now, n, time_us)), None)
        if first is None:
            first = numbers[0]
            if self._file_start(now, first).position.gtid_set or first > 1:
                raise PositionLostError(
                    f"{now.files[first].name}, the first log, begins after "
                    "starting_timestamp: changes in between may have been purged",
                    hint="use starting_offsets=earliest to begin with the oldest log",
                )
        for number in numbers[numbers.index(first) :]:
            found = self._sought(
                now,
                number,
                lambda mask: mask.keep_times(time_us, LATEST_US),
                lambda group: group.commit_us >= time_us,
            )
            if found is not None:
                break
        else:
            found = self._latest(now)
        return self._without_hole(now, first, found)

    def at_position(self, position: FilePosition) -> StreamOffset:
        """Return the place before the first transaction at or after FILE:POS. Raises OptionError, BinlogError."""
        now = self._logs.look()
        number = now.number_of(position.file) if position.file else None
        if number is None:
            raise OptionError(
                f"option starting_offsets: the source has no file {position.file!r}",
                name="starting_offsets",
                hint=f"there are {now.shown}",
            )
        found = self._sought(
            now,
            number,
            lambda mask: mask.keep_offsets(position.offset, LATEST_US),
            lambda group: group.start.offset >= position.offset,
        )
        if found is not None:
            return found
        return self._end_of_file(now, number)

    def begins_after(self, position: Position) -> bool:
        """Return whether the logs no longer have the file of a position, only later ones, and may lack transactions after it.

        Raises BinlogError.
        """
        now = self._logs.look()
        number = number_in(position.file)
        is_same = not position.server_uuid or is_log_of(now.server_uuid, position.server_uuid)
        is_earlier = number is not None and is_same and number < now.numbers[0]
        return is_earlier and not self.has(StreamOffset(position, is_anonymous=False))

    def look_again(self) -> None:
        """Look at the logs anew the next time, over a new connection."""
        self._logs.close()

    # -- the end of the next batch --------------------------------------------------------------

    def advance(
        self, start: StreamOffset, limits: Limits, until: StreamOffset | None = None
    ) -> StreamOffset:
        """Return where a batch that begins at `start` ends: at a boundary within `limits`, and not
        after `until`. If there is nothing new, it is the place of `start`.

        Raises PositionLostError, BinlogError.
        """
        now = self._logs.look()
        return self._advanced(now, self._valid(now, start), limits, until)

    def splits(self, start: StreamOffset, end: StreamOffset) -> list[Split]:
        """Return what the tasks of the batch from `start` to `end` read, a split for each file.

        Raises PositionLostError, BinlogError.
        """
        now = self._logs.look()
        filters = stream_filter(self._options)
        begin = self._valid(now, start)
        if misfit(self._logs, now, end) is not None:
            # the batch was planned on a server that is no longer available: the same transactions, by GTID
            again = self._valid(now, end)
            if begin.shown or again.shown:
                wanted = parse_gtid_filter(shown_before(end.position.gtid_set))
                filters = replace(filters, at_gtid=wanted)
            end = self._latest(now) if again.shown else again
        if begin.shown:
            filters = replace(filters, excluded_gtids=excluded_gtids(self._options, begin.shown))
        return [*self._ranges(now, begin, end, filters)]

    def here(self, offset: StreamOffset) -> StreamOffset:
        """Return the same place in the current logs, also after a failover.

        Raises PositionLostError, BinlogError.
        """
        return self._valid(self._logs.look(), offset)

    def has(self, offset: StreamOffset) -> bool:
        """Return whether the current logs have a place, also after a failover. Raises BinlogError."""
        try:
            self.here(offset)
        except PositionLostError:
            return False
        return True

    def _ranges(
        self,
        now: LogsNow,
        begin: StreamOffset,
        end: StreamOffset,
        filters: TransactionFilter,
    ) -> Iterator[Split]:
        first, last = self._number(now, begin), self._number(now, end)
        if (first, begin.position.offset) > (last, end.position.offset):
            raise PositionLostError(
                f"the batch would begin at {begin.position}, after its end at {end.position}",
                hint=f"its position belongs to another source or to other options; {self._remedy}",
            )
        parts: list[tuple[int, int, int | None]] = []  # by file: start and end
        for number in now.between(first, last, self._remedy):
            if filters.byte_range(number) is None:
                continue
            start = begin.position.offset if number == first else FIRST_EVENT
            stop = end.position.offset if number == last else None
            if stop is None or start < stop:
                parts.append((number, start, stop))
        created = self._logs.created_all(now, [number for number, _, _ in parts])
        for number, start, stop in parts:
            file = now.files[number]
            yield StreamSplit(
                now.inputs,
                file,
                number,
                start,
                stop,
                filters,
                index_directories=self._options.index_directory,
                following=None if number == last else now.files[number + 1],
                borders=(start,) if stop is None else (start, stop),
                created=created[number],
                fingerprint=begin.fingerprint if number == first else None,
            )

    def _advanced(
        self, now: LogsNow, start: StreamOffset, limits: Limits, until: StreamOffset | None
    ) -> StreamOffset:
        self.is_cut = False
        first, last = self._number(now, start), now.numbers[-1]
        stops = {} if now.end is None else {last: now.end.offset}
        if until is not None and misfit(self._logs, now, until) is None:
            last = self._number(now, until)
            stops[last] = min(until.position.offset, stops.get(last, until.position.offset))
        numbers = self._begun(now, now.between(first, last, self._remedy))
        if not numbers or (numbers[-1] == first and self._at_end(now, start, stops.get(first))):
            return start
        # without a next file that has begun, a file may still be written, or copied
        growing = numbers[-1] if last == now.numbers[-1] else None
        if not limits.any:
            numbers = self._only_newest(now, start, numbers)
        # the beginning of a later file adds those before it
        gtids = GtidProgress(start.position.gtid_set)
        # of those shown elsewhere, the ones that the batch passes no longer lie after the position
        passed = GtidProgress() if start.shown else gtids
        passed.last_is_anonymous = start.is_anonymous
        counter = RowTotals(self._options) if limits.rows is not None else None
        scan = BoundaryScan(limits, passed, counter, self._on_damage)
        for number in self._logs.in_turn(now, numbers):
            begin = start.position.offset if number == first else FIRST_EVENT
            fingerprint = start.fingerprint if number == first else None
            stamp = self._logs.stamp(now, number) if number == growing else None
            if number != first:
                passed.last_is_anonymous = None
            with self._logs.open(
                now, number, begin if fingerprint is None else fingerprint.start
            ) as log:
                if number == first and not is_of(log, start):
                    raise PositionLostError(another_log(start.position), hint=self._remedy)
                walk = scan.as_far_as if number == growing else scan.through
                walk(log, begin, stops.get(number))
                created = log.created
                fingerprint = (
                    scan.fingerprint if log.ibb is None else None
                )  # those bytes are made here
            if fingerprint is not None:
                self._logs.saw(now, number, fingerprint)
            if scan.full:
                self.is_cut = True
                break
            if stamp is not None and number not in stops:
                self._logs.has_ended(stamp, scan.offset)
        if passed is not gtids:
            gtids.add_all(passed)
        position = Position(now.server_uuid, now.files[number].name, scan.offset, gtids.text)
        if (position.file, position.offset) == (start.position.file, start.position.offset):
            return start
        commit_us = start.commit_us if scan.commit_us is None else scan.commit_us
        shown = passed.rest_of(start.shown)
        return StreamOffset(
            position, created, shown, commit_us, is_anonymous=passed.last_is_anonymous, fingerprint=fingerprint,
        )  # fmt: skip

    def _at_end(self, now: LogsNow, start: StreamOffset, stop: int | None) -> bool:
        """Whether no transaction can follow `start` in its file."""
        end = self._logs.end_of(now, self._number(now, start)) if stop is None else stop
        return end is not None and end <= start.position.offset

    def _begun(self, now: LogsNow, numbers: list[int]) -> list[int]:
        """Drop the newest file as long as its format description is incomplete."""
        if len(numbers) == 1 or numbers[-1] != now.numbers[-1]:
            return numbers
        return numbers if self._logs.created(now, numbers[-1]) is not None else numbers[:-1]

    def _only_newest(self, now: LogsNow, start: StreamOffset, numbers: list[int]) -> list[int]:
        """Return the newest of the files to scan, if its beginning contains the GTIDs of those before it, or there are none."""
        if len(numbers) == 1:
            return numbers
        with self._logs.open(now, numbers[-1]) as log:
            if is_barely_begun(log):
                return numbers
            known = head_gtids(log) is not None
        return numbers[-1:] if known or not start.position.gtid_set else numbers

    # -- places ---------------------------------------------------------------------------------

    def _number(self, now: LogsNow, offset: StreamOffset) -> int:
        number = now.number_of(offset.position.file)
        assert number is not None, "the offset was checked against this look"
        return number

    def _file_start(self, now: LogsNow, number: int) -> StreamOffset:
        with self._logs.open(now, number) as log:
            return self._start_of(now, log)

    def _start_of(self, now: LogsNow, log: LogFile) -> StreamOffset:
        head = head_gtids(log)
        gtids = GtidProgress("" if head is None else str(head))
        self._add_unlogged(now, gtids)
        position = Position(now.server_uuid, log.name, FIRST_EVENT, gtids.text)
        return StreamOffset(position, log.created)

    def _add_unlogged(self, now: LogsNow, gtids: GtidProgress) -> None:
        """Add the GTIDs that no log of the server ever had to those that its logs show before a place."""
        if not gtids.is_of_mariadb:
            gtids.add_all(GtidProgress(self._logs.unlogged_gtids(now)))

    def _first_start(self, now: LogsNow, numbers: Sequence[int]) -> StreamOffset:
        """Return the beginning of the first of some files that is more than barely begun; that of the last one if none is."""
        for number in numbers:
            with self._logs.open(now, number) as log:
                start = self._start_of(now, log)
                if not is_barely_begun(log):
                    break
        return start

    def _end_of_file(self, now: LogsNow, number: int) -> StreamOffset:
        """Return the last boundary in a file; the beginning of the next file if there is one."""
        following = [n for n in now.numbers if n > number]
        if following:
            return self._without_hole(now, number, self._file_start(now, following[0]))
        return self._advanced(now, self._file_start(now, number), UNLIMITED, None)

    def _without_hole(self, now: LogsNow, first: int, found: StreamOffset) -> StreamOffset:
        """Return a place that was looked for from a file on. Raises PositionLostError if a file before it is missing."""
        now.between(first, self._number(now, found), self._remedy)
        return found

    def _begun_before(self, now: LogsNow, number: int, time_us: int) -> bool:
        # in whole seconds: the file before may have transactions of the same second
        created = self._logs.created(now, number)
        return created is not None and (created + 1) * 1_000_000 <= time_us

    def _sought(self, now: LogsNow, number: int, keep: Keeps, wants: Wants) -> StreamOffset | None:
        gtids = GtidProgress()
        with self._logs.open(now, number) as log:
            offset = seek(log, gtids, keep, wants)
            if offset is None:
                return None
            self._add_unlogged(now, gtids)
            position = Position(now.server_uuid, log.name, offset, gtids.text)
            return StreamOffset(position, log.created, is_anonymous=gtids.last_is_anonymous)

    # -- is it the same log? --------------------------------------------------------------------

    def _valid(self, now: LogsNow, offset: StreamOffset) -> StreamOffset:
        """Return the offset, or the same place in the current logs."""
        why = misfit(self._logs, now, offset)
        if why is None:
            return offset
        position = offset.position
        if not position.gtid_set or offset.is_anonymous:
            raise PositionLostError(
                why, hint=f"without GTIDs binlake cannot find the place again; {self._remedy}"
            )
        if position.server_uuid and now.server_uuid and position.server_uuid != now.server_uuid:
            is_known = offset.is_anonymous is False
            found = self._by_gtids(now, position.gtid_set, why, is_known=is_known)
            self._check_next(now, found, why, is_known=is_known)
            return found
        return self._behind_purged(now, offset, why)

    def _behind_purged(self, now: LogsNow, offset: StreamOffset, why: str) -> StreamOffset:
        """Return the beginning of the oldest log, if the offset was the end of the one before it.

        On one server (or an unknown one) nothing else is possible: logs that were reset number
        transactions from the start, so one GTID has two meanings.
        """
        oldest = self._first_start(now, now.numbers)
        seen, head = GtidProgress(offset.position.gtid_set), GtidProgress(oldest.position.gtid_set)
        self._add_unlogged(now, seen)
        number = number_in(offset.position.file)
        later = number is not None and number < now.numbers[0]
        if later and seen.is_place_of(head):
            # what was written in the log of the position, and no other log before the oldest one, may not be known
            is_next = number is not None and number + 1 == now.numbers[0]
            if not seen.is_of_mariadb and (offset.is_anonymous is not False or not is_next):
                raise PositionLostError(f"{why}; {_PURGED}", hint=self._remedy)
            return oldest
        missing = seen.lacks(head) if later else ""
        purged = f"; the server has purged transactions that it has not seen: {missing}"
        raise PositionLostError(why + (purged if missing else ""), hint=self._remedy)

    def _check_next(self, now: LogsNow, place: StreamOffset, why: str, *, is_known: bool) -> None:
        """Raise PositionLostError if a transaction after a place on another server has no GTID, and may have been shown.

        `is_known`: the last transaction that was shown has a GTID.
        """
        if GtidProgress(place.position.gtid_set).is_of_mariadb:
            return
        is_anonymous = self._is_anonymous_after(now, place)
        if is_anonymous is None and not is_known:
            is_anonymous = self._logs.gives_gtids() is False
        if is_anonymous or (place.shown and self._has_anonymous(now, place)):
            raise PositionLostError(
                f"{why}; transactions after {place.position} have no GTIDs, so they may have been seen, or not",
                hint=self._remedy,
            )

    def _is_anonymous_after(self, now: LogsNow, place: StreamOffset) -> bool | None:
        """Whether the first transaction after a place has no GTID; None if there is none."""
        was_cut = self.is_cut
        place = replace(place, commit_us=None)
        while True:
            after = self._advanced(now, place, Limits(transactions=1), None)
            if after.key == place.key or after.commit_us is not None:
                break
            place = after
        self.is_cut = was_cut
        return None if after.commit_us is None else after.is_anonymous

    def _has_anonymous(self, now: LogsNow, start: StreamOffset) -> bool:
        """Whether the logs from that of a place on have a transaction without a GTID."""
        first = self._number(now, start)
        return any(
            self._sought(
                now,
                number,
                lambda steps: steps.drop_gtids(lambda *_: True, lambda *_: True),
                lambda group: group.gtid is None,
            )
            for number in now.numbers
            if number >= first
        )

    def _by_gtids(self, now: LogsNow, text: str, why: str, *, is_known: bool) -> StreamOffset:
        """Return the place before the first transaction that is not in a GTID set; `is_known` as in `_check_next`."""
        shown = GtidProgress(text)
        first, head = self._first_with_all(now, shown)
        if first is None:
            raise PositionLostError(
                f"{why}; transactions that the stream has not seen are purged: {shown.lacks(head) or 'no log shows which'}",
                hint=self._remedy,
            )
        here = GtidProgress(self._latest(now).position.gtid_set)
        if not here.has_reached(shown):
            raise PositionLostError(
                f"{why}; transactions that the stream has seen are not in the logs: "
                f"{here.lacks(shown)}",
                hint=f"the server is not a replacement for the other one, or it lags; {self._remedy}",
                is_passing=True,
            )
        for gtid in head.last_in_other_domains(shown):
            if not self._has_gtid(now, first, gtid):
                raise PositionLostError(
                    f"{why}; its logs do not have {gtid}, the last transaction of its domain that the stream has seen: they may"
                    " begin later",
                    hint=self._remedy,
                )
        if head.is_place_of(shown) and shown.text and not shown.is_of_mariadb:
            is_anonymous = self._is_anonymous_after(now, self._file_start(now, first))
            is_decided = is_known and is_anonymous is not None
            if is_anonymous or not (is_decided or self._logs.gives_gtids()):
                raise PositionLostError(f"{why}; {_PURGED}", hint=self._remedy)
        return self._first_unseen(now, first, shown)

    def _first_with_all(self, now: LogsNow, shown: GtidProgress) -> tuple[int | None, GtidProgress]:
        """Return the newest log before which only transactions of a set lie, and the GTIDs before it; None, and those before the
        oldest log, if there is none.

        For MySQL it is the newest one that has a transaction of the set, if there is one: a log after it that begins with exactly
        the set may follow transactions without GTIDs, which are not in the set.
        """
        first, before = None, GtidProgress()
        for number in reversed(now.numbers):
            if first is not None and number + 1 not in now.files:
                break
            with self._logs.open(now, number) as log:
                known = head_gtids(log)
                is_only = number == now.numbers[0] == now.numbers[-1]
                is_first = is_only or (number == now.numbers[0] and not is_barely_begun(log))
            if known is None and not is_first:
                continue  # what came before is not known: a crash came first, or the log is of a relay
            head = GtidProgress("" if known is None else str(known))
            self._add_unlogged(now, head)
            if first is not None and not shown.has_all(head):
                break
            before = head
            if shown.has_all(head):
                first = number
                if shown.is_of_mariadb or not head.has_all(shown):
                    break
        return first, before

    def _has_gtid(self, now: LogsNow, first: int, wanted: MariaGtid) -> bool:
        """Whether the logs from a file on have a transaction of MariaDB."""
        key = (wanted.domain_id, wanted.server_id, wanted.seq_no)
        return any(
            self._sought(
                now,
                number,
                lambda steps: steps.drop_gtids(lambda *_: True, lambda *gtid: gtid != key),
                lambda group: group.gtid == str(wanted),
            )
            for number in now.numbers
            if number >= first
        )

    def _first_unseen(self, now: LogsNow, first: int, shown: GtidProgress) -> StreamOffset:
        known = parse_gtid_filter(shown_before(shown.text))

        def contains(sid: bytes, gno: int) -> bool:
            return known.contains_mysql(sid, "", gno)

        for number in [n for n in now.numbers if n >= first]:
            found = self._sought(
                now,
                number,
                lambda steps: steps.drop_gtids(contains, known.contains_mariadb),
                lambda group: group.gtid is None or not known.contains_text(group.gtid),
            )
            if found is not None:
                break
        else:
            found = self._latest(now)
        self._without_hole(now, first, found)
        later = GtidProgress(found.position.gtid_set).rest_of(shown_before(shown.text))
        return replace(found, position=replace(found.position, gtid_set=shown.text), shown=later)
