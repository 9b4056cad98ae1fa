"""The kinds of events that are written as text without their typed events, by type code."""

from functools import lru_cache
from typing import NamedTuple

from binlake.format.event_types import (
    ANNOTATE_ROWS_EVENT,
    ANONYMOUS_GTID_LOG_EVENT,
    EVENT_TYPES,
    GTID_EVENT,
    GTID_LOG_EVENT,
    QUERY_EVENT,
    ROWS_QUERY_LOG_EVENT,
    TABLE_MAP_EVENT,
    XID_EVENT,
)

_KINDS = {
    QUERY_EVENT: EventKind.QUERY,
    TABLE_MAP_EVENT: EventKind.TABLE_MAP,
    XID_EVENT: EventKind.XID,
    GTID_LOG_EVENT: EventKind.GTID,
    ANONYMOUS_GTID_LOG_EVENT: EventKind.ANONYMOUS_GTID,
    GTID_EVENT: EventKind.MARIADB_GTID,
    ROWS_QUERY_LOG_EVENT: EventKind.ROWS_QUERY,
    ANNOTATE_ROWS_EVENT: EventKind.ANNOTATE_ROWS,
}


class KindTable(NamedTuple):
    """A byte for each of 256 type codes in each field.

    `kinds` contains an `EventKind`, `id_bytes` the size of table ids, `bitmaps` the number of bitmaps of
    a rows event that is not compressed (0: another event; 16 more: version 2, with extra data).
    """

    kinds: bytes
    id_bytes: bytes
    bitmaps: bytes


@lru_cache(maxsize=16)
def kind_table(fmt):
    """Return the table of a log format."""
    kinds, bitmaps = bytearray(256), bytearray(256)
    for code, kind in _KINDS.items():
        kinds[code] = kind
    for code, known in EVENT_TYPES.items():
        if known.operation and known.rows_version and not known.compressed:
            kinds[code] = EventKind.ROWS
            bitmaps[code] = 2 if known.operation == "update" else 1
            if known.rows_version == 2:
                bitmaps[code] |= VERSION_2
    id_bytes = bytes([fmt.table_id_bytes(code) for code in range(256)])
    return KindTable(bytes(kinds), id_bytes, bytes(bitmaps))
