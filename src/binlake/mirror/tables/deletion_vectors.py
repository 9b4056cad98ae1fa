"""Deletion vectors as Iceberg (`deletion-vector-v1`) and Delta keep them: bitmaps of the positions of deleted rows.

A vector: length (u32 BE), magic, number of bitmaps (u64 LE), for each its upper 32 bits (u32 LE) and a
portable roaring bitmap; CRC32 (u32 BE) of all from the magic on. The length counts magic and bitmaps.
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap

from binlake.errors import UnsupportedError
from binlake.mirror.tables.damage import DamagedFileError

_MAGIC = b"\xd1\xd3\x39\x64"


def encode_vector(positions: BitMap) -> bytes:
    """The blob of a set of positions below 2^32."""
    body = _MAGIC + struct.pack("<QI", 1, 0) + positions.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode_vector(blob: bytes, file: str) -> BitMap:
    """The positions of a blob of `file`. Raises DamagedFileError, UnsupportedError."""
    if len(blob) < 20 or struct.unpack(">I", blob[:4])[0] != len(blob) - 8 or blob[4:8] != _MAGIC:
        raise DamagedFileError("a deletion vector is damaged", file=file)
    body = blob[4:-4]
    (stored,) = struct.unpack(">I", blob[-4:])
    if zlib.crc32(body) != stored:
        raise DamagedFileError("the checksum of a deletion vector is wrong", file=file)
    (count,) = struct.unpack("<Q", body[4:12])
    if count == 0:
        return BitMap()
    if count > 1 or body[12:16] != b"\0\0\0\0":
        raise UnsupportedError("a data file has more than 2^32 rows", file=file)
    return BitMap.deserialize(body[16:])
