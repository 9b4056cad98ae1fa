"""`binlake export`: logs to one Parquet data set per table, in one pass, committed once.

1. plan: list the files once, pin their lengths, cut them into splits;
2. decode: a task per part of the logs decodes all tables and writes Parquet files to a staging
   directory; it returns its ledger and the list of its files (lake/engine.py: Spark, or this machine);
3. prove: the covered ranges must join without gap or overlap, or nothing is committed;
4. unite: one schema per table, few files (lake/unite.py);
5. commit: whole tables move into place, `_ledger.json` comes last (lake/staging.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from binlake.errors import IncompleteError, OptionError
from binlake.lake.data_file import DataFile, TableKey, files_from_json, files_to_json
from binlake.lake.engine import Engine, Progress, Task
from binlake.lake.export_directory import (
    NOTHING_KEPT,
    Directory,
    IfExists,
    table_path,
)
from binlake.lake.parquet import ParquetFiles
from binlake.lake.staging import Staging, now
from binlake.lake.unite import MergeTask, merged_files, unite
from binlake.source.bytes import is_uri, local_path, refuse_secrets
from binlake.source.chain import Chain
from binlake.source.keyring import Keyring
from binlake.source.locations import check_no_password
from binlake.source.replica.url import is_server_url, without_password
from binlake.stream.log_ddl import LogDdl
from binlake.stream.positions.splits import files_of_chains
from binlake.table.log_input import LogInput
from binlake.table.log_part import LogPart, TaskSize, divided, with_ddl
from binlake.table.schema.newest_names import unnamed_renames
from binlake.table.types.base import Target
from binlake.table.where.choosing import check_where_columns
from binlake.values.builds import installed_version
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

DEFAULT_FILE_BYTES = 128 << 20
_LARGEST_PARTITION = 256 << 20
# A smaller rewrite is not worth a job: the driver does it.
_DRIVER_MERGE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The result of an export for one table."""

    key: TableKey
    rows: int
    bytes: int
    files: tuple[DataFile, ...]
    notes: tuple[str, ...]

    @property
    def path(self) -> str:
        """Its place in the directory."""
        return table_path(self.key.database, self.key.table, self.key.version)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `tables` in `_ledger.json`."""
        return {
            "database": self.key.database,
            "table": self.key.table,
            "version": self.key.version,
            "rows": self.rows,
            "bytes": self.bytes,
            "columns": self.files[0].packed.types(),
            "files": [{"name": f.name, "rows": f.rows, "bytes": f.bytes} for f in self.files],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ExportResult:
    """A finished export: its input, and its result."""

    directory: str
    tables: tuple[TableSummary, ...]
    ledger: Ledger

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


@dataclass
class DecodeTask(Task):
    """Decodes all tables of one part of the logs into Parquet files."""

    number: int
    partition: LogPart
    options: ReadOptions
    directory: Directory
    attempts: str
    target_file_bytes: int

    def run(self) -> str:
        ledger = Ledger()
        files = ParquetFiles(
            self.directory.fs, self.attempts, f"{self.number:05d}", self.target_file_bytes
        )
        try:
            decoded = self.partition.changes(
                self.options, Target.EXPORTED, ledger, on_run=self.check_wanted
            )
            for changes in decoded:
                for found in changes.table_batches(self.options):
                    self.check_wanted()
                    key = TableKey(found.definition.database, found.definition.table)
                    with self.directory.writing(NOTHING_KEPT):
                        files.write(key, found.batch)
            with self.directory.writing(NOTHING_KEPT):
                written = files.close()
        except BaseException:
            files.abort()
            raise
        return json.dumps({"ledger": ledger.to_json(), **files_to_json(written)})


@dataclass(frozen=True, slots=True)
class Export:
    """An export of logs to `target`, a directory or URI: one Parquet data set per table.

    `if_exists` "replace" replaces an earlier export, never files that no export wrote. A task reads
    `max_partition_bytes` of log; by default there are enough tasks for all cores, within limits on their size.
    """

    logs: LogInput
    target: str
    if_exists: IfExists = "error"
    max_partition_bytes: int | None = None
    target_file_bytes: int = DEFAULT_FILE_BYTES

    def check(self) -> None:
        """Check everything that can be checked before decoding.

        This takes no engine and reads no log, so that a mistake is reported before Spark starts. Raises OptionError
        when `target` is not empty and for URLs of servers that hold a password, SourceError, SchemaError.
        """
        paths, options, target = self.logs.paths, self.logs.options, self.target
        for text, name in (*((path, "path") for path in paths), (options.schema or "", "schema")):
            refuse_secrets(text)
            if is_server_url(text):
                check_no_password(text, name)
        refuse_secrets(target)
        if is_server_url(target):
            raise OptionError(
                f"{without_password(target)} is a live server, not a place for tables",
                name="target",
            )
        if "-" in paths:
            raise OptionError(
                "export cannot read standard input: its tasks read parts of files", name="paths"
            )
        directory = Directory(target)
        directory.claim(self.if_exists)
        directory.check_writable()
        self._parts(TaskSize())
        if (keyring := Keyring.of(options)) is not None:
            keyring.expect_file()
        self.logs.schema().close()

    def run(self, engine: Engine, progress: Progress) -> ExportResult:
        """Write the data sets, after `check`.

        The result becomes visible only when everything is decoded and proven complete; after an
        earlier failure `target` is unchanged. Raises OptionError when `target` is not empty,
        IncompleteError when the tasks' ranges do not join, and any BinlogError of reading.
        """
        logs, options = self.logs, self.logs.options
        directory = Directory(self.target)
        before = directory.claim(self.if_exists)
        if self.max_partition_bytes is None:
            size = TaskSize(_LARGEST_PARTITION, engine.cores)
        else:
            size = TaskSize(self.max_partition_bytes)
        # decoding all bytes costs so much more that reading their DDL first does not count
        ddl = LogDdl.of_chains(logs.chains, options, sys.maxsize)
        partitions = with_ddl(self._parts(size), ddl)
        with directory.writing(NOTHING_KEPT):
            staging = Staging(directory, logs.paths)
        try:
            engine.check_paths(_paths_of_tasks(partitions, staging))
            tasks = [
                DecodeTask(i, part, options, directory, staging.attempts, self.target_file_bytes)
                for i, part in enumerate(partitions)
            ]
            results = [json.loads(r) for r in engine.run(tasks, f"decode {self.target}", progress)]
            ledger = _proven_ledger(partitions, results)
            files = [file for result in results for file in files_from_json(result)]
            _check_columns(files, options)
            check_where_columns(options.where, ledger)
            tables = _united(
                engine, files, staging, self.target_file_bytes, ledger, options.columns
            )
            moved = {table.path: [file.name for file in table.files] for table in tables}
            with directory.writing(NOTHING_KEPT):
                staging.prepare(moved, _content(staging, tables, ledger, logs.paths), before)
        except BaseException:
            staging.abandon()
            raise
        # from here on the staging area holds what is replaced: it is kept if this does not finish
        with directory.writing('run the export again with --overwrite (if_exists="replace")'):
            staging.commit(moved, before)
        return ExportResult(self.target, tuple(tables), ledger)

    def _parts(self, size: TaskSize) -> list[LogPart]:
        logs = self.logs
        chains = [_as_long_as_now(chain) for chain in logs.chains]
        return divided(files_of_chains(logs.paths, chains, logs.options), size)


def _as_long_as_now(chain: Chain) -> Chain:
    """The chain, with the length that its last log has now.

    The server may have ended the log since it was found, and then a read up to the former length is incomplete.
    """
    *before, last = chain.files
    if is_server_url(last.path) or is_uri(last.path):
        return chain
    file = Path(local_path(last.path))
    if not file.is_file():
        return chain
    return replace(chain, files=(*before, replace(last, size=file.stat().st_size)))


def _paths_of_tasks(partitions: Sequence[LogPart], staging: Staging) -> list[str]:
    """Return the paths that the tasks read, and the local one to which they write."""
    local = staging.directory.fs.type_name == "local"
    paths = sorted({path for part in partitions for path in part.paths})
    return [*paths, *([staging.attempts] if local else [])]


def _proven_ledger(partitions: Sequence[LogPart], results: Sequence[Mapping[str, Any]]) -> Ledger:
    ledger = Ledger()
    for result in results:
        ledger += Ledger.from_json(result["ledger"])
    asked = {path for part in partitions for path in part.paths}
    problems = [f"{path} was not read" for path in sorted(asked - set(ledger.planned))]
    problems += ledger.join_problems()
    if problems:
        raise IncompleteError(
            f"the ranges that the tasks read do not join: {'; '.join(problems[:3])}",
            hint="nothing was written; this is a bug of binlake, please report it",
        )
    return ledger


def _check_columns(files: Sequence[DataFile], options: ReadOptions) -> None:
    """Raise OptionError for a wanted column that no table has, if there are tables at all."""
    if not options.columns:
        return
    known = {name for file in files for name in file.schema.names}
    for name in options.columns:
        if files and name not in known:
            raise OptionError(
                f"option columns: no table in the input has a column {name!r}",
                name="columns",
                value=name,
                hint="nothing was written",
            )


def _united(
    engine: Engine,
    files: Sequence[DataFile],
    staging: Staging,
    target_file_bytes: int,
    ledger: Ledger,
    columns: Sequence[str],
) -> list[TableSummary]:
    tasks: list[MergeTask] = []
    kept: list[DataFile] = []
    notes: dict[TableKey, tuple[str, ...]] = {}
    moved = 0
    # of thousands of tables only those to rewrite are held: each has a schema
    for table in unite(files, target_file_bytes, ledger.renames):
        kept += table.kept
        moved += sum(file.bytes for group in table.merges for file in group)
        tasks += [
            MergeTask(staging.directory, staging.attempts, table, group, target_file_bytes)
            for group in range(len(table.merges))
        ]
        full_name = f"{table.key.database}.{table.key.table}"
        renamed = unnamed_renames(full_name, columns, table.evolution.renames)
        notes[table.key] = (*table.evolution.notes, *renamed)
    if moved <= _DRIVER_MERGE_BYTES:
        results = [task.run() for task in tasks]
    else:
        results = engine.run(tasks, "merge small files", lambda _done, _all: None)
    made: dict[TableKey, list[DataFile]] = {}
    for file in (*kept, *merged_files(results)):
        made.setdefault(file.key, []).append(file)
    return [_summary(key, made[key], notes.get(key, ())) for key in sorted(made, key=str)]


def _summary(key: TableKey, files: list[DataFile], notes: tuple[str, ...]) -> TableSummary:
    files.sort(key=lambda file: file.name)
    rows = sum(file.rows for file in files)
    return TableSummary(key, rows, sum(file.bytes for file in files), tuple(files), notes)


def _content(
    staging: Staging, tables: Sequence[TableSummary], ledger: Ledger, paths: Sequence[str]
) -> dict[str, Any]:
    """The contents of `_ledger.json`."""
    return {
        "export": {
            "binlake": installed_version() or "not installed",
            "started": staging.started,
            "finished": now(),
            "inputs": list(paths),
            "rows": sum(table.rows for table in tables),
        },
        "tables": {table.path: table.to_json() for table in tables},
        **ledger.to_json(),
    }
