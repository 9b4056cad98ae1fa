from enum import IntEnum
from typing import NamedTuple

from binlake.values.frame import EventFormat

class EventKind(IntEnum):
    OTHER = 0
    QUERY = 1
    TABLE_MAP = 2
    ROWS = 3
    XID = 4
    GTID = 5
    ANONYMOUS_GTID = 6
    MARIADB_GTID = 7
    ROWS_QUERY = 8
    ANNOTATE_ROWS = 9

class KindTable(NamedTuple):
    kinds: bytes
    id_bytes: bytes
    bitmaps: bytes

def kind_table(fmt: EventFormat) -> KindTable: ...
