"""Deletes that leave the row in the lake, with the time of the delete in the column `_deleted_at`.

A delete becomes an update that sets the time. An update that changes the key becomes two: the old row is
marked, as it was, and the new one is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact, is_special
from binlake.mirror.apply.net import DELETE, MOVE, UPDATE, key_changes, net_by_key
from binlake.mirror.columns.chosen_rows import take_rows
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.modes.equal_rows import check_moves
from binlake.mirror.modes.mode import Emptying, Mode, RowChanges, Scan, in_parts
from binlake.mirror.modes.names import SOFT_DELETES
from binlake.mirror.tables.change import Change
from binlake.source.arrays import array, scalar

#: The column of the lake: null while the server has the row. Iceberg reserves `_deleted`.
DELETED = "_deleted_at"
_COMMITTED = fact("ts")
_TIME = pa.timestamp("us", "UTC")


class SoftDeletes(Mode):
    """Keeps rows that the server has deleted."""

    name = SOFT_DELETES
    fields = (pa.field(DELETED, _TIME),)
    facts = ("ts",)
    keeps_gone = True

    def check(self, table: str, names: Sequence[str], key: Sequence[str]) -> None:
        super().check(table, names, key)
        if not key:
            raise UnsupportedError(
                f"{table}: soft deletes need a primary key, or a unique key of NOT NULL columns"
            )

    def changes(self, of: RowChanges, _most_bytes: int) -> Iterator[Change]:
        changes = marked_deletes(pa.concat_tables(of.tables()), of.key)
        check_moves(of, changes)
        # a copy may have read the table after the delete: a row that the lake never had need not be marked
        gone = to_numpy(pc.is_valid(changes[DELETED])) if of.may_be_ahead else None
        net = net_by_key(of.table, changes, of.key, of.rows_of, gone)
        yield Change(net.upserts, net.deletes)

    def emptied(self, of: Emptying, most_bytes: int) -> Iterator[Change]:
        there = (part.filter(pc.is_null(part[DELETED])) for part in of.rows())
        for rows in in_parts(there, most_bytes):
            yield Change(_with(rows, DELETED, pa.repeat(of.time, rows.num_rows)))

    def present(
        self, scan: Scan, _key: Sequence[str], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        for rows in scan([*columns, DELETED]):
            yield rows.filter(pc.is_null(rows[DELETED])).select(columns)


def marked_deletes(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Changes (see `change_rows`, with its commit time) in the order of the log, with `DELETED` and without deletes."""
    is_delete = pc.equal(changes[OP], scalar(DELETE)).combine_chunks()
    is_update = pc.equal(changes[OP], scalar(UPDATE)).combine_chunks()
    moved = key_changes(changes, key) & to_numpy(is_update)
    none = pa.nulls(changes.num_rows, _TIME)
    deleted = pc.if_else(is_delete, changes[_COMMITTED].combine_chunks(), none)
    ops = np.where(moved, MOVE, to_numpy(changes[OP]))
    ops = np.where(to_numpy(is_delete), UPDATE, ops)
    found = changes.drop_columns([_COMMITTED])
    for name in key:  # of a delete there is one image
        before = pc.if_else(
            is_delete, changes[name].combine_chunks(), changes[BEFORE + name].combine_chunks()
        )
        found = _with(found, BEFORE + name, before)
    found = _with(found, OP, from_numpy(ops.astype(np.uint8)))
    found = found.append_column(pa.field(DELETED, _TIME), deleted)
    if not moved.any():
        return found
    # the old row of each stands before the new one: its key as it was, all else as the lake has it
    old = _old_rows(changes.filter(from_numpy(moved)), found.schema, key)
    places = np.concatenate([np.arange(len(moved)) * 2 + 1, np.flatnonzero(moved) * 2])
    return take_rows(pa.concat_tables([found, old]), np.argsort(places, kind="stable"))


def _old_rows(moves: pa.Table, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    rest = [n for n in schema.names if not is_special(n) and n not in (*key, DELETED)]
    columns = []
    for field in schema:
        if field.name in key:
            columns.append(moves[BEFORE + field.name].combine_chunks())
        elif field.name.startswith(BEFORE):
            columns.append(moves[field.name].combine_chunks())
        elif field.name == OP:
            columns.append(array([UPDATE] * moves.num_rows, field.type))
        elif field.name == ABSENT:
            columns.append(array([rest or None] * moves.num_rows, field.type))
        elif field.name == DELETED:
            columns.append(moves[_COMMITTED].combine_chunks())
        else:
            columns.append(pa.nulls(moves.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)
