"""Apply DDL statements of the log to the lake tables that they concern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.mirror.apply.decode import statements_in
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.columns.names import caseless
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.commits import (
    accept_other_commits,
    commit_change,
    commit_emptied,
    commit_gone,
    with_retries,
)
from binlake.mirror.control import RESYNC, Control
from binlake.mirror.ddl.column_changes import why_not_renamed
from binlake.mirror.ddl.effects import Effect, departure_of, effect_of
from binlake.mirror.ddl.shown_statements import shown_reason, shown_statement
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import definition_properties, text_properties
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError
from binlake.mirror.tables.damage import DAMAGED
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.ddl_effects import (
    CASCADES,
    alters_no_column,
    changes_no_column,
    concerns,
    spells_another,
)
from binlake.values.position import Position


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Applies statements to tables. `note` receives messages for the user. `between` is called between two parts of a long
    search in the log, and may raise an error that ends it.
    """

    options: MirrorOptions
    rules: ColumnRules
    control: Control
    tables: FollowedTables
    note: Callable[[str], None]
    planner: StreamPlanner
    between: Callable[[], None] = lambda: None

    def first(
        self, statements: Sequence[DdlStatement], group: Sequence[Followed]
    ) -> DdlStatement | None:
        """The first statement that may concern a table, or create one that is wanted."""
        for ddl in statements:
            if any(self._concerns(ddl, table) for table in group):
                return ddl
            if self.tables.source.may_be_new(ddl):
                return ddl
        return None

    def _concerns(self, ddl: DdlStatement, table: Followed) -> bool:
        """Whether a statement may be about a table. On most servers `T` and `t` are two tables; the server is asked only if a
        statement spells the name in another way.
        """
        if not concerns(ddl, *table.id):
            return False
        return not (spells_another(ddl, *table.id) and self.tables.source.distinguishes_case())

    def copied_again(self, group: Sequence[Followed], ddl: DdlStatement) -> bool:
        """Copy again the tables that a statement changed while they were copied, or quarantine them; whether there are any.

        It is unknown which of their rows and columns are older than the statement.
        """
        place = position_in_log(ddl, group[0].offset)
        again = [
            table
            for table in group
            if self._concerns(ddl, table)
            and table.was_copied_after(place)
            and not _changes_nothing(ddl, table)
            and not _departs(ddl, table)
        ]
        for table in again:
            if why := why_not_renamed(ddl, table, self.rules):
                self._quarantine(table, ddl, why)
                continue
            self.note(
                f"{table.full_name}: a DDL statement changed the table during its copy; the mirror copies it again"
            )
            self.tables.copy(table.full_name)
        return bool(again)

    def apply(self, table: Followed, ddl: DdlStatement, end: StreamOffset) -> None:
        """Apply a statement to a table; `end` is the place after the statement.

        A table that cannot follow is quarantined or copied again. Raises SourceError if the lake cannot be written,
        which may pass: the next run applies the statement.
        """
        if not self._concerns(ddl, table):
            return
        self._attempt(table, ddl, lambda: self._change(table, ddl, end))

    def _attempt(self, table: Followed, ddl: DdlStatement, act: Callable[[], None]) -> None:
        """Apply a statement to a table by `act`, again if another program has committed and the options accept that.
        Quarantine a table that cannot follow the statement.
        """
        try:
            accept_other_commits(table, self.options)
            with_retries(table, self.options, lambda _attempt: act())
        except (*OF_ONE_TABLE, CommitConflictError) as error:
            self.tables.quarantine(table.full_name, self._why(str(error), ddl, table))
        except DAMAGED as error:
            where = f"{ddl.position}: {self._shown(ddl, table)}: "
            self.tables.quarantine_damaged(table.full_name, error, where)

    def apply_departure(self, table: Followed) -> bool:
        """Apply the first statement after the place of a table that removes it from the server; return whether the log has one.

        The table does not get the changes before it: it could not follow one of them, and now it cannot be copied. Raises
        LogLagsError if an archive may not have the statement yet.
        """
        # asked first: the archive may get the statement while the mirror reads what it has now
        behind = self._lag()
        until = self.planner.latest()
        start = self.planner.here(table.offset)
        while True:
            end = self.planner.advance(start, Limits.of_memory(self.options.round_bytes), until)
            if end.key == start.key:
                if behind is not None:
                    raise behind
                return False
            self.between()
            splits = self.planner.splits(start, end)
            for ddl in statements_in(splits, self.options.read_options([table.id])):
                effect = departure_of(ddl, table) if self._concerns(ddl, table) else None
                if effect is not None and effect.gone:
                    before, after = self._around(start, ddl)
                    self._attempt(
                        table, ddl, partial(self._gone, table, effect, ddl, before, after)
                    )
                    return True
            start = end

    def _lag(self) -> LogLagsError | None:
        """The error that the archive, if the log is one, does not reach the end of the server's log; None if it does."""
        end = self.tables.source.end_beyond_archive()
        log = self.planner.head().position
        if end is None or self.tables.source.is_reached(log, end):
            return None
        return LogLagsError(
            f"the archive reaches {log.file}:{log.offset}, but not yet {end.file}:{end.offset}, and the server no longer has the table",
            hint="check that `binlake archive` runs",
        )

    def _around(self, start: StreamOffset, ddl: DdlStatement) -> tuple[StreamOffset, StreamOffset]:
        """The places before and after a statement that the log has after `start`."""
        place = StreamOffset(position_in_log(ddl, start))
        before = self.planner.advance(start, UNLIMITED, place)
        return before, self.planner.advance(before, Limits(transactions=1))

    def _change(self, table: Followed, ddl: DdlStatement, end: StreamOffset) -> None:
        effect = effect_of(ddl, table, self.options.read_options(), self.rules)
        if effect.cascades and not self.tables.source.accepts_added_cascades(ddl):
            self._refused(table, ddl, CASCADES)
            return
        if effect.is_none:
            return
        if effect.refused:
            self._refused(table, ddl, effect.refused)
            return
        if effect.recopied:
            self._copied_again(table, ddl, effect.recopied)
        elif effect.gone:
            self._gone(table, effect, ddl, table.offset, end)
        else:
            if effect.truncate:
                self._truncate(table, ddl, end)
            else:
                self._alter(table, effect, end)
            table.offset = end
            self.note(f"{table.full_name}: {self._shown(ddl, table)}")

    def _alter(self, table: Followed, effect: Effect, end: StreamOffset) -> None:
        kept = {}
        if effect.create_table is not None:
            kept = definition_properties(table.id, effect.create_table, self.rules)
        own = table.kept_as(kept)
        if set(effect.texts) != set(table.text_columns):
            own |= text_properties(effect.texts)
        change = Change(schema=effect.steps, table_properties=own)
        properties = table.position_properties(end, self.control.round + 1)
        commit_change(table, change, properties, self.options)

    def _truncate(self, table: Followed, ddl: DdlStatement, end: StreamOffset) -> None:
        if table.mode.holds_rows and not table.mode.keeps_gone:
            table.tag_before("truncate", ddl.position, self.control.round)
        if table.shard_column:
            table.empty_shard(end, self.control.round + 1)
        else:
            self._empty(table, ddl, end)

    def _gone(
        self,
        table: Followed,
        effect: Effect,
        ddl: DdlStatement,
        start: StreamOffset,
        end: StreamOffset,
    ) -> None:
        """Keep the state of a table that the server no longer has by this name, under a tag; `start` and `end` are the places
        before and after the statement.

        The table stays at the place before: after a kill the statement is read again. A new table of the old name,
        and the table under its new one, are copied by themselves.
        """
        table.tag_before(effect.departure, ddl.position, self.control.round)
        if table.shard_column:
            shown = self._shown(ddl, table)
            table.drop_shard(end, self.control.round + 1)
            self.tables.forget(table.full_name)
            self.note(f"{table.full_name}: {shown}")
            return
        if effect.dropped and table.mode.keeps_gone:
            of = table.emptying(position_in_log(ddl, table.offset), end.commit_us)
            commit_gone(table, of, end, self.control.round + 1, self.options)
        before, after = (GtidProgress(at.position.gtid_set) for at in (start, end))
        gtid = before.lacks(after)
        place = f"GTID {gtid} ({ddl.position})" if gtid else f"{ddl.position}"
        self.tables.leave(table.full_name, f"{effect.gone} at {place}")

    def _empty(self, table: Followed, ddl: DdlStatement, end: StreamOffset) -> None:
        """Commit the effect of removing all rows in a table's mode; the table is then at `end`."""
        of = table.emptying(position_in_log(ddl, table.offset), end.commit_us)
        commit_emptied(table, of, end, self.control.round + 1, self.options)

    def _shown(self, ddl: DdlStatement, table: Followed) -> str:
        return shown_statement(ddl, table, self.rules)

    def _why(self, why: str, ddl: DdlStatement, table: Followed) -> str:
        """A statement with its place, and the reason why a table cannot follow it."""
        reason = shown_reason(why, ddl, table, self.rules)
        return f"{ddl.position}: {self._shown(ddl, table)}: {reason}"

    def _refused(self, table: Followed, ddl: DdlStatement, why: str) -> None:
        if self.options.alter_policy(*table.id) != "quarantine":
            self._copied_again(table, ddl, why)
            return
        self._quarantine(table, ddl, why)

    def _quarantine(self, table: Followed, ddl: DdlStatement, why: str) -> None:
        what = self._why(why, ddl, table)
        self.tables.quarantine(table.full_name, f"{what}; {RESYNC}")

    def _copied_again(self, table: Followed, ddl: DdlStatement, why: str) -> None:
        """Copy the table; until that is done, it is at the place before the statement. If the server no longer has the
        table, the statement that drops or renames it takes effect, see `apply_departure`.

        A table is quarantined instead if the copy would show a column that was hidden under another name.
        """
        if hidden := why_not_renamed(ddl, table, self.rules):
            self._quarantine(table, ddl, hidden)
            return
        what = self._why(why, ddl, table)
        self.note(f"{table.full_name}: {what}: the table is copied again")
        self.tables.copy(table.full_name)


def position_in_log(ddl: DdlStatement, start: StreamOffset) -> Position:
    """The position of a statement in the log that a read from `start` has found it in."""
    return Position(start.position.server_uuid, ddl.position.file, ddl.position.offset)


def _changes_nothing(ddl: DdlStatement, table: Followed) -> bool:
    """Whether a statement leaves the rows and columns of a table as they are, and does not put its key in doubt."""
    if changes_no_column(ddl):
        return True
    has_primary_key = {*map(caseless, table.key)} == {*map(caseless, table.declared.primary_key)}
    return has_primary_key and alters_no_column(ddl)


def _departs(ddl: DdlStatement, table: Followed) -> bool:
    """Whether the server certainly has no such table, or a new one, after a statement."""
    departure = departure_of(ddl, table)
    return departure is not None and bool(departure.gone)
