"""JSON values as MySQL stores them, by an encoder of the tests' own."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["LITERALS", "document", "encode"]

LITERALS = {None: 0, True: 1, False: 2}


def _varlen(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes((*out, size))


def encode(value: Any, width: int = 2) -> tuple[int, bytes]:
    """Type and bytes of a value; containers with offsets of `width` bytes."""
    if value is None or isinstance(value, bool):
        return 4, bytes((LITERALS[value],))
    if isinstance(value, int):
        return (
            (5, struct.pack("<h", value))
            if -(1 << 15) <= value < 1 << 15
            else (9, struct.pack("<q", value))
        )
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        return 12, _varlen(len(data)) + data
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    items = list(value.values() if isinstance(value, dict) else value)
    head = 2 * width + len(keys) * (width + 2) + len(items) * (width + 1)
    entries, tail = b"", b""
    for key in keys:
        entries += (head + len(tail)).to_bytes(width, "little") + struct.pack("<H", len(key))
        tail += key
    for item in items:
        kind, data = encode(item, width)
        if kind in (4, 5):
            # a number is widened with its sign
            fill = b"\xff" if kind == 5 and item < 0 else b"\0"
            entries += bytes((kind,)) + data.ljust(width, fill)
        else:
            entries += bytes((kind,)) + (head + len(tail)).to_bytes(width, "little")
            tail += data
    sizes = len(items).to_bytes(width, "little") + (head + len(tail)).to_bytes(width, "little")
    return (0 if isinstance(value, dict) else 2) + (width == 4), sizes + entries + tail


def document(value: Any, width: int = 2) -> bytes:
    kind, data = encode(value, width)
    return bytes((kind,)) + data
