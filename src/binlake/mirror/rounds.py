"""The rounds of a mirror: each reads a range of the log once, and commits the changes of each table.

The loop makes them, see `loop.Mirror`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from binlake.errors import IncompleteError, PositionLostError
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.format.sql_names import lower_name
from binlake.mirror.apply.decode import LOST_EVENTS, Decoded
from binlake.mirror.apply.decode_tables import TablesDecoder
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.commits import NetWriter, commit_range
from binlake.mirror.control import Control, position_key, progress_key
from binlake.mirror.ddl.schema_changes import SchemaChanges, position_in_log
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.position import Position
from binlake.values.quantities import counted

_TRIES = 3


class Rounds:
    """Rounds over the followed tables. `note` receives messages for the user, `applied` the number of committed rows, and
    `count_zero_dates` the zero and partial dates that became null, by `database.table.column`. `before_commit` raises LakeInUseError
    if another process has taken over the lake.

    A table that cannot be followed is quarantined. Raises BinlogError for all other errors.
    """

    def __init__(
        self,
        planner: StreamPlanner,
        decoder: TablesDecoder,
        net_writer: NetWriter,
        tables: FollowedTables,
        schema_changes: SchemaChanges,
        control: Control,
        options: MirrorOptions,
        note: Callable[[str], None],
        applied: Callable[[int], None],
        count_zero_dates: Callable[[Mapping[str, int]], None] = lambda _counts: None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._planner = planner
        self._decoder = decoder
        self._net_writer = net_writer
        self._tables = tables
        self._schema_changes = schema_changes
        self._control = control
        self._options = options
        self._note = note
        self._applied = applied
        self._count_zero_dates = count_zero_dates
        self._before_commit = before_commit
        self._with_zero_dates: set[str] = set()
        self._copied_anew: Counter[str] = Counter()
        self._incidents: set[str] = set()
        # since the log lacked a position, and until it has been read
        self._has_looked_again = False
        # places of another server in the log of the current one
        self._places: dict[tuple[Position, str], StreamOffset | PositionLostError] = {}
        #: whether the newest range ended where the log did when its end was looked for
        self.is_near_end = False

    def make(self, until: StreamOffset | None) -> bool:
        """Make one round of the tables that are furthest behind, up to `until`; return whether there was anything to read."""
        try:
            return self._make(until)
        except PositionLostError as error:
            if self._has_looked_again:
                if not error.is_passing and self._has_a_position():
                    error.at(is_passing=True)  # another start may read it
                raise
            # after a failover, or a purge, an open connection may show the log that was there before
            self._has_looked_again = True
            self._planner.look_again()
            return True

    def _has_a_position(self) -> bool:
        """Whether the log has the position of a table."""
        return any(self._planner.has(table.offset) for table in self._tables.followed.values())

    def _make(self, until: StreamOffset | None) -> bool:
        self.is_near_end = False
        if not self._tables.followed:
            return False
        self._after_failover()
        tables = self._tables.followed.values()
        furthest_behind = min(progress_key(table.offset) for table in tables)
        group = [table for table in tables if progress_key(table.offset) == furthest_behind]
        start = group[0].offset
        place = position_key(start.position)
        ahead = [t.offset for t in tables if position_key(t.offset.position) > place]
        copies = [self._in_this_log(t, t.snapshot_until) for t in group if t.is_being_completed]
        # the lake has a part of the changes up to these places: a range that ends before may lack rows that these have removed
        parts = [self._in_this_log(t, t.part_until) for t in group if t.is_unfinished]
        if None in copies + parts:
            return True
        copied, unfinished = (
            [end for end in ends if end and _place(end) > place] for ends in (copies, parts)
        )
        ahead += copied
        if until is not None:
            ahead.append(self.until_here(until))
        target = min(ahead, key=_place) if ahead else None
        limits = Limits.of_memory(self._options.round_bytes)
        if unfinished:
            target, limits = min([max(unfinished, key=_place), *copied], key=_place), UNLIMITED
        try:
            end = self._planner.advance(start, limits, target)
        except PositionLostError as error:
            if not self._has_looked_again:
                raise
            self._leave_behind(group, error)
            self._has_looked_again = False
            return True
        if _are_of_two_servers(start, end):
            self._change_server()
            return True
        if end.key == start.key:
            self._has_looked_again = False
            return False
        self.is_near_end = target is None and not self._planner.is_cut
        found = self._decoder.decode_until_change(group, start, end)
        self._has_looked_again = False
        self._note_incidents(found)
        first = self._schema_changes.first(found.ddl, group)
        if first is None:
            self._apply(group, found, end)
        else:
            self._apply_ddl(group, start, first)
        return True

    def _note_incidents(self, found: Decoded) -> None:
        """Report the incidents of a range that is applied nevertheless, each once."""
        for place in found.incidents:
            if place not in self._incidents:
                self._incidents.add(place)
                self._note(f"{place}: {LOST_EVENTS}")

    def _leave_behind(self, group: list[Followed], error: PositionLostError) -> None:
        """Quarantine the tables whose position the log no longer has. Raises the error if the log has no table's position."""
        newest = max(
            self._tables.followed.values(), key=lambda table: position_key(table.offset.position)
        )
        if self._planner.has(group[0].offset) or not self._planner.has(newest.offset):
            raise error
        self._positions_are_lost([(table, error) for table in group])

    def _positions_are_lost(self, lost: Sequence[tuple[Followed, PositionLostError]]) -> None:
        """Quarantine tables whose positions the log no longer has: perhaps thousands together."""
        reasons = {}
        for table, error in lost:
            hint = f"`binlake mirror resync LAKE {table.full_name}` copies the table again"
            reasons[table.full_name] = str(PositionLostError(error.message, hint=hint))
        self._tables.quarantine_all(reasons)

    def check_positions(self) -> None:
        """Raise PositionLostError if there are tables, and the log has no table's position. To be called before new tables are
        copied: the position of a new table would hide that this is the log of another server, or was purged.

        Tables that are to be copied again do not count: that is the way out of the error.
        """
        tables = self._tables.followed.values()
        kept = [table for table in tables if table.full_name not in self._control.to_resync]
        offsets = {table.offset.key: table.offset for table in kept}
        lost: PositionLostError | None = None
        for offset in sorted(offsets.values(), key=progress_key, reverse=True):
            try:
                self._planner.here(offset)
            except PositionLostError as error:
                if error.is_passing:
                    raise
                lost = lost or error
            else:
                return
        if lost is not None:
            raise lost

    def _after_failover(self) -> None:
        """If some tables have changed to another server, change the others too, because positions of two servers have no order.

        Raises as `_change_server`.
        """
        tables = self._tables.followed.values()
        if len({table.offset.position.server_uuid for table in tables}) > 1:
            self._change_server()

    def _change_server(self) -> None:
        """Give all tables their positions in the log of the current server. The positions of DDL statements are those of
        this log, too.

        It quarantines a table whose position the server does not have. Raises PositionLostError if the server has no
        table's position, or if it may have a table's position later.
        """
        self._places.clear()
        tables = list(self._tables.followed.values())
        lost: list[tuple[Followed, PositionLostError]] = []
        found: dict[tuple[Position, str], StreamOffset | PositionLostError] = {}
        for table in tables:
            here = self._here(table.offset, found)
            # the lake has a part of the changes up to these places, which the server may have lost
            for until in (
                table.part_until if table.is_unfinished else None,
                table.snapshot_until if table.may_be_ahead else None,
            ):
                if until is not None and not isinstance(here, PositionLostError):
                    end = self._here(until, found)
                    here = end if isinstance(end, PositionLostError) else here
            if isinstance(here, PositionLostError):
                lost.append((table, here))
            else:
                table.offset = here
        passing = next((why for _, why in lost if why.is_passing), None)
        if passing is not None:
            raise passing
        if len(lost) == len(tables):
            raise lost[0][1]
        self._positions_are_lost(lost)

    def _in_this_log(self, table: Followed, until: StreamOffset | None) -> StreamOffset | None:
        """The place in the current log of an end of changes that a table already has; None: the log lacks it, and the table is
        quarantined.
        """
        if until is None or until.position.server_uuid == table.offset.position.server_uuid:
            return until
        end = self._here(until, self._places)
        if not isinstance(end, PositionLostError):
            return end
        del self._places[until.key]
        if end.is_passing:
            raise end
        self._positions_are_lost([(table, end)])
        return None

    def until_here(self, until: StreamOffset) -> StreamOffset:
        """The place up to which a run reads, in the log that the tables are in: after a failover, it is that of another server. If
        it is certain that the server has lost the place, it is the end of its log. Raises PositionLostError if the server may have it later.
        """
        servers = {table.offset.position.server_uuid for table in self._tables.followed.values()}
        if len(servers) != 1 or servers & {until.position.server_uuid, ""}:
            return until
        found = self._here(until, self._places)
        if isinstance(found, PositionLostError):
            if found.is_passing:
                del self._places[until.key]
                raise found
            found = self._places[until.key] = self._planner.latest()
        return found

    def _here(
        self,
        offset: StreamOffset,
        found: dict[tuple[Position, str], StreamOffset | PositionLostError],
    ) -> StreamOffset | PositionLostError:
        """The position in the log of the current server, or the error that there is none; `found` keeps it."""
        if offset.key not in found:  # the search reads the log, and most tables are at one position
            try:
                found[offset.key] = self._planner.here(offset)
            except PositionLostError as error:
                found[offset.key] = error
        return found[offset.key]

    def _apply(self, group: list[Followed], found: Decoded, end: StreamOffset) -> None:
        """Commit the changes of a range, table by table."""
        self._note_undone(group, found)
        followed = [table for table in group if self._tables.follows(table)]
        failed = {t.full_name: found.failed[t.id] for t in followed if t.id in found.failed}
        self._tables.quarantine_all(failed)
        sound = [table for table in followed if table.id not in found.failed]
        written = self._net_writer.write(sound, found)
        for table in sound:
            if not self._tables.follows(table):
                continue
            changes = found.changes.get(table.id)
            try:
                if changes is not None:
                    self._before_commit()
                    number = self._control.round + 1
                    by_tasks = written.get(table.id)
                    rows = commit_range(table, changes, by_tasks, end, number, self._options)
                    self._applied(rows)
                table.offset = end
                if not table.may_be_ahead:
                    del self._copied_anew[table.full_name]
                self._note_zero_dates(table, found.zero_dates.get(table.id, {}))
            except IncompleteError as error:
                self._lacks_a_row(table, str(error))
            except (*OF_ONE_TABLE, CommitConflictError) as error:
                self._tables.quarantine(table.full_name, str(error))
            except DAMAGED as error:
                self._tables.quarantine_damaged(table.full_name, error)

    def _note_zero_dates(self, table: Followed, counts: Mapping[str, int]) -> None:
        """Count the values that the lake has as NULL, and report each column once: an application may write them all the
        time.
        """
        found = {f"{table.full_name}.{column}": count for column, count in counts.items()}
        if found:
            self._count_zero_dates(found)
        for column, count in sorted(found.items()):
            if column not in self._with_zero_dates:
                self._with_zero_dates.add(column)
                dates = counted(count, "zero or partial date")
                self._note(
                    f"{column}: {dates} read as null; `binlake mirror status` counts further ones"
                )

    def _note_undone(self, group: list[Followed], found: Decoded) -> None:
        """Let the tables fail that statements have changed which were rolled back: a rollback has no effect on some engines."""
        for table in group if found.undone else ():
            why = found.undone.get(lower_name(table.id))
            if why is not None and not self._tables.source.has_transactions(table.id):
                found.failed.setdefault(table.id, why)

    def _lacks_a_row(self, table: Followed, why: str) -> None:
        """Copy a table again if its copy has read a row later than the log is now; else quarantine it."""
        name = table.full_name
        self._copied_anew[name] += 1
        if table.may_be_ahead and self._copied_anew[name] <= _TRIES:
            self._note(f"{why}: it is copied again")
            self._tables.copy(name)
        else:
            self._tables.quarantine(name, why)

    # -- DDL ---------------------------------------------------------------------------------------

    def _apply_ddl(self, group: list[Followed], start: StreamOffset, ddl: DdlStatement) -> None:
        """Apply the changes before a statement, then the statement, in separate rounds."""
        place = StreamOffset(position_in_log(ddl, start))
        before = self._planner.advance(start, UNLIMITED, place)
        is_beyond = position_key(before.position) > position_key(place.position)
        if _are_of_two_servers(start, before) or is_beyond:
            return  # the statement is of a log that has been replaced: the next round reads the new one
        if self._schema_changes.copied_again(group, ddl):
            self._tables.add()  # no other table may be so far behind that it reads the statement
            return
        if before.key != start.key:
            self._apply(group, self._decoder.decode(group, start, before), before)
            return
        end = self._planner.advance(start, Limits(transactions=1))
        if _are_of_two_servers(start, end):
            return
        found = self._decoder.decode(group, start, end)
        for table in group:
            for statement in found.ddl:
                if self._tables.follows(table):
                    self._schema_changes.apply(table, statement, end)
        self._apply([t for t in group if self._is_at(t, start)], found, end)
        self._tables.add()

    def _is_at(self, table: Followed, start: StreamOffset) -> bool:
        """Whether a table is still followed as it was, from a place on."""
        same = self._tables.follows(table)
        return same and progress_key(table.offset) == progress_key(start)


def _place(offset: StreamOffset) -> tuple[int, int]:
    return position_key(offset.position)


def _are_of_two_servers(one: StreamOffset, other: StreamOffset) -> bool:
    """Whether two positions are known to be in the logs of two servers."""
    servers = {one.position.server_uuid, other.position.server_uuid} - {""}
    return len(servers) > 1
