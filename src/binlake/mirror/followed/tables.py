"""The tables that a mirror follows: opened at their positions, copied, left, quarantined.

One class, although it is long: each of these steps decides in which of its sets (followed, unfinished, waiting, left out) a table is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from binlake.errors import BinlogError, PositionLostError, ServerError
from binlake.follow.planner import StreamPlanner
from binlake.follow.server_logs import PATIENCE_S
from binlake.format.sql_names import TableName
from binlake.lake.jobs import SparkEngine
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import RESYNC, Control
from binlake.mirror.followed.absent import AbsentTables
from binlake.mirror.followed.copy_attempts import CopyConflicts
from binlake.mirror.followed.copy_reasons import CopyReasons
from binlake.mirror.followed.copy_target import CopyTargets
from binlake.mirror.followed.first_copy import CopyProgress, FirstCopy, LogLagsError, LogPurgedError
from binlake.mirror.followed.former_tables import FormerTables, few_of
from binlake.mirror.followed.in_lake import MirroredTables, tables_in_lake
from binlake.mirror.followed.log_positions import LogPositions
from binlake.mirror.followed.table import Followed, followed_tables
from binlake.mirror.followed.table_record import has_pending_copy
from binlake.mirror.followed.unmatched import UnmatchedPatterns
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import TableSelection
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.refusals import (
    AlteredError,
    concerns_other_tables,
    is_lasting,
    is_of_table,
    is_passing,
)
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED, why_damaged
from binlake.mirror.tables.formats import LakeTables
from binlake.snapshot.read_session import LOCK_WAIT_S
from binlake.values.quantities import counted
from binlake.values.table_names import full_name_of, table_name

_COPIES = 10
_LONGEST_WAIT_S = 600.0
# Of one table, in a run that is to end: a statement can make each of them useless.
_MOST_COPIES = 4
#: Seconds after which a copy gives way to the rounds of other tables.
COPY_S = 20.0


class FollowedTables:
    """The tables that a mirror follows, by name (`followed`), and those whose copy was interrupted (`unfinished`).

    `lagging`: those of the latter whose copy waits for an archive that lags behind, or for a busy server, with its error.
    `namespaces` are those of the lake tables that the mirror has, or copies into. `left_out`: those that the server has
    got since `limit` was called; `restless`: those that have been altered in each of several copies since then.
    `is_interrupted` reports whether a copy should be continued later. A copy of many chunks also gives way to the rounds
    of other tables after each `copy_s` seconds. `stop` ends a wait for a server that is not available.
    `note` receives messages for the user, `watch` the progress of a copy. `apply_departure` applies the statement of the log that has
    removed a table from the server, and returns whether there is one; it raises LogLagsError if the log of an archive may get it later.
    `count_zero_dates`: see `FirstCopy`; `after_copy` receives the name of each table that was copied. `kept` keeps the lease during a copy, which may read a table at once.
    """

    _busy: ServerError | None = None
    _copies_ended = float("-inf")

    def __init__(
        self,
        lake: LakeTables,
        host: SourceHost,
        engine: SparkEngine,
        planner: StreamPlanner,
        control: Control,
        options: MirrorOptions,
        rules: ColumnRules,
        indexes: Path,
        *,
        note: Callable[[str], None],
        watch: Callable[[CopyProgress], None],
        is_interrupted: Callable[[], bool],
        copy_s: float = COPY_S,
        stop: threading.Event | None = None,
        kept: Callable[[], AbstractContextManager[None]] = nullcontext,
        count_zero_dates: Callable[[Mapping[str, int]], None] = lambda _counts: None,
        after_copy: Callable[[str], None] = lambda _full_name: None,
    ) -> None:
        self.followed: dict[str, Followed] = {}
        self.unfinished: set[str] = set()
        self.namespaces: set[str] = set()
        self.lagging, self._failed_at = dict[str, BinlogError](), dict[str, float]()
        self._busy_until = self._copy_until = 0.0
        self.left_out, self.restless = set[str](), set[str]()
        self.apply_departure: Callable[[Followed], bool] = lambda _table: False
        self._wanted_from_now: frozenset[TableName] | None = None
        self._copied, self._conflicts = Counter[str](), CopyConflicts()
        self.source = WantedTables(host, options, self._selection, PATIENCE_S, stop)
        self._changed = control.added, control.removed, frozenset(control.quarantined)
        self._shards: dict[str, dict[str, Followed]] = {}
        self._lake, self._mirrored = lake, MirroredTables(lake, self.namespaces)
        self._absent = AbsentTables(self, lake, control, options, indexes, self._mirrored, note)
        self._control, self._options, self._rules = control, options, rules
        self._indexes, self._note = indexes, note
        self._copy_s, self._kept, self._after_copy = copy_s, kept, after_copy
        self._reported, self._in_turn = set[str](), set[str]()  # `_in_turn`: about to be copied
        self._reasons = CopyReasons(watch)
        self._first_copy = FirstCopy(
            lake,
            host,
            engine,
            planner,
            options,
            rules,
            CopyTargets(lake, options, rules, indexes, note, self.shards_in, control),
            indexes,
            note,
            self._reasons,
            is_interrupted,
            self._gives_way,
            self.shards_in,
            FormerTables(lake, control, options, rules, self._mirrored, note),
            LogPositions(planner, host),
            count_zero_dates,
        )

    def _selection(self) -> TableSelection:
        """The current selection: users change it while the mirror runs."""
        return TableSelection.of(self._options, self._control.added, self._control.removed)

    def _gives_way(self) -> bool:
        """Whether the copy that is being made has to wait for a round of the other tables."""
        return bool(self.followed) and time.monotonic() >= self._copy_until

    def follows(self, table: Followed) -> bool:
        """Whether a table is still followed, and was not copied again."""
        return self.followed.get(table.full_name) is table

    def open(self) -> None:
        """The tables of the lake that a mirror has copied, at their positions."""
        opened: dict[tuple[str, str], dict[str, Followed]] = {}
        found = tables_in_lake(
            self._lake, self._control, self._options, self.quarantine_damaged, self._note
        )
        self.namespaces.update(name[0] for names in found.values() for name in names)
        for full_name, names in found.items():
            name = table_name(full_name)
            if full_name in {*self._control.quarantined, *self._control.gone}:
                continue
            if not self.source.wants(*name):
                continue
            wanted = self._options.lake_name(*name)
            in_lake = wanted if wanted in names else names[0]
            try:
                if in_lake not in opened:
                    opened[in_lake] = followed_tables(
                        self._lake, in_lake, self._indexes, self._control, self._options
                    )
            except (*OF_ONE_TABLE, CommitConflictError) as error:
                self.quarantine(full_name, str(error))
                continue
            except DAMAGED as error:
                if full_name not in self._control.to_resync:  # else the copy replaces its files
                    self.quarantine_damaged(full_name, error)
                continue
            known = opened[in_lake].get(full_name)
            if known is None:
                continue  # a shard whose copy was asked for
            if has_pending_copy(known.lake.properties):
                self.unfinished.add(full_name)  # a copy was stopped before it was complete
                self._absent.keep_offset(full_name, known.offset)
                continue
            if full_name not in self._control.to_resync:
                known.check_rules(self._rules, self._options)
            self._take(known)
        self._note_other_deletes()

    def _note_other_deletes(self) -> None:
        """Report the tables that keep the kind of deletes of their copies: both kinds are right, but not for each reader."""
        wanted = self._options.deletes
        others = [
            name
            for name, table in self.followed.items()
            if table.lake.properties.get("binlake.deletes", wanted) != wanted
        ]
        if others:
            self._note(
                f"these tables keep the deletes of their first copy, and not {wanted!r}: {few_of(others)}. To change them, run"
                " `binlake mirror resync`"
            )

    def limit(self) -> None:
        """Let the mirror come to an end although the server makes DDL all the time: from now on, copy only tables that the
        server has now, each of them a few times at most.
        """
        self._wanted_from_now = frozenset(self.source.names())
        self.left_out.clear()

    def renew_limit(self) -> None:
        """Copy also the tables that the server has got since `limit`, if that was called."""
        if self._wanted_from_now is not None:
            self.limit()

    def check_options(self) -> None:
        """Raise OptionError if two tables would have one lake table, or one table would have two modes, for patterns in upper
        case that can match no table, and at the first start for patterns of columns that are likely to be misspelled. Report
        patterns that match no column.

        At the first start, and whenever the options have changed, this is a mistake in the options. Later, it is due to a
        table that the server has got since: the copy of this table quarantines it.
        """
        self._options.check_case(self.source.has_lower_case_names)
        is_first = not self._known()
        if is_first or self._options != self._control.options:
            aside = self._control.quarantined
            names = [name for name in self.source.names() if full_name_of(*name) not in aside]
            self._options.check_tables(names)
        self._patterns.check_columns(is_first_start=is_first)

    def find_new(self) -> list[str]:
        """The tables that are not in the lake yet. `not_copied` has them from now on."""
        aside = {*self._control.quarantined, *self._control.to_resync, *self.followed}
        new = [name for name in self.source.names() if full_name_of(*name) not in aside]
        wanted = self._wanted_from_now
        if wanted is not None:
            self.left_out.update(full_name_of(*name) for name in new if name not in wanted)
        found = [full_name_of(*name) for name in new if wanted is None or name in wanted]
        self._in_turn = {*found}
        return found

    def add(self) -> None:
        """Copy the tables that are not in the lake yet."""
        self.copy_new(self.find_new())

    def copy_new(self, names: Sequence[str]) -> None:
        """Copy tables that `find_new` has found; those for which there is no time wait."""
        ends = time.monotonic() + self._copy_s
        for at, full_name in enumerate(names):
            waits = self.unfinished or (self.followed and time.monotonic() >= ends)
            if waits and full_name not in self.followed:
                self.unfinished.add(full_name)
            elif full_name not in self.followed:
                try:
                    self.copy(full_name)
                except PositionLostError:  # a round goes on after a new look at the log
                    self.unfinished.update(set(names[at:]) - self.followed.keys())
                    raise
            self._in_turn.discard(full_name)

    def copies_are_due(self) -> bool:
        """Whether copies have waited for rounds as long as they may take themselves."""
        return time.monotonic() - self._copies_ended >= self._copy_s

    def continue_copies(self) -> None:
        """Continue copies that are not complete, until one gives way or the time for copies is over."""
        ends = time.monotonic() + self._copy_s
        for full_name in sorted(self.unfinished, key=self._turn):
            # several tables that wait for the server take no more of the time than one
            busy = self._busy or self.lagging.get(full_name)
            if time.monotonic() < self._busy_until and isinstance(busy, ServerError):
                self._wait(full_name, busy)
                continue
            self._in_turn.add(full_name)
            self.copy(full_name)
            self._in_turn.discard(full_name)
            if full_name not in self.unfinished | self.restless:
                self._control.resynced(full_name)
            elif full_name in self.unfinished - self.lagging.keys():
                break
            if time.monotonic() >= ends:
                break
        self._copies_ended = time.monotonic()

    def _turn(self, full_name: str) -> tuple[bool, float, str]:
        """The order of copies: those that wait come last, and of them the one that has failed last."""
        return full_name in self.lagging, self._failed_at.get(full_name, 0.0), full_name

    def _put_off(self, full_name: str) -> None:
        """Continue a copy later. A followed table is forgotten: rounds would take it past the change that makes the copy necessary."""
        if full_name in self.followed:
            self._control.keep_resyncing(full_name)
            self._forget_but_offset(full_name)
        self.unfinished.add(full_name)

    def copy_again(self, full_name: str) -> None:
        """Copy a table again because a user has requested it since an earlier copy began, if there is one."""
        self._first_copy.begin_anew(full_name)
        self.continue_copy(full_name)

    def continue_copy(self, full_name: str) -> None:
        """Continue the copy that a user has requested; earlier copies of this run do not count any more."""
        self._forget_but_offset(full_name)
        self._copied.pop(full_name, None)
        self._conflicts.forget(full_name)
        self.unfinished.add(full_name)

    def _wait(self, full_name: str, error: BinlogError) -> None:
        """Continue a copy later that cannot be continued now for one of the reasons in `lagging`."""
        if full_name not in self._reported:
            self._reported.add(full_name)
            self._note(f"{full_name}: its copy waits: {error}")
        self._put_off(full_name)
        self.lagging[full_name] = error

    def _leave_to_next_run(self, full_name: str) -> None:
        """Leave a table to the next run, which copies it again. Until then the lake has the rows of an earlier copy."""
        self._control.keep_resyncing(full_name)
        self.forget(full_name)
        self.restless.add(full_name)

    def begin_round(self) -> None:
        """Follow the tables that users have added, and stop following those that they have removed, or that were quarantined."""
        self._mirrored.begin_round()
        quarantined = self._control.quarantined
        for full_name in sorted(self.followed.keys() & quarantined.keys()):
            self.forget(full_name)
            self._note(f"{full_name} is quarantined: {quarantined[full_name].reason}")
        now = self._control.added, self._control.removed, frozenset(quarantined)
        before, self._changed = self._changed, now
        if now[:2] == before[:2] and now[2] >= before[2]:
            return
        new = set(now[0]).difference(before[0])
        if self._wanted_from_now is not None:
            self.limit()
        for full_name in sorted({*self.followed, *self.unfinished}):
            if not self.source.wants(*table_name(full_name)):
                self.unselect(full_name)
        self.add()
        self._patterns.note_additions(new)

    def unselect(self, full_name: str) -> None:
        """Follow a table no longer that a user has removed."""
        self.unfinished.discard(full_name)
        self.forget(full_name)
        self._first_copy.give_up(full_name)
        self._note(f"{full_name} is no longer followed; its lake table stays as it is")

    @property
    def _patterns(self) -> UnmatchedPatterns:
        return UnmatchedPatterns(
            self.source, self._options, self._rules, self._selection(), self._note
        )

    def _known(self) -> set[str]:
        """The tables that the lake has, or has had."""
        aside = {*self._control.quarantined, *self._control.gone, *self._control.to_resync}
        return {*self.followed, *self.unfinished, *aside}

    def sound_names(self) -> list[TableName]:
        """The tables of the server that the mirror wants, without the quarantined ones."""
        aside = self._control.quarantined
        return [name for name in self.source.names() if full_name_of(*name) not in aside]

    def check_selection(self) -> None:
        """Raise OptionError if the options select no table of the server and no table that the lake has."""
        self._patterns.check_selection(self._known())

    def note_unmatched(self) -> None:
        """Report patterns that match no table: they may be misspelled."""
        self._patterns.note_tables(self._known(), {*self.followed, *self._control.gone})
        self._patterns.note_additions(self._control.added)

    def note_left(self) -> None:
        """Report the tables that the next run has to copy. Raises AlteredError for those that were altered again and again."""
        newer = self.left_out & {full_name_of(*name) for name in self.source.names()}
        if newer:
            self._note(
                f"the next run copies {counted(len(newer), 'table')} that were created on the server since this run began, for"
                f" example {min(newer)}"
            )
        if self.restless:
            raise AlteredError(
                f"{', '.join(sorted(self.restless))}: each of {_MOST_COPIES} copies was outdated by an ALTER before it was complete",
                hint="the next run copies it again; start it when nothing alters the table",
            )

    def not_copied(self) -> dict[str, str]:
        """The reasons why the lake does not show some wanted tables yet, by name."""
        unfinished = self.unfinished | self._in_turn
        reasons = self._reasons.of(self._control.to_resync, self.restless, unfinished, self.lagging)
        return {name: why for name, why in reasons.items() if name not in self.followed}

    def copy(self, full_name: str) -> None:
        """Copy a table, or copy it again; a table that cannot be followed, or that the server cannot read, is quarantined.
        Raises BinlogError for all other errors.
        """
        self.unfinished.discard(full_name)
        self._copy_until = time.monotonic() + self._copy_s
        self.lagging.pop(full_name, None)
        name = table_name(full_name)
        if not self.source.has(name):
            self._missing(full_name)
            return
        if self._wanted_from_now is not None and self._copied[full_name] >= _MOST_COPIES:
            self._leave_to_next_run(full_name)
            return
        self.namespaces.add(self._options.lake_name(*name)[0])
        for attempt in range(_COPIES):
            began = time.monotonic()
            try:
                table, create_table = self.source.read(name)
                with self._kept():
                    made = self._first_copy.make(
                        table, create_table, self._control.round, lambda: self.source.read(name)
                    )
                if made is None:  # it is continued after a round or a pause, or at the next start
                    self._put_off(full_name)
                    return
            except LogLagsError as error:
                self._wait(full_name, error)
                return
            except DAMAGED as error:
                self.quarantine_damaged(full_name, error)
                return
            except OF_ONE_TABLE as error:
                self.quarantine(full_name, str(error))
                return
            except LogPurgedError as error:
                self.quarantine(full_name, f"{error}; {RESYNC}")
                return
            except CommitConflictError as error:
                if reason := self._conflicts.add(full_name, error):
                    self.quarantine(full_name, f"{reason}; {RESYNC}")
                    return
                self._first_copy.remove_state(full_name)
                self._note(f"{full_name}: its copy begins again: {error}")
                continue
            except BinlogError as error:
                if not self._begins_again(full_name, error, attempt, time.monotonic() - began):
                    return
                continue
            self.forget(full_name)
            self._take(made)
            self._copied[full_name] += 1
            self._conflicts.forget(full_name)
            self._reported.discard(full_name)
            self._control.returned(full_name)
            self._after_copy(full_name)
            return

    def _begins_again(
        self, full_name: str, error: BinlogError, attempt: int, took_s: float
    ) -> bool:
        """Whether a copy that has met an error begins again. If not, the table has been left out or quarantined, or its copy
        waits. Raises the error if it does not concern the table alone.
        """
        if not self.source.has(table_name(full_name)):
            self._missing(full_name)  # dropped or renamed while it was read
            return False
        if not isinstance(error, ServerError) or isinstance(error, PositionLostError):
            raise error
        if is_passing(error):
            self._later(full_name, error, LOCK_WAIT_S)
            return False
        is_last = attempt == _COPIES - 1
        if error.retryable and took_s > LOCK_WAIT_S:
            # the server is there, but a query on this table may take it longer than binlake waits
            self._later(full_name, error, took_s)
            return False
        is_once = self._wanted_from_now is not None
        if is_last and is_once and isinstance(error, AlteredError):
            self._leave_to_next_run(full_name)
            return False
        if not is_last and not is_lasting(error):
            # altered or emptied while it was read: the server lacks a column, or refuses to continue; or it has been restarted
            self._note(f"{full_name}: its copy begins again: {error}")
            return True
        if not is_of_table(error):
            raise error
        self.quarantine(full_name, f"{error}; {RESYNC}")
        return False

    def _later(self, full_name: str, error: ServerError, took_s: float) -> None:
        """Continue a copy later: other copies come first, and the rounds of other tables have at least half of the time, but
        copies wait no longer than a query may be silent.
        """
        now = time.monotonic()
        self._failed_at[full_name] = now
        if now >= self._busy_until:
            self._busy = None
        self._busy_until = max(self._busy_until, now + min(took_s, _LONGEST_WAIT_S))
        if concerns_other_tables(error):
            self._busy = error
        self._wait(full_name, error)

    def _missing(self, full_name: str) -> None:
        """Stop following a table that should be copied, but that the server does not list, unless the log is of an archive that may
        not have the reason yet.
        """
        try:
            self._absent.stop_following(full_name)
        except LogLagsError as error:
            self._wait(full_name, error)

    def leave(self, full_name: str, how: str) -> None:
        """Keep the lake table of a table that the server no longer has; `how` is the reason."""
        self.forget(full_name)
        self._first_copy.give_up(full_name)
        self._control.leave(full_name, how)
        self._note(f"{full_name} no longer exists; its lake table stays: {how}")

    def _take(self, table: Followed) -> None:
        self.followed[table.full_name] = table
        if table.shard_column:
            table.shards[table.full_name] = table
            self._shards[table.lake.full_name] = table.shards

    def forget(self, full_name: str) -> None:
        """Follow a table no longer, here and in this run."""
        self.followed.pop(full_name, None)
        self.lagging.pop(full_name, None)
        self._failed_at.pop(full_name, None)
        self._absent.forget(full_name)
        for shards in self._shards.values():
            shards.pop(full_name, None)

    def _forget_but_offset(self, full_name: str) -> None:
        """Follow a table no longer until it is copied again. If the server drops it before that, the statement comes after its place."""
        offset = self._absent.offset_of(full_name)
        self.forget(full_name)
        if offset is not None:
            self._absent.keep_offset(full_name, offset)

    def shards_in(self, name: tuple[str, str]) -> dict[str, Followed]:
        """The shards of a lake table that are followed now."""
        return self._shards.setdefault(".".join(name), {})

    def quarantine(self, full_name: str, reason: str) -> None:
        """Follow a table no longer until it is copied again."""
        self.quarantine_all({full_name: reason})

    def quarantine_all(self, reasons: Mapping[str, str]) -> None:
        """Follow tables no longer until they are copied again, each for its reason; one commit records them."""
        for full_name in reasons:
            self.forget(full_name)
            self._first_copy.give_up(full_name)
        self._control.quarantine_all(reasons)
        for full_name, reason in reasons.items():
            self._note(f"{full_name} is quarantined: {reason}")

    def quarantine_damaged(self, full_name: str, error: Exception, where: str = "") -> None:
        """Quarantine a table for an error of reading its lake table, see `DAMAGED`. `where`: the statement of the log, and a colon."""
        self.quarantine(full_name, f"{where}{why_damaged(error)}; {RESYNC}")
