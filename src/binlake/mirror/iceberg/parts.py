"""The rows of a commit, cut into the data files that it adds.

An index run is of one file, and a file is of one partition. Many rows without partitions become a file for each
core, because one thread writes a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import Keys
from binlake.mirror.tables.partitions import Partition, Partitioning
from binlake.stream.lanes import usable_cores

_LEAST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a new data file, and their keys, if they are known."""

    partition: Partition
    rows: pa.Table
    keys: Keys | None


def parts_of(
    partitioning: Partitioning, rows: pa.Table | None, keys: Keys | None, files: int | None = None
) -> list[FileRows]:
    """Return the parts of the rows of a commit, whose keys are `keys`, if they are known.

    `files`: the most files for rows without partitions, by default the number of cores.
    """
    if rows is None or rows.num_rows == 0:
        return []
    if partitioning.fields:
        split = list(partitioning.split(rows))
        of_all = keys if len(split) == 1 else None
        return [FileRows(partition, of, of_all) for partition, of in split]
    most = usable_cores() if files is None else files
    count = max(1, min(most, rows.num_rows, rows.nbytes // _LEAST_BYTES))
    cuts = [rows.num_rows * i // count for i in range(count + 1)]
    return [
        FileRows(
            Partition(partitioning.spec),
            rows.slice(first, last - first),
            None if keys is None else keys.take(np.arange(first, last)),
        )
        for first, last in pairwise(cuts)
    ]


def write_parts(
    parts: Sequence[FileRows], writer: DataFileWriter, threads: int | None = None
) -> list[dict[str, Any]]:
    """Write a data file of each part; return what a commit needs of them. `threads`: by default one for each core."""

    def write(part: FileRows) -> dict[str, Any]:
        file = writer.write_one([part.rows], part.partition)
        assert file is not None
        return file

    if len(parts) < 2 or threads == 1:
        return [write(part) for part in parts]
    with ThreadPoolExecutor(threads or usable_cores(), "binlake-write") as pool:
        return list(pool.map(write, parts))
