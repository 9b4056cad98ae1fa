"""Maintenance of lake tables between the rounds: compaction, expiry of snapshots, orphans.

    upkeep = Upkeep(engine, control, options, indexes, note)
    upkeep.work(tables)        # after each round: begins what is due, commits what is done

Only the loop commits. Rows are rewritten by tasks beside the rounds, for one table at a time and for at most half of the
time; deletes of these rounds are translated at the commit. `iceberg/cleaning.py` has the expiry and the orphans.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from binlake.errors import BinlogError, SourceError
from binlake.lake.engine import Engine
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.commits import reload_own
from binlake.mirror.control import Control
from binlake.mirror.control_upkeep import BACK_OFF_S
from binlake.mirror.followed.in_lake import UnreadTables
from binlake.mirror.followed.table import Followed, followed_tables
from binlake.mirror.followed.table_record import has_pending_copy, merged_tables, mirrored_tables
from binlake.mirror.iceberg.cleaning import Cleaning, iceberg
from binlake.mirror.iceberg.compaction import RewriteOrder, Rewritten
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.lake_state import lock_if_free
from binlake.mirror.lease import Holder, LakeInUseError, Lease
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import (
    TableSelection,
    check_not_merged,
    checked_patterns,
    chosen_tables,
    is_pattern,
)
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import FileState, all_groups, due_groups
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.data_files import remove_file
from binlake.mirror.tables.formats import DELTA, LakeTables
from binlake.values.table_names import table_name

# A look that takes longer is followed by a pause of so many times as long: it reads the states of all files of each table that has
# changed, which takes a second with 50,000 files.
_SHORT_S = 0.1
_PAUSE = 10

_Groups = list[list[FileState]]


@dataclass
class _Job:
    """Rewrites groups of data files of one table in a thread of its own."""

    name: str
    lake: MirrorTable
    engine: Engine
    orders: list[RewriteOrder]
    began: float = field(default_factory=time.monotonic)
    done: list[Rewritten] = field(default_factory=list)
    error: BaseException | None = None
    thread: threading.Thread | None = None
    is_unwanted: bool = False

    def start(self) -> None:
        """Begin."""
        name = f"binlake-compact-{self.name}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, with or without an error."""
        return self.thread is not None and not self.thread.is_alive()

    def wait(self) -> None:
        """Wait until it has ended."""
        if self.thread is not None:
            self.thread.join()

    def abandon(self) -> None:
        """Discard its files, now or when it ends."""
        self.is_unwanted = True
        if self.is_over:
            _discard(self.done)

    def _run(self) -> None:
        try:
            tasks = [order.task() for order in self.orders]
            answers = self.engine.run(tasks, f"compact {self.name}", lambda _done, _all: None)
            for order, answer in zip(self.orders, answers, strict=True):
                self.done.append(order.done(json.loads(answer)))
        except BaseException as error:  # noqa: BLE001 - the loop's thread raises it
            self.error = error
        if self.is_unwanted:
            _discard(self.done)


class TableUpkeep(Protocol):
    """Compaction and expiry between the rounds, for the thread of the loop.

    `failed` are the tables whose compaction has failed, each with a note.
    """

    failed: set[str]

    def work(self, tables: Mapping[str, Followed], *, is_behind: bool = False) -> None:
        """Do a part of the work that is due. `is_behind`: the next rounds have much to apply."""

    def finish(
        self,
        tables: Mapping[str, Followed],
        keep: Callable[[], None],
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Compact what is due, complete a search for orphans that has begun, and wait until both are done; begin no other table
        when `is_interrupted`. `keep` is called before each commit.
        """

    def want(self, table: Followed) -> None:
        """Compact a table wholly."""

    def remove_orphans(self, tables: Mapping[str, Followed]) -> None:
        """Remove old files of killed runs."""

    def close(self) -> None:
        """Give up what has not been committed."""


def upkeep_of(
    engine: Engine,
    control: Control,
    options: MirrorOptions,
    indexes: Path,
    note: Callable[[str], None],
    kept: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> TableUpkeep:
    """The upkeep of tables in the format of the options. `indexes`: the state directory. `kept` keeps the lease during work in which nothing else can."""
    if options.format == DELTA:
        from binlake.mirror.delta.upkeep import DeltaUpkeep

        return DeltaUpkeep(control, options, indexes, note, kept)
    return Upkeep(engine, control, options, indexes, note, kept)


class Upkeep:
    """Compacts tables, expires snapshots, removes orphans. For the thread of the loop.

    `indexes` is the state directory. `note` receives messages for the user, also where work on a table fails: that does not stop the
    mirror. `kept` keeps the
    lease while the files of a table are listed. Raises SourceError of the control table.
    """

    def __init__(
        self,
        engine: Engine,
        control: Control,
        options: MirrorOptions,
        indexes: Path,
        note: Callable[[str], None],
        kept: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._engine = engine
        self._control = control
        self._options = options
        self._note = note
        self._policy = options.compaction
        self._cleaning = Cleaning(control, options, indexes, note, kept)
        self._job: _Job | None = None
        self._wanted: dict[str, list[_Groups]] = {}
        self._looked: dict[str, int | None] = {}
        self._compacted: dict[str, float] = {}
        self._rest_until: dict[str, float] = {}
        self._next_job = self._next_look = float("-inf")
        self.failed: set[str] = set()

    def work(self, tables: Mapping[str, Followed], *, is_behind: bool = False) -> None:
        """Do a part of the work that is due. It waits for commits, and for about a second of expiry or search for orphans."""
        self._settle(tables)
        if self._job is None and time.monotonic() >= self._next_job:
            self._look(tables)
        self._cleaning.work(tables, self._busy, is_behind=is_behind)

    def finish(
        self,
        tables: Mapping[str, Followed],
        keep: Callable[[], None],
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Compact what is due, complete a search for orphans that has begun, and wait until both are done; begin no other table
        when `is_interrupted`. `keep` is called before each commit.
        """
        while not is_interrupted():
            if self._job is None:
                self._begin(tables)
            if self._job is None:
                break
            self._job.wait()
            keep()
            self._settle(tables)
        self._cleaning.finish(tables, keep, is_interrupted)

    def close(self) -> None:
        """Give up what has not been committed."""
        if self._job is not None:
            self._job.abandon()
            self._job = None

    def want(self, table: Followed) -> None:
        """Compact a table wholly: no deleted rows, no small files."""
        self._wanted[table.full_name] = list(
            all_groups(iceberg(table).files.states(), self._policy)
        )

    # -- compaction --------------------------------------------------------------------------------

    def _look(self, tables: Mapping[str, Followed]) -> None:
        """Begin a job, looking for one at most a tenth of the time, and at requested tables always."""
        began = time.monotonic()
        if began < self._next_look:
            self._begin({name: table for name, table in tables.items() if name in self._wanted})
            return
        self._begin(tables)
        ended = time.monotonic()
        took = ended - began
        self._next_look = ended + (_PAUSE * took if took > _SHORT_S else 0)

    def _begin(self, tables: Mapping[str, Followed]) -> None:
        """Begin the job of the table that has waited longest."""
        now = time.monotonic()
        for name in sorted(
            tables, key=lambda n: (n not in self._wanted, self._compacted.get(n, 0))
        ):
            table = tables[name]
            groups = self._groups(table) if self._rest_until.get(name, 0) <= now else []
            if groups:
                self._compacted[name] = now
                orders = [iceberg(table).rewrite_of(group) for group in groups]
                self._job = _Job(name, iceberg(table), self._engine, orders)
                self._job.start()
                return

    def _groups(self, table: Followed) -> _Groups:
        name = table.full_name
        queue = self._wanted.get(name, [])
        while queue:
            there = {file.path for file in iceberg(table).files.states()}
            groups = [of for of in queue.pop(0) if all(file.path in there for file in of)]
            if groups:
                return groups
        if self._wanted.pop(name, None) is not None:
            self._lists_to_one(table, 2)
        if self._options.compact == "off" or self._looked.get(name, -1) == table.lake.snapshot:
            return []
        self._looked[name] = table.lake.snapshot
        groups = due_groups(iceberg(table).files.states(), self._policy)
        if not groups:
            self._lists_to_one(table, self._policy.files)
        return groups

    def _lists_to_one(self, table: Followed, least: int) -> None:
        """Make one file of many position deletes of files that need no compaction themselves."""
        if iceberg(table).files.most_delete_lists() < least:
            return
        try:
            self._commit(table, [])
        except CommitConflictError as error:
            self._failed(table.full_name, error)
        except BinlogError as error:
            self._perhaps_committed(table, error)

    def _settle(self, tables: Mapping[str, Followed]) -> None:
        """Commit a job that has ended."""
        job = self._job
        if job is None or not job.is_over:
            return
        self._job = None
        took = time.monotonic() - job.began
        self._next_job = time.monotonic() + took
        table = tables.get(job.name)
        if job.error is not None:
            # whatever the error: the rows are unchanged, and rounds continue
            self._failed(job.name, job.error)
        elif table is not None and table.lake is job.lake:
            try:
                gone = self._commit(table, job.done)
                # those that replace files which are not there any more
                there = job.lake.files.rows
                _discard([one for one in job.done if one.file and one.path not in there])
                self._note(
                    f"{job.name}: {gone} data files compacted in {took:.1f} s"
                    if gone
                    else f"{job.name}: nothing was compacted: its data files were replaced or emptied meanwhile"
                )
                self._looked.pop(job.name, None)
                return
            except CommitConflictError as error:
                self._failed(job.name, error)
            except BinlogError as error:
                self._perhaps_committed(table, error)
                return
        job.abandon()

    def _perhaps_committed(self, table: Followed, error: BinlogError) -> None:
        """Load the table again, whose new files stay. If that fails, its next round quarantines it."""
        self._failed(table.full_name, error)
        with suppress(*DAMAGED, *OF_ONE_TABLE, CommitConflictError):
            reload_own(table, self._options)

    def _failed(self, name: str, error: BaseException) -> None:
        self.failed.add(name)
        self._rest_until[name] = time.monotonic() + BACK_OFF_S
        self._wanted.pop(name, None)
        self._note(f"{name} was not compacted: {str(error).partition(chr(10))[0]}")

    def _commit(self, table: Followed, rewrites: Iterable[Rewritten]) -> int:
        properties = table.position_properties(table.offset, self._control.round)
        return iceberg(table).commit_rewrites(list(rewrites), properties)

    def remove_orphans(self, tables: Mapping[str, Followed]) -> None:
        """Remove old files of killed runs."""
        self._cleaning.remove_orphans(tables, self._busy)

    @property
    def _busy(self) -> MirrorTable | None:
        """The table that is being compacted."""
        return None if self._job is None else self._job.lake


def _discard(rewrites: Iterable[Rewritten]) -> None:
    """Remove new files that no commit names."""
    for one in rewrites:
        if one.file is not None:
            remove_file(one.path)


def compact_tables(
    lake: LakeTables,
    engine: Engine,
    indexes: Path,
    names: Sequence[str],
    note: Callable[[str], None],
) -> None:
    """Compact tables wholly (all without `names`, which may be patterns), here, or by the mirror that runs in another process.

    Raises SourceError for a table that the mirror does not follow, and where the lake has no mirror, OptionError for a pattern
    that matches none of its tables, and BinlogError if tables could not be compacted here: `note` has received the reasons,
    and the other tables are done.
    """
    if names:
        checked_patterns(names)
    control = Control(lake)
    options = control.options
    unreadable = UnreadTables(control)
    there = mirrored_tables(lake, unreadable=unreadable)
    unread = unreadable.among([name for name in names if not is_pattern(name)])
    selection = TableSelection.of(options, control.added, control.removed)
    aside = control.quarantined.keys() | control.gone.keys()
    both = there.keys() | unread.keys()
    known = {name for name in both - aside if selection.wants(*table_name(name))}
    check_not_merged(names, known, lambda: merged_tables(lake))
    if unknown := sorted({name for name in names if not is_pattern(name)} - known):
        raise SourceError(
            f"the mirror has no table {', '.join(unknown)}, or it is quarantined, gone or removed",
            hint="`binlake mirror status` lists its tables",
        )
    wanted = chosen_tables(names, known)
    lease = _lease_if_free(control, indexes, note)
    if lease is None:
        control.request_compaction(wanted)
        return
    with (
        closing(lease),
        closing(upkeep_of(engine, control, options, indexes, note, lease.kept)) as upkeep,
    ):
        tables: dict[str, Followed] = {}
        for name in sorted(wanted - there.keys()):
            upkeep.failed.add(name)
            note(f"{name} was not compacted: {unread[name]}")
        for name in sorted(wanted & there.keys()):
            if name in control.to_resync or _is_being_copied(lake, there[name][0]):
                # a copy that was interrupted continues only into the same snapshot
                note(f"{name} is not compacted: it is to be copied again")
                continue
            try:
                if name not in tables:
                    tables |= followed_tables(lake, there[name][0], indexes, control, options)
                upkeep.want(tables[name])
            except (*OF_ONE_TABLE, *DAMAGED, CommitConflictError) as error:
                upkeep.failed.add(name)
                note(f"{name} was not compacted: {str(error).partition(chr(10))[0]}")
        upkeep.finish(tables, lease.keep)
        upkeep.remove_orphans(tables)
        if upkeep.failed:
            raise BinlogError(f"not compacted: {', '.join(sorted(upkeep.failed))}")


def _is_being_copied(lake: LakeTables, name: tuple[str, str]) -> bool:
    """Whether the copy into a lake table has begun, and is not complete."""
    return has_pending_copy(lake.load(*name).describe()["properties"])


def _lease_if_free(control: Control, indexes: Path, note: Callable[[str], None]) -> Lease | None:
    """The lease of the lake; None if another process has it, which `note` names."""
    locked = lock_if_free(indexes)
    holder = Holder.from_text(control.lease)
    if locked is not None:
        try:
            return Lease(control, "the lake", indexes, locked, note)
        except LakeInUseError:
            holder = Holder.from_text(control.lease)
    who = "" if holder is None else f" ({holder})"
    when = (
        "after `binlake mirror resume`, because it is paused"
        if control.paused
        else "after its next round"
    )
    note(f"another process mirrors into the lake: it compacts the tables {when}{who}")
    return None
