"""Deletion vectors of Iceberg v3: bitmaps of positions, in files of the format Puffin.

A file: `PFA1`, blobs, `PFA1`, a JSON footer, its length (int32 LE), four zero bytes, `PFA1`.
A blob is a deletion vector; `tables/deletion_vectors.py` has its layout.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyroaring import BitMap

from binlake.mirror.tables.data_files import write_file
from binlake.mirror.tables.deletion_vectors import encode_vector
from binlake.mirror.tables.partitions import Partition

_FILE_MAGIC = b"PFA1"
_FILES_AT_ONCE = 8
_ROW_POSITION_FIELD = 2147483645  # Iceberg's id of the reserved column _pos


def puffin(data_file: str, positions: BitMap) -> tuple[bytes, int]:
    """The bytes of a Puffin file with the vector of a data file, which begins after the magic; and its length in bytes."""
    vector = encode_vector(positions)
    blob = {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_FIELD],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": len(_FILE_MAGIC),
        "length": len(vector),
        "properties": {
            "referenced-data-file": data_file,
            "cardinality": str(len(positions)),
        },
    }
    footer = json.dumps({"blobs": [blob], "properties": {"created-by": "binlake"}}).encode()
    end = struct.pack("<i", len(footer)) + b"\0\0\0\0" + _FILE_MAGIC
    return b"".join((_FILE_MAGIC, vector, _FILE_MAGIC, footer, end)), len(vector)


def vector_files(
    new_path: Callable[[], str], marks: Mapping[str, BitMap], partitions: Mapping[str, Partition]
) -> list[dict[str, Any]]:
    """Write the deleted positions of data files, a Puffin file for each; return Iceberg's JSON of them.

    `partitions` has that of each data file. A file with several vectors would be enough for Iceberg. But DuckDB 1.5.5
    counts wrong rows with it, and expiry by another program removes it when one of its vectors is replaced.
    """

    def write(data_file: str) -> dict[str, Any]:
        content, vector_bytes = puffin(data_file, marks[data_file])
        path = new_path()
        write_file(path, content)
        return {
            **partitions[data_file].json,
            "content": "position-deletes",
            "file-path": path,
            "file-format": "puffin",
            "file-size-in-bytes": len(content),
            "record-count": len(marks[data_file]),
            "referenced-data-file": data_file,
            "content-offset": len(_FILE_MAGIC),
            "content-size-in-bytes": vector_bytes,
        }

    with ThreadPoolExecutor(
        _FILES_AT_ONCE, "binlake-vectors"
    ) as pool:  # an object store takes its time
        return list(pool.map(write, sorted(marks)))
