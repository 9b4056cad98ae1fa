"""Conditions over integers in the form that the core decides: steps in postfix order.

A condition that has no such form is decided over arrays, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlake.core.images import row_condition as core
from binlake.core.images.row_condition import RowCondition
from binlake.table.plan import TableTypes
from binlake.table.types.base import ColumnType
from binlake.table.where.comparing import Operator
from binlake.table.where.numbers import NUMBERS, integer_range
from binlake.values.where import ColumnName

Range = tuple[int, int]
#: (code, image, ordinal, ranges) as `RowCondition` takes them; None: there is no such form.
Steps = tuple[tuple[int, int, int, tuple[Range, ...]], ...] | None

#: A comparison with NULL.
UNKNOWN = ((core.UNKNOWN, core.OF_ROW, 0, ()),)

_SIDES = {"before": core.OF_BEFORE, "after": core.OF_AFTER}


def compiled(steps: Steps, types: TableTypes, *, of_either: bool) -> RowCondition | None:
    """The condition for the core; None if it cannot decide it."""
    if steps is None:
        return None
    wide = [
        ordinal
        for ordinal, kind in zip(types.ordinals, types.columns, strict=True)
        if str(kind.arrow_type) == "uint64"
    ]
    try:
        return RowCondition(steps, wide, of_either)
    except ValueError:  # nested too deeply
        return None


def nothing() -> RowCondition:
    """The condition that no row change matches."""
    return RowCondition(UNKNOWN)


def compares(
    name: ColumnName, kind: ColumnType, ordinal: int, sign: Operator, value: object
) -> Steps:
    """A comparison of a column with a constant that `number_test` takes."""
    found = integer_range(kind, sign, value)
    if found is None:
        return None
    low, high = found
    return ((core.IN_RANGES, _side(name), ordinal, ((low, high),) if low <= high else ()),)


def is_null(name: ColumnName, kind: ColumnType, ordinal: int) -> Steps:
    """IS NULL."""
    if not _is_integer(kind):
        return None
    return ((core.IS_NULL, _side(name), ordinal, ()),)


def changed(kind: ColumnType, ordinal: int) -> Steps:
    """Whether an update changes a column."""
    return ((core.CHANGED, core.OF_ROW, ordinal, ()),) if _is_integer(kind) else None


def applied(code: int, steps: Steps) -> Steps:
    """NOT or NEVER_NULL of a condition."""
    return None if steps is None else (*steps, (code, core.OF_ROW, 0, ()))


def joined(code: int, parts: Sequence[Steps]) -> Steps:
    """AND, OR or XOR of all parts."""
    steps: Steps = ()
    for part in _united(parts) if code == core.OR else parts:
        if part is None or steps is None:
            return None
        steps = steps + part + ((code, core.OF_ROW, 0, ()),) if steps else part
    return steps


def _united(parts: Sequence[Steps]) -> Sequence[Steps]:
    """One step for an OR of comparisons of one column: IN lists are long."""
    firsts = [part[0] for part in parts if part is not None and len(part) == 1]
    if len(firsts) != len(parts) or any(
        first[:3] != firsts[0][:3] or first[0] != core.IN_RANGES for first in firsts
    ):
        return parts
    united: list[Range] = []
    for low, high in sorted(each for first in firsts for each in first[3]):
        if united and low <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(high, united[-1][1])
        else:
            united.append((low, high))
    return [((*firsts[0][:3], tuple(united)),)]


def _side(name: ColumnName) -> int:
    return _SIDES.get(name.image, core.OF_ROW)


def _is_integer(kind: ColumnType) -> bool:
    return isinstance(kind, NUMBERS) and integer_range(kind, "=", 0) is not None
