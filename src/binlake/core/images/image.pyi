from typing import Any, NamedTuple

from binlake.core.columns.sink import SinkBuffers

class ImageBuffers(NamedTuple):
    count: int
    null_count: int
    validity: memoryview[Any] | None
    columns: tuple[SinkBuffers | None, ...]
    presence: tuple[tuple[int, bytes], ...]
