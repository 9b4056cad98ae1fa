"""GEOMETRY and its subtypes: SRID (u32 little-endian), then WKB; an empty value is possible."""

from __future__ import annotations

from binlake.table.types.binary import BinaryType


class GeometryType(BinaryType):
    """GEOMETRY, in the server's storage format."""
