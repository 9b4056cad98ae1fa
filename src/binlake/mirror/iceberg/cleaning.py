"""Expiry of the snapshots of Iceberg tables, and removal of files that no snapshot knows, a part of it between two rounds."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from binlake.errors import BinlogError
from binlake.format.sql_names import TableName
from binlake.mirror.control import OFFSET, Control
from binlake.mirror.control_upkeep import BACK_OFF_S, ControlUpkeep
from binlake.mirror.followed.set_aside import is_set_aside, lake_tables_set_aside
from binlake.mirror.followed.table import Followed
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.options import MirrorOptions
from binlake.mirror.table_rules import COPY_SUFFIX
from binlake.mirror.tables.data_files import FILE_PREFIX
from binlake.mirror.tables.sweep import Sweep
from binlake.values.quantities import counted
from binlake.values.table_names import full_name_of

if TYPE_CHECKING:
    from binlake.mirror.iceberg.jvm import IcebergTable
    from binlake.mirror.tables.formats import StoredTable

_EXPIRY_S = 60.0
_ORPHANS_S = 6 * 3600.0
_LEAST_SNAPSHOTS = 20
# An expiry is a commit, and reads manifests, however few snapshots it removes.
_LEAST_EXPIRED = 20
_PART_S = 1.0
# Names of the mirror's tags: the statement and its position. Other programs may also name a tag `before-…`.
_OURS = re.compile(r"before-(?:convert|copy|drop|rename|truncate)-.+-\d+")
_SEEN = "binlake.tags-seen"


class Cleaning:
    """Expires snapshots and tags, and removes orphans. For the thread of the loop; see `Upkeep` for the parameters.

    With thousands of tables, both take minutes to hours: each `work` does about a second of them.
    """

    def __init__(
        self,
        control: Control,
        options: MirrorOptions,
        indexes: Path,
        note: Callable[[str], None],
        kept: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._control = control
        self._options = options
        self._indexes = indexes
        self._note = note
        self._kept = kept
        self._control_upkeep = ControlUpkeep(control, options.compaction, note)
        self._tables: Mapping[str, Followed] = {}
        self._busy: MirrorTable | None = None
        self._expiry = Sweep(_PART_S, rest=1)
        self._orphans = Sweep(_PART_S, rest=3)
        self._expire_after: dict[str, float] = {}
        self._not_expired: set[str] = set()
        self._next_control = self._next_expiry = self._next_orphans = float("-inf")

    def work(
        self, tables: Mapping[str, Followed], busy: MirrorTable | None, *, is_behind: bool
    ) -> None:
        """Do a part of what is due. `busy`: the table that is being compacted. While the mirror `is_behind`, orphans wait."""
        self._tables, self._busy = tables, busy
        now = time.monotonic()
        if now >= self._next_control:
            self._next_control = now + _EXPIRY_S
            self._control_upkeep.clean(self._before_ms, self._control.expire)
            if (
                self._orphans.is_over
                and now >= self._next_orphans
                and self._control.orphans_are_due(_ORPHANS_S)
            ):
                self._next_orphans = now + _ORPHANS_S
                self._orphans.begin(self._orphan_steps())
        if self._expiry.is_over and now >= self._next_expiry:
            self._expiry.begin(self._expiry_steps())
        self._expiry.work()
        if not is_behind:
            self._orphans.work()

    def finish(
        self,
        tables: Mapping[str, Followed],
        keep: Callable[[], None],
        is_interrupted: Callable[[], bool],
    ) -> None:
        """Complete the expiry and the search for orphans that have begun, without pauses. `keep` is called between their parts."""
        self._tables, self._busy = tables, None
        for sweep in (self._expiry, self._orphans):
            while not sweep.is_over and not is_interrupted():
                keep()
                sweep.work_now()

    def remove_orphans(self, tables: Mapping[str, Followed], busy: MirrorTable | None) -> None:
        """Remove all orphans now. See `_orphan_steps`."""
        self._tables, self._busy = tables, busy
        for _ in self._orphan_steps():
            pass

    # -- expiry ------------------------------------------------------------------------------------

    @property
    def _before_ms(self) -> int:
        """Snapshots from before this time may expire."""
        return int((time.time() - self._options.keep_snapshots_s) * 1000)

    def _expiry_steps(self) -> Iterator[None]:
        """Expire the snapshots of all tables, one after the other."""
        done: set[str] = set()
        names = [*self._tables]
        random.shuffle(names)  # the next start begins again, and may end before the last table, too
        for name in names:
            table = self._tables.get(name)  # it may have left the mirror meanwhile
            if table is None or table.lake.full_name in done:
                continue
            lake = iceberg(table)
            done.add(lake.full_name)
            if self._expire_after.get(lake.full_name, 0) <= time.monotonic():
                self._expire(lake)
                yield
        self._next_expiry = time.monotonic() + _EXPIRY_S

    def _expire(self, lake: MirrorTable) -> None:
        """Expire tags and snapshots of a lake table. If that fails, rounds continue, and the next attempt is later."""
        name, options = lake.full_name, self._options
        try:
            if options.keep_tags_s:
                for tag in expire_tags(lake.stored, options.keep_tags_s, time.time()):
                    self._note(f"{name}: the tag {tag} has expired")
            # the mirror continues from the position in its own newest snapshot
            most = options.max_snapshots
            lake.stored.expire(self._before_ms, _LEAST_SNAPSHOTS, most, OFFSET, _LEAST_EXPIRED)
        except BinlogError as error:
            self._not_cleaned(name, f"old snapshots were not removed: {error}")
        else:
            self._not_expired.discard(name)

    def _not_cleaned(self, name: str, why: str) -> None:
        """Try again later; report the failure once."""
        self._expire_after[name] = time.monotonic() + BACK_OFF_S
        if name not in self._not_expired:
            self._not_expired.add(name)
            self._note(f"{name}: {why}")

    # -- orphans -----------------------------------------------------------------------------------

    def _orphan_steps(self) -> Iterator[None]:
        """Remove old files of killed runs and of copies that were given up, which no snapshot knows. A table where that fails
        keeps them until the next search.

        Tables that are to be copied again are left alone: files of a copy are in no snapshot yet. So is the table that is
        being compacted.
        """
        names = [*self._tables]
        random.shuffle(names)  # the next start begins again, and may end before the last table, too
        for name in names:
            table = self._tables.get(name)  # it may have left the mirror meanwhile
            if table is not None and self._may_have_orphans(name, table):
                self._remove_orphans_of(name, iceberg(table).stored)
                yield
        followed = {table.lake.full_name for table in self._tables.values()}
        try:
            with self._kept():
                aside = [
                    *lake_tables_set_aside(self._control, self._options, self._indexes, followed)
                ]
        except BinlogError as error:
            self._note(f"files of copies that were given up were not removed: {error}")
            aside = []
        for lake_table, stored in aside:
            if self._is_still_aside(lake_table, stored):
                self._remove_orphans_of(full_name_of(*lake_table), cast("IcebergTable", stored))
                yield
        self._control.orphans_removed()

    def _may_have_orphans(self, name: str, table: Followed) -> bool:
        """Whether all files of a table that no snapshot knows are orphans."""
        if name in self._control.to_resync or (self._busy is not None and table.lake is self._busy):
            return False
        # the copy may be that of another shard
        return not (table.shard_column and any(self._indexes.glob(f"*{COPY_SUFFIX}")))

    def _is_still_aside(self, name: TableName, stored: StoredTable) -> bool:
        """Whether there is still no copy into a lake table: rounds may have begun one since the search has."""
        if any(table.lake.full_name == full_name_of(*name) for table in self._tables.values()):
            return False
        try:
            stored.refresh()
            properties = stored.describe()["properties"]
        except BinlogError:
            return False  # the next search finds it
        return is_set_aside(self._control, self._options, self._indexes, name, properties)

    def _remove_orphans_of(self, name: str, stored: IcebergTable) -> None:
        before_ms = int((time.time() - self._options.orphans_s) * 1000)
        try:
            with self._kept():
                removed = stored.remove_orphans(FILE_PREFIX, before_ms)
        except BinlogError as error:
            self._note(f"{name}: files of killed runs were not removed: {error}")
            return
        if removed:
            self._note(f"{name}: {counted(removed, 'file')} of killed runs removed")


def iceberg(table: Followed) -> MirrorTable:
    """The lake table, which is one of Iceberg."""
    assert isinstance(table.lake, MirrorTable)
    return table.lake


def expire_tags(table: IcebergTable, keep_s: int, now_s: float) -> list[str]:
    """Drop the mirror's tags that are older than `keep_s` seconds at `now_s` (Unix time); return their names.

    Such a tag keeps its snapshot, of before a statement that emptied, dropped or replaced a table. Iceberg computes the
    age of a tag from its snapshot, which may be years older than the statement, so the mirror counts from the time at
    which it first saw the tag. Raises SourceError, CommitConflictError.
    """
    names = [name for name in table.tags() if _OURS.fullmatch(name)]
    known: dict[str, int] = json.loads(table.describe()["properties"].get(_SEEN, "{}"))
    now = int(now_s)
    # a time that is not over yet was recorded while the clock was ahead
    seen = {name: min(known.get(name, now), now) for name in names}
    old = [name for name, since in seen.items() if since + keep_s <= now_s]
    for name in old:
        table.drop_tag(name)
    left = {name: since for name, since in seen.items() if name not in old}
    if left != known:
        table.set_properties({_SEEN: json.dumps(left, sort_keys=True)})
    return old
