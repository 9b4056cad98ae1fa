from enum import IntEnum

from typing_extensions import Buffer

from binlake.core.text.text_output import TextBuffer

class Summary(IntEnum):
    TYPED = 0
    QUERY = 1
    TABLE_MAP = 2
    ROWS = 3
    XID = 4
    GTID = 5
    ANONYMOUS = 6
    MARIADB_GTID = 7
    TEXT = 8
    WHOLE_TEXT = 9

class EventLines:
    def __init__(
        self,
        place: bytes,
        names: list[bytes],
        summaries: bytes,
        id_bytes: bytes,
        bitmaps: bytes,
        ascii_collations: bytes,
        *,
        header_bytes: int,
        checksum_bytes: int,
        query_header_bytes: int,
    ) -> None: ...
    def take(self) -> TextBuffer: ...
    def write(
        self, data: Buffer, pos: int, end: int, counted: int, limit: int
    ) -> tuple[int, int]: ...
