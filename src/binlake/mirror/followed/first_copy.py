"""The first copy of a table: tasks write its current rows into data files of its lake table, in one commit.

The log is applied from the oldest position of all chunks on: a change that a chunk has seen already
leaves the row as it is. A copy that is killed or interrupted continues with the chunks that it has not read.

One module, although it is long: all steps of a copy share its state file, from which an interrupted copy continues.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlake.errors import (
    BinlogError,
    FormatError,
    PositionLostError,
    SchemaError,
    ServerError,
    UnsupportedError,
)
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.lake.engine import Engine, UnwantedError
from binlake.mirror.columns.names import ANOTHER_NAME, spelled, why_same
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import position_key
from binlake.mirror.followed.chunk_task import ChunkTask
from binlake.mirror.followed.copy_attempts import CopyAttempts
from binlake.mirror.followed.copy_state import CopyState, columns_begun, state_path
from binlake.mirror.followed.copy_target import CopyTargets, tag_as_before
from binlake.mirror.followed.former_tables import FormerTables
from binlake.mirror.followed.kept_columns import files_with_kept_values
from binlake.mirror.followed.key_charsets import remarks_on_keys
from binlake.mirror.followed.log_positions import LogPositions
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import (
    kept_columns,
    table_properties,
    text_columns,
)
from binlake.mirror.modes.mode import Mode
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.engines import can_be_mirrored
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.refusals import AlteredError
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.formats import LakeTable, LakeTables, why_reserved
from binlake.snapshot.chunks import SnapshotOptions, TableChunk, chunks_of
from binlake.snapshot.tables import SourceTable
from binlake.source.bytes import writing
from binlake.values.position import Position, is_log_of
from binlake.values.quantities import counted

# So many chunks for each core are read before the state is written down, and a pause or a stop takes effect.
_CHUNKS_PER_CORE = 1
_SHARD_PATIENCE_S = 300.0


class LogPurgedError(PositionLostError):
    """A copy has taken longer than the server keeps the log that it needs."""


class LogLagsError(BinlogError):
    """The log does not contain yet all changes that copied rows may contain: it is an archive that lags behind."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of the copy of a table: chunks, and rows and bytes as the server sent them.

    When earlier values of columns are added to the copied rows, all numbers are those of data files, the `unit`.
    """

    table: str
    chunks: int
    all_chunks: int
    rows: int
    bytes: int
    unit: str = "chunk"

    @property
    def done(self) -> str:
        """How many of the chunks are read, as text."""
        return f"{self.chunks:,} of {counted(self.all_chunks, self.unit)}"


@dataclass(frozen=True, slots=True)
class FirstCopy:
    """Copies tables of a server into lake tables.

    `host`: the server. `targets` opens the lake tables. `note` receives messages for the user, `watch` the progress of
    a copy, `count_zero_dates` the zero and partial dates that became null, by `database.table.column`. A copy ends early, to
    be continued, when `is_interrupted` or, between chunks, `gives_way` returns true.
    `shards_in` finds the shards of a lake table that are followed. `begun`:
    those whose copies began or continued in this run, and `states` the states of those that gave way; `former`: the lake tables
    of other names; `places` finds places in the log; `requested`: the tables whose copies users have requested.
    """

    lake: LakeTables
    host: SourceHost
    engine: Engine
    planner: StreamPlanner
    options: MirrorOptions
    rules: ColumnRules
    targets: CopyTargets
    indexes: Path
    note: Callable[[str], None]
    watch: Callable[[CopyProgress], None]
    is_interrupted: Callable[[], bool]
    gives_way: Callable[[], bool]
    shards_in: Callable[[tuple[str, str]], dict[str, Followed]]
    former: FormerTables
    places: LogPositions
    count_zero_dates: Callable[[Mapping[str, int]], None] = lambda _counts: None
    begun: set[str] = field(default_factory=set)
    states: dict[Path, CopyState] = field(default_factory=dict)
    requested: set[str] = field(default_factory=set)

    def make(
        self,
        table: SourceTable,
        create_table: str,
        round_number: int,
        read_again: Callable[[], tuple[SourceTable, str]],
    ) -> Followed | None:
        """Copy a table into the lake, replacing its contents; None if it was interrupted.

        `read_again` asks the server for the table and its CREATE TABLE again. Raises BinlogError, ServerError if the table was
        altered meanwhile: the log from the first chunk on may not contain the statement, UnsupportedError for a value that
        the lake cannot have, CommitConflictError if another program has committed to the lake table, and LogLagsError if the
        log does not reach the last row yet: then the copy is to be continued.
        """
        self._refuse(table)
        url = self.host.copied_url()
        target = self.targets.open(table)
        state = self._state(table, create_table, target)
        self._check_lake(table, state)
        start = self._begun(table, state, url)
        attempts = CopyAttempts(state.path.with_suffix(".attempts"), state.identity)
        attempts.check(table.full_name)
        try:
            is_read = self._read(table, target, state, attempts, url)
        except FormatError as error:  # a value: the tasks read no log
            self._check_definition(table, create_table, read_again)
            raise UnsupportedError(f"{error}") from None
        if not is_read:
            return None
        self._check_definition(table, create_table, read_again)
        self._wait_for_log(table, state)
        # The end must be one that the log had when the last row was read, or later. An ALTER before it makes the mirror
        # copy the table again, so it is taken before earlier values are added, which may take hours.
        until = self.places.end()
        answers = list(state.answers.values())
        oldest = min((Position.from_json(one["position"]) for one in answers), key=position_key)
        if start is None or position_key(oldest) < position_key(start.position):
            start = self.places.of_oldest(table.full_name, oldest)
        files = [file for answer in answers for file in answer["files"]]
        if earlier := kept_columns(target.properties):
            try:
                files = self._with_earlier_values(table, target, files, earlier)
            except UnwantedError:
                return None
        made = Followed(table.schema, table.name, target, start, self._shards_beside(table))
        kept = table_properties(
            table, create_table, self.rules, self.targets.mode(table).name, until
        )
        # Raises an error if another process has taken over the lake meanwhile.
        if self.is_interrupted():
            return None
        if target.snapshot is not None and self.targets.mode(table).fields:  # rows that no copy has
            tag_as_before(target.stored)  # in Delta a commit, after which no copy can be continued
        made.replace_rows(files, made.copied_properties(start, round_number), kept)
        state.remove()
        self.requested.discard(table.full_name)
        self.former.leave(table, target)
        self._note_copied(table, sum(file["record-count"] for file in files), answers)
        return made

    def _shards_beside(self, table: SourceTable) -> dict[str, Followed]:
        """The shards that are merged into the same lake table."""
        if not self.targets.shard_column(table):
            return {}
        return self.shards_in(self.targets.name(table))

    def _note_copied(
        self, table: SourceTable, rows: int, answers: Sequence[Mapping[str, Any]]
    ) -> None:
        """Report the number of rows, and keys that the lake may not distinguish; count and report the values that the lake has
        as NULL, as `Ledger.remarks` does.
        """
        self.note(f"{table.full_name}: {counted(rows, 'row')} copied")
        for remark in remarks_on_keys(table):
            self.note(remark)
        found: Counter[str] = Counter()
        for answer in answers:
            for column, count in answer.get("zero_dates", {}).items():  # not in earlier states
                found[f"{table.full_name}.{column}"] += count
        if found:
            self.count_zero_dates(found)
        for column, count in sorted(found.items()):
            self.note(f"{column}: {counted(count, 'zero or partial date')} read as null")

    @staticmethod
    def _check_definition(
        table: SourceTable, create_table: str, read_again: Callable[[], tuple[SourceTable, str]]
    ) -> None:
        """Raise AlteredError if rows may have been read with the types of another definition, while their key did not identify
        them, or in another order of the key, by which two chunks can have the same row: the text of the definition has neither
        unique keys nor collations.
        """
        now, text = read_again()
        before, after = ((one.key, one.key_collations, one.engine) for one in (table, now))
        if (text, after) != (create_table, before):
            raise AlteredError(f"{table.full_name} was altered while it was copied")

    def _state(self, table: SourceTable, create_table: str, target: LakeTable) -> CopyState:
        """The recorded state of the same copy: of this server, definition and lake table."""
        known = target.stored.describe()
        parts = [
            "with the end of the log",
            self.planner.head().position.server_uuid,
            create_table,
            str(table.arrow_schema),
            json.dumps([self.targets.mode(table).name, self.targets.treated(table)]),
            json.dumps(text_columns(target.properties)),
            json.dumps([table.key, table.key_collations]),
            str(self.options.chunk_rows),
            str(known["uuid"]),
        ]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        identity = f"{digest} {known.get('snapshot')}"
        path = state_path(self.indexes, table.full_name)
        state = self.states.pop(path, None)
        return (
            state
            if state and state.identity == identity
            else CopyState(path, identity, [column.name for column in table.definition.columns])
        )

    def _check_lake(self, table: SourceTable, state: CopyState) -> None:
        """Raise CommitConflictError if only the snapshot of the lake table has changed since its copy began. The mirror does not
        commit to the table meanwhile, except the rounds of other shards.
        """
        before, now = (one.rpartition(" ")[0] for one in (state.other, state.identity))
        if before == now and not self.targets.shard_column(table):
            raise CommitConflictError(
                f"{table.full_name}: the lake table has got another commit since its copy began"
            )

    def give_up(self, full_name: str) -> None:
        """Remove the state of a copy that is not to be continued: the log may lack changes of the rows that it has read. It
        contains keys as the server has them, also if columns are hashed.
        """
        self.requested.discard(full_name)
        self.remove_state(full_name)

    def remove_state(self, full_name: str) -> None:
        """Remove the state of a copy, which begins again."""
        path = state_path(self.indexes, full_name)
        self.states.pop(path, None)
        with writing(str(path)):
            path.unlink(missing_ok=True)

    def begin_anew(self, full_name: str) -> None:
        """Give up a copy because a user has requested another one, which may show columns that were hidden under other names."""
        self.remove_state(full_name)
        self.requested.add(full_name)

    def _check_renamed(self, table: SourceTable) -> None:
        """Raise UnsupportedError if a column that was hidden in the lake table, or when this copy began, may be shown under another
        name: the log may have the ALTER later, or never.
        """
        now = [column.name for column in table.definition.columns]
        before = columns_begun(state_path(self.indexes, table.full_name))
        # a copy that has begun was allowed to, perhaps because a user had requested it
        if not before and table.full_name not in self.requested:
            before = tuple(self.targets.columns_before(table))
        self.rules.check_renamed(table.schema, table.name, before, now)

    def _check_log(self, table: SourceTable, state: CopyState) -> None:
        """Raise LogLagsError if an archive does not have all changes that the rows may have, ServerError if the log is not
        the one that the server had when they were read: then they are read again.
        """
        ends = [Position.from_json(answer["end"]) for answer in state.answers.values()]
        log = self.planner.head().position
        others = {
            end.server_uuid for end in ends if not is_log_of(log.server_uuid, end.server_uuid)
        }
        if others:
            state.remove()
            raise ServerError(
                f"{table.full_name} was read from server {min(others)}, but the log is from server {log.server_uuid}"
            )
        for answer in state.answers.values():
            if "log" in answer:
                self._check_same_log(table, state, StreamOffset.from_json(answer["log"]))
        end = max(ends, key=position_key)
        if self.host.is_reached(log, end):
            return
        places = f"{log.file}:{log.offset}, but the last row was read at {end.file}:{end.offset}"
        if not self.host.has_archive:
            state.remove()
            raise ServerError(f"{table.full_name}: the log was reset: it ends at {places}")
        raise LogLagsError(
            f"{table.full_name}: the archive reaches {places}",
            hint="check that `binlake archive` runs; the copy continues when the archive has reached that position",
        )

    def _wait_for_log(self, table: SourceTable, state: CopyState) -> None:
        """Check the log as `_check_log` does. The copy of a shard waits here for an archive that lags behind: the rounds of other shards
        commit to the same lake table, after which it would have to begin again.
        """
        deadline = time.monotonic() + _SHARD_PATIENCE_S
        while True:
            try:
                self._check_log(table, state)
                return
            except LogLagsError:
                is_shard = self.targets.shard_column(table)
                if not is_shard or self.is_interrupted() or time.monotonic() > deadline:
                    raise
            time.sleep(1.0)

    def _begun(self, table: SourceTable, state: CopyState, url: str) -> StreamOffset | None:
        """Divide the table, unless an earlier copy can be continued, because its position is still in the log."""
        if state.answers:
            self._wait_for_log(table, state)
            done, of = len(state.answers), len(state.chunks)
            positions = (Position.from_json(one["position"]) for one in state.answers.values())
            try:
                self._check_not_purged(table, state.answers.values())
                oldest = min(positions, key=position_key)
                start = self.places.of_oldest(table.full_name, oldest)
            except BinlogError as error:
                if error.retryable:
                    raise
                self.note(f"{table.full_name}: its copy starts again: {error}")
            else:
                if table.full_name not in self.begun:
                    self.begun.add(table.full_name)
                    self.note(
                        f"{table.full_name}: its copy continues: {done} of {of} chunks are read"
                    )
                return start
        if state.other:
            self.note(
                f"{table.full_name}: its copy begins again: the server, its definition, its lake table or the options have changed"
            )
        chunks = chunks_of(url, table, self._chunk_options())
        state.begin([chunk.to_json() for chunk in chunks])
        self.begun.add(table.full_name)
        self.note(
            f"{table.full_name}: copying about {counted(table.rows, 'row')} in"
            f" {counted(len(chunks), 'chunk')}"
        )
        return None

    def _read(
        self,
        table: SourceTable,
        target: LakeTable,
        state: CopyState,
        attempts: CopyAttempts,
        url: str,
    ) -> bool:
        """Read the chunks that were not read yet; whether all are."""
        options = self._chunk_options()
        chunks = [TableChunk.from_json(text, table, options) for text in state.chunks]
        left = [chunk for chunk in chunks if chunk.number not in state.answers]
        schema = target.schema.serialize().to_pybytes()
        prefix = target.data_prefix()
        texts = text_columns(target.properties)
        rules = self.rules.with_texts(table.schema, table.name, texts)
        width = max(1, self.engine.cores) * _CHUNKS_PER_CORE
        self._report_progress(table, state, 0)
        began = None if state.answers else self.places.end()
        for at in range(0, len(left), width):
            if self.is_interrupted() or (at and self._gives_way(table)):
                # the next part need not look for the files of these chunks: in a store, that takes hours for a large copy
                self.states[state.path] = state
                return False
            tasks = [
                ChunkTask(
                    chunk,
                    url,
                    schema,
                    prefix,
                    rules,
                    self.targets.mode(table).name,
                    target.partitioning,
                    self.targets.shard_column(table),
                )
                for chunk in left[at : at + width]
            ]
            numbers = ", ".join(str(task.chunk.number + 1) for task in tasks)
            with attempts.another(f"{table.full_name}, chunk {numbers} of {len(chunks)}"):
                answers = self.engine.run(
                    tasks,
                    f"copy {table.full_name}",
                    lambda done, _all: self._report_progress(table, state, done),
                )
            found = [json.loads(text) for text in answers]
            state.add(found if began is None else self._with_log(table, state, found, began))
            began = None
            self._report_progress(table, state, 0)
            self._check_not_purged(table, state.answers.values())
        return True

    def _with_log(
        self,
        table: SourceTable,
        state: CopyState,
        answers: list[dict[str, Any]],
        began: StreamOffset,
    ) -> list[dict[str, Any]]:
        """The answers of the first chunks, with a place that identifies the log later. `began`: the end of the log before them.
        Raises ServerError if the log has been replaced since.
        """
        positions = (Position.from_json(answer["position"]) for answer in answers)
        try:
            place = self.places.of_oldest(table.full_name, min(positions, key=position_key))
        except BinlogError as error:
            if error.retryable:
                raise
            place = began  # of an archive that lags behind
        self._check_not_purged(
            table, answers
        )  # it says what to do; a purged log is not another one
        self._check_same_log(table, state, began)
        return [answers[0] | {"log": place.to_json()}, *answers[1:]]

    def _check_same_log(self, table: SourceTable, state: CopyState, place: StreamOffset) -> None:
        """Raise ServerError if the log does not have a place of this copy: a reset log has other changes at the positions of
        the chunks.
        """
        try:
            self.planner.here(place)
        except PositionLostError as error:
            if error.is_passing:
                raise
            state.remove()
            raise ServerError(
                f"{table.full_name}: the log is not the one in which its copy began: {error.message}"
            ) from None

    def _check_not_purged(self, table: SourceTable, answers: Iterable[Mapping[str, Any]]) -> None:
        """Raise LogPurgedError if the log with the changes since the first chunk is not there any more."""
        positions = (Position.from_json(one["position"]) for one in answers)
        oldest = min(positions, key=position_key)
        if self.planner.begins_after(oldest):
            setting = _RETENTION[table.definition.flavour]
            raise LogPurgedError(
                f"{table.full_name}: {oldest.file} was purged, and its copy needs the log from there on",
                hint=f"set {setting} of the server to more than the copy takes",
            )

    def _gives_way(self, table: SourceTable) -> bool:
        """Whether rounds of other tables are due. The copy of a shard does not wait for them: rounds of other shards would
        commit to its lake table.
        """
        return not self.targets.shard_column(table) and self.gives_way()

    def _with_earlier_values(
        self,
        table: SourceTable,
        target: LakeTable,
        files: Sequence[Mapping[str, Any]],
        names: Sequence[str],
    ) -> list[dict[str, Any]]:
        """Data files with the rows of others, and the earlier values of columns. Raises UnwantedError."""
        rows = sum(file["record-count"] for file in files)
        self.note(f"{table.full_name}: adding {', '.join(names)} to {counted(rows, 'row')}")

        def watch(done: int, of_rows: int) -> None:
            read = sum(file["file-size-in-bytes"] for file in files[:done])
            self.watch(CopyProgress(table.full_name, done, len(files), of_rows, read, "data file"))

        watch(0, 0)
        return files_with_kept_values(files, target, table.key, names, watch, self.is_interrupted)

    def _report_progress(self, table: SourceTable, state: CopyState, more: int) -> None:
        answers = state.answers.values()
        self.watch(
            CopyProgress(
                table.full_name,
                len(answers) + more,
                len(state.chunks),
                sum(answer["rows"] for answer in answers),
                sum(answer["bytes"] for answer in answers),
            )
        )

    def _refuse(self, table: SourceTable) -> None:
        if table.key and not can_be_mirrored(table.engine, table.definition.flavour):
            raise UnsupportedError(
                f"{table.full_name}: tables of engine {table.engine} cannot be mirrored"
            )
        names = [column.name for column in table.definition.columns]
        self.rules.check(table.schema, table.name, names, table.key)
        self._check_renamed(table)
        shown = [
            n for n in names if self.rules.treatment(table.schema, table.name, n) != "left out"
        ]
        if why := why_same(shown):
            raise UnsupportedError(
                f"{table.full_name}: {why}",
                hint="rename one of them, then run `binlake mirror resync`",
            )
        self.targets.mode(table).check(table.full_name, shown, table.key)
        if why := why_reserved(shown, self.options.format):
            raise UnsupportedError(
                f"{table.full_name}: {why}",
                hint=ANOTHER_NAME,
            )
        if merged_by := self.targets.shard_column(table):
            self._refuse_shard(table.full_name, merged_by, shown, self.targets.mode(table))
        for column in table.definition.columns:
            if "\0" in column.name:
                raise SchemaError(f"{table.full_name}: the name of a column contains a zero byte")
        if table.full_name not in self.begun:
            self.former.check(table)

    @staticmethod
    def _refuse_shard(full_name: str, column: str, names: Sequence[str], mode: Mode) -> None:
        """Raise UnsupportedError for a table that cannot be merged with others."""
        if spelled(column, names) is not None:
            raise UnsupportedError(
                f"{full_name}: its column {column} has the name of the shard column",
                hint="choose another name with --shard-column, then run `binlake mirror resync`",
            )
        if mode.name != MIRROR:
            raise UnsupportedError(
                f"{full_name}: tables in the mode {mode.name!r} cannot be merged"
            )

    def _chunk_options(self) -> SnapshotOptions:
        rate = self.options.max_rows_per_s
        share = max(1, rate // max(1, self.engine.cores)) if rate else 0
        return SnapshotOptions(chunk_rows=self.options.chunk_rows, max_rows_per_s=share)


_RETENTION = {"mysql": "binlog_expire_logs_seconds", "mariadb": "expire_logs_days"}
