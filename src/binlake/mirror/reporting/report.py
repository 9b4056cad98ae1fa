"""The status of a mirror from its lake: its position, its tables, and the quarantined ones. No server is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from binlake.errors import UnsupportedError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control, offset_of, position_key
from binlake.mirror.followed.in_lake import UnreadTables
from binlake.mirror.followed.table_record import (
    certainty,
    copied_from,
    is_duplicate,
    kept_columns,
    mode_of,
    offsets_of,
    shard_column,
    sources,
    stored_tables,
    text_columns,
    treated_columns,
)
from binlake.mirror.reporting.pulse import Beat, last_beat
from binlake.mirror.selection import TableSelection
from binlake.mirror.tables.compaction_policy import CompactionPolicy, due_groups
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.formats import LakeTables, StoredTable
from binlake.values.table_names import table_name
from binlake.values.times import utc_time

#: The state of a table that cannot be read just now.
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table. `state`: mirrored, quarantined, gone (from the server), removed (from the mirror), resync (asked for),
    copying, or unreadable (just now: nothing else is known about it).

    `reason` and `since` are those of a quarantine, or how and when the table went, or why its lake table cannot be read; without `since`, `reason` is why a copy
    is not complete, or that the rows of a removed shard stay. `rows` are those that are there, `deleted_rows` those
    that the data files hold beside them; `bytes` is of data files, `index_bytes` of the row index on
    this machine. `mode`: mirror; soft deletes, whose `rows` include the deleted ones; append, whose `rows` are changes; history, whose `rows` are versions. `left_out` and `hashed` are columns of the server's table, as are those that the lake keeps `as_text` since a change of their types. `kept` are columns of the lake with the values from before such a change. `lake_table`: its name in the lake. `shards`: the tables whose rows it has, if they are several; `table` is then its name in the lake, and the position that of the shard which is furthest behind. `compaction_due`:
    how many data files the next compaction rewrites, 0: none is due. `log_file`, `log_pos` and `gtid_set`: all before is in the table. Times are ISO 8601, UTC.
    """

    table: str
    state: str
    reason: str = ""
    since: str = ""
    rows: int = 0
    deleted_rows: int = 0
    files: int = 0
    bytes: int = 0
    snapshot: int | None = None
    committed_at: str = ""
    log_file: str = ""
    log_pos: int = 0
    gtid_set: str = ""
    index_bytes: int = 0
    mode: str = "mirror"
    left_out: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lake_table: str = ""
    compaction_due: int = 0
    shards: tuple[str, ...] = ()

    @property
    def deleted_share(self) -> float:
        """The share of the rows in data files that are deleted."""
        return self.deleted_rows / max(1, self.rows + self.deleted_rows)

    @property
    def is_to_copy(self) -> bool:
        """Whether the mirror does not follow the table until a copy of it is complete. The lag of the mirror leaves it out."""
        return self.state in ("resync", "copying")


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """A mirror. `commit_time`: of the last transaction before its place in the log; `written_at`:
    when the newest round was written down.

    From the file that the mirror writes on its machine every few seconds (None elsewhere):
    `checked_at`, the time of its last check of the source; `behind_bytes` of log that the source
    had more at that time;
    `changes_per_second` of the last minute; `verified_at` and `not_compared`: the last comparison by the
    running mirror, and the tables that it did not compare, each with the reason; `different`: the tables that comparisons have found
    different, and not equal since; `sample_number`: that of the rows that the last comparison has compared, None if it compared all,
    and `different_samples` those in which tables were different last; `verify_due_at`: when the next comparison is
    or was due, "" if none is scheduled: then there are no results either; `zero_dates`: by `database.table.column`, the zero and partial dates that copies and
    rounds have read as NULL. `fresh_at`: the newest moment that the lake shows, ""
    if none is known.
    """

    source: str
    paused: bool
    round: int
    log_file: str
    log_pos: int
    gtid_set: str
    commit_time: str
    written_at: str
    tables: tuple[TableStatus, ...]
    fresh_at: str = ""
    checked_at: str = ""
    behind_bytes: int | None = None
    changes_per_second: float | None = None
    verified_at: str = ""
    different: tuple[str, ...] = ()
    not_compared: Mapping[str, str] = field(default_factory=dict)
    verify_due_at: str = ""
    zero_dates: Mapping[str, int] = field(default_factory=dict)
    different_samples: Mapping[str, int] = field(default_factory=dict)
    sample_number: int | None = None

    @property
    def lag_seconds(self) -> float | None:
        """The age of `fresh_at` now, in seconds; None if it is not known."""
        fresh_s = _unix_s(self.fresh_at)
        return None if fresh_s is None else max(0.0, time.time() - fresh_s)

    @property
    def written_s(self) -> float | None:
        """`written_at` in seconds since 1970."""
        return _unix_s(self.written_at)

    @property
    def checked_s(self) -> float | None:
        """`checked_at` in seconds since 1970."""
        return _unix_s(self.checked_at)

    @property
    def verified_s(self) -> float | None:
        """`verified_at` in seconds since 1970."""
        return _unix_s(self.verified_at)

    @property
    def verify_due_s(self) -> float | None:
        """`verify_due_at` in seconds since 1970."""
        return _unix_s(self.verify_due_at)

    @property
    def quarantined(self) -> list[str]:
        """The names of the tables that are left alone."""
        return [table.table for table in self.tables if table.state == "quarantined"]

    @property
    def to_copy(self) -> list[str]:
        """The names of the tables that show an old state, or no rows, until their copy is complete."""
        return [table.table for table in self.tables if table.is_to_copy]

    def to_json(self) -> dict[str, Any]:
        """Return the report as values that the json module can write."""
        found = {**asdict(self), "lag_seconds": self.lag_seconds}
        found["tables"] = [
            {**asdict(table), "deleted_share": round(table.deleted_share, 4)}
            for table in self.tables
        ]
        return found


def mirror_status(
    lake: LakeTables, indexes: Path | None = None, namespaces: Collection[str] | None = None
) -> MirrorStatus:
    """The mirror of a lake. `indexes`: what it keeps on this machine. `namespaces`: those with its tables, if they are
    known. Raises SourceError where there is none.
    """
    found: list[MirrorStatus] = []
    for _ in status_steps(lake, found.append, indexes, namespaces):
        pass
    return found[0]


def status_steps(
    lake: LakeTables,
    show: Callable[[MirrorStatus], None],
    indexes: Path | None = None,
    namespaces: Collection[str] | None = None,
) -> Iterator[None]:
    """Find the status as `mirror_status`, in one step for each table; the last one calls `show`."""
    control = Control(lake)
    offset = control.offset
    position = None if offset is None else offset.position
    commit_us = None if offset is None else offset.commit_us
    tables = yield from _tables(lake, control, indexes, namespaces)
    beat = None if indexes is None else last_beat(indexes, control.lake_id)
    found = MirrorStatus(
        source=control.source,
        paused=control.paused,
        round=control.round,
        log_file="" if position is None else position.file,
        log_pos=0 if position is None else position.offset,
        gtid_set="" if position is None else position.gtid_set,
        commit_time="" if commit_us is None else utc_time(commit_us / 1e6),
        written_at=_ms(control.recorded_ms),
        tables=tuple(tables),
    )
    # the commit of the last transaction that is in the lake: later, the source may have had something more
    fresh_at = found.commit_time
    written_s = found.written_s
    if fresh_at and written_s is not None and (_unix_s(fresh_at) or 0.0) > written_s:
        # the clock of the server is ahead, or a session has set its time
        fresh_at = found.written_at
    found = replace(found, fresh_at=fresh_at)
    if beat is None:
        show(found)
        return
    selection = TableSelection.of(control.options, control.added, control.removed)
    waiting = {
        name: reason for name, reason in beat.waiting.items() if selection.wants(*table_name(name))
    }
    show(with_beat(found, replace(beat, waiting=waiting)))


def with_beat(status: MirrorStatus, beat: Beat) -> MirrorStatus:
    """A status with the facts of a later beat of the same mirror."""
    known_s = _unix_s(status.fresh_at) or 0.0
    fresh_s = max(beat.complete_s, beat.fresh_s)
    found = replace(
        status,
        tables=_with_waiting(status.tables, beat.waiting),
        fresh_at=utc_time(fresh_s) if fresh_s > known_s else status.fresh_at,
        checked_at=utc_time(beat.checked_s) if beat.checked_s else "",
        behind_bytes=beat.behind_bytes,
        changes_per_second=beat.changes_per_second,
        zero_dates=beat.zero_dates,
    )
    if not beat.verify_due_s:  # earlier results may have become wrong, and nothing would renew them
        return found
    samples = {name: difference.sample for name, difference in beat.differences.items()}
    return replace(
        found,
        verified_at=utc_time(beat.verified_s) if beat.verified_s else "",
        different=beat.different,
        different_samples={name: n for name, n in samples.items() if n is not None},
        not_compared=beat.not_compared,
        sample_number=beat.sample,
        verify_due_at=utc_time(beat.verify_due_s),
    )


def _with_waiting(
    tables: Iterable[TableStatus], waiting: Mapping[str, str]
) -> tuple[TableStatus, ...]:
    """The tables with the reasons why copies wait, and those of which the lake has nothing yet."""
    found: dict[str, TableStatus] = {}
    for table in tables:
        is_known = table.is_to_copy and not table.since and table.table in waiting
        found[table.table] = replace(table, reason=waiting[table.table]) if is_known else table
    known = {*found, *(shard for table in found.values() for shard in table.shards)}
    for name in waiting.keys() - known:
        found[name] = TableStatus(name, "copying", waiting[name])
    return tuple(found[name] for name in sorted(found))


@dataclass(frozen=True, slots=True)
class _NewestRound:
    """Where the newest round ended, and the snapshots of the tables then. The control table parses both whenever it is asked."""

    offset: StreamOffset | None
    snapshots: Mapping[str, int]


def _tables(
    lake: LakeTables,
    control: Control,
    indexes: Path | None,
    namespaces: Collection[str] | None,
) -> Generator[None, None, list[TableStatus]]:
    newest = _NewestRound(control.offset, control.snapshots)
    policy = control.options.compaction
    wanted = control.to_resync
    found: dict[str, TableStatus] = {}
    certainties: dict[str, int] = {}
    unreadable = UnreadTables(control)
    for (namespace, name), table, known in stored_tables(lake, namespaces, unreadable):
        yield
        properties = known["properties"]
        if "binlake.deletes" not in properties:
            continue  # no mirror made it
        if is_duplicate(properties, (namespace, name)):
            continue
        full_name = copied_from(properties) or f"{namespace}.{name}"
        certain = certainty(properties, (namespace, name))
        if certain < certainties.get(full_name, 0):
            continue
        certainties[full_name] = certain
        state = "mirrored" if sources(properties) else "copying"
        index_bytes = 0 if indexes is None else _bytes_in(indexes / namespace / name)
        due = _due(table, known, policy)
        found[full_name] = _status(table, full_name, state, known, newest, index_bytes, due)
    in_lake = {name for one in found.values() for name in (one.table, *one.shards)}
    for full_name, error in unreadable.among().items():
        if full_name not in in_lake:
            found[full_name] = TableStatus(full_name, UNREADABLE, str(error))
    for state, entries in (("gone", control.gone), ("quarantined", control.quarantined)):
        for full_name, entry in entries.items():
            known_status = found.get(full_name, TableStatus(full_name, ""))
            found[full_name] = replace(
                known_status, state=state, reason=entry.reason, since=entry.since
            )
    selection = TableSelection.of(control.options, control.added, control.removed)
    for full_name, table_status in [*found.items()]:
        names = table_status.shards or (full_name,)
        removed = [name for name in names if not selection.wants(*table_name(name))]
        if len(removed) == len(names):
            found[full_name] = replace(table_status, state="removed")
            continue
        for shard in removed:
            stays = f"its rows in {full_name} stay as they are"
            found.setdefault(shard, TableStatus(shard, "removed", stays))
    for full_name in wanted:
        found[full_name] = replace(found.get(full_name, TableStatus(full_name, "")), state="resync")
    return [found[name] for name in sorted(found)]


#: How many files are due, by table, snapshot and policy; the oldest entries are dropped.
_DUE_OF: dict[tuple[str, int | None, CompactionPolicy], int] = {}
_MOST_DUE = 10_000


def _due(table: StoredTable, known: dict[str, Any], policy: CompactionPolicy) -> int:
    """How many data files the next compaction rewrites; none of a table with a missing file, which is in quarantine or
    will be. A process examines each snapshot once.
    """
    key = (known["uuid"], known.get("snapshot"), policy)
    if key not in _DUE_OF:
        try:
            due = sum(len(group) for group in due_groups(table.file_states(), policy))
        except (*DAMAGED, UnsupportedError):  # also deletes of another program
            due = 0
        while len(_DUE_OF) >= _MOST_DUE:
            _DUE_OF.pop(next(iter(_DUE_OF)))
        _DUE_OF[key] = due
    return _DUE_OF[key]


def _bytes_in(directory: Path) -> int:
    """Bytes of the files of a directory that may change meanwhile."""
    total = 0
    for file in directory.glob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def _status(
    table: StoredTable,
    full_name: str,
    state: str,
    known: dict[str, Any],
    newest: _NewestRound,
    index_bytes: int,
    due: int,
) -> TableStatus:
    summary = known.get("summary", {})
    own = offset_of(summary)
    if newest.snapshots.get(full_name) == known.get("snapshot") and newest.offset is not None:
        own = newest.offset
    deleted = int(summary.get("total-position-deletes", "0"))
    shards = sources(known["properties"])
    kept = next(iter(shards.values()), {})
    is_merged = bool(shard_column(known["properties"]))
    if is_merged:
        own = _last(offsets_of(summary), shards, newest, known.get("snapshot"))
    treated = treated_columns(kept)
    return TableStatus(
        full_name,
        state,
        rows=int(summary.get("total-records", "0")) - deleted,
        deleted_rows=deleted,
        files=int(summary.get("total-data-files", "0")),
        bytes=int(summary.get("total-files-size", "0")),
        snapshot=known.get("snapshot"),
        committed_at=_ms(known.get("committed_ms")),
        log_file="" if own is None else own.position.file,
        log_pos=0 if own is None else own.position.offset,
        gtid_set="" if own is None else own.position.gtid_set,
        index_bytes=index_bytes,
        mode=mode_of(kept),
        shards=tuple(sorted(shards)) if is_merged else (),
        left_out=tuple(treated.get("left out", ())),
        hashed=tuple(treated.get("hashed", ())),
        as_text=text_columns(known["properties"]),
        kept=kept_columns(known["properties"]),
        lake_table=table.full_name,
        compaction_due=due,
    )


def _last(
    offsets: Mapping[str, StreamOffset],
    shards: Iterable[str],
    newest: _NewestRound,
    snapshot: int | None,
) -> StreamOffset | None:
    """The place of the shard that is furthest behind."""
    if newest.offset is not None and all(newest.snapshots.get(n) == snapshot for n in shards):
        return newest.offset
    places = (offsets[name] for name in shards if name in offsets)
    return min(places, key=lambda offset: position_key(offset.position), default=None)


def _ms(moment: int | None) -> str:
    return "" if moment is None else utc_time(moment / 1000)


def _unix_s(moment: str) -> float | None:
    """A time of `utc_time` in seconds since 1970; None for ""."""
    return datetime.fromisoformat(moment).timestamp() if moment else None
