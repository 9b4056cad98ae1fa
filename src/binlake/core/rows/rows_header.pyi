from binlake.core.memory.cursor import Cursor

class RowsHeader:
    table_id: int
    flags: int
    extra_start: int
    extra_end: int
    width: int
    bitmap_bytes: int
    present: int
    present_after: int
    rows_start: int
    def parse(self, cursor: Cursor, table_id_bytes: int, version: int, bitmaps: int) -> None: ...
