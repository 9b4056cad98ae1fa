"""The record of where the tables of a mirror are: a round where they all have the rows of one moment, else the place of each."""

from __future__ import annotations

import time
from contextlib import suppress

from binlake.mirror.control import Control, progress_key
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.formats import ICEBERG
from binlake.values.table_names import table_name

# Between two records while the tables are at different positions.
_HEARTBEAT_S = 60
# Each round since the last expiry has a snapshot of each table, of about 50 bytes, in the metadata of the control table.
_MOST_UNEXPIRED = 80_000


class RoundRecorder:
    """Records rounds and places of the followed tables in the control table of a lake. `most_unexpired`: the number of snapshots
    of tables in the rounds that may be recorded before snapshots of the control table expire.
    """

    def __init__(
        self,
        control: Control,
        tables: FollowedTables,
        options: MirrorOptions,
        most_unexpired: int = _MOST_UNEXPIRED,
    ) -> None:
        self._control = control
        self._tables = tables
        self._options = options
        self._recorded = time.monotonic()
        self._others = set[str]()
        self._seen: dict[str, Followed] = {}
        self._unexpired = 0
        self._most_unexpired = most_unexpired

    def while_idle(self) -> None:
        """Record the tables if it is due, or if a copy has ended since the last record: until the server writes something, no
        round comes that would record it.
        """
        if self.is_due or self._has_new_tables():
            self.record()

    def _has_new_tables(self) -> bool:
        """Whether tables have been copied, or opened, since the last record."""
        followed = self._tables.followed.items()
        return any(self._seen.get(name) is not table for name, table in followed)

    @property
    def is_due(self) -> bool:
        """Whether the last record is so old that a table without changes should be recorded again."""
        return time.monotonic() - self._recorded > _HEARTBEAT_S

    def after_round(self) -> None:
        """Record the tables if all have the rows of one moment, or if it is due."""
        if self.is_due or self._are_of_one_moment():
            self.record()

    def record(self) -> None:
        """Record the position that all tables have reached, if it is new and if their rows are of that moment; else their places."""
        self._recorded = time.monotonic()
        followed = self._tables.followed
        self._seen = {**followed}
        if not followed:
            return
        snapshots = {name: table.lake.snapshot for name, table in followed.items()}
        known = {name: found for name, found in snapshots.items() if found is not None}
        if not self._are_of_one_moment():
            self._control.keep_places(
                {name: (known[name], followed[name].offset) for name in known}
            )
            return
        offset = next(iter(followed.values())).offset
        before = self._control.offset
        others = self._with_other_shards()
        is_same = before is not None and before.key == offset.key
        if not is_same or self._control.snapshots != known or others != self._others:
            # the new round does not have the tables that this run does not follow
            left = [name for name in self._control.snapshots if before and name not in known]
            self._control.keep_places({name: self._control.places_of(name)[-1] for name in left})
            self._control.record(offset, known, others)
            self._others = others
            self._unexpired += len(known)
            self._expire_if_large()

    def _expire_if_large(self) -> None:
        """Expire snapshots of the control table if its metadata has become large: each commit to it writes this file again.

        The upkeep expires them once a minute, in which a mirror of thousands of tables may write a GB.
        """
        if self._unexpired < self._most_unexpired:
            return
        self._unexpired = 0
        if next(iter(self._tables.followed.values())).lake.format != ICEBERG:
            return  # Delta writes a file for each commit
        with suppress(*DAMAGED, CommitConflictError):  # the upkeep reports damage
            self._control.expire()

    def _with_other_shards(self) -> set[str]:
        """The followed shards whose lake tables have old rows of other wanted shards, or lack their rows."""
        followed = self._tables.followed
        shards = {name: table for name, table in followed.items() if table.shard_column}
        if not shards:
            return set()
        waiting = {*self._tables.not_copied(), *self._control.quarantined, *self._tables.left_out}
        lacking = {
            ".".join(self._options.lake_name(*table_name(name)))
            for name in waiting
            if self._is_left(name) and self._options.is_shard(*table_name(name))
        }
        merged = {table.lake.full_name: table for table in shards.values()}
        old = {name for name, one in merged.items() if any(map(self._is_left, one.merged))}
        return {name for name, table in shards.items() if table.lake.full_name in lacking | old}

    def _is_left(self, name: str) -> bool:
        """Whether a wanted table is not followed."""
        return name not in self._tables.followed and self._tables.source.wants(*table_name(name))

    def _are_of_one_moment(self) -> bool:
        """Whether the server had the rows of all tables together."""
        tables = self._tables.followed.values()
        is_one_position = len({progress_key(table.offset) for table in tables}) == 1
        return is_one_position and not any(one.may_be_ahead or one.is_unfinished for one in tables)
