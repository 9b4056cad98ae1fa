"""The loop of a mirror: copy new tables, then rounds over the log, until it is stopped.

    mirror = Mirror(spark, "mysql://repl@db1/", "/lake", MirrorOptions(tables=("shop.*",)))
    mirror.run(once=True)

A round reads a bounded range of the log once for all tables at its beginning, and commits each
table separately, together with its position in the log. A kill between two commits leaves tables at
different positions. The next round then brings the tables that are behind to the position of the
others.

One class, although it is long: copies, rounds, upkeep and comparisons take turns here, and share when to stop, wait and record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from binlake.errors import BinlogError, ConnectionLostError, FormatError, PositionLostError
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.lake.jobs import SparkEngine
from binlake.mirror.apply.decode_tables import TablesDecoder
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.archive_wait import ArchiveWait
from binlake.mirror.commits import NetWriter
from binlake.mirror.control import Control, position_key
from binlake.mirror.ddl.schema_changes import SchemaChanges
from binlake.mirror.followed.cascades import quarantine_cascades
from binlake.mirror.followed.first_copy import CopyProgress, LogLagsError
from binlake.mirror.followed.round_recorder import RoundRecorder
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.tables import COPY_S, FollowedTables
from binlake.mirror.iceberg.key_tasks import ROWS_FOR_TASKS, TaskKeyReader
from binlake.mirror.lake_state import index_directory, lock
from binlake.mirror.lakes import open_lake
from binlake.mirror.later_statements import may_have_changed
from binlake.mirror.lease import Lease
from binlake.mirror.options import MirrorOptions
from binlake.mirror.preflight import check_location
from binlake.mirror.reporting.pulse import EVERY_FEW_SECONDS, Beats, Pulse
from binlake.mirror.reporting.report import MirrorStatus, status_steps
from binlake.mirror.reporting.server_end import ArchivedServer
from binlake.mirror.rounds import Rounds
from binlake.mirror.scheduled import ScheduledVerification
from binlake.mirror.sessions import CATALOG
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.logs import LOG_IS_DAMAGED, logs_of, remedy_without_position
from binlake.mirror.source.server_check import ServerCheck
from binlake.mirror.source.task_login import check_task_login
from binlake.mirror.stopped import StoppedError, wait_in_parts
from binlake.mirror.upkeep import TableUpkeep, upkeep_of
from binlake.source.replica.url import without_password
from binlake.values.position import Position, is_log_of
from binlake.values.table_names import table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 300.0
_INTERVAL_S = 1.0
# A task decodes two of them.
_SPLIT_BYTES = 16 << 20


class Mirror:
    """Keeps the tables of a lake equal to those of a server.

    `logs`: paths of an archive to read the changes from, instead of the server. `state`: a directory of
    this machine for the row indexes, which can be rebuilt. `note` receives messages for the user,
    `watch` the progress of a copy, `show` the status, as often as `beats` sets. `split_bytes` of log are
    half of what one task decodes. Tasks read the keys of the lake's rows if a row index lacks at least `key_task_rows` of them.
    After `copy_s` seconds, a copy gives way to the rounds of other tables. `patience_s`: how long a copy waits for an archive that
    lags behind or for a busy server, where the mirror cannot continue without it. `round_error` is the error that has ended `reach`.
    Raises OptionError for a URL with a password, SourceError while another process mirrors into the lake.
    """

    round_error: BinlogError | None = None

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        lake: str,
        options: MirrorOptions,
        *,
        catalog: str = CATALOG,
        logs: str | None = None,
        state: str | None = None,
        note: Callable[[str], None] = lambda _sentence: None,
        watch: Callable[[CopyProgress], None] = lambda _progress: None,
        show: Callable[[MirrorStatus], None] | None = None,
        beats: Beats = EVERY_FEW_SECONDS,
        split_bytes: int = _SPLIT_BYTES,
        key_task_rows: int = ROWS_FOR_TASKS,
        copy_s: float = COPY_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        check_location(url, lake, options)
        self.options = options
        self._rules = options.column_rules.pinned()
        self._note = note
        self._engine = SparkEngine(spark)
        self._indexes = index_directory(lake, state)
        self._task_files = TaskFiles.of(self._engine, self._indexes, lake)
        key_reader = self._key_reader(key_task_rows)
        self._lake = open_lake(spark, catalog, lake, options.format, key_reader)
        self._patience_s = patience_s
        self._waiting_since: float | None = None
        self._stop = threading.Event()
        read = options.read_options()
        with ExitStack() as opened:
            self._logs = opened.enter_context(closing(logs_of(url, logs, read, self._stop)))
            self._host = SourceHost(url, self._logs)
            self._planner = StreamPlanner(self._logs, read, remedy=remedy_without_position(logs))
            locked = opened.enter_context(lock(self._indexes, lake))
            self._control_url = without_password(url)
            self._control = Control(self._lake, self._control_url, options)
            self._lease = opened.enter_context(
                closing(Lease(self._control, lake, self._indexes, locked, note))
            )
            # removes files in the lake, which a process with the lease may use
            self._task_files.begin()
            opened.callback(self._task_files.clear)
            self._tables = self._followed_tables(watch, copy_s)
            self._schema_changes = self._schema_changes_of()
            self._server = None if logs is None else ArchivedServer(self._host, read, note)
            if self._server is not None:
                opened.callback(self._server.close)
            self._pulse = self._reporting(show, beats)
            self._verification = ScheduledVerification(
                options, self._pulse, note, control=self._control
            )
            self._recorder = RoundRecorder(self._control, self._tables, options)
            self._rounds = self._rounds_of(split_bytes)
            self._upkeep = self._upkeep_of_tables()
            opened.callback(self._upkeep.close)
            self._opened = opened.pop_all()

    def _followed_tables(
        self, watch: Callable[[CopyProgress], None], copy_s: float
    ) -> FollowedTables:
        """The tables of the lake, before any of them is opened."""
        return FollowedTables(
            self._lake,
            self._host,
            self._engine,
            self._planner,
            self._control,
            self.options,
            self._rules,
            self._indexes,
            note=self._note,
            watch=watch,
            is_interrupted=self._is_interrupted,
            copy_s=copy_s,
            stop=self._stop,
            kept=self._lease.kept,
            count_zero_dates=lambda counts: self._pulse.read_as_null(counts),
            after_copy=lambda full_name: self._pulse.copied(full_name),
        )

    def _schema_changes_of(self) -> SchemaChanges:
        """The application of DDL statements to the followed tables."""
        found = SchemaChanges(
            self.options,
            self._rules,
            self._control,
            self._tables,
            self._note,
            self._planner,
            self._between_ranges,
        )
        self._tables.apply_departure = found.apply_departure
        return found

    def _rounds_of(self, split_bytes: int) -> Rounds:
        """The rounds, whose tasks decode `split_bytes` each."""
        decoder = TablesDecoder(
            self._planner,
            self._engine,
            self._task_files,
            self.options,
            self._rules,
            split_bytes,
            self._tables.quarantine,
            self._schema_changes.first,
        )
        net_writer = NetWriter(
            self._engine, self._task_files, split_bytes // 2, self.options.commit_bytes
        )
        return Rounds(
            self._planner,
            decoder,
            net_writer,
            self._tables,
            self._schema_changes,
            self._control,
            self.options,
            self._note,
            self._pulse.applied,
            self._pulse.read_as_null,
            self._lease.check_not_ended,
        )

    def _upkeep_of_tables(self) -> TableUpkeep:
        kept = self._lease.kept
        return upkeep_of(self._engine, self._control, self.options, self._indexes, self._note, kept)

    def _reporting(self, show: Callable[[MirrorStatus], None] | None, beats: Beats) -> Pulse:
        """The sign of life, which also shows the status if the caller wants it."""
        return Pulse(
            self._indexes,
            self._logs.look if self._server is None else self._server.look,
            lambda: show and status_steps(self._lake, show, self._indexes, self._tables.namespaces),
            beats,
            self._note,
            self._tables.not_copied,
            self._control.lake_id,
        )

    def close(self) -> None:
        """Release all resources."""
        self._opened.close()

    def stop(self) -> None:
        """End `run` after the round, or the chunks of a copy, that are being made."""
        self._stop.set()

    def _is_interrupted(self) -> bool:
        """Whether a copy is to be continued later."""
        if self._tables.followed:
            self._pulse.busy()
        else:  # there are no rounds beside the copy
            self._pulse.beat(None)
        self._control.refresh()
        self._lease.keep()
        return self._stop.is_set() or self._control.paused

    def _key_reader(self, least_rows: int) -> TaskKeyReader:
        """Completes row indexes."""
        return TaskKeyReader(
            self._engine, self._task_files, self._note, least_rows, self._between_key_jobs
        )

    def _between_key_jobs(self) -> None:
        """Renew the lease while tasks complete a row index; `stop` ends the run, and the next one needs only the other files."""
        self._keep_going("before a row index was complete")

    def _between_ranges(self) -> None:
        """Renew the lease while the log is searched for a statement; `stop` ends the run, and the next one searches again."""
        self._keep_going("before the log was searched for the statement that has removed a table")

    def _keep_going(self, before: str) -> None:
        self._lease.keep()
        if self._stop.is_set():
            raise StoppedError(f"the mirror was stopped {before}")

    # -- the loop ----------------------------------------------------------------------------------

    def run(self, *, once: bool, interval_s: float = _INTERVAL_S) -> None:
        """Copy new tables and follow the log, until `stop`; `once`: as far as the log reaches now, and the tables that the
        server has now.

        A table that cannot be followed is quarantined. Raises IncompleteError if the log of the server lacks changes of
        the tables because of its settings, and BinlogError for all other errors. With `once`, raises OptionError if the
        options select no table, LogLagsError if a copy waits too long for an archive, ServerError if it waits too long for a
        lock or for the end of open transactions, and AlteredError if a table was altered in each of several copies; then nothing
        is lost, and the next run continues.
        """
        self._run_to_the_end(lambda: self._control.to_compact, once=once, interval_s=interval_s)

    def catch_up(self) -> None:
        """Call `run` with `once`, but leave the requests to compact tables to the next run. Raises the errors of `run`."""
        self._run_to_the_end(set, once=True, interval_s=_INTERVAL_S)

    def _run_to_the_end(
        self, to_compact: Callable[[], set[str]], *, once: bool, interval_s: float
    ) -> None:
        """Run for `run` and `catch_up`. `to_compact` returns the tables whose requested compaction this run carries out."""
        try:
            self._run(to_compact, once=once, interval_s=interval_s)
        except (ConnectionLostError, StoppedError):
            if not self._stop.is_set():  # else `stop` has ended a wait, or the work on a row index
                raise
        except PositionLostError as error:
            if self._host.may_change:
                error.at(is_passing=True)
            raise

    def _run(self, to_compact: Callable[[], set[str]], *, once: bool, interval_s: float) -> None:
        url = self._host.url()
        server_check = ServerCheck(
            self._host, self._logs, self._tables.sound_names, self.options, self._note, self._stop
        )
        server_check.begin(url)
        check_task_login(self._engine, url)
        self._open_tables(once=once)
        until = self._planner.latest() if once else None
        progressed = False
        while not self._stop.is_set():
            self._control.refresh()
            self._lease.keep()
            if server_check.work():
                quarantine_cascades(self._tables)
            if not self._control.paused:
                self._obey(to_compact())
                if not progressed or self._tables.copies_are_due():
                    self._tables.continue_copies()
            if self._stop.is_set():  # the row index of a new copy may be incomplete
                break
            if until is not None:
                until = self._with_copies(self._rounds.until_here(until))
            progressed = not self._control.paused and self._round(until)
            self._beat(self._pulse.beat)
            if not self._control.paused:
                is_behind = progressed and not self._rounds.is_near_end
                self._upkeep.work(self._tables.followed, is_behind=is_behind)
            if not once and self._has_caught_up(progressed):
                self._verification.work(self)
            if progressed or self._has_copies():
                self._waiting_since = None
                continue
            if once:
                if self._has_requests(to_compact):
                    continue
                if self._control.paused or not self._waits():
                    break
                wait_in_parts(self._stop, interval_s, self._stay_alive)
                continue
            # without tables, there is no round that sees a CREATE TABLE
            if not self._control.paused and not self._tables.followed:
                self._tables.add()
            self._recorder.while_idle()
            wait_in_parts(self._stop, interval_s, self._stay_alive)
        self._recorder.record()
        self._beat(self._pulse.beat_now)
        if once:
            self._tables.note_left()

    def _open_tables(self, *, once: bool) -> None:
        """Open the tables of the lake, and copy those that it does not have yet."""
        with self._lease.kept():
            self._tables.open()
        self._tables.check_options()
        if once:
            self._tables.check_selection()
        self._rounds.check_positions()
        self._control.configure(self._control_url, self.options)
        if once:
            self._tables.limit()
        quarantine_cascades(self._tables)
        new = self._tables.find_new()
        self._beat(self._pulse.beat)  # the copies may take hours
        self._tables.copy_new(new)
        self._tables.note_unmatched()

    def _has_caught_up(self, progressed: bool) -> bool:
        """Whether a comparison has no copies to make first, and little to apply: a busy server always has something more."""
        if self._control.paused or self._has_copies():
            return False
        return self._rounds.is_near_end or not progressed

    def _has_copies(self) -> bool:
        """Whether copies are to be continued now."""
        there = self._tables.unfinished - self._tables.lagging.keys()
        return bool(there) and not self._is_interrupted()

    def _has_requests(self, to_compact: Callable[[], set[str]]) -> bool:
        """Whether other processes have requested something that this run can still do."""
        self._control.refresh()
        if self._control.paused:
            return False
        return bool(self._resyncs() or to_compact())

    def _resyncs(self) -> set[str]:
        """The tables that are to be copied again, and whose copy has not begun."""
        return self._control.to_resync - (self._tables.unfinished | self._tables.restless)

    def _with_copies(self, until: StreamOffset) -> StreamOffset:
        """The position, or a later one that makes the tables whole which have been copied since it was read."""
        ends = [until]
        for table in self._tables.followed.values():
            ends += [table.offset, *([table.snapshot_until] if table.may_be_ahead else ())]
        ends = [end for end in ends if end.position.server_uuid == until.position.server_uuid]
        return max(ends, key=lambda offset: position_key(offset.position))

    def _waits(self) -> bool:
        """Whether a copy waits for an archive that lags behind, or for a busy server. Raises its error if it waits too long."""
        if not self._tables.lagging:
            self._waiting_since = None
            return False
        self._waiting_since = self._waiting_since or time.monotonic()
        if time.monotonic() - self._waiting_since > self._patience_s:
            raise next(iter(self._tables.lagging.values()))
        return True

    def _stay_alive(self) -> None:
        """Renew the lease and the sign of life, and clean the lake: an interval may be longer than the former are valid, and the latter
        is done in parts.
        """
        self._lease.keep()
        self._beat(self._pulse.beat)
        if not self._control.paused:
            self._upkeep.work(self._tables.followed)

    def _beat(self, beat: Callable[[Position | None, int | None], None]) -> None:
        offsets = [table.offset for table in self._tables.followed.values()]
        if not offsets:
            beat(None, None)
            return
        last = min(offsets, key=lambda offset: position_key(offset.position))
        beat(last.position, last.commit_us)

    def tidy(self) -> None:
        """After `run`: compact the tables that need it, wait until that is done, and compare the tables with the source if it is
        time to. After `stop`, and while the mirror is paused, no compaction and no comparison begins. Raises as `run`.
        """
        self._upkeep.finish(self._tables.followed, self._lease.keep, self._is_interrupted)
        self._recorder.record()
        if not self._is_interrupted():
            self._verification.work(self)
            self._beat(self._pulse.beat_now)

    def reach(self, position: Position | None = None) -> bool:
        """After `run`: follow the log up to a position of the source, by default its end; False if `stop` came
        before. Raises as `run`, PausedError if the mirror is paused, and LogLagsError if an archive does not reach the
        position in time.
        """
        try:
            self._reach(position)
        except LogLagsError:  # the rounds before the wait are complete
            raise
        except BinlogError as error:
            self.round_error = error
            raise
        self._control.check_not_paused()  # this is no error of a round
        return not self._stop.is_set()

    def _reach(self, position: Position | None) -> None:
        self._tables.renew_limit()
        log = self._planner.head().position
        if position is None:
            until = self._planner.latest()
        elif is_log_of(log.server_uuid, position.server_uuid):
            until = StreamOffset(replace(position, server_uuid=log.server_uuid))
        else:
            until = StreamOffset(position)
        wait = self._archive_wait()
        while not self._is_interrupted():
            self._lease.keep()
            if self._round(until):
                continue
            if self._has_copies():  # of tables that a statement has changed
                self._tables.continue_copies()
                continue
            # (an archive may have got more since the round)
            if position is None or (wait.has_reached(position) and not self._round(until)):
                break
        if not self._control.paused:
            self._recorder.record()

    def may_have_changed(self, table: Followed, until: Position) -> bool:
        """See `later_statements.may_have_changed`. Raises the errors of `keep_lease`, too."""
        wait = self._archive_wait()
        return may_have_changed(self._planner, self.options, table, until, wait, self.keep_lease)

    def _archive_wait(self) -> ArchiveWait:
        return ArchiveWait(self._planner, self._host, self._stop, self._patience_s)

    def keep_lease(self) -> None:
        """Renew the lease if it is time to, in a comparison. Raises LakeInUseError if another process has taken it over,
        StoppedError after `stop`, and PausedError in a scheduled comparison if the mirror was paused.
        """
        self._keep_going("before its tables were compared")
        self._verification.check_not_paused()

    @property
    def url(self) -> str:
        """The URL of the server whose tables are compared: one host, whose log the mirror reads. Raises as `SourceHost.copied_url`."""
        return self._host.copied_url()

    @property
    def tables(self) -> dict[str, Followed]:
        """The tables that are followed, by name."""
        return dict(self._tables.followed)

    @property
    def quarantined(self) -> dict[str, str]:
        """The reasons of the wanted tables that are quarantined, by name. A start with other options may have left out some."""
        self._control.refresh()
        return {
            name: entry.reason
            for name, entry in self._control.quarantined.items()
            if self._tables.source.wants(*table_name(name))
        }

    def quarantine(self, full_name: str, reason: str) -> None:
        """Follow a table no longer until it is copied again."""
        self._tables.quarantine(full_name, reason)

    @property
    def not_copied(self) -> dict[str, str]:
        """The reasons why the lake does not show some wanted tables yet, by name: copies that wait or are not complete."""
        return self._tables.not_copied()

    @property
    def gone(self) -> dict[str, str]:
        """The reasons why the server no longer has some tables, by name."""
        return {name: entry.reason for name, entry in self._control.gone.items()}

    def _obey(self, to_compact: set[str]) -> None:
        """Handle the requests of other processes. `to_compact`: the tables whose requested compaction this run carries out."""
        self._tables.begin_round()
        wanted, requested = self._resyncs(), self._control.requested
        for full_name in sorted(wanted):  # first: the request stays if this is interrupted
            copy = self._tables.copy_again if full_name in requested else self._tables.continue_copy
            copy(full_name)
        if wanted:
            self._control.resync_begins(wanted)
        self._control.release(wanted)
        for full_name in sorted(to_compact & self._tables.followed.keys()):
            self._upkeep.want(self._tables.followed[full_name])
        if to_compact:
            self._control.compaction_begins(to_compact)

    # -- rounds ------------------------------------------------------------------------------------

    def _round(self, until: StreamOffset | None) -> bool:
        """One round of the tables that are furthest behind; whether there was anything to read."""
        try:
            with self._lease.kept():  # a large round can take longer than the lease is valid
                progressed = self._rounds.make(until)
        except FormatError as error:
            error.hint = LOG_IS_DAMAGED
            raise
        if progressed:
            self._after_round()
        return progressed

    def _after_round(self) -> None:
        self._task_files.clear()
        self._recorder.after_round()
