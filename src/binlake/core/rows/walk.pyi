from collections.abc import Callable
from typing import NamedTuple

from typing_extensions import Buffer

from binlake.core.events.frames import FrameBlock
from binlake.core.events.plain_groups import PlainGroups
from binlake.core.rows.row_selection import RowSelection
from binlake.core.rows.table_sink import TableBuffers, TableSink
from binlake.core.rows.transactions import TransactionBuffers
from binlake.values.frame import EventFormat

NO_LIMIT: int

class UndecidedError(Exception): ...

class WalkedRows(NamedTuple):
    transactions: TransactionBuffers
    tables: tuple[tuple[TableSink, TableBuffers], ...]

class RowWalker:
    def __init__(
        self,
        resolve: Callable[[bytes, EventFormat], TableSink | None],
        limit_bytes: int = ...,
    ) -> None: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def decoded_bytes(self) -> int: ...
    @property
    def passed_bytes(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def set_format(self, fmt: EventFormat) -> None: ...
    def forget_tables(self) -> None: ...
    def enter_payload(self, pos: int, end_pos: int) -> None: ...
    def leave_payload(self) -> None: ...
    def begin_transaction(
        self, gtid: bytes | None, commit_us: int, thread_id: int | None, start: int
    ) -> None: ...
    def run_rows(
        self, data: Buffer, base: int, block: FrameBlock, first: int, last: int
    ) -> int: ...
    def run_groups(
        self,
        data: Buffer,
        base: int,
        groups: PlainGroups,
        first: int,
        last: int,
        rows: RowSelection | None = None,
    ) -> int: ...
    def find_rows(
        self, data: Buffer, base: int, groups: PlainGroups, first: int, last: int
    ) -> tuple[RowSelection, memoryview[int]] | None: ...
    def finish(self) -> WalkedRows: ...
