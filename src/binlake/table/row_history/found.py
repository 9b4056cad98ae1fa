"""The changes of a batch that may belong to a history, as Python objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar
from binlake.table.batches import OPERATIONS, Changes, TableChanges
from binlake.table.plan import TableTypes
from binlake.table.row_history.entries import NOT_LOGGED, ColumnChange, RowChange
from binlake.table.row_history.keys import BoundKey, RowKey
from binlake.table.row_history.lives import KeyChange
from binlake.table.where.images import Rows
from binlake.values.times import utc_moment

_INSERT, _DELETE = OPERATIONS[0], OPERATIONS[2]


class HistoryChange(NamedTuple):
    """A row change: its place in commit order (file, position, row), its keys, and the change to
    show. `change` is None for a change of another key, which only shows which row had which key.
    `start` is the offset of its transaction in its file, `ordinal` the file's place in the chain.
    """

    order: tuple[int, int, int]
    keys: KeyChange
    change: RowChange | None
    ordinal: int
    start: int


class HistoryChanges:
    """Makes objects of the rows of batches. With `all_rows` also of those that do not have the key."""

    def __init__(self, key: RowKey, warn: Callable[[str], None], *, all_rows: bool) -> None:
        self._key = key
        self._warn = warn
        self._all_rows = all_rows
        self._bound: dict[int, tuple[TableTypes, BoundKey]] = {}

    def of(self, changes: Changes) -> list[HistoryChange]:
        """Return the row changes of a batch, in commit order."""
        found: list[tuple[int, HistoryChange]] = []
        for table in changes.tables:
            sequences = table.facts.sequence.to_pylist()
            found += zip(sequences, self._of_table(changes, table), strict=True)
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def names(self, types: TableTypes) -> tuple[str, ...]:
        """The columns of the key."""
        return self._bound_to(types).names

    def _bound_to(self, types: TableTypes) -> BoundKey:
        known = self._bound.get(id(types))
        if known is None:
            known = self._bound[id(types)] = (types, BoundKey(self._key, types, self._warn))
        return known[1]

    def _of_table(self, changes: Changes, table: TableChanges) -> Iterator[HistoryChange]:
        bound, rows = self._bound_to(table.types), Rows(table)
        had, has = (
            pc.fill_null(bound.asked(rows, image).value, scalar(False))
            for image in ("before", "after")
        )
        shown = pc.or_(had, has)
        if self._all_rows:
            shown = pa.repeat(scalar(True), table.count)
        keys = [
            column.to_pylist()
            for column in (bound.texts(rows, "before"), bound.texts(rows, "after"), had, has)
        ]
        orders = changes.sequence(table.facts).to_pylist()
        starts = changes.transactions.start.take(table.facts.transaction).to_pylist()
        ordinals = changes.per_row_origin("ordinal", pa.int32()).take(table.facts.row_origin)
        details = _details(changes, table.filter(shown), bound.names)
        for order, key, ordinal, start, is_shown in zip(
            orders,
            map(KeyChange, *keys),
            ordinals.to_pylist(),
            starts,
            shown.to_pylist(),
            strict=True,
        ):
            place = (order["file"], order["pos"], order["row"])
            yield HistoryChange(place, key, next(details) if is_shown else None, ordinal, start)


def _details(changes: Changes, table: TableChanges, key: tuple[str, ...]) -> Iterator[RowChange]:
    facts, transactions = table.facts, changes.transactions
    assert table.before is not None
    befores, afters = (image.to_json().to_pylist() for image in (table.before, table.after))
    times = transactions.ts.cast(pa.int64()).take(facts.transaction).to_pylist()
    gtids = transactions.gtid.take(facts.transaction).to_pylist()
    threads = transactions.thread_id.take(facts.transaction).to_pylist()
    names = table.types.names
    virtual = {kind.column.name for kind in table.types.columns if kind.column.virtual}
    for i in range(table.count):
        origin = changes.row_origins[facts.row_origin[i].as_py()]
        op = OPERATIONS[facts.op[i].as_py()]
        before = None if op == _INSERT else json.loads(befores[i])
        after = None if op == _DELETE else json.loads(afters[i])
        old_key, new_key = _keys(before, after, key)
        changed, absent = _compared(names, before, after, virtual)
        yield RowChange(
            number=0, life=0, op=op,
            ts=utc_moment(times[i]), gtid=gtids[i], thread_id=threads[i], query=origin.query,
            server_id=facts.server_id[i].as_py(), file=origin.file, pos=facts.pos[i].as_py(),
            end_pos=facts.end_pos[i].as_py(), row=facts.row[i].as_py(),
            source_file=origin.source_file, source_pos=origin.source_pos,
            key=old_key, new_key=new_key, before=before, after=after,
            changed=changed, absent=absent,
        )  # fmt: skip


def _keys(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, names: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The key before a change (of an insert, after it), and the new one of a row that gets one."""
    old = before if before is not None else after or {}
    key = {name: old[name] for name in names if name in old}
    if before is None or after is None:
        return key, None
    new = {name: after.get(name, key.get(name)) for name in names}
    return key, None if new == key else new


def _compared(
    names: list[str],
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    virtual: set[str],
) -> tuple[dict[str, ColumnChange], tuple[str, ...]]:
    """The columns that differ, and those whose value the log does not contain.

    An update's after-image without a column leaves the column as it was, unless the server
    computes it when it is read (MariaDB).
    """
    changed: dict[str, ColumnChange] = {}
    absent: list[str] = []
    for name in names:
        old = NOT_LOGGED if before is None else before.get(name, NOT_LOGGED)
        new = NOT_LOGGED if after is None else after.get(name, NOT_LOGGED)
        if before is not None and after is not None and new is NOT_LOGGED:
            if old is NOT_LOGGED or name in virtual:
                absent.append(name)
        elif old is NOT_LOGGED and new is NOT_LOGGED:
            absent.append(name)
        elif old != new:
            changed[name] = ColumnChange(old, new)
    return changed, tuple(absent)
