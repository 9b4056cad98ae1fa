"""The rows that a Delta table has, read file by file from its log, data files and deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyroaring import BitMap

from binlake.errors import UnsupportedError
from binlake.mirror.delta.log import DeltaLog, table_file
from binlake.mirror.tables.deletion_vectors import decode_vector
from binlake.mirror.tables.live_batches import live_batches


def live_rows(log: DeltaLog, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of all rows of the version that the log has now. Raises as `DeltaLog`."""
    for path, file in list(log.files.items()):
        vector = log.vector(file)
        deleted = BitMap() if vector is None else decode_vector(vector, path)
        data = log.data_file(path)
        if data is None:
            raise UnsupportedError(f"{log.path}: a data file is in another file system: {path}")
        # other programs may have written timestamps of 96 bits, in a compaction
        with table_file(data):
            for rows, _ in live_batches(str(data), deleted, schema, names, int96_unit="us"):
                yield rows
