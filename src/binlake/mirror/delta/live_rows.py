"""The rows that a Delta table has, read file by file from its log, data files and deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.errors import UnsupportedError
from binlake.mirror.columns.numpy_arrays import from_numpy
from binlake.mirror.delta.log import DeltaLog, table_file
from binlake.mirror.tables.data_files import parquet_file
from binlake.mirror.tables.deletion_vectors import decode_vector
from binlake.mirror.tables.schema import FIELD_ID

_BATCH_ROWS = 1 << 17


def live_rows(log: DeltaLog, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of all rows of the version that the log has now. Raises as `DeltaLog`."""
    for path, file in list(log.files.items()):
        vector = log.vector(file)
        deleted = BitMap() if vector is None else decode_vector(vector, path)
        data = log.data_file(path)
        if data is None:
            raise UnsupportedError(f"{log.path}: a data file is in another file system: {path}")
        yield from _of_file(data, deleted, schema, names)


def _of_file(
    path: Path, deleted: BitMap, schema: pa.Schema, names: Sequence[str]
) -> Iterator[pa.Table]:
    fields = [schema.field(name) for name in names]
    # other programs may have written timestamps of 96 bits, in a compaction
    with table_file(path), parquet_file(str(path), int96_unit="us") as file:
        by_id = {(f.metadata or {}).get(FIELD_ID): f.name for f in file.schema_arrow}
        stored = [by_id.get(field.metadata[FIELD_ID]) for field in fields]
        wanted = [name for name in stored if name is not None]
        first = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
            keep = np.ones(batch.num_rows, bool)
            gone = deleted & BitMap(range(first, first + batch.num_rows))
            keep[np.array(gone.to_array(), np.int64) - first] = False
            first += batch.num_rows
            columns = [
                pa.nulls(batch.num_rows, field.type)
                if name is None
                else _typed(batch.column(name), field.type)
                for name, field in zip(stored, fields, strict=True)
            ]
            rows = pa.Table.from_arrays(columns, schema=pa.schema(fields))
            yield rows if keep.all() else rows.filter(from_numpy(keep))


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the type of the table: members of structs have other names in the files."""
    if pa.types.is_struct(kind):
        members = [
            _typed(column.field(i), kind.field(i).type) for i in range(column.type.num_fields)
        ]
        fields = [kind.field(i) for i in range(kind.num_fields)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(members, fields=fields, mask=mask)
    if column.type == kind:
        return column
    return column.cast(kind)
