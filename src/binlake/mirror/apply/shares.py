"""Shares of the keys of a table, so that several tasks can each make the net changes of one.

Each change goes to the share of the key that the row has after it and, if it changes the key, also to that of the key
before it. So a share has all changes of its keys, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.mirror.apply.change_rows import BEFORE, HASH, OP, SPECIAL
from binlake.mirror.apply.net import UPDATE, Net, keys_after, keys_differ
from binlake.mirror.columns.chosen_rows import take_rows
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.tables.keys import Keys, keys_of
from binlake.source.arrays import scalar

#: The number of a change within the batch from which it was taken.
ROW = f"{SPECIAL}row"
# Keys that increase in steps are spread evenly by a product with an odd number without a pattern.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HIGH_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class KeyShare:
    """One of `parts` shares of all keys."""

    key: Sequence[str]
    part: int
    parts: int

    def changes(self, changes: pa.Table) -> pa.Table:
        """The changes whose old or new key is one of these."""
        names = list(self.key)
        old, new = _shares(changes, keys_after(changes, names), names, self.parts)
        return changes.filter(from_numpy((old == self.part) | (new == self.part)))

    def net(self, net: Net) -> Net:
        """The net change of these keys, of one that has the keys of its rows."""
        assert net.upsert_keys is not None
        assert net.delete_keys is not None
        upserted, deleted = self._own(net.upsert_keys), self._own(net.delete_keys)
        return Net(
            take_rows(net.upserts, upserted),
            take_rows(net.deletes, deleted),
            net.upsert_keys.take(upserted),
            net.delete_keys.take(deleted),
        )

    def _own(self, keys: Keys) -> npt.NDArray[np.int64]:
        return np.flatnonzero(_numbers(keys, self.parts) == self.part)


def cut(changes: pa.Table, key: Sequence[str], parts: int) -> Iterator[pa.RecordBatch]:
    """The changes of each share, with their numbers as `ROW`, and `HASH`. Raises SchemaError for a NULL in a key."""
    names = list(key)
    keys = keys_after(changes, names)
    old, new = _shares(changes, keys, names, parts)
    numbered = changes.append_column(ROW, from_numpy(np.arange(changes.num_rows, dtype=np.uint32)))
    if keys.low is not None:
        for name, half in zip(HASH, (keys.high, keys.low), strict=True):
            numbered = numbered.append_column(name, from_numpy(half))
    for part in range(parts):
        of = numbered.filter(from_numpy((old == part) | (new == part))).combine_chunks()
        batches = of.to_batches()
        yield batches[0] if batches else _no_changes(of.schema)


def _no_changes(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def joined(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The changes that `cut` has cut, in their order."""
    rows = pa.Table.from_batches(batches)
    _, first = np.unique(to_numpy(rows[ROW]), return_index=True)
    added = [name for name in (ROW, *HASH) if name in rows.column_names]
    return take_rows(rows.drop_columns(added), first)


def _shares(
    changes: pa.Table, keys: Keys, names: list[str], parts: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers of the shares of the key before each change, and of the key after it, of which there are `keys`."""
    is_update = pc.equal(changes[OP], scalar(UPDATE))
    before = pa.table(
        [pc.if_else(is_update, changes[BEFORE + n], changes[n]) for n in names], names=names
    )
    new = _numbers(keys, parts)
    moved = np.flatnonzero(keys_differ(before, changes.select(names)))
    old = new.copy()
    taken = before.take(from_numpy(moved))
    old[moved] = _numbers(keys_of([taken[n] for n in names], names), parts)
    return old, new


def _numbers(keys: Keys, parts: int) -> npt.NDArray[np.int64]:
    mixed = (keys.high.astype(np.uint64) * _FACTOR) >> _HIGH_BITS
    return (mixed % np.uint64(parts)).astype(np.int64)
