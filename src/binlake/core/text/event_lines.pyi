from typing_extensions import Buffer

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.text_output import TextWriter

class EventLines(TextWriter):
    def __init__(
        self,
        place: bytes,
        names: list[bytes],
        table: KindTable,
        ascii_collations: bytes,
        *,
        header_bytes: int,
        checksum_bytes: int,
        query_header_bytes: int,
    ) -> None: ...
    def write(
        self, data: Buffer, pos: int, end: int, counted: int, limit: int
    ) -> tuple[int, int]: ...
