from collections.abc import Sequence
from typing import Any, NamedTuple

from binlake.core.images.image import ImageBuffers
from binlake.core.images.row_condition import RowCondition
from binlake.values.plan import ColumnPlan

INSERT: int
UPDATE: int
DELETE: int

class TableBuffers(NamedTuple):
    count: int
    op: memoryview[Any]
    pos: memoryview[Any]
    end_pos: memoryview[Any]
    row: memoryview[Any]
    txn: memoryview[Any]
    seq: memoryview[Any]
    server_id: memoryview[Any]
    start: memoryview[Any]
    before: ImageBuffers
    after: ImageBuffers
    unknown_documents: int = 0

class TableSink:
    purpose: Any
    def __init__(
        self,
        plans: Sequence[ColumnPlan],
        before_plans: Sequence[ColumnPlan] | None = None,
        operations: Sequence[int] = ...,
    ) -> None: ...
    @property
    def plans(self) -> tuple[ColumnPlan, ...]: ...
    def taken(self) -> tuple[int, int, int]: ...

class BothImages(TableSink):
    def __init__(
        self,
        plans: Sequence[ColumnPlan],
        before_plans: Sequence[ColumnPlan] | None = None,
        operations: Sequence[int] = ...,
        texts: Sequence[int] | None = None,
    ) -> None: ...

class StoredImages(BothImages): ...

class CurrentRow(TableSink):
    def __init__(
        self,
        plans: Sequence[ColumnPlan],
        before_plans: Sequence[ColumnPlan] | None = None,
        operations: Sequence[int] = ...,
        listed: Sequence[int] | None = None,
    ) -> None: ...

class RowMatches(TableSink):
    def __init__(
        self,
        plans: Sequence[ColumnPlan],
        operations: Sequence[int],
        condition: RowCondition | None = None,
    ) -> None: ...

def unwanted(plans: Sequence[ColumnPlan]) -> tuple[ColumnPlan, ...]: ...
