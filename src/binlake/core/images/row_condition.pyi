from collections.abc import Collection, Sequence

IN_RANGES: int
IS_NULL: int
CHANGED: int
UNKNOWN: int
NOT: int
AND: int
OR: int
XOR: int
NEVER_NULL: int
OF_BEFORE: int
OF_AFTER: int
OF_ROW: int

class RowCondition:
    def __init__(
        self,
        steps: Sequence[tuple[int, int, int, Sequence[tuple[int, int]]]],
        unsigned_columns: Collection[int] = ...,
        of_either: bool = ...,
    ) -> None: ...
