"""The task that reads a chunk of a table and writes it into data files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.errors import UnsupportedError
from binlake.lake.engine import Task
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.tables.damage import OF_ROWS, is_overflow, why_overflow
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import check_keys
from binlake.mirror.tables.partitions import Partitioning
from binlake.mirror.tables.schema import conformed
from binlake.snapshot.chunks import TableChunk


@dataclass
class ChunkTask(Task):
    """Reads a chunk and writes it into data files."""

    chunk: TableChunk
    url: str
    schema: bytes
    prefix: str
    rules: ColumnRules
    mode: str
    partitioning: Partitioning
    shard_column: str

    def run(self) -> str:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        table = self.chunk.table
        columns = self.rules.in_lake(table.schema, table.name, table.types)
        mode = mode_named(self.mode)
        with self.chunk.read(self.url) as reading:
            rows = (
                mode.copied(columns.rows(batch), reading.position, reading.moment_us)
                for batch in reading
            )
            keyed = _with_keys(rows, mode.index_key(table.key) or ())
            batches = (conformed(self._of_shard(batch), schema) for batch in keyed)
            writer = DataFileWriter(schema, self.prefix, partitioning=self.partitioning)
            try:
                files = list(writer.write(batches))
            except OF_ROWS as error:  # Spark's error of a task would end the mirror
                why = why_overflow(error) if is_overflow(error) else f"{error}".partition("\n")[0]
                raise UnsupportedError(
                    f"{table.full_name}: rows of its copy cannot be written: {why}"
                ) from None
            answer = {
                "number": self.chunk.number,
                "files": files,
                "position": reading.position.to_json(),
                "end": reading.end().to_json(),
                "rows": reading.rows,
                "bytes": reading.bytes,
                "zero_dates": reading.zero_dates,
            }
        return json.dumps(answer)

    def _of_shard(self, rows: pa.Table) -> pa.Table:
        """The rows with the column that names their shard, if there are shards."""
        if not self.shard_column:
            return rows
        name = pa.scalar(self.chunk.table.full_name)
        return rows.append_column(self.shard_column, pa.repeat(name, rows.num_rows))


def _with_keys(tables: Iterator[pa.Table], key: Sequence[str]) -> Iterator[pa.Table]:
    """The rows. Raises SchemaError for a key of the server that the lake cannot have: the rows of several keys would be one row."""
    for rows in tables:
        check_keys([rows.column(name) for name in key], key)
        yield rows
