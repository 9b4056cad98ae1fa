"""A Delta table that equals a table of a server, and its commits.

    table = lake.open_table("shop", "orders", ("id",), indexes)
    table.commit(Change(upserts=rows, deletes=keys), {"binlake.offset": …})

A commit is one command of Delta: MERGE for net changes of keys, an append, a DELETE of all rows, an ALTER. The
position in the source, and all that the lake keeps of the source's table, are in the same commit.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import SchemaError, UnsupportedError
from binlake.format.sql_names import quoted_name
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.delta.alter import alter_sql
from binlake.mirror.delta.live_rows import live_rows
from binlake.mirror.delta.schema import spark_schema
from binlake.mirror.delta.statements import parquet_reader
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.tables.change import Change, CommitConflictError, CommittedBesideError
from binlake.mirror.tables.formats import DELTA
from binlake.mirror.tables.partitions import NOT_PARTITIONED
from binlake.mirror.tables.row_sizes import FileSize, RowSizes
from binlake.mirror.tables.schema import conformed
from binlake.mirror.tables.versions import Version

_SOURCE = "binlake_changes"
_GONE = "gone"
_TRIES = 3


class DeltaTable:
    """A `formats.LakeTable` with the `key` of its rows; of None, rows are only appended. For one thread.

    With `open_column`, several rows may have one key: the row of a key is the one in which the column is null.
    `copies` is a directory for the rows of copies. All methods raise SourceError, CommitConflictError, SchemaError, and
    UnsupportedError if Delta refuses a statement.
    """

    format = DELTA
    partitioning = NOT_PARTITIONED
    partition_columns: frozenset[str] = frozenset()
    has_initial_defaults = False  # a new column is NULL in the rows of older files

    def __init__(
        self,
        stored: DeltaStored,
        key: Sequence[str] | None,
        copies: Path,
        open_column: str | None = None,
    ) -> None:
        self.stored = stored
        self.full_name = stored.full_name
        self.key = () if key is None else tuple(key)
        self._open_column = open_column
        self._copies = copies
        self._row_sizes = RowSizes()
        self._look()
        self._complete()

    # -- contents -----------------------------------------------------------------------------

    @property
    def snapshot(self) -> int | None:
        return self.stored.log.version

    @property
    def summary(self) -> Mapping[str, str]:
        head = self.stored.log.head
        state = {} if head is None or head.state is None else head.state
        found: Mapping[str, str] = state.get("summary", {})
        return found

    @property
    def properties(self) -> Mapping[str, str]:
        """The mirror's record of the source's table."""
        found: Mapping[str, str] = self._state.get("kept", {})
        return found

    @property
    def set_back(self) -> str:
        return self.stored.set_back

    @property
    def rows(self) -> int:
        return sum(file.live_rows for file in self.stored.file_states())

    def lineage(self) -> Iterator[Version]:
        return self.stored.lineage()

    def has_other_commits(self) -> bool:
        return self.stored.has_other_commits()

    def reload(self) -> None:
        """Reload the table, and make the steps of an ALTER that another program's commits have interrupted."""
        for attempt in range(_TRIES):
            self.stored.refresh()
            self._look()
            try:
                self._complete()
                return
            except CommittedBesideError:
                if attempt == _TRIES - 1:
                    raise

    def optimize(self, file_bytes: int, properties: Mapping[str, str]) -> None:
        """Have Delta rewrite small files, and files with many deleted rows. `properties`: those of the commit."""
        self.stored.optimize(file_bytes, self._state_with(properties))
        self._look()

    def vacuum(self, keep_s: int, properties: Mapping[str, str]) -> None:
        """Remove files that no version needs any more. `properties`: those of commits that this makes."""
        self.stored.vacuum(keep_s, self._state_with(properties))
        self._look()

    def _state_with(self, properties: Mapping[str, str]) -> dict[str, Any]:
        return {"kept": dict(self.properties), "summary": dict(properties)}

    def _look(self) -> None:
        self.schema = self.stored.schema
        self._state = self.stored.log.state
        missing = [name for name in self.key if name not in self.schema.names]
        if missing:
            raise SchemaError(f"{self.full_name} has no column {missing[0]}, which its key needs")

    # -- reading -----------------------------------------------------------------------------------

    def scan(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        for rows in live_rows(self.stored.log, self.schema, names or self.schema.names):
            if rows.num_rows:
                yield rows

    def row_bytes(self) -> int:
        files = [(self.stored.log.data_file(f.path), f) for f in self.stored.file_states()]
        return self._row_sizes.average(
            FileSize(str(path), file.rows, file.bytes) for path, file in files if path is not None
        )

    def rows_of(
        self, keys: pa.Table, names: Sequence[str] | None = None
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        found = np.full(keys.num_rows, -1, np.int64)
        schema = pa.schema([self.schema.field(name) for name in names or self.schema.names])
        if not keys.num_rows:
            return found, schema.empty_table()
        wanted = conformed(keys, pa.schema([self.schema.field(n) for n in keys.column_names]))
        parts = [f"k{i}" for i in range(wanted.num_columns)]
        numbered = wanted.rename_columns(parts).append_column(
            "number", from_numpy(np.arange(keys.num_rows))
        )
        with self.stored.in_session(self.stored.log.files):
            self.stored.frame(numbered).createOrReplaceTempView(_SOURCE)
            columns = ", ".join(f"t.{quoted_name(n)} AS c{i}" for i, n in enumerate(schema.names))
            pairs = zip(parts, keys.column_names, strict=True)
            same = [f"t.{quoted_name(n)} = s.{k}" for k, n in pairs]
            rows: pa.Table = self.stored.spark.sql(
                f"SELECT s.number, {columns} FROM {self.stored.sql_name} t JOIN {_SOURCE} s ON "
                + " AND ".join([*same, *self._only_open()])
            ).toArrow()
        found[to_numpy(rows["number"])] = np.arange(rows.num_rows)
        return found, conformed(rows.drop_columns(["number"]).rename_columns(schema.names), schema)

    def _only_open(self) -> list[str]:
        return [] if self._open_column is None else [f"t.{quoted_name(self._open_column)} IS NULL"]

    # -- writing -----------------------------------------------------------------------------------

    def data_prefix(self) -> str:
        """The prefix of the paths of files with the rows of a copy."""
        return str(self._copies / "binlake-")

    def replace(
        self,
        files: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        table_properties: Mapping[str, str],
        only: tuple[str, str] | None = None,
    ) -> None:
        if only is not None:
            raise UnsupportedError(
                f"{self.full_name}: the mirror does not merge shards into Delta tables"
            )
        spark, schema = self.stored.spark, spark_schema(self.schema)
        paths = [str(file["file-path"]) for file in files]
        with self.stored.in_session():
            frame = (
                parquet_reader(spark).schema(schema).parquet(*paths)
                if paths
                else self.stored.frame(self.schema.empty_table())
            )
        self._commit(lambda: self.stored.write(frame, "overwrite"), properties, table_properties)
        self.remove_copies()

    def remove_copies(self) -> None:
        """Remove the files of copies, which Delta has read or will not read."""
        remove_copies(self._copies)

    def commit(self, change: Change, properties: Mapping[str, str]) -> int:
        if change.schema:
            self._alter(change, properties)
            return 0
        if change.truncate:
            sql = f"DELETE FROM {self.stored.sql_name}"
            self._commit(lambda: self._run(sql), properties, change.table_properties)
            return 0
        if change.appended is not None:
            return self._append(change.appended, properties)
        changed = [rows for rows in (change.upserts, change.deletes) if rows is not None]
        if not sum(rows.num_rows for rows in changed):
            self._commit(lambda: None, properties, change.table_properties)
            return 0
        self._merge(change, properties)
        return sum(rows.num_rows for rows in changed)

    def _commit(
        self,
        act: Any,
        properties: Mapping[str, str],
        table_properties: Mapping[str, str],
        needed: Container[str] = (),
    ) -> None:
        kept = {**self.properties, **table_properties}
        self.stored.commit(act, {"kept": kept, "summary": dict(properties)}, needed)
        self._look()

    def _run(self, sql: str) -> None:
        self.stored.spark.sql(sql).collect()

    def _append(self, rows: Iterable[pa.Table], properties: Mapping[str, str]) -> int:
        parts = [conformed(part, self.schema) for part in rows]
        added = pa.concat_tables(parts) if parts else self.schema.empty_table()
        if added.num_rows:
            frame = self.stored.frame(added)
            self._commit(lambda: self.stored.write(frame, "append"), properties, {})
        return int(added.num_rows)

    def _merge(self, change: Change, properties: Mapping[str, str]) -> None:
        """Delete, update and insert by keys."""
        empty = self.schema.empty_table()
        upserts = empty if change.upserts is None else conformed(change.upserts, self.schema)
        gone = empty if change.deletes is None else conformed(change.deletes, self.schema)
        if self._open_column is not None:
            gone = pa.concat_tables([gone.select(self.key), upserts.select(self.key)])
            gone = conformed(gone.group_by(list(self.key)).aggregate([]), self.schema)
        is_gone = from_numpy(np.arange(upserts.num_rows + gone.num_rows) >= upserts.num_rows)
        columns = [f"c{i}" for i in range(len(self.schema))]
        rows = pa.concat_tables([upserts, gone]).rename_columns(columns)
        frame = self.stored.frame(rows.append_column(_GONE, is_gone))
        sql = self._merge_sql(rows, columns)

        def act() -> None:
            frame.createOrReplaceTempView(_SOURCE)
            self._run(sql)

        self._commit(act, properties, change.table_properties, self.stored.log.files)

    def _merge_sql(self, rows: pa.Table, columns: Sequence[str]) -> str:
        of = dict(zip(self.schema.names, columns, strict=True))
        on = [f"t.{quoted_name(name)} = s.{of[name]}" for name in self.key]
        first = rows[of[self.key[0]]]
        if pa.types.is_integer(first.type):  # files without these keys are not read
            bounds = pc.min_max(first).as_py()
            on.append(f"t.{quoted_name(self.key[0])} BETWEEN {bounds['min']} AND {bounds['max']}")
        names = ", ".join(map(quoted_name, of))
        values = ", ".join(f"s.{column}" for column in columns)
        if self._open_column is None:
            assigned = ", ".join(
                f"t.{quoted_name(name)} = s.{column}" for name, column in of.items()
            )
            matched = (
                f"WHEN MATCHED AND s.{_GONE} THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned}"
            )
        else:
            on += [f"s.{_GONE}", *self._only_open()]
            matched = "WHEN MATCHED THEN DELETE"
        return (
            f"MERGE INTO {self.stored.sql_name} t USING {_SOURCE} s ON {' AND '.join(on)} {matched} "
            f"WHEN NOT MATCHED AND NOT s.{_GONE} THEN INSERT ({names}) VALUES ({values})"
        )

    # -- statements --------------------------------------------------------------------------------

    def _alter(self, change: Change, properties: Mapping[str, str]) -> None:
        """Change the schema: one commit for each step. The first commit records the remaining steps.

        Until the last one, the table is at the position before the statement. A mirror that finds
        remaining steps makes them first. Raises CommittedBesideError if another program has committed before the last of
        several steps: then `reload` makes the others.
        """
        kept = {**self.properties, **change.table_properties}
        steps = alter_sql(change.schema, self.schema.names)
        if not steps:
            self._commit(lambda: None, properties, kept)
            return
        self._make(steps, {"kept": kept, "summary": dict(properties)})

    def _make(self, steps: Sequence[str], end: Mapping[str, Any]) -> None:
        before = {name: self._state[name] for name in ("kept", "summary") if name in self._state}
        for number, step in enumerate(steps, 1):
            sql = f"ALTER TABLE {self.stored.sql_name} {step}"
            left = list(steps[number:])
            state = {**before, "pending": {"steps": left, "end": dict(end)}} if left else end
            try:
                self.stored.commit(lambda sql=sql: self._run(sql), state)  # type: ignore[misc]
            except CommitConflictError as error:
                if number == 1:
                    raise
                raise CommittedBesideError(error.message) from error  # the steps are recorded
        self._look()

    def _complete(self) -> None:
        """Make the steps that a killed mirror has left. Raises CommittedBesideError if another program commits meanwhile, or
        Delta refuses them now: the table stays in between.
        """
        pending = self._state.get("pending")
        if not pending:
            return
        try:
            self._make(pending["steps"], pending["end"])
        except (SchemaError, UnsupportedError, CommitConflictError) as error:
            raise CommittedBesideError(
                f"{self.full_name}: an ALTER cannot be completed: {error}"
            ) from error


def remove_copies(directory: Path) -> None:
    """Remove the rows of copies of one table."""
    shutil.rmtree(directory, ignore_errors=True)
