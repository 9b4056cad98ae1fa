"""Decode a range of the log into the row changes of each mirrored table and the DDL between them.

The mirror decodes small ranges itself. For a large range, each task decodes a part and writes its
rows to Arrow files (`range_changes`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from binlake.errors import IncompleteError, UnsupportedError
from binlake.format.sql_names import TableName, lower_name, quoted_name
from binlake.lake.engine import Engine, Task
from binlake.mirror.apply.change_rows import change_rows
from binlake.mirror.apply.definitions import DefinedTables, Definitions
from binlake.mirror.apply.insert_defaults import InsertDefaults
from binlake.mirror.apply.range_changes import ChangeFile, ChangeFileWriter, RangeChanges, Shares
from binlake.mirror.apply.replaced_rows import refuse_replaced, with_statements_if_needed
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.columns.rules import ColumnRules
from binlake.stream.positions.splits import Split
from binlake.stream.runs import Outcome, Run, Transaction
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.statements import (
    DML,
    INCIDENT,
    LOAD_DATA,
    ORPHAN_XA_COMMIT,
    ROLLED_BACK_STATEMENT,
)
from binlake.table.decode import ChangeDecoder
from binlake.table.log_part import LogPart, packed
from binlake.table.plan import TableTypes
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition

_UNSHOWN = (DML, LOAD_DATA, ROLLED_BACK_STATEMENT, ORPHAN_XA_COMMIT)

#: What an INCIDENT event of a log means.
LOST_EVENTS = "the server reports that events are missing from its log (INCIDENT_EVENT), so the lake may lack changes of any table"
_SHOWN = (DML, LOAD_DATA, INCIDENT, ROLLED_BACK_STATEMENT)
_ROW_FORMAT_IN_SESSIONS = "set binlog_format=ROW in all sessions that write to it; `binlake mirror resync` copies the table again"
_SET_ROW_FORMAT = (
    "set binlog_format=ROW on the server; then resync the tables that these statements change, "
    "or continue with --on-statement ignore"
)
_PREPARE_IS_PURGED = (
    "keep logs on the server until the XA transactions in them have ended; run `binlake mirror resync LAKE '*.*'` and "
    "start the mirror again: it copies all tables; or continue without the changes with --on-statement ignore"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tables to decode: their keys (all columns of a table without one), their definitions, the columns to hash or to keep as text, and for each table the requested facts of each change, as names
    of metadata columns. `shares`: how tasks cut the changes of some tables. `change_logs`: the tables whose inserts may lack
    columns with an unknown default.
    """

    keys: Mapping[TableName, tuple[str, ...]]
    definitions: Definitions
    rules: ColumnRules = field(default_factory=ColumnRules)
    facts: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[TableName, Shares] = field(default_factory=dict)
    change_logs: frozenset[TableName] = frozenset()

    def defaults(self, name: TableName) -> InsertDefaults | None:
        """The defaults of a table; None if it has no definition. Raises SchemaError."""
        declared = self.definitions.declared(name)
        if declared is None:
            return None
        return InsertDefaults(declared, must_be_known=name not in self.change_logs)


@dataclass
class Decoded:
    """The row changes of a range by table. `failed`: tables with changes that cannot be applied, and why. `stated`:
    tables that statements in statement format change, in lower case, and why their rows are missing. `undone`: the same for
    statements that were rolled back, which have an effect on tables of engines without transactions. `incidents`: the
    positions at which the server reports that events are missing. `zero_dates`: by table and column, the zero and partial
    dates that became null, in the rows before and after each change. `has_texts`: the changes were decoded with the texts of
    statements. `local`: see `RangeChanges`.
    """

    changes: dict[TableName, RangeChanges] = field(default_factory=dict)
    ddl: list[DdlStatement] = field(default_factory=list)
    failed: dict[TableName, str] = field(default_factory=dict)
    stated: dict[TableName, str] = field(default_factory=dict)
    undone: dict[TableName, str] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    zero_dates: dict[TableName, Counter[str]] = field(default_factory=dict)
    has_texts: bool = False
    local: Callable[[str], str] = lambda path: path

    def of(self, name: TableName) -> RangeChanges:
        """The changes of a table."""
        if name not in self.changes:
            self.changes[name] = RangeChanges(local=self.local)
        return self.changes[name]

    def add(self, name: TableName, batch: pa.RecordBatch) -> None:
        """More changes of a table."""
        self.of(name).add(batch)

    def add_zero_dates(self, name: TableName, column: str, count: int) -> None:
        """More zero and partial dates of a column that became null."""
        self.zero_dates.setdefault(name, Counter())[column] += count


def decode_range(
    splits: Sequence[Split],
    options: ReadOptions,
    wanted: Wanted,
    engine: Engine,
    task_files: TaskFiles,
    *,
    refuse_statements: bool = True,
    task_bytes: int = 32 << 20,
    held_bytes: int = 512 << 20,
) -> Decoded:
    """Decode splits, with `engine` if they have more than `task_bytes`, which one task reads. A task reads all of
    a server's log, or of a compressed file, because these cannot be cut. Without tasks, changes of more than `held_bytes` are
    also in files: log that is compressed inflates.

    With `refuse_statements`, a table has failed if a statement in statement format changes it and no other table.
    Raises BinlogError; IncompleteError, with `refuse_statements`, for other changes in the log that are not in row
    events and may be of any table, and for events that are missing from it.
    """
    parts = packed(splits, task_bytes)
    if sum(split.bytes for split in splits) <= task_bytes:
        (ledger, found), has_texts = with_statements_if_needed(
            lambda read: _decode_here(parts, read, wanted, task_files, held_bytes), options
        )
        found.has_texts = has_texts
    else:
        ledger, found = _by_tasks(parts, options, wanted, engine, task_files)
    _check_joined(ledger, splits)
    if refuse_statements:
        _refuse_incident(found)
        _refuse_unshown(ledger)
        for name in wanted.keys:
            if (why := found.stated.get(lower_name(name))) is not None:
                found.failed.setdefault(name, why)
    else:
        found.undone.clear()
    return found


def statements_in(splits: Sequence[Split], options: ReadOptions) -> list[DdlStatement]:
    """The DDL statements of splits; rows are not decoded. Raises BinlogError."""
    found = Decoded()
    for _ in _runs(LogPart(tuple(splits)), options, Ledger(), found):
        pass
    return found.ddl


def _runs(part: LogPart, options: ReadOptions, ledger: Ledger, into: Decoded) -> Iterator[Run]:
    """The transactions of a part; the DDL statements before each are then in `into`.

    DDL of filtered transactions is left out: after a failover to a server that has committed the same transactions in
    another order, these are the ones that the lake already has.
    """

    def take(ddl: DdlStatement) -> None:
        into.ddl.append(without_comments(ddl))

    for reader in part.readers(options, ledger):
        for run in reader.runs(take, _SHOWN, all_ddl=False):
            if isinstance(run, Transaction):
                _take_statements(run, ledger, into)
                if run.outcome is not Outcome.COMMITTED:
                    continue
            yield run


def _take_statements(transaction: Transaction, ledger: Ledger, into: Decoded) -> None:
    """Note the statement-format DML and LOAD DATA of a transaction, by table where it is certain which one a statement
    changes; and incidents.

    A server logs a `DELETE` for each table of the engine MEMORY when it opens the table for the first time after a
    restart. Such a statement empties the table, and is applied as TRUNCATE.

    A server logs a statement that was rolled back if the same transaction has changed a table of an engine without
    transactions.
    """
    is_rolled_back = transaction.outcome is not Outcome.COMMITTED
    for statement in transaction.statements:
        if statement.kind == INCIDENT:
            into.incidents.append(str(statement.position))
        if statement.kind not in (DML, LOAD_DATA):
            continue
        is_undone = is_rolled_back or statement.undone
        if (table := statement.table) is None:
            ledger.unshown[ROLLED_BACK_STATEMENT if is_undone else statement.kind] += 1
        elif is_undone:
            into.undone.setdefault(
                lower_name(table),
                f"{statement.position}: the log contains a statement that was rolled back, but has changed the table, whose "
                f"engine has no transactions; {_ROW_FORMAT_IN_SESSIONS}",
            )
        elif statement.empties:
            sql = f"TRUNCATE TABLE {quoted_name(*table)}"
            into.ddl.append(DdlStatement(statement.position, table[0], sql, 0, None, 0))
        else:
            into.stated.setdefault(
                lower_name(table),
                f"{statement.position}: the log contains a statement that changes the table, not the rows; "
                f"{_ROW_FORMAT_IN_SESSIONS}",
            )


def _decode_here(
    parts: Sequence[LogPart],
    options: ReadOptions,
    wanted: Wanted,
    task_files: TaskFiles,
    held_bytes: int,
) -> tuple[Ledger, Decoded]:
    ledger, found = Ledger(), _Held(task_files, held_bytes)
    with found:
        for part in parts:
            _decode(part, options, wanted, ledger, found)
    return ledger, found


def _decode(
    part: LogPart, options: ReadOptions, wanted: Wanted, ledger: Ledger, into: Decoded
) -> None:
    """Decode one part here. Raises StatementsNeededError."""
    runs = _runs(part, options, ledger, into)
    before = ledger.zero_dates.copy()
    decoded: dict[int, tuple[TableName, TableTypes]] = {}
    with closing(DefinedTables(wanted.definitions)) as schema:
        for changes in ChangeDecoder(options, Target.TYPED, ledger, schema).decode(runs):
            for table in changes.tables:
                definition = table.types.definition
                name = (definition.database, definition.table)
                key = wanted.keys.get(name)
                if key is None or name in into.failed:
                    continue
                decoded[id(table.types)] = name, table.types
                try:
                    lake = wanted.rules.in_lake(*name, table.types)
                    facts = changes.metadata_values(table, wanted.facts.get(name, ()))
                    defaults = wanted.defaults(name)
                    if name not in wanted.change_logs:
                        refuse_replaced(changes, table, options)
                    into.add(name, change_rows(table, key, lake, facts, defaults))
                except UnsupportedError as error:
                    into.failed[name] = str(error)
    if zero_dates := ledger.zero_dates - before:
        columns = {
            k.name: (name, k.column.name) for name, of in decoded.values() for k in of.columns
        }
        for full_name in zero_dates.keys() & columns.keys():
            into.add_zero_dates(*columns[full_name], zero_dates[full_name])
    for name in wanted.keys:
        full_name = f"{name[0]}.{name[1]}"
        if ledger.json_differences.get(full_name):  # also of tables that only match a pattern
            into.failed[name] = (
                f"{full_name}: the log has differences of JSON documents without the documents; "
                "set binlog_row_value_options='' or binlog_row_image=FULL on the server"
            )


def _check_joined(ledger: Ledger, splits: Sequence[Split]) -> None:
    """Raise IncompleteError unless the read covered exactly the ranges of the splits, without gaps."""
    covered: dict[str, list[tuple[int, int]]] = {}
    for path, start, end in sorted(ledger.covered):
        covered.setdefault(_base_name(path), []).append((start, end))
    asked: dict[str, list[Split]] = {}
    for split in splits:
        asked.setdefault(_base_name(split.log.path), []).append(split)
    ends = {_base_name(path): end for path, (_, end) in ledger.planned.items()}
    for name, of in asked.items():
        ranges = covered.pop(name, [])
        # the log of a killed server has no last event: the range before may have ended where the log does
        if not ranges and not any(split.bytes for split in of) and ends.get(name) == of[0].start:
            continue
        whole = [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]
        begins = bool(ranges) and ranges[0][0] == of[0].start
        if not (whole and begins and of[-1].end in (None, ranges[-1][1])):
            raise IncompleteError(
                f"{name}: bytes {of[0].start} to {of[-1].end} should have been read, but {ranges} were",
                hint="this is a bug in binlake: please report it; the mirror applied nothing of this range",
            )
    if covered:
        raise IncompleteError(
            f"binlake has read {next(iter(covered))}, which the round did not plan"
        )


def _base_name(path: str) -> str:
    """The name of a log, without the suffix that compression adds."""
    name = path.partition("?")[0].rpartition("/")[2]
    return name.removesuffix(".gz").removesuffix(".zst")


def _refuse_incident(found: Decoded) -> None:
    """Raise IncompleteError if events are missing from the log: they may be of any table."""
    if found.incidents:
        raise IncompleteError(
            f"{found.incidents[0]}: {LOST_EVENTS}",
            hint="run `binlake mirror resync LAKE '*.*'`, and start the mirror again: it copies all tables at a later "
            "position of the log; or continue with --on-statement ignore, and compare the tables with `binlake mirror verify`",
        )


def _refuse_unshown(ledger: Ledger) -> None:
    """Raise IncompleteError for changes that are not in row events."""
    kinds = [kind for kind in _UNSHOWN if ledger.unshown.get(kind)]
    if kinds:
        raise IncompleteError(
            f"the log contains changes that are not in row events and may concern any table: {', '.join(kinds)}",
            hint=_PREPARE_IS_PURGED if kinds == [ORPHAN_XA_COMMIT] else _SET_ROW_FORMAT,
        )


@dataclass
class _DecodeTask(Task):
    """Decodes a part of a range into Arrow files of each table."""

    part: LogPart
    options: ReadOptions
    wanted: Wanted
    directory: str

    def run(self) -> str:
        answer, has_texts = with_statements_if_needed(self._answer, self.options)
        return json.dumps(answer | {"has_texts": has_texts})

    def _answer(self, options: ReadOptions) -> dict[str, Any]:
        ledger, found = Ledger(), _InFiles(self.directory, self.wanted.shares)
        with found:
            _decode(self.part, options, self.wanted, ledger, found)
        return {
            "files": [[name, writer.files] for name, writer in found.writers.items()],
            "ddl": [list(statement) for statement in found.ddl],
            "failed": [[*name, why] for name, why in found.failed.items()],
            "stated": [[*name, why] for name, why in found.stated.items()],
            "undone": [[*name, why] for name, why in found.undone.items()],
            "incidents": found.incidents,
            "zero_dates": [[name, counts] for name, counts in found.zero_dates.items()],
            "ledger": ledger.to_json(),
        }


class _InFiles(Decoded):
    """Writes the changes into files as they come: a transaction may be larger than memory."""

    def __init__(self, directory: str, shares: Mapping[TableName, Shares]) -> None:
        super().__init__()
        self.writers: dict[TableName, ChangeFileWriter] = {}
        self._directory = directory
        self._shares = shares

    def add(self, name: TableName, batch: pa.RecordBatch) -> None:
        if name not in self.writers:
            self.writers[name] = ChangeFileWriter(self._directory, self._shares.get(name))
        self.writers[name].add(batch)

    def __enter__(self) -> _InFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers.values():
            writer.close()


class _Held(Decoded):
    """Holds changes of up to `held_bytes`, and writes later ones into files."""

    def __init__(self, task_files: TaskFiles, held_bytes: int) -> None:
        super().__init__(local=task_files.local)
        self._task_files = task_files
        self._room = held_bytes
        self._later: _InFiles | None = None

    def add(self, name: TableName, batch: pa.RecordBatch) -> None:
        self._room -= batch.nbytes
        if self._room >= 0:
            super().add(name, batch)
            return
        if self._later is None:
            self._later = _InFiles(self._task_files.for_tasks(), {})
        self._later.add(name, batch)

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        if self._later is None:
            return
        with self._later:
            pass
        for name, writer in self._later.writers.items():
            for file in writer.files:
                self.of(name).add_file(file)


def _by_tasks(
    parts: Sequence[LogPart],
    options: ReadOptions,
    wanted: Wanted,
    engine: Engine,
    task_files: TaskFiles,
) -> tuple[Ledger, Decoded]:
    directory = task_files.for_tasks()
    tasks = [_DecodeTask(part, options, wanted, directory) for part in parts]
    results: list[dict[str, Any]] = [
        json.loads(text) for text in engine.run(tasks, "decode", lambda _done, _all: None)
    ]
    ledger, found = Ledger(), Decoded(local=task_files.local)
    for result in results:
        ledger += Ledger.from_json(result["ledger"])
        for name, files in result["files"]:
            for file in files:
                found.of(tuple(name)).add_file(ChangeFile(*file))
        for position, *rest in result["ddl"]:
            found.ddl.append(DdlStatement(ChainPosition(*position), *rest))
        for database, table, why in result["failed"]:
            found.failed[(database, table)] = why
        for database, table, why in result["stated"]:
            found.stated.setdefault((database, table), why)
        for database, table, why in result["undone"]:
            found.undone.setdefault((database, table), why)
        found.incidents += result["incidents"]
        found.has_texts |= result["has_texts"]
        for name, counts in result["zero_dates"]:
            for column, count in counts.items():
                found.add_zero_dates(tuple(name), column, count)
    return ledger, found
