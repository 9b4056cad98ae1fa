"""The mode of a lake table with a row for each change, which is never changed itself.

A commit appends the changes of a round, with the place after them: so it needs no lookups and no index.
An update that changes the key is two rows, the first of which has the old key. Without a key, each update
is: the first row is the whole row as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact, is_special
from binlake.mirror.apply.net import UPDATE, key_changes
from binlake.mirror.columns.chosen_rows import take_rows
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.control import position_key
from binlake.mirror.modes.mode import BEFORE_ALL_ROWS, Emptying, Mode, RowChanges, Scan, repeated
from binlake.mirror.modes.names import APPEND
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.keys import Keys, keys_of, row_hashes
from binlake.source.arrays import array, scalar
from binlake.table.batches import OPERATIONS
from binlake.table.metadata import METADATA
from binlake.values.position import Position

#: Values of `_op` beside insert, update and delete.
SNAPSHOT, TRUNCATE, UPDATE_BEFORE = "snapshot", "truncate", "update_before"
_GONE = ("delete", UPDATE_BEFORE)

_FACTS = ("ts", "gtid", "file", "pos", "row", "seq")
_COLUMNS = {
    column.name: pa.field(column.unprefixed or f"_{column.name}", column.type)
    for column in METADATA
    if column.name in ("op", *_FACTS, "absent") and column.type is not None
}
_OP, _SEQ, _ABSENT = (_COLUMNS[name].name for name in ("op", "seq", "absent"))


class ChangeLog(Mode):
    """Appends each change."""

    name = APPEND
    fields = tuple(_COLUMNS.values())
    facts = _FACTS
    holds_rows = False

    def index_key(self, _key: tuple[str, ...]) -> None:
        return None

    def copied(self, rows: pa.Table, position: Position, _moment_us: int) -> pa.Table:
        return repeated(rows, self.fields, _own(SNAPSHOT, position), rows.num_rows)

    def changes(self, of: RowChanges, _most_bytes: int) -> Iterator[Change]:
        yield Change(appended=(logged_rows(changes, of.key) for changes in of.tables()))

    def emptied(self, of: Emptying, _most_bytes: int) -> Iterator[Change]:
        own = {**_own(TRUNCATE, of.position), _COLUMNS["ts"].name: of.commit_us}
        yield Change(appended=[repeated(None, self.fields, own, 1)])

    def present(self, scan: Scan, key: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows after the last change of each; of rows without a key, as many as there are."""
        last = _present(scan, key, columns)
        first = 0
        for rows in scan([*columns, _ABSENT]):
            chosen = rows.filter(from_numpy(last[first : first + rows.num_rows]))
            first += rows.num_rows
            if chosen[_ABSENT].null_count < chosen.num_rows:
                raise UnsupportedError(
                    "the newest changes of some rows lack columns, so their values are unknown",
                    hint="set binlog_row_image=FULL on the server",
                )
            yield chosen.select(columns)


def _own(op: str, position: Position) -> dict[str, object]:
    """The columns of a row that is no row change, and stands at a place in the log."""
    number, offset = position_key(position)
    sequence = {"file": number, "pos": offset, "row": BEFORE_ALL_ROWS}
    named = {"op": op, "file": position.file, "pos": offset, "seq": sequence}
    return {field.name: named.get(name) for name, field in _COLUMNS.items()}


def logged_rows(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Row changes (see `change_rows`, with the facts) as rows of the lake, in the same order."""
    names = [name for name in changes.column_names if not is_special(name)]
    own = {name: changes[fact(name)] for name in _FACTS}
    own["op"] = array(OPERATIONS, pa.string()).take(changes[OP].combine_chunks())
    own["absent"] = changes[ABSENT]
    after = _as_rows(changes.select(names), own)
    is_update = to_numpy(changes[OP]) == UPDATE
    moved = is_update & key_changes(changes, key) if key else is_update
    if not moved.any():
        return after
    of = changes.filter(from_numpy(moved))
    old = {name: of[BEFORE + name] for name in (key or names)}
    rest = [name for name in names if name not in old]
    values = {name: old.get(name, pa.nulls(of.num_rows, of[name].type)) for name in names}
    own = {name: of[fact(name)] for name in _FACTS}
    own["op"] = array([UPDATE_BEFORE] * of.num_rows, pa.string())
    own["absent"] = array([rest or None] * of.num_rows, _COLUMNS["absent"].type)
    before = _as_rows(pa.table(values), own).cast(after.schema)
    places = np.concatenate([np.arange(len(moved)) * 2 + 1, np.flatnonzero(moved) * 2])
    return take_rows(pa.concat_tables([after, before]), np.argsort(places, kind="stable"))


def _as_rows(rows: pa.Table, own: dict[str, pa.Array]) -> pa.Table:
    for name, field in _COLUMNS.items():
        rows = rows.append_column(field, own[name].cast(field.type))
    return rows


def _present(scan: Scan, key: Sequence[str], columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether the server has each row of the lake now."""
    ops, sequences, keys = [], [], []
    for rows in scan([*(key or columns), _OP, _SEQ]):
        ops.append(rows[_OP].to_numpy())
        sequences.append([_numbers(rows[_SEQ], name) for name in ("file", "pos", "row")])
        keyed = rows.filter(pc.not_equal(rows[_OP], scalar(TRUNCATE)))
        keys.append(
            keys_of([keyed[name] for name in key], list(key))
            if key
            else row_hashes(keyed.select(columns))
        )
    if not ops:
        return np.empty(0, bool)
    op = np.concatenate(ops)
    order = np.concatenate(sequences, axis=1)
    rows_there = _after_truncates(op, order)
    is_keyed: npt.NDArray[np.bool_] = op != TRUNCATE
    ids = np.full(len(op), -1, np.int64)
    ids[is_keyed] = Keys.joined(keys).ids()
    is_gone = np.isin(op, _GONE)
    chosen = np.flatnonzero(rows_there)
    kept = (_last if key else _surplus)(ids[chosen], order[:, chosen], is_gone[chosen])
    found = np.zeros(len(op), bool)
    found[chosen[kept]] = True
    return found


def _numbers(sequences: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = to_numpy(
        pc.struct_field(sequences, name).cast(pa.int64()).fill_null(BEFORE_ALL_ROWS)
    )
    return numbers


def _after_truncates(
    op: npt.NDArray[np.object_], order: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """The rows that are no TRUNCATE, and not before one."""
    there: npt.NDArray[np.bool_] = op != TRUNCATE
    if there.all():
        return there
    file, pos = max(map(tuple, order[:2, ~there].T.tolist()))
    there &= (order[0] > file) | ((order[0] == file) & (order[1] > pos))
    return there


def _last(
    ids: npt.NDArray[np.int64], order: npt.NDArray[np.int64], is_gone: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The newest row of each id, unless it is a delete."""
    by_id = np.lexsort((order[2], order[1], order[0], ids))
    ends = np.append(ids[by_id][1:] != ids[by_id][:-1], True)[: len(ids)]
    found = np.zeros(len(ids), bool)
    found[by_id[ends]] = True
    return found & ~is_gone


def _surplus(
    ids: npt.NDArray[np.int64], _order: npt.NDArray[np.int64], is_gone: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Choose the first inserted rows of each id, as many as its inserts minus its deletes."""
    counts = np.bincount(ids, np.where(is_gone, -1, 1)) if len(ids) else np.empty(0)
    came = np.flatnonzero(~is_gone)
    came = came[np.argsort(ids[came], kind="stable")]
    rank = np.arange(len(came)) - np.searchsorted(ids[came], ids[came])
    found = np.zeros(len(ids), bool)
    found[came[rank < counts[ids[came]]]] = True
    return found
