"""Maintenance of Delta tables between the rounds: OPTIMIZE and VACUUM.

Both run in the thread of the loop, so rounds wait meanwhile. OPTIMIZE is Delta's own, and rewrites small files and
those with many deleted rows; the mirror decides when it is due, as for Iceberg.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

from binlake.errors import BinlogError
from binlake.mirror.control import NAMESPACE, ROUNDS, Control
from binlake.mirror.control_upkeep import BACK_OFF_S, ControlUpkeep
from binlake.mirror.delta.periods import readable_hours
from binlake.mirror.delta.table import DeltaTable
from binlake.mirror.followed.set_aside import lake_tables_set_aside
from binlake.mirror.followed.table import Followed
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import due_groups
from binlake.mirror.tables.sweep import Sweep

if TYPE_CHECKING:
    from binlake.mirror.delta.lake import DeltaLake

_VACUUM_S = 24 * 3600.0
_ROUNDS_S = 60.0
_PART_S = 1.0


class DeltaUpkeep:
    """Compacts tables and removes files that no version needs. `indexes` is the state directory. `note` receives messages for the user; `kept` keeps the
    lease during a statement of Delta.

    Raises SourceError, UnsupportedError, CommitConflictError.
    """

    def __init__(
        self,
        control: Control,
        options: MirrorOptions,
        indexes: Path,
        note: Callable[[str], None],
        kept: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._control = control
        self._options = options
        self._indexes = indexes
        self._note = note
        self._kept = kept
        self._policy = options.compaction
        self._control_upkeep = ControlUpkeep(control, self._policy, note)
        self._wanted: set[str] = set()
        self._looked: dict[str, int | None] = {}
        self._rest_until: dict[str, float] = {}
        self._next_rounds = float("-inf")
        self._tables: Mapping[str, Followed] = {}
        self._vacuum = Sweep(_PART_S, rest=3)
        self.failed: set[str] = set()

    def work(self, tables: Mapping[str, Followed], *, is_behind: bool = False) -> None:
        """Do the work that is due for one table. While the mirror `is_behind`, VACUUM waits."""
        for name, table in sorted(tables.items(), key=lambda one: one[0] not in self._wanted):
            if self._rest_until.get(name, 0) <= time.monotonic() and self._is_due(table):
                self._compact(table)
                break
        self._clean(tables)
        if not is_behind:
            self._vacuum.work()

    def finish(
        self,
        tables: Mapping[str, Followed],
        keep: Callable[[], None],
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Compact the tables that are due, and complete a VACUUM of all tables that has begun; begin no other table when
        `is_interrupted`. `keep` is called before each commit.
        """
        for table in tables.values():
            if is_interrupted():
                return
            if self._is_due(table):
                keep()
                self._compact(table)
        self._tables = tables
        while not self._vacuum.is_over and not is_interrupted():
            keep()
            self._vacuum.work_now()

    def want(self, table: Followed) -> None:
        """Compact a table wholly."""
        self._wanted.add(table.full_name)

    def close(self) -> None:
        """Nothing to release."""

    def _is_due(self, table: Followed) -> bool:
        name = table.full_name
        if name in self._wanted:
            return True
        if self._options.compact == "off" or self._looked.get(name, -1) == table.lake.snapshot:
            return False
        self._looked[name] = table.lake.snapshot
        return bool(due_groups(_delta(table).stored.file_states(), self._policy))

    def _compact(self, table: Followed) -> None:
        name, lake = table.full_name, _delta(table)
        self._wanted.discard(name)
        began, before = time.monotonic(), len(lake.stored.file_states())
        try:
            with self._kept():
                lake.optimize(self._options.file_bytes, self._properties(table))
        except BinlogError as error:
            if isinstance(error, CommitConflictError) and self._options.on_other_writer == "refuse":
                # if OPTIMIZE has been committed, the newest commit no longer shows the other writer
                self._control.quarantine(name, str(error))
            # whatever the error: the rows are unchanged, and rounds continue
            self.failed.add(name)
            self._rest_until[name] = time.monotonic() + BACK_OFF_S
            self._note(f"{name} was not compacted: {error}")
            return
        self._looked[name] = lake.snapshot
        took, after = time.monotonic() - began, len(lake.stored.file_states())
        self._note(f"{name}: compacted from {before} to {after} data files in {took:.1f} s")

    def _properties(self, table: Followed) -> dict[str, str]:
        """The snapshot properties of a commit that changes no rows: the table stays at its position."""
        return table.position_properties(table.offset, self._control.round)

    def _clean(self, tables: Mapping[str, Followed]) -> None:
        self._tables = tables
        now = time.monotonic()
        if now < self._next_rounds:
            return
        self._next_rounds = now + _ROUNDS_S
        hours = readable_hours(self._options.keep_snapshots_s)
        self._control_upkeep.clean(int((time.time() - hours * 3600) * 1000))
        if self._vacuum.is_over and self._control.orphans_are_due(_VACUUM_S):
            self._vacuum.begin(self._vacuum_steps())

    def remove_orphans(self, tables: Mapping[str, Followed]) -> None:
        """Remove old files of all tables now. See `_vacuum_steps`."""
        self._tables = tables
        for _ in self._vacuum_steps():
            pass

    def _vacuum_steps(self) -> Iterator[None]:
        """Remove the files that no version of Delta's safety period has, also of the control table, and those of killed
        copies. A table where that fails keeps them until the next time.

        Tables that are to be copied again are left alone: a copy may be continued.
        """
        names = [*self._tables]
        random.shuffle(names)  # the next start begins again, and may end before the last table, too
        for name in names:
            table = self._tables.get(name)  # it may have left the mirror meanwhile
            if table is None or name in self._control.to_resync:
                continue
            there = _delta(table)
            try:
                with self._kept():
                    there.remove_copies()
                    there.vacuum(self._options.keep_snapshots_s, self._properties(table))
            except BinlogError as error:
                self._note(f"{name}: old files were not removed: {error}")
            yield
        followed = {table.lake.full_name for table in self._tables.values()}
        lake = cast("DeltaLake", self._control.lake)
        try:
            with self._kept():
                for aside, _ in lake_tables_set_aside(
                    self._control, self._options, self._indexes, followed
                ):
                    lake.remove_copies(*aside)
                lake.remove_dropped()
        except BinlogError as error:
            self._note(
                f"files of copies or lake tables that were given up were not removed: {error}"
            )
        try:
            with self._kept():
                self._control.expire()
        except BinlogError as error:
            self._note(f"{NAMESPACE}.{ROUNDS}: old files were not removed: {error}")
        self._control.orphans_removed()


def _delta(table: Followed) -> DeltaTable:
    """The lake table, which is one of Delta."""
    assert isinstance(table.lake, DeltaTable)
    return table.lake
