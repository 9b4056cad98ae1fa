"""Decode a range of the log for several tables, so that a table whose changes cannot be decoded does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    MissingContextError,
    SchemaError,
    SourceError,
    TruncatedError,
    UnsupportedError,
)
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.format.sql_names import TableName
from binlake.lake.engine import Engine
from binlake.mirror.apply.decode import Decoded, Wanted, decode_range, statements_in
from binlake.mirror.apply.definitions import Definitions
from binlake.mirror.apply.range_changes import Shares
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.table import Followed
from binlake.mirror.options import MirrorOptions
from binlake.source.log_file import SKIP_HINT
from binlake.stream.positions.splits import Split
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.options import ReadOptions

# Rows as Arrow are larger than the log, up to so many times.
_ROW_BYTES_PER_LOG_BYTE = 4
_MOST_SHARES = 128
# Errors in the values of one table.
_OF_A_VALUE = (FormatError, MissingContextError, SchemaError, UnsupportedError)
# Errors of the log itself, which are those of all tables.
_OF_THE_LOG = (ChecksumError, TruncatedError)


@dataclass(slots=True)
class TablesDecoder:
    """Decodes ranges of the log of `planner`. `split_bytes` of log are half of what one task decodes; `quarantine`
    receives the name of a table with changes that cannot be decoded, and the reason; `first_change` finds the first of
    several statements that may change tables. `has_texts`: a range needed the texts of statements, so the others are decoded
    with them at once.
    """

    planner: StreamPlanner
    engine: Engine
    task_files: TaskFiles
    options: MirrorOptions
    rules: ColumnRules
    split_bytes: int
    quarantine: Callable[[str, str], None]
    first_change: Callable[[Sequence[DdlStatement], Sequence[Followed]], DdlStatement | None]
    has_texts: bool = field(default=False, init=False)

    def decode_until_change(
        self, group: list[Followed], start: StreamOffset, end: StreamOffset
    ) -> Decoded:
        """Decode a range. If it has a statement that may change tables, and changes that cannot be decoded, return
        only the statements: the changes may be those of a table that is altered. Raises as `decode`.
        """
        self.task_files.clear()
        try:
            return self._read(group, start, end)
        except _OF_THE_LOG:
            raise
        except _OF_A_VALUE:
            read = self.options.read_options([table.id for table in group])
            statements = statements_in(self.planner.splits(start, end), read)
            if self.first_change(statements, group) is not None:
                return Decoded(ddl=statements)
            return self.decode(group, start, end)

    def decode(self, group: list[Followed], start: StreamOffset, end: StreamOffset) -> Decoded:
        """The changes of a range. A table with changes that cannot be decoded is quarantined.

        Raises the errors of the log, and an error that is the same for each of several tables.
        """
        self.task_files.clear()
        try:
            return self._read(group, start, end)
        except _OF_THE_LOG:
            raise
        except _OF_A_VALUE as error:
            if len(group) == 1:
                self.quarantine(group[0].full_name, str(error))
                return Decoded()
            if self._is_of_all(group, start, end, str(error)):
                raise
        found = Decoded()
        failed: dict[str, BinlogError] = {}
        self._decode_halves(group, start, end, found, failed)
        for full_name, why in failed.items():
            self.quarantine(full_name, str(why))
        return found

    def _decode_halves(
        self,
        group: list[Followed],
        start: StreamOffset,
        end: StreamOffset,
        found: Decoded,
        failed: dict[str, BinlogError],
    ) -> None:
        """Decode a range of which some tables have changes that cannot be decoded: half of the tables, then the other half, and so on,
        so that few reads find one among thousands. `found` receives the changes of the others, `failed` the errors.
        """
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            try:
                _add(found, self._read(half, start, end))
            except _OF_THE_LOG:
                raise
            except _OF_A_VALUE as error:
                if len(half) == 1:
                    failed[half[0].full_name] = error
                else:
                    self._decode_halves(half, start, end, found, failed)

    def _is_of_all(
        self, group: list[Followed], start: StreamOffset, end: StreamOffset, why: str
    ) -> bool:
        """Whether an error is that of each table: of the first one, the last one and one between."""
        for place in sorted({0, len(group) // 2, len(group) - 1}):
            try:
                self._read([group[place]], start, end)
            except _OF_THE_LOG:
                raise
            except _OF_A_VALUE as error:
                if str(error) == why:
                    continue
            return False
        return True

    def _read(self, group: list[Followed], start: StreamOffset, end: StreamOffset) -> Decoded:
        """Decode a range for tables. Raises what `decode_range` raises."""
        read = self.options.read_options([table.id for table in group])
        read = replace(read, query=self.has_texts)
        rules = self.rules
        for table in group:
            rules = table.rules(rules)
        files = self.planner.splits(start, end)
        while True:
            try:
                return self._decoded(group, files, read, rules)
            except SourceError:
                planned, files = files, self.planner.splits(start, end)
                if [file.log.path for file in files] == [file.log.path for file in planned]:
                    raise
                # an archive has compressed a log since the tasks were planned

    def _decoded(
        self, group: list[Followed], files: Sequence[Split], read: ReadOptions, rules: ColumnRules
    ) -> Decoded:
        """Let tasks decode files, each a part of `split_bytes`. Raises what `decode_range` raises."""
        splits = [part for file in files for part in file.ranges(self.split_bytes)]
        shares: dict[TableName, Shares | None] = {}
        if parts := self._parts(sum(split.bytes for split in splits)):
            shares = {table.id: table.shares(parts) for table in group}
        wanted = Wanted(
            {table.id: table.decoded_key for table in group},
            Definitions({table.id: table.definition for table in group}),
            rules,
            {table.id: table.mode.facts for table in group},
            {name: share for name, share in shares.items() if share is not None},
            frozenset(table.id for table in group if not table.mode.holds_rows),
        )
        refuses = self.options.on_statement == "error"
        try:
            found = decode_range(
                splits,
                read,
                wanted,
                self.engine,
                self.task_files,
                refuse_statements=refuses,
                task_bytes=2 * self.split_bytes,
                held_bytes=self.options.commit_bytes,
            )
        except FormatError as error:
            if error.hint == SKIP_HINT:  # a mirror has no such option
                error.hint = None
            raise
        self.has_texts |= found.has_texts
        return found

    def _parts(self, log_bytes: int) -> int:
        """Into how many shares of keys tasks cut the changes of a table in a range of so many bytes; 0: into none.

        A share is the work of a task and becomes a data file: not of less than a split of the log, and not more than
        the tasks that run at the same time may hold together. On one machine, the cutting costs more than it saves, unless
        the rows exceed `commit_bytes`.
        """
        row_bytes = log_bytes * _ROW_BYTES_PER_LOG_BYTE
        fits = row_bytes <= self.options.commit_bytes
        if log_bytes <= 2 * self.split_bytes or (fits and self.engine.is_here):
            return 0
        cores = self.engine.cores
        useful = min(cores, -(-log_bytes // self.split_bytes))
        needed = -(-row_bytes * cores // self.options.commit_bytes)
        return min(max(useful, needed), _MOST_SHARES)


def _add(found: Decoded, more: Decoded) -> None:
    """Add what a read of other tables has found in the same range."""
    found.changes.update(more.changes)
    found.failed.update(more.failed)
    found.zero_dates.update(more.zero_dates)
    found.undone.update(more.undone)
    found.ddl = sorted(dict.fromkeys(found.ddl + more.ddl), key=lambda ddl: ddl.position)
    found.incidents = list(dict.fromkeys(found.incidents + more.incidents))
