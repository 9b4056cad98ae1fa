"""From the files that tasks wrote to the data sets of an export: one schema, few files each.

Tasks write a table's rows in the schema that its definition had where they read. Afterwards
the driver knows every definition in the range and unites them (table/schema/evolution.py). Files that
have the united schema and a good size stay as they are; others are rewritten by `MergeTask`s,
in commit order: small ones together, those of older definitions converted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.lake.data_file import DataFile, TableKey, files_from_json, files_to_json
from binlake.lake.engine import Task
from binlake.lake.export_directory import NOTHING_KEPT, Directory
from binlake.lake.parquet import ParquetFiles, read_batches
from binlake.table.schema.evolution import Evolution, distinct_versions
from binlake.table.schema.newest_names import ColumnRenames

# Only files under this part of the wanted size are joined: rewriting costs as much as writing.
_WORTH_REWRITING = 8
# A few files of this size stay as well: to open a file costs Spark as much as to read so many bytes
# (spark.sql.files.openCostInBytes).
_OPENING_BYTES = 4 << 20
_FEW_FILES = 8


@dataclass(frozen=True, slots=True)
class UnitedTable:
    """One table of an export: files to keep, and groups of files to rewrite, in order."""

    key: TableKey
    evolution: Evolution
    kept: tuple[DataFile, ...]
    merges: tuple[tuple[DataFile, ...], ...]


#: The columns of a table (database, table) that each statement of the log renames.
Renames = Callable[[str, str], Sequence[ColumnRenames]]


def unite(
    files: Iterable[DataFile], target_file_bytes: int, renames: Renames = lambda *_: ()
) -> Iterator[UnitedTable]:
    """Decide, for one table after the other, its schema and the files to rewrite.

    `files` in commit order. The schema that comes last is the newest definition.
    """
    tables: dict[TableKey, list[DataFile]] = {}
    for file in files:
        tables.setdefault(file.key, []).append(file)
    for key in sorted(tables, key=str):
        yield _unite_table(key, tables[key], target_file_bytes, renames(key.database, key.table))


def _unite_table(
    key: TableKey, files: Sequence[DataFile], target: int, renames: Sequence[ColumnRenames]
) -> UnitedTable:
    schemas = [file.schema for file in files]
    evolution = Evolution.of(f"{key.database}.{key.table}", distinct_versions(schemas), renames)
    fitting = {
        file.name for file, one in zip(files, schemas, strict=True) if one.equals(evolution.schema)
    }

    def is_large(file: DataFile) -> bool:
        return file.is_full or file.bytes >= target // _WORTH_REWRITING

    are_few = sum(not is_large(file) for file in files) <= _FEW_FILES
    kept: list[DataFile] = []
    merges: list[tuple[DataFile, ...]] = []
    group: list[DataFile] = []

    def finish_group() -> None:
        may_stay = len(group) == 1 or (
            are_few and all(file.bytes >= _OPENING_BYTES for file in group)
        )
        if may_stay and all(file.name in fitting for file in group):
            kept.extend(group)
        elif group:
            merges.append(tuple(group))
        group.clear()

    for file in files:
        if is_large(file) and file.name in fitting:
            finish_group()
            kept.append(file)
            continue
        if sum(f.bytes for f in group) + file.bytes > target:
            finish_group()
        group.append(file)
    finish_group()
    return UnitedTable(key, evolution, tuple(kept), tuple(merges))


class MergeTask(Task):
    """Rewrites files of one table, in order, as one data set of its united schema."""

    def __init__(
        self, directory: Directory, attempts: str, table: UnitedTable, group: int, target: int
    ) -> None:
        self.directory = directory
        self.attempts = attempts
        self.key = table.key
        self.evolution = table.evolution
        self.names = [file.name for file in table.merges[group]]
        self.target_file_bytes = target

    def run(self) -> str:
        fs = self.directory.fs
        # a merged file sorts where the first of its parts did
        prefix = self.names[0].partition("-")[0]
        files = ParquetFiles(fs, self.attempts, prefix, self.target_file_bytes)
        try:
            for key, batch in self._conformed():
                self.check_wanted()
                with self.directory.writing(NOTHING_KEPT):
                    files.write(key, batch)
            with self.directory.writing(NOTHING_KEPT):
                return json.dumps(files_to_json(files.close()))
        except BaseException:
            files.abort()
            raise

    def _conformed(self) -> Iterator[tuple[TableKey, pa.RecordBatch]]:
        for name in self.names:
            for batch in read_batches(self.directory.fs, f"{self.attempts}/{name}"):
                fitting, misfits = self.evolution.conform(batch)
                yield self.key, fitting
                if misfits is not None:
                    version = self.evolution.number(misfits.schema)
                    yield TableKey(self.key.database, self.key.table, version), misfits


def merged_files(results: Iterable[str]) -> list[DataFile]:
    """The files that merge tasks made."""
    return [file for result in results for file in files_from_json(json.loads(result))]
