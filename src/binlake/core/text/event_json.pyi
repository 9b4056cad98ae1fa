from enum import IntEnum

from typing_extensions import Buffer

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.text_output import TextWriter

class SqlText(IntEnum):
    NONE = 0
    ASCII = 1
    UTF8 = 2

class EventJson(TextWriter):
    def __init__(
        self,
        types: list[bytes],
        table: KindTable,
        event_flags: list[bytes],
        gtid_flags: list[bytes],
        mariadb_flags: list[bytes],
        mariadb_extra_flags: list[bytes],
        *,
        checksum_bytes: int,
    ) -> None: ...
    def forget(self) -> None: ...
    def learn_table_map(self, body: bytes, fields: bytes) -> None: ...
    def learn_rows(self, type_code: int, body: bytes, before: bytes, after: bytes) -> None: ...
    def learn_query(self, body: bytes, fields: bytes, sql_text: SqlText) -> None: ...
    def begin(self, file: bytes, outer: tuple[int, int] | None = None) -> None: ...
    def write(
        self, data: Buffer, pos: int, end: int, counted: int, limit: int
    ) -> tuple[int, int]: ...
