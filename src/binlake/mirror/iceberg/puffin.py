"""Deletion vectors of Iceberg v3: bitmaps of positions, in files of the format Puffin.

A file: `PFA1`, blobs, `PFA1`, a JSON footer, its length (int32 LE), four zero bytes, `PFA1`.
A blob `deletion-vector-v1`: length (u32 BE), magic, number of bitmaps (u64 LE), for each its upper
32 bits (u32 LE) and a portable roaring bitmap; CRC32 (u32 BE) of all from the magic on. The length
counts magic and bitmaps.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap

from binlake.errors import ChecksumError, MalformedError, UnsupportedError
from binlake.mirror.iceberg.data_files import write_file
from binlake.mirror.iceberg.partitions import Partition

__all__ = ["DeletionVector", "decode_vector", "encode_vector", "puffin", "vector_files"]

_FILE_MAGIC = b"PFA1"
_MAGIC = b"\xd1\xd3\x39\x64"
_ROW_POSITION_FIELD = 2147483645  # Iceberg's id of the reserved column _pos


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where in a Puffin file the vector of a data file is. Offsets and lengths in bytes."""

    data_file: str
    offset: int
    length: int
    cardinality: int


def encode_vector(positions: BitMap) -> bytes:
    """The blob of a set of positions below 2^32."""
    body = _MAGIC + struct.pack("<QI", 1, 0) + positions.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode_vector(blob: bytes, file: str) -> BitMap:
    """The positions of a blob of `file`. Raises MalformedError, ChecksumError, UnsupportedError."""
    if len(blob) < 20 or struct.unpack(">I", blob[:4])[0] != len(blob) - 8 or blob[4:8] != _MAGIC:
        raise MalformedError("a deletion vector is damaged", file=file)
    body = blob[4:-4]
    (stored,) = struct.unpack(">I", blob[-4:])
    if zlib.crc32(body) != stored:
        raise ChecksumError("a deletion vector is damaged", file=file, expected=stored)
    (count,) = struct.unpack("<Q", body[4:12])
    if count == 0:
        return BitMap()
    if count > 1 or body[12:16] != b"\0\0\0\0":
        raise UnsupportedError("a data file has more than 2^32 rows", file=file)
    return BitMap.deserialize(body[16:])


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
    path: str, marks: Mapping[str, BitMap], partitions: Mapping[str, Partition]
) -> list[dict[str, Any]]:
    """Write a Puffin file of the deleted positions of data files; Iceberg's JSON of each vector.

    `partitions` has that of each data file.
    """
    if not marks:
        return []
    content, vectors = puffin(sorted(marks.items()))
    write_file(path, content)
    return [
        {
            **partitions[vector.data_file].json,
            "content": "position-deletes",
            "file-path": path,
            "file-format": "puffin",
            "file-size-in-bytes": len(content),
            "record-count": vector.cardinality,
            "referenced-data-file": vector.data_file,
            "content-offset": vector.offset,
            "content-size-in-bytes": vector.length,
        }
        for vector in vectors
    ]
