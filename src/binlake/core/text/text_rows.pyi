from collections.abc import Sequence
from enum import IntEnum

from typing_extensions import Buffer

from binlake.core.text.text_output import TextBuffer

class ValueForm(IntEnum):
    RAW = 0
    JSON_TEXT = 1
    HEX = 2
    INTEGER = 3
    MYSQL_TEXT = 4
    MARIADB_TEXT = 5
    BOTH_SIGNS = 6
    BITS = 7
    SET_BITS = 8
    REAL = 9
    UNIX_TIME = 10

class ValueColumn:
    def __init__(
        self,
        form: ValueForm,
        count: int,
        validity: Buffer | None,
        offsets: Buffer | None,
        data: Buffer | None,
        *,
        first: int = 0,
        offset_bytes: int = 4,
        width: int = 0,
        is_signed: bool = True,
        bits: int = 0,
        before: bytes = b"",
        after: bytes = b"",
        null: bytes = b"null",
    ) -> None: ...

class RowTemplate:
    count: int
    def __init__(self, count: int) -> None: ...
    def add(
        self,
        literal: bytes,
        values: ValueColumn | None = None,
        index: Buffer | None = None,
        variant_of: Buffer | None = None,
        variant: int = 0,
    ) -> None: ...

def write_rows(
    templates: Sequence[RowTemplate], order: Buffer | None = None, limit: int | None = None
) -> TextBuffer: ...
def write_values(
    templates: Sequence[RowTemplate], order: Buffer | None = None
) -> tuple[TextBuffer, TextBuffer]: ...
