"""Compression for MariaDB's compressed events; core/events/inflate.py reads the data and describes the layout."""

from __future__ import annotations

import zlib

from binlake.errors import MalformedError

_ZLIB = 0x80
_MAX_BYTES = 1 << 32


def deflate_event_data(plain: bytes | memoryview) -> bytes:
    """Compress `plain`, and put the head before it. Another zlib may produce other bytes.

    Raises MalformedError if the data are longer than the header can record.
    """
    size = len(plain)
    if size >= _MAX_BYTES:
        raise MalformedError(f"{size} bytes are too many for a compressed event")
    width = max(1, (size.bit_length() + 7) // 8)
    return bytes((_ZLIB | width,)) + size.to_bytes(width, "big") + zlib.compress(plain)
