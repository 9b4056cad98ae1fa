from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from typing_extensions import Buffer

from binlake.core.text.text_output import TextBuffer

class PlainKind(IntEnum):
    OTHER = 0
    GTID = 1
    MARIADB_GTID = 2
    QUERY = 3
    TABLE_MAP = 4
    ROWS = 5
    XID = 6
    ROWS_QUERY = 7
    ANNOTATE = 8

class ReplayText:
    table_words: dict[tuple[int, bytes], bytes]
    rows_words: dict[tuple[int, bytes], bytes]
    queries: dict[tuple[Any, int, bytes], tuple[bytes, bytes, Any]]
    in_transaction: bool
    has_gtid: bool
    names_next: bool
    server_version: int
    state: Any
    parallel: bool | None
    domain_id: int | None
    server_id: int | None
    def __init__(
        self,
        kinds: bytes,
        id_bytes: bytes,
        *,
        mariadb: bool,
        prints_base64: bool,
        says_queries: bool,
        counts_rows: bool,
    ) -> None: ...
    def take(self) -> TextBuffer: ...
    def write(
        self,
        data: Buffer,
        pos: int,
        end: int,
        base: int,
        changes: Mapping[int, tuple[int, bytes | memoryview]] | None,
    ) -> tuple[int, int]: ...
