"""The values that a condition reads: columns of both images, null where there is no value.

A column that an after-image lacks (binlog_row_image=MINIMAL) is unchanged, so the before-image's
value stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.table.batches import TableChanges
from binlake.table.images import Image, has_column

_UPDATE = 1  # the number of the operation in `batches.OPERATIONS`


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of one image. `values` are null where there is no value. `lacking` marks the rows whose value the log
    does not contain; None if there are none.
    """

    values: pa.Array
    lacking: pa.Array | None


class Rows:
    """The row changes of one table, in both images."""

    def __init__(self, changes: TableChanges) -> None:
        assert changes.before is not None
        self.changes = changes
        self.count = changes.count
        self._images = {"before": changes.before, "after": changes.after}
        self._cells: dict[tuple[int, str], Cells] = {}

    @cached_property
    def are_updates(self) -> pa.Array:
        """Which rows are updates."""
        return pc.equal(self.changes.facts.op, scalar(_UPDATE, pa.uint8()))

    def exist(self, image: str) -> pa.Array | None:
        """Which rows have the image; None for all."""
        return self._images[image].exists

    def logged(self, index: int, image: str) -> pa.Array:
        """Which rows have a column, by its index among the decoded ones, in an image itself."""
        found = _logged(self._images[image], index)
        return pa.repeat(scalar(True), self.count) if found is None else found

    def cells(self, index: int, image: str) -> Cells:
        """A column, by its index among the decoded ones."""
        key = (index, image)
        if key not in self._cells:
            self._cells[key] = self._read(index, image)
        return self._cells[key]

    def _read(self, index: int, image: str) -> Cells:
        own = self._images[image]
        values = own.columns[index]
        logged = _logged(own, index)
        if logged is None:
            return Cells(values, None)
        missing = scalar(None, values.type)
        values = pc.if_else(logged, values, missing)
        lacking = pc.invert(logged)
        if own.exists is not None:
            lacking = pc.and_(lacking, own.exists)
        if image == "after":
            other = self._images["before"]
            stands = self.logged(index, "before")
            values = pc.if_else(pc.and_(lacking, stands), other.columns[index], values)
            lacking = pc.and_(lacking, pc.invert(stands))
        return Cells(values, lacking)


def _logged(image: Image, index: int) -> pa.Array | None:
    """Which rows have a column in an image; None for all."""
    ordinal = image.types.ordinals[index]
    has = [has_column(bitmap, ordinal) for bitmap in image.patterns]
    if all(has):
        return image.exists
    if image.pattern_of is None:
        logged = pa.repeat(scalar(has[0]), image.count)
    else:
        logged = array(has, pa.bool_()).take(image.pattern_of)
    return logged if image.exists is None else pc.and_(logged, image.exists)
