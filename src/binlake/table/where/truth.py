"""The truth of a condition for each row: true, false, NULL, or in doubt.

SQL has three values. binlake has a fourth one for conditions that the server could decide but binlake cannot: an
image lacks a column, or a text has characters whose weights under a collation are not known here.
If a row's result does not depend on a doubt (`FALSE AND doubt`), the doubt disappears.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why binlake cannot decide. `is_lacking`: the log lacks the value."""

    sentence: str
    is_lacking: bool


@dataclass(frozen=True, slots=True)
class Truth:
    """One value per row: `value` is a nullable bool; a row with a doubt has null there."""

    value: pa.Array
    doubts: Mapping[Doubt, pa.Array] = field(default_factory=dict)

    def doubted(self, doubt: Doubt, where: pa.Array | None) -> Truth:
        """Return these values with a doubt in the rows where `where` (bool) is true."""
        if where is None or not pc.any(where).as_py():
            return self
        value = pc.if_else(where, scalar(None, pa.bool_()), self.value)
        return Truth(value, _merged(value, self.doubts, {doubt: where}))

    def only(self, rows: pa.Array | None) -> Truth:
        """Return these values where `rows` (bool) is true, and false elsewhere."""
        if rows is None:
            return self
        value = pc.if_else(rows, self.value, scalar(False))
        return Truth(value, _merged(value, self.doubts, {}))


def repeated(value: bool | None, count: int) -> Truth:
    """Return one value for all rows."""
    return Truth(pa.repeat(scalar(value, pa.bool_()), count))


def negated(truth: Truth) -> Truth:
    """NOT."""
    return Truth(pc.invert(truth.value), truth.doubts)


def both(left: Truth, right: Truth) -> Truth:
    """AND."""
    return _joined(pc.and_kleene(left.value, right.value), left, right)


def either(left: Truth, right: Truth) -> Truth:
    """OR."""
    return _joined(pc.or_kleene(left.value, right.value), left, right)


def one_of(left: Truth, right: Truth) -> Truth:
    """XOR."""
    return _joined(pc.xor(left.value, right.value), left, right)


def _joined(value: pa.Array, left: Truth, right: Truth) -> Truth:
    return Truth(value, _merged(value, left.doubts, right.doubts))


def _merged(
    value: pa.Array, left: Mapping[Doubt, pa.Array], right: Mapping[Doubt, pa.Array]
) -> dict[Doubt, pa.Array]:
    """The doubts of both sides that still matter: where the result is null."""
    if not left and not right:
        return {}
    open_rows = pc.is_null(value)
    merged: dict[Doubt, pa.Array] = {}
    for doubts in (left, right):
        for doubt, rows in doubts.items():
            known = merged.get(doubt)
            merged[doubt] = pc.and_(rows if known is None else pc.or_(known, rows), open_rows)
    return merged
