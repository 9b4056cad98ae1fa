"""The zlib data of MariaDB's compressed events, made; core/events/inflate.py reads it and describes it."""

from __future__ import annotations

import zlib

from binlake.errors import MalformedError

__all__ = ["deflate_event_data"]

_ZLIB = 0x80
_MAX_BYTES = 1 << 32


def deflate_event_data(plain: bytes | memoryview) -> bytes:
    """`plain` compressed, with its head. Another zlib may have made other bytes of the same.

    Raises MalformedError if the data are longer than the header can record.
    """
    size = len(plain)
    if size >= _MAX_BYTES:
        raise MalformedError(f"{size} bytes are too many for a compressed event")
    width = max(1, (size.bit_length() + 7) // 8)
    return bytes((_ZLIB | width,)) + size.to_bytes(width, "big") + zlib.compress(plain)
