from collections.abc import Mapping
from typing import Any

from typing_extensions import Buffer

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.text_output import TextWriter

class ReplayText(TextWriter):
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
        table: KindTable,
        *,
        mariadb: bool,
        prints_base64: bool,
        says_queries: bool,
        counts_rows: bool,
    ) -> None: ...
    def write(
        self,
        data: Buffer,
        pos: int,
        end: int,
        base: int,
        changes: Mapping[int, tuple[int, bytes | memoryview]] | None,
    ) -> tuple[int, int]: ...
