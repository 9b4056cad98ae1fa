"""Tables that should be copied, but that the server does not list: the statement of the log that has removed such a table is
applied, or the table is quarantined.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from binlake.errors import PositionLostError
from binlake.follow.offsets import StreamOffset
from binlake.format.sql_names import TableName
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.control import DROPPED, RESYNC, Control
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.followed.in_lake import MirroredTables
from binlake.mirror.followed.table import Followed, followed_tables, unfollowed_shard
from binlake.mirror.followed.table_record import copied_from, sources
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.refusals import is_absent
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.formats import LakeTables
from binlake.values.table_names import table_name

#: How long the search for a statement rests, as a multiple of its time.
_PAUSE = 10
_CANNOT_BE_OPENED = (*OF_ONE_TABLE, CommitConflictError, *DAMAGED)


class Tables(Protocol):
    """The tables that a mirror follows: the part of `followed.tables.FollowedTables` that this needs."""

    followed: dict[str, Followed]
    source: WantedTables
    apply_departure: Callable[[Followed], bool]

    def quarantine(self, full_name: str, reason: str) -> None: ...
    def leave(self, full_name: str, how: str) -> None: ...
    def unselect(self, full_name: str) -> None: ...
    def forget(self, full_name: str) -> None: ...
    def shards_in(self, name: tuple[str, str]) -> dict[str, Followed]: ...


class AbsentTables:
    """Decides about tables that the server does not list. `tables`: those that the mirror follows."""

    def __init__(
        self,
        tables: Tables,
        lake: LakeTables,
        control: Control,
        options: MirrorOptions,
        indexes: Path,
        mirrored: MirroredTables,
        note: Callable[[str], None],
    ) -> None:
        self._offsets: dict[str, StreamOffset] = {}
        self._lagging: dict[str, tuple[float, LogLagsError]] = {}
        self._tables = tables
        self._lake = lake
        self._control = control
        self._options = options
        self._indexes = indexes
        self._mirrored = mirrored
        self._note = note

    def keep_offset(self, full_name: str, offset: StreamOffset) -> None:
        """Remember the offset of a table whose copy waits: the statement that removes the table comes after it."""
        self._offsets[full_name] = offset

    def offset_of(self, full_name: str) -> StreamOffset | None:
        """The place of a table that is followed, or whose copy waits."""
        table = self._tables.followed.get(full_name)
        return self._offsets.get(full_name) if table is None else table.offset

    def forget(self, full_name: str) -> None:
        """Forget the offset of a table."""
        self._offsets.pop(full_name, None)

    def stop_following(self, full_name: str) -> None:
        """Stop following a table that should be copied, but that the server does not list.

        A table of the lake is quarantined if the user may not read it, or if no statement of the log has removed it. The rows
        of a shard that the server no longer has are removed. Raises LogLagsError if the log of an archive may still get
        the statement.
        """
        why = "the server has no such table, or the options leave it out"
        name, offset = table_name(full_name), self.offset_of(full_name)
        to_resync = full_name in self._control.to_resync
        is_new = self._is_new_in_lake(full_name)
        is_kept = to_resync and full_name in self._mirrored.by_name()
        is_kept = is_kept and (full_name not in self._control.gone or self._options.is_shard(*name))
        if offset is None and not (to_resync and (is_kept or is_new)):
            if not (is_new and self._tables.source.wants(*name) and self._is_gone(name)):
                self._note(f"{full_name} is not copied: {why}")
                return
            how = "or renamed before its first copy was complete; its lake table is empty"
            self._tables.leave(full_name, f"{DROPPED} {how}")
            return
        if self._tables.source.wants(*name):
            refusal = self._tables.source.refusal(name)
            if refusal is not None and not is_absent(refusal):
                self._tables.quarantine(
                    full_name, f"the server does not list the table: {refusal}; {RESYNC}"
                )
                return
            if refusal is not None and is_new:
                how = "or renamed before its new copy was complete; its lake table is empty"
                self._tables.leave(full_name, f"{DROPPED} {how}")
                return
            is_shard = self._options.is_shard(*name)
            if is_shard and refusal is not None and self._remove_shard(full_name):
                return
            if offset is None and refusal is not None:
                how = "or renamed while the mirror did not follow it"
                self._tables.leave(full_name, f"{DROPPED} {how}")
                return
        elif offset is not None:  # followed, or its copy waits: a user has just removed it
            self._tables.unselect(full_name)
            return
        elif not is_new:
            self._note(
                f"{full_name} is not copied again: it was removed, or the options leave it out"
            )
            return
        if offset is not None:
            if self._applies_departure(full_name, offset):
                return
            why = "the server no longer lists the table, and its log does not contain the reason"
        self._tables.quarantine(full_name, why)

    def _is_gone(self, name: TableName) -> bool:
        """Whether the server has no table of this name, or shows the user none."""
        refusal = self._tables.source.refusal(name)
        return refusal is not None and is_absent(refusal)

    def _is_new_in_lake(self, full_name: str) -> bool:
        """Whether the lake table is the unfinished result of a new copy, which has replaced the table with the rows."""
        if self.offset_of(full_name) is None and full_name in self._mirrored.by_name():
            return False
        name = self._options.lake_name(*table_name(full_name))
        if not self._lake.exists(*name):
            return False
        try:
            properties = self._lake.load(*name).describe()["properties"]
        except DAMAGED:  # applying the statement meets the damage, and quarantines the table
            return False
        return copied_from(properties) == full_name and not sources(properties)

    def _applies_departure(self, full_name: str, offset: StreamOffset) -> bool:
        """Apply the statement of the log that has removed a table from the server; return whether the table needs nothing more.

        While an archive lags, the log is searched again after a pause, so that the rounds of the other tables go on.
        """
        until, lag = self._lagging.pop(full_name, (0.0, None))
        began = time.monotonic()
        if lag is not None and began < until:
            self._lagging[full_name] = (until, lag)
            raise lag
        try:
            return self._found_departure(full_name, offset)
        except LogLagsError as error:
            ended = time.monotonic()
            self._lagging[full_name] = (ended + _PAUSE * (ended - began), error)
            raise

    def _found_departure(self, full_name: str, offset: StreamOffset) -> bool:
        table = self._tables.followed.get(full_name)
        if table is not None:
            return self._tables.apply_departure(table)
        try:
            table = self._unfollowed(full_name)
            if table is None:
                return False
            table.offset = offset
            return self._tables.apply_departure(table)
        except (*_CANNOT_BE_OPENED, PositionLostError) as error:
            what = "the server no longer lists the table, and the mirror cannot find the reason"
            self._tables.quarantine(full_name, f"{what}: {error}")
            return True

    def _remove_shard(self, full_name: str) -> bool:
        """Remove the rows of a shard that the server no longer has, if the table is one; return whether it is.

        A tag keeps the rows, as that of a DROP does. The merged table stays at the places of the other shards.
        """
        try:
            shard = self._tables.followed.get(full_name) or self._unfollowed(full_name)
            if shard is None or not shard.shard_column:
                return False
            shard.tag_before("drop", shard.offset.position, self._control.round)
            shard.drop_shard(shard.offset, self._control.round + 1)
        except _CANNOT_BE_OPENED as error:
            why = f"the server has no such table, but its rows cannot be removed: {error}"
            self._tables.quarantine(full_name, why)
            return True
        self._tables.forget(full_name)
        self._mirrored.forget()
        self._control.returned(full_name)
        self._note(
            f"{full_name}: the server has no such table; its rows in {shard.lake.full_name} were removed"
        )
        return True

    def _unfollowed(self, full_name: str) -> Followed | None:
        """A table that is in the lake and not followed."""
        name = next(iter(self._mirrored.by_name().get(full_name, ())), None)
        if name is None:
            return None
        if others := self._tables.shards_in(name):
            return unfollowed_shard(full_name, others)
        opened = followed_tables(self._lake, name, self._indexes, self._control, self._options)
        return opened.get(full_name)
