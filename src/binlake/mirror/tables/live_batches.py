"""The live rows of a data file, found by the ids of the fields, in the types of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from binlake.errors import UnsupportedError
from binlake.mirror.columns.numpy_arrays import from_numpy
from binlake.mirror.tables.data_files import parquet_file
from binlake.mirror.tables.schema import FIELD_ID, older_rows
from binlake.source.reader import without_secrets

# of a row group, at the same time; a text in a dictionary needs more bytes in memory than in the file
READ_BYTES = 64 << 20
_LEAST_ROWS, _MOST_ROWS = 256, 1 << 17


def live_batches(
    path: str,
    deleted: BitMap,
    schema: pa.Schema,
    names: Sequence[str],
    int96_unit: str | None = None,
) -> Iterator[tuple[pa.Table, np.ndarray[Any, Any]]]:
    """The live rows of a data file, some columns in the types of `schema`, and their positions, in parts of about `READ_BYTES`.
    Raises as `parquet_file`, which has `int96_unit`, and UnsupportedError for a file without field ids.
    """
    with parquet_file(path, int96_unit=int96_unit) as file:
        stored = stored_names(path, file, schema, names)
        first = 0
        wanted = [name for name in stored.values() if name is not None]
        for batch in _batches(file, wanted):
            positions = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            rows = as_stored(pa.Table.from_batches([batch]), stored, schema)
            gone = deleted & BitMap(range(first - batch.num_rows, first))
            if len(gone):
                keep = np.ones(len(positions), bool)
                keep[np.array(gone.to_array()) - positions[0]] = False
                rows, positions = rows.filter(from_numpy(keep)), positions[keep]
            yield rows, positions


def _batches(file: pq.ParquetFile, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some columns of a file."""
    for group in range(file.num_row_groups):
        count = batch_rows(file.metadata.row_group(group), wanted)
        yield from file.iter_batches(count, [group], columns=wanted, use_threads=False)


def batch_rows(group: Any, wanted: Sequence[str], read_bytes: int = READ_BYTES) -> int:
    """How many rows of a row group have about `read_bytes` in some of its columns."""
    names = set(wanted)
    chunks = map(group.column, range(group.num_columns))
    nbytes = sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if chunk.path_in_schema in names or chunk.path_in_schema.partition(".")[0] in names
    )
    row_bytes: int = nbytes // max(1, group.num_rows)
    return max(_LEAST_ROWS, min(_MOST_ROWS, read_bytes // max(1, row_bytes)))


def stored_names(
    path: str, file: pq.ParquetFile, schema: pa.Schema, names: Sequence[str]
) -> dict[str, str | None]:
    """The names of columns in a file, by field id; None if the file is older than the column.

    Raises UnsupportedError for rows without any field id: each column would seem to be newer than the file, and so be NULL.
    """
    by_id = {(field.metadata or {}).get(FIELD_ID): field.name for field in file.schema_arrow}
    if by_id.keys() <= {None} and file.metadata.num_rows:
        raise UnsupportedError(
            f"{without_secrets(path)}: the data file has no field ids, so the mirror cannot tell its columns",
            hint="another program added the file, for example add_files of Spark or PyIceberg; add its rows with INSERT instead, or"
            " `binlake mirror resync` the table, which replaces them",
        )
    return {name: by_id.get(schema.field(name).metadata[FIELD_ID]) for name in names}


def as_stored(rows: pa.Table, stored: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
    """Rows of a file as columns of `schema`; `stored`: their names in the file."""
    columns = []
    for name, old in stored.items():
        field = schema.field(name)
        if old is None:
            columns.append(pa.chunked_array([older_rows(field, rows.num_rows)]))
        else:
            parts = [_typed(part, field.type) for part in rows.column(old).chunks]
            columns.append(pa.chunked_array(parts, field.type))
    return pa.Table.from_arrays(columns, schema=pa.schema([schema.field(name) for name in stored]))


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the type of the table: members of structs have other names in the files."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        members = [
            _typed(column.field(i), kind.field(i).type) for i in range(column.type.num_fields)
        ]
        fields = [kind.field(i) for i in range(kind.num_fields)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(members, fields=fields, mask=mask)
    return column.cast(kind)
