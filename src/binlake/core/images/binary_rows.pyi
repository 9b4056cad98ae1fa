from collections.abc import Sequence

from typing_extensions import Buffer

from binlake.core.images.image import ImageBuffers
from binlake.values.plan import ColumnPlan

STRING: int
MOMENT: int
DURATION: int
MORE: int
FULL: int
SPECIAL: int

class BinaryRows:
    def __init__(
        self, plans: Sequence[ColumnPlan], wires: bytes, most_rows: int, most_bytes: int
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    def feed(self, data: Buffer, pos: int, end: int) -> tuple[int, int]: ...
    def feed_row(self, payload: Buffer) -> None: ...
    def finish(self) -> ImageBuffers: ...
