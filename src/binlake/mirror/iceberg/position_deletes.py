"""Files of position deletes, which mark deleted rows in Iceberg's format v2."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from binlake.mirror.columns.numpy_arrays import from_numpy
from binlake.mirror.tables.data_files import FILE_PREFIX, file_system, finished
from binlake.mirror.tables.partitions import Partition
from binlake.mirror.tables.schema import FIELD_ID
from binlake.source.arrays import array

# Iceberg's ids of the columns of a file of position deletes
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {FIELD_ID: b"2147483546"}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: b"2147483545"}),
    ]
)


def position_delete_files(
    data_path: Callable[[str], str],
    marks: Mapping[str, BitMap],
    partitions: Mapping[str, Partition],
) -> list[dict[str, Any]]:
    """Write a file of position deletes (format v2) for each partition.

    `data_path` returns the path of a new file of a name; `partitions` has the partition of each data file.
    """
    by_partition: dict[Partition, dict[str, BitMap]] = defaultdict(dict)
    for path, positions in marks.items():
        by_partition[partitions[path]][path] = positions
    return [
        _position_delete_file(
            data_path(f"{FILE_PREFIX}deletes-{uuid.uuid4().hex}.parquet"), of, partition
        )
        for partition, of in by_partition.items()
    ]


def _position_delete_file(
    path: str, deletes: Mapping[str, BitMap], partition: Partition
) -> dict[str, Any]:
    """Write a file of position deletes (format v2): of each data file, all of one partition, at least one."""
    paths = sorted(deletes)
    positions = [np.array(deletes[file].to_array(), np.int64) for file in paths]
    numbers = np.repeat(np.arange(len(paths)), [len(of) for of in positions])
    names = pa.DictionaryArray.from_arrays(numbers, array(paths, pa.string())).cast(pa.string())
    rows = pa.table([names, from_numpy(np.concatenate(positions))], schema=_DELETES)
    fs, inner = file_system(path)
    fs.create_dir(inner.rpartition("/")[0], recursive=True)
    writer = pq.ParquetWriter(inner, _DELETES, filesystem=fs, compression="zstd")
    writer.write_table(rows)
    found = finished(writer, _DELETES, path, fs, inner, partition)
    # readers find the data files of a delete file by the full bounds of file_path
    ends = [min(paths).encode().hex(), max(paths).encode().hex()]
    for name, value in zip(("lower-bounds", "upper-bounds"), ends, strict=True):
        found[name] = {"keys": [2147483546], "values": [value]}
    return {**found, "content": "position-deletes"}
