"""Deletion vectors of Iceberg v3: bitmaps of positions, in files of the format Puffin.

A file: `PFA1`, blobs, `PFA1`, a JSON footer, its length (int32 LE), four zero bytes, `PFA1`.
A blob is a deletion vector; `tables/deletion_vectors.py` has its layout.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap

from binlake.mirror.tables.data_files import write_file
from binlake.mirror.tables.deletion_vectors import encode_vector
from binlake.mirror.tables.partitions import Partition

_FILE_MAGIC = b"PFA1"
_FILES_AT_ONCE = 8
_ROW_POSITION_FIELD = 2147483645  # Iceberg's id of the reserved column _pos


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where in a Puffin file the vector of a data file is. Offsets and lengths in bytes."""

    data_file: str
    offset: int
    length: int
    cardinality: int


def puffin(vectors: Iterable[tuple[str, BitMap]]) -> tuple[bytes, list[DeletionVector]]:
    """The bytes of a Puffin file with a vector for each data file, and where they are in it."""
    content = bytearray(_FILE_MAGIC)
    found: list[DeletionVector] = []
    blobs = []
    for data_file, positions in vectors:
        blob = encode_vector(positions)
        vector = DeletionVector(data_file, len(content), len(blob), len(positions))
        found.append(vector)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": vector.offset,
                "length": vector.length,
                "properties": {
                    "referenced-data-file": data_file,
                    "cardinality": str(vector.cardinality),
                },
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "binlake"}}).encode()
    content += _FILE_MAGIC + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0" + _FILE_MAGIC
    return bytes(content), found


def vector_files(
    new_path: Callable[[], str], marks: Mapping[str, BitMap], partitions: Mapping[str, Partition]
) -> list[dict[str, Any]]:
    """Write the deleted positions of data files, a Puffin file for each; return Iceberg's JSON of them.

    `partitions` has that of each data file. A file with several vectors would be enough for Iceberg. But DuckDB 1.5.5
    counts wrong rows with it, and expiry by another program removes it when one of its vectors is replaced.
    """

    def write(data_file: str) -> dict[str, Any]:
        content, [vector] = puffin([(data_file, marks[data_file])])
        path = new_path()
        write_file(path, content)
        return {
            **partitions[data_file].json,
            "content": "position-deletes",
            "file-path": path,
            "file-format": "puffin",
            "file-size-in-bytes": len(content),
            "record-count": vector.cardinality,
            "referenced-data-file": data_file,
            "content-offset": vector.offset,
            "content-size-in-bytes": vector.length,
        }

    with ThreadPoolExecutor(
        _FILES_AT_ONCE, "binlake-vectors"
    ) as pool:  # an object store takes its time
        return list(pool.map(write, sorted(marks)))
