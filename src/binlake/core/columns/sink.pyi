from typing import Any, NamedTuple

from typing_extensions import Buffer

from binlake.values.plan import ColumnPlan

class SinkBuffers(NamedTuple):
    count: int
    null_count: int
    validity: memoryview[Any] | None
    offsets: memoryview[Any] | None
    data: memoryview[Any]
    zero_dates: int = 0

class ColumnSink:
    def decode(self, data: Buffer, count: int) -> SinkBuffers: ...

def make_sink(plan: ColumnPlan) -> ColumnSink: ...
def make_skip(plan: ColumnPlan) -> ColumnSink: ...
