"""The state of a mirror in the lake: the table `_binlake.rounds`.

A row per round: its end in the log, and the snapshot of each table at that time, so that all tables
can be read as of one moment. The newest round's properties also record the position of tables without changes, which get no
new snapshot. The table's properties hold the options, which tables are quarantined, and which the server no longer has.

One class, although it is long: each of its settings is a property of this table, read and changed in one way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import SourceError
from binlake.follow.offsets import StreamOffset
from binlake.format.sql_names import TableName
from binlake.mirror.followed.kept_places import KeptPlaces, TablePlace, kept_places
from binlake.mirror.followed.set_aside_record import (
    SetAside,
    set_aside_in,
    with_set_aside,
    without_set_aside,
)
from binlake.mirror.options import MirrorOptions
from binlake.mirror.stopped import PausedError
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import CompactionPolicy
from binlake.mirror.tables.formats import LakeTables, StoredTable
from binlake.mirror.tables.schema import iceberg_schema
from binlake.values.log_names import LogName
from binlake.values.position import Position

NAMESPACE = "_binlake"
ROUNDS = "rounds"
_SCHEMA = pa.schema(
    [
        ("round", pa.int64()),
        ("committed_at", pa.timestamp("us", "UTC")),
        ("commit_time", pa.timestamp("us", "UTC")),
        ("source", pa.string()),
        ("log_file", pa.string()),
        ("log_pos", pa.int64()),
        ("gtid_set", pa.string()),
        ("tables", pa.string()),
    ]
)
#: The snapshot property with the position in the log. The snapshots of other programs do not have it.
OFFSET = "binlake.offset"
_RECORDED = "binlake.recorded-ms"
_QUARANTINE = "binlake.quarantine"
_GONE = "binlake.gone"
_FORMER = "binlake.former-lake-tables"
_MOMENTS = "binlake.moments"
_PLACES = "binlake.places"
_RESYNC = "binlake.resync"
_RESYNCING = "binlake.resyncing"
_COMPACT = "binlake.compact"
_ADDED = "binlake.added"
_REMOVED = "binlake.removed"
_LEASE = "binlake.lease"
_TRIES = 10
_KEPT_SNAPSHOTS = 20  # each has the snapshots of all tables in its summary
_KEPT_ROUNDS = 20  # whatever their age: the tables, too, keep their newest snapshots
_FEW_ROUNDS = 100

#: What to do about most quarantines.
RESYNC = "`binlake mirror resync` copies the table again"

#: How the reason begins for which a table is gone that the server has dropped or replaced.
DROPPED = "dropped"


def position_key(position: Position) -> tuple[int, int]:
    """A sort key for positions in one chain of logs."""
    named = LogName.parse(position.file)
    return (0 if named is None else named.number, position.offset)


def progress_key(offset: StreamOffset) -> tuple[int, int, str]:
    """A sort key for offsets in one chain of logs, the same where the same transactions have been applied.

    After a failover to a server with another commit order, two offsets at one position may differ in the later
    transactions that have been applied.
    """
    return (*position_key(offset.position), offset.shown)


def position_properties(offset: StreamOffset, round_number: int) -> dict[str, str]:
    """The snapshot properties that record the position in the log of its rows."""
    position = offset.position
    return {
        "binlake.source": position.server_uuid,
        "binlake.file": position.file,
        "binlake.position": str(position.offset),
        "binlake.gtid-set": position.gtid_set,
        "binlake.round": str(round_number),
        OFFSET: json.dumps(offset.to_json(), sort_keys=True),
    }


def offset_of(properties: Mapping[str, str]) -> StreamOffset | None:
    """Read the position that `position_properties` recorded. Raises SourceError if it is damaged."""
    text = properties.get(OFFSET)
    return None if text is None else StreamOffset.from_json(json.loads(text))


class Control:
    """The control table of a lake; created if there is none and `options` are given.

    Each reload calls `check_owner`, with the table. Raises SourceError, CommitConflictError.
    """

    def __init__(
        self, lake: LakeTables, source: str | None = None, options: MirrorOptions | None = None
    ) -> None:
        if not lake.exists(NAMESPACE, ROUNDS):
            if options is None or source is None:
                raise SourceError(
                    "this lake has no mirror", hint="start one with `binlake mirror URL LAKE`"
                )
            settings = {
                "format-version": "2",
                "binlake.mirror-source": source,
                "binlake.mirror": options.to_json(),
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "20",
                "commit.manifest.min-count-to-merge": "20",
            }
            lake.create(NAMESPACE, ROUNDS, iceberg_schema(_SCHEMA), settings)
        self.lake = lake
        self._table: StoredTable = lake.load(NAMESPACE, ROUNDS)
        self._rows_left = 0
        self.check_owner: Callable[[Control], None] = lambda _: None
        self.refresh()

    def beside(self) -> Control:
        """Return this control table for another thread."""
        return Control(self.lake.beside())

    def refresh(self) -> None:
        """Reload the table: another process may have requested something."""
        self._table.refresh()
        self._known: dict[str, Any] = self._table.describe()
        self.check_owner(self)

    @property
    def _properties(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._known["properties"]
        return found

    @property
    def _summary(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._known.get("summary", {})
        return found

    @property
    def lake_id(self) -> str:
        """The identity of the lake, which no other lake has."""
        return str(self._known["uuid"])

    # -- requests and settings --------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The server's URL, without a password."""
        return self._properties["binlake.mirror-source"]

    @property
    def options(self) -> MirrorOptions:
        """The options of the mirror."""
        return MirrorOptions.from_json(self._properties["binlake.mirror"])

    def configure(self, source: str, options: MirrorOptions) -> None:
        """Replace the stored options."""
        if (source, options) != (self.source, self.options):
            self._set({"binlake.mirror-source": source, "binlake.mirror": options.to_json()})

    @property
    def paused(self) -> bool:
        """Whether the mirror is paused."""
        return self._properties.get("binlake.paused") == "true"

    def check_not_paused(self) -> None:
        """Raise PausedError if the mirror is paused."""
        if self.paused:
            raise PausedError(
                "the mirror is paused, so no changes may be applied to the lake",
                hint="run `binlake mirror resume` first",
            )

    def pause(self) -> None:
        """Make no more rounds."""
        self._set({"binlake.paused": "true"})

    def resume(self) -> None:
        """Go on after a pause."""
        self._set({"binlake.paused": "false"})

    @property
    def lease(self) -> str:
        """The record of the process that writes to the lake, see `lease.Holder`; "" if there is none."""
        return self._properties.get(_LEASE, "")

    def take_lease(self, of: Callable[[str], str]) -> None:
        """Replace the record by what `of` makes of it, also if another process replaces it meanwhile."""
        self._change(lambda: {_LEASE: of(self.lease)})

    def renew_lease(self, text: str) -> None:
        """Replace the record of this process itself."""
        self._set({_LEASE: text})

    @property
    def quarantined(self) -> dict[str, SetAside]:
        """The quarantined tables, by name."""
        return self._set_aside(_QUARANTINE)

    def quarantine(self, name: str, reason: str) -> None:
        """Leave a table unchanged until it is copied again."""
        self.quarantine_all({name: reason})

    def quarantine_all(self, reasons: Mapping[str, str]) -> None:
        """Leave tables unchanged until they are copied again, each for its reason, in one commit."""
        if reasons:
            self._change(lambda: {_QUARANTINE: with_set_aside(self.quarantined, reasons)})

    def release(self, names: Collection[str]) -> None:
        """Clear the quarantine of tables."""
        if not self.quarantined.keys().isdisjoint(names):
            self._change(lambda: {_QUARANTINE: without_set_aside(self.quarantined, *names)})

    @property
    def gone(self) -> dict[str, SetAside]:
        """The tables that the server dropped or renamed, by the names that they had."""
        return self._set_aside(_GONE)

    def leave(self, name: str, reason: str) -> None:
        """Do not change a lake table any more: the server no longer has a table of this name."""
        self._change(lambda: {_GONE: with_set_aside(self.gone, {name: reason})})

    def forget_gone(self, names: set[str]) -> None:
        """Forget tables that the server no longer has."""
        self._change(lambda: {_GONE: without_set_aside(self.gone, *names)})

    def was_dropped(self, name: str) -> bool:
        """Whether the server has dropped the table of this name that the lake has."""
        entry = self.gone.get(name)
        return entry is not None and entry.reason.startswith(DROPPED)

    def returned(self, name: str) -> None:
        """A new table of this name has been copied."""
        if name in self.gone:
            self._change(lambda: {_GONE: without_set_aside(self.gone, name)})

    def _set_aside(self, name: str) -> dict[str, SetAside]:
        return set_aside_in(self._properties.get(name, "{}"))

    @property
    def to_resync(self) -> set[str]:
        """The tables to copy again: the requested ones, and the ones whose new copy has begun and is not complete."""
        return self.requested | self._resyncing

    @property
    def requested(self) -> set[str]:
        """The tables that users have asked to copy again, whose new copy has not begun."""
        return set(json.loads(self._properties.get(_RESYNC, "[]")))

    @property
    def _resyncing(self) -> set[str]:
        return set(json.loads(self._properties.get(_RESYNCING, "[]")))

    def request_resync(self, names: set[str]) -> None:
        """Ask the mirror to copy tables again. A table that is being copied is copied once more after that."""
        self._change(lambda: {_RESYNC: _texts(self.requested | names)})

    def resync_begins(self, names: set[str]) -> None:
        """Record that tables are being copied again until `resynced`, also after a restart. A request from now on is another one."""
        self._change(
            lambda: {
                _RESYNC: _texts(self.requested - names),
                _RESYNCING: _texts(self._resyncing | names),
            }
        )

    def keep_resyncing(self, name: str) -> None:
        """Record that a table is being copied again until `resynced`, also after a restart. Requests stay."""
        self._change(lambda: {_RESYNCING: _texts(self._resyncing | {name})})

    @property
    def to_compact(self) -> set[str]:
        """The tables that a user has asked to compact completely."""
        return set(json.loads(self._properties.get(_COMPACT, "[]")))

    def request_compaction(self, names: set[str]) -> None:
        """Ask the running mirror to compact tables."""
        self._change(lambda: {_COMPACT: _texts(self.to_compact | names)})

    def compaction_begins(self, names: set[str]) -> None:
        """Clear the requests to compact tables."""
        self._change(lambda: {_COMPACT: _texts(self.to_compact - names)})

    def resynced(self, name: str) -> None:
        """Record that a table has been copied again. A request since `resync_begins` stays."""
        if name in self._resyncing:
            self._change(lambda: {_RESYNCING: _texts(self._resyncing - {name})})

    @property
    def added(self) -> tuple[str, ...]:
        """The patterns of tables that users have added to the patterns of the options."""
        return tuple(json.loads(self._properties.get(_ADDED, "[]")))

    @property
    def removed(self) -> tuple[str, ...]:
        """The patterns of tables that users have removed."""
        return tuple(json.loads(self._properties.get(_REMOVED, "[]")))

    def add_tables(self, patterns: set[str], again: set[str]) -> None:
        """Ask the mirror to follow tables, too. It copies the tables `again`, which were removed before."""
        self._change(
            lambda: {
                _ADDED: _texts({*self.added, *patterns}),
                _REMOVED: _texts({*self.removed} - patterns),
                _RESYNC: _texts(self.requested | again),
            }
        )

    def remove_tables(self, patterns: set[str], known: set[str]) -> None:
        """Ask the mirror to stop following tables, and clear what it knows about `known` ones: quarantines, requests."""
        self._change(
            lambda: {
                _ADDED: _texts({*self.added} - patterns),
                _REMOVED: _texts({*self.removed, *patterns}),
                _RESYNC: _texts(self.requested - known),
                _RESYNCING: _texts(self._resyncing - known),
                _QUARANTINE: without_set_aside(self.quarantined, *known),
                _GONE: without_set_aside(self.gone, *known),
            }
        )

    @property
    def former_lake_tables(self) -> dict[str, list[tuple[TableName, int]]]:
        """By table, the lake tables that it had before changes of `--rename`, each with the number of its last round, in order."""
        found = json.loads(self._properties.get(_FORMER, "{}"))
        return {
            name: [((namespace, table), last) for namespace, table, last in places]
            for name, places in found.items()
        }

    def keep_former(self, name: str, lake_table: TableName) -> None:
        """Record that the rounds up to now have a table as this lake table, and later rounds have it under another name."""

        def changed() -> dict[str, str]:
            known: dict[str, list[Any]] = json.loads(self._properties.get(_FORMER, "{}"))
            places = known.setdefault(name, [])
            # a killed run may have recorded it
            if not places or tuple(places[-1][:2]) != lake_table:
                places.append([*lake_table, self.round])
            return {_FORMER: json.dumps(known, sort_keys=True)}

        self._change(changed)

    @property
    def places(self) -> KeptPlaces:
        """The places of tables that are not those of the newest round."""
        return kept_places(self._properties.get(_PLACES, ""))

    def keep_places(self, places: Mapping[str, TablePlace]) -> None:
        """Record the snapshots and positions of tables, beside those that are known of others."""

        def changed() -> dict[str, str]:
            outdated = {*self.gone, *(self.snapshots if self.places.round < self.round else ())}
            return {_PLACES: self.places.renewed(self.round, places, outdated).to_json()}

        if places and changed()[_PLACES] != self._properties.get(_PLACES):
            self._change(changed)

    def places_of(self, name: str) -> list[TablePlace]:
        """The recorded snapshots of a table, and the positions that their rows have at least; the newest record is the last."""
        offset, snapshot = self.offset, self.snapshots.get(name)
        in_round = [] if offset is None or snapshot is None else [(snapshot, offset)]
        kept = [self.places.tables[name]] if name in self.places.tables else []
        return in_round + kept if self.places.round >= self.round else kept + in_round

    @property
    def moments(self) -> dict[str, int]:
        """The rounds that have names: by name, the number."""
        found: dict[str, int] = json.loads(self._properties.get(_MOMENTS, "{}"))
        return found

    def name_moment(self, name: str, number: int) -> None:
        """Give a round a name."""
        self._change(lambda: {_MOMENTS: json.dumps({**self.moments, name: number}, sort_keys=True)})

    def forget_moment(self, name: str) -> None:
        """Remove the name of a round."""
        self._change(
            lambda: {
                _MOMENTS: json.dumps(
                    {other: number for other, number in self.moments.items() if other != name},
                    sort_keys=True,
                )
            }
        )

    def _change(self, of: Callable[[], Mapping[str, str]]) -> None:
        """Set the properties that `of` makes of the current ones, again if another process sets them meanwhile."""
        for attempt in range(_TRIES):
            self.refresh()
            properties = of()
            expected = {name: self._properties.get(name) for name in properties}
            try:
                self._table.replace_properties(expected, properties)
                break
            except CommitConflictError:
                if attempt == _TRIES - 1:
                    raise
        self.refresh()

    def _set(self, properties: Mapping[str, str]) -> None:
        self._table.set_properties(properties)
        self.refresh()

    # -- rounds ------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The number of the newest round; 0: none yet."""
        return int(self._summary.get("binlake.round", "0"))

    @property
    def offset(self) -> StreamOffset | None:
        """Where the newest round ended."""
        return offset_of(self._summary)

    @property
    def snapshots(self) -> Mapping[str, int]:
        """The snapshot that each table had when the newest round ended."""
        found: Mapping[str, int] = json.loads(self._summary.get("binlake.tables", "{}"))
        return found

    @property
    def recorded_ms(self) -> int | None:
        """The time of the newest round, in ms since 1970 UTC. Earlier versions of binlake did not record it: then it is the
        time of the newest commit to the table, which may be a request, a lease or a compaction.
        """
        recorded = self._summary.get(_RECORDED)
        found: int | None = self._known.get("committed_ms")
        return found if recorded is None else int(recorded)

    def record(
        self, offset: StreamOffset, snapshots: Mapping[str, int], left_out: Collection[str] = ()
    ) -> None:
        """Record a round whose tables are all committed, also if another process makes a request meanwhile. The tables of the lake as
        of the round are without those `left_out`.
        """
        for attempt in range(_TRIES):
            try:
                self._append(offset, snapshots, left_out)
                break
            except CommitConflictError:
                if attempt == _TRIES - 1:
                    raise
                self.refresh()
        self.refresh()

    def _append(
        self, offset: StreamOffset, snapshots: Mapping[str, int], left_out: Collection[str]
    ) -> None:
        number = self.round + 1
        shown = {name: one for name, one in snapshots.items() if name not in left_out}
        position, now = offset.position, datetime.now(UTC)
        row = {
            "round": number,
            "committed_at": now,
            "commit_time": offset.commit_us,
            "source": position.server_uuid,
            "log_file": position.file,
            "log_pos": position.offset,
            "gtid_set": position.gtid_set,
            "tables": json.dumps(shown, sort_keys=True),
        }
        properties = {
            **position_properties(offset, number),
            "binlake.tables": json.dumps(dict(snapshots), sort_keys=True),
            _RECORDED: str(round(now.timestamp() * 1000)),
        }
        self._table.append(pa.Table.from_pylist([row], _SCHEMA), properties)

    def expire(self) -> None:
        """Expire snapshots of the control table, whatever their age (those of a Delta table after its safety period); its
        rows stay.
        """
        self.refresh()  # the lease is renewed by another thread
        now_ms = int(time.time() * 1000)
        self._table.expire(now_ms, _KEPT_SNAPSHOTS, _KEPT_SNAPSHOTS, OFFSET)
        self.refresh()

    def drop_rounds(self, before_ms: int) -> None:
        """Remove rounds that ended before a time, except the newest and those with names.

        This writes the whole table again, so it waits until the number of rounds has doubled since the last time.
        """
        rows = sum(file.rows for file in self._table.file_states())
        if rows < max(_FEW_ROUNDS, 2 * self._rows_left):
            return
        self.refresh()
        before = pa.scalar(before_ms * 1000, pa.timestamp("us", "UTC"))
        number, named = pc.field("round"), list(self.moments.values())
        is_new = (number > self.round - _KEPT_ROUNDS) | (pc.field("committed_at") >= before)
        self._table.keep_rows(is_new | number.isin(pa.array(named, pa.int64())))
        self._rows_left = sum(file.rows for file in self._table.file_states())
        self.refresh()

    def compact(self, policy: CompactionPolicy) -> None:
        """Compact the table, which gets a data file per round."""
        self._table.compact(policy)
        self.refresh()

    def orphans_are_due(self, every_s: float) -> bool:
        """Whether the last search for orphans was `every_s` seconds ago, or its time is not over yet: the clock was ahead."""
        last_s = int(self._properties.get("binlake.orphans-removed", "0"))
        return not 0 <= time.time() - last_s < every_s

    def orphans_removed(self) -> None:
        """Record the time of this search."""
        self._set({"binlake.orphans-removed": str(int(time.time()))})


def _texts(texts: set[str]) -> str:
    return json.dumps(sorted(texts))
