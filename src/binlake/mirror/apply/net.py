"""The net change of each row over a range of log.

With a key: each row change, in the order of the log, becomes one or two steps of a key: "the key
has no row" and "the key has this row". The last step of a key applies. A change of the key is a
step of the old key and one of the new key. So swaps, chains, and rows that are inserted and deleted
need no special rules.

An update whose image lacks columns takes their values from the row before it: that of an
earlier change in the range, or that of the lake.

Without a key, whole rows are inserted and removed as often as on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import (
    IncompleteError,
    MissingContextError,
    SchemaError,
    UnsupportedError,
)
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, HASH, OP, SPECIAL, is_special
from binlake.mirror.columns.chosen_rows import take_rows, take_values
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.tables.keys import Keys, keys_of, row_hashes, value_bytes
from binlake.source.arrays import array, scalar

#: Errors of one table that do not stop the others.
OF_ONE_TABLE = (SchemaError, UnsupportedError, IncompleteError, MissingContextError)

INSERT, UPDATE, DELETE = range(3)
#: An update that changes the key, after which the row of the old key stays.
MOVE = 3
_UPDATES = array([UPDATE, MOVE], pa.uint8())
Indices = npt.NDArray[np.int64]

#: For rows of key columns: (for each the index of its row in the lake, or -1; those rows, with the named columns at least).
RowsOf = Callable[[pa.Table, Sequence[str] | None], tuple[Indices, pa.Table]]
# at the same time, names of columns are joined for so many rows
_PATTERN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Net:
    """`upserts`: whole rows, at most one per key; `deletes`: key columns, without a key whole rows.

    `upsert_keys` and `delete_keys` are the keys of these rows, if they are known.
    """

    upserts: pa.Table
    deletes: pa.Table
    upsert_keys: Keys | None = None
    delete_keys: Keys | None = None

    @property
    def rows(self) -> int:
        """How many rows it changes."""
        return int(self.upserts.num_rows + self.deletes.num_rows)


def net_by_key(
    table: str,
    changes: pa.Table,
    key: Sequence[str],
    rows_of: RowsOf,
    optional: npt.NDArray[np.bool_] | None = None,
) -> Net:
    """The net change of `changes` (see `change_rows`, in the types of the lake), in their order.

    `optional`: a mask of the changes that are left out if the row that they update does not exist. For other changes,
    raises IncompleteError then. Raises SchemaError for a NULL in a key, UnsupportedError.
    """
    found = KeySteps.of(changes, key)
    # in the order of the log: rows that are taken from all over a table cost five times as much
    last = np.sort(found.steps.last_of_key())
    upserted = last[last & 1 == 1] >> 1
    deleted = last[last & 1 == 0] >> 1
    upserted, rows = found.rows_after(table, upserted, rows_of, optional)
    return Net(
        rows,
        take_rows(found.before, deleted),
        found.keys.take(upserted),
        found.keys.take(found.places[deleted]),
    )


@dataclass(frozen=True, slots=True)
class KeySteps:
    """The effect of `changes` on each key. `before` has the key of each change before it, `old`
    that key's id in `steps`.

    `keys` are those after each change, then others that changes had before them: the key before a change is at its
    number in `places`.
    """

    changes: pa.Table
    before: pa.Table
    old: Indices
    steps: KeyTimeline
    keys: Keys
    places: Indices

    @classmethod
    def of(cls, changes: pa.Table, key: Sequence[str]) -> KeySteps:
        """The steps of changes in their order. Raises SchemaError for a NULL in a key."""
        op = to_numpy(changes[OP])
        names = list(key)
        after = changes.select(names)
        before = pa.table(
            [
                pc.if_else(pc.is_in(changes[OP], _UPDATES), changes[BEFORE + n], changes[n])
                for n in names
            ],
            names=names,
        )
        rows = len(op)
        # the hash of a key takes time, and few updates change the key
        moved = np.flatnonzero(keys_differ(before, after))
        keys = keys_after(changes, names)
        if len(moved):
            old_keys = before.take(from_numpy(moved)).cast(after.schema)
            keys = Keys.joined([keys, keys_of([old_keys[name] for name in names], names)])
        ids = keys.ids()
        places = np.arange(rows)
        places[moved] = rows + np.arange(len(moved))
        old, new = ids[places], ids[:rows]
        puts = np.flatnonzero(op != DELETE)
        gone = np.flatnonzero((op == DELETE) | ((op == UPDATE) & (old != new)))
        steps = KeyTimeline.of(
            np.concatenate([old[gone], new[puts]]),
            np.concatenate([2 * gone, 2 * puts + 1]),
        )
        return cls(changes, before, old, steps, keys, places)

    def rows_after(
        self,
        table: str,
        chosen: Indices,
        rows_of: RowsOf,
        optional: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Indices, pa.Table]:
        """The whole rows after some changes, by their numbers; and the numbers, without the changes in `optional` (a mask of
        all changes) whose updated row does not exist.

        Raises IncompleteError if the updated row of another change does not exist, UnsupportedError.
        """
        columns = _columns(self.changes)
        if self.changes[ABSENT].null_count == self.changes.num_rows:
            return chosen, take_rows(self.changes.select(columns), chosen)
        return _completed(table, self, columns, chosen, rows_of, optional)


def keys_after(changes: pa.Table, names: list[str]) -> Keys:
    """The keys of rows after changes. Raises SchemaError for a NULL."""
    if HASH[0] in changes.column_names:
        return Keys(*(to_numpy(changes[name]) for name in HASH))
    return keys_of([changes[name] for name in names], names)


def keys_differ(before: pa.Table, after: pa.Table) -> npt.NDArray[np.bool_]:
    """A mask of the rows whose keys differ between two tables of the same columns."""
    found = np.zeros(before.num_rows, bool)
    for name in before.column_names:
        found |= differs(before[name], after[name])
    return found


def key_changes(changes: pa.Table, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    """A mask of the changes whose key is another than `BEFORE`."""
    found: npt.NDArray[np.bool_] = np.logical_or.reduce(
        [differs(changes[name], changes[BEFORE + name]) for name in key]
    )
    return found


def moves_without_columns(changes: pa.Table, key: Sequence[str]) -> bool:
    """Whether an update changes a key and has an image that lacks columns."""
    lacking = changes.filter(pc.and_(pc.is_in(changes[OP], _UPDATES), pc.is_valid(changes[ABSENT])))
    return bool(key_changes(lacking, key).any())


def differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """A mask of the rows whose values differ between two columns of one type, byte for byte; NULL differs from every
    value.
    """
    if pa.types.is_floating(one.type) or pa.types.is_nested(
        one.type
    ):  # -0.0 equals 0.0; no list equals another
        one, other = value_bytes(one), value_bytes(other)
    same = pc.fill_null(pc.equal(one, other), scalar(False))
    found: npt.NDArray[np.bool_] = ~to_numpy(same.combine_chunks())
    return found


def net_of_rows(table: str, changes: pa.Table) -> Net:
    """The net change of a table without a key: an update removes one row and inserts another.

    `BEFORE` of all columns is expected. Raises UnsupportedError where images lack columns.
    """
    if changes[ABSENT].null_count < changes.num_rows:
        raise UnsupportedError(
            f"{table} has no key, and the images of its rows lack columns",
            hint="set binlog_row_image=FULL on the server, or give the table a primary key, then run `binlake mirror resync`",
        )
    columns = _columns(changes)
    is_update = pc.equal(changes[OP], scalar(UPDATE))
    after = changes.select(columns)
    old = pa.table([changes[BEFORE + name] for name in columns], schema=after.schema)
    inserted = after.filter(pc.not_equal(changes[OP], scalar(DELETE)))
    removed = pa.concat_tables(
        [after.filter(pc.equal(changes[OP], scalar(DELETE))), old.filter(is_update)]
    )
    both = pa.concat_tables([inserted, removed])
    if both.num_rows == 0:
        return Net(inserted, removed)
    ids = row_hashes(both).ids()
    ours, theirs = ids[: inserted.num_rows], ids[inserted.num_rows :]
    return Net(_more(inserted, ours, theirs), _more(removed, theirs, ours))


def _more(rows: pa.Table, ids: Indices, others: Indices) -> pa.Table:
    """The rows of which there are more than among the others, as often as there are more."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    rank = np.arange(len(ids)) - np.searchsorted(ordered, ordered)
    size = int(max(ids.max(initial=-1), others.max(initial=-1))) + 1
    counts = np.bincount(others, minlength=size)
    return take_rows(rows, order[rank >= counts[ordered]])


def _columns(changes: pa.Table) -> list[str]:
    return [name for name in changes.column_names if not is_special(name)]


@dataclass(frozen=True, slots=True)
class KeyTimeline:
    """States of keys, sorted by key and time: a number is 2 * row + (1: the key has this row, 0: gone)."""

    ids: Indices
    steps: Indices

    @classmethod
    def of(cls, ids: Indices, steps: Indices) -> KeyTimeline:
        packed = np.sort(
            ids.astype(np.int64) << np.int64(32) | steps
        )  # six times as fast as lexsort
        return cls(packed >> np.int64(32), packed & np.int64(0xFFFFFFFF))

    def last_of_key(self) -> Indices:
        """The last step of each key, in the order of the keys."""
        ends = np.append(self.ids[1:] != self.ids[:-1], True)[: len(self.ids)]
        last: Indices = self.steps[ends]
        return last

    def before(self, rows: Indices, ids: Indices) -> Indices:
        """The last step before each of `rows` on the key with that id; -1: none."""
        packed = self.ids.astype(np.int64) << np.int64(32) | self.steps
        # the steps of the row itself do not count, so search before its first step
        at = np.searchsorted(packed, ids.astype(np.int64) << np.int64(32) | (2 * rows)) - 1
        found = np.where((at >= 0) & (self.ids[at] == ids), self.steps[at], -1)
        return found.astype(np.int64)


def lacks_columns(changes: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """A mask of the changes whose row after them is not in the log as a whole. The row of a delete is not needed."""
    is_put = pc.not_equal(changes.column(OP), scalar(DELETE))
    found: npt.NDArray[np.bool_] = to_numpy(pc.and_(pc.is_valid(changes.column(ABSENT)), is_put))
    return found


def _completed(
    table: str,
    of: KeySteps,
    columns: Sequence[str],
    upserted: Indices,
    rows_of: RowsOf,
    optional: npt.NDArray[np.bool_] | None,
) -> tuple[Indices, pa.Table]:
    """See `KeySteps.rows_after`. Values that the images of the rows lack come from the rows before them."""
    changes, rows = of.changes, of.changes.num_rows
    lacking = np.flatnonzero(lacks_columns(changes))
    inserted = lacking[to_numpy(changes[OP])[lacking] == INSERT]
    if len(inserted):
        names = ", ".join(changes[ABSENT][int(inserted[0])].as_py())
        raise UnsupportedError(
            f"{table}: the log has inserts without the columns {names}, which got their defaults",
            hint="set binlog_row_image=FULL on the server, then `binlake mirror resync`",
        )
    previous = of.steps.before(lacking, of.old[lacking])
    outside = lacking[previous == -1]
    # rows of the lake are numbered after the changes
    nowhere = rows + len(outside)
    base = np.full(rows, nowhere, np.int64)
    in_range = (previous >= 0) & (previous & 1 == 1)
    base[lacking[in_range]] = previous[in_range] >> 1
    base[outside] = rows + np.arange(len(outside))
    chosen = _sources(changes[ABSENT], columns, base, lacking, nowhere, upserted)
    needed = np.zeros(len(outside) + 1, bool)
    for numbers in chosen.values():
        needed[numbers[numbers >= rows] - rows] = True
    wanted = np.flatnonzero(needed[:-1])
    places = np.arange(nowhere + 1)
    places[rows:] = -1
    lake: pa.Table | None = None
    if len(wanted):
        lacked = [name for name in columns if (chosen[name] >= rows).any()]
        where, lake = rows_of(take_rows(of.before, outside[wanted]), lacked)
        places[rows + wanted] = np.where(where >= 0, where + rows, -1)
    kept: slice | npt.NDArray[np.bool_] = slice(None)
    if optional is not None:
        kept = ~optional[upserted] | _are_known(places, chosen.values())
    taken: list[pa.ChunkedArray] = []
    for name in columns:
        found = places[chosen[name][kept]]
        if (found < 0).any():
            raise IncompleteError(
                f"{table}: the log has an update of a row that the lake does not have, without its "
                f"column {name}",
                hint="`binlake mirror resync` copies the table again; binlog_row_image=FULL avoids this",
            )
        values = changes[name]
        if lake is not None and lake.num_rows and name in lake.column_names:
            of_lake = lake[name].cast(values.type).chunks
            values = pa.chunked_array([*values.chunks, *of_lake], values.type)
        taken.append(take_values(values, found))
    schema = pa.schema([changes.schema.field(name) for name in columns])
    return upserted[kept], pa.Table.from_arrays(taken, schema=schema)


def _are_known(places: Indices, sources: Iterable[Indices]) -> npt.NDArray[np.bool_] | bool:
    """A mask of the rows whose columns all have a place. Columns with the same sources have one array."""
    known: npt.NDArray[np.bool_] | bool = True
    for numbers in {id(numbers): numbers for numbers in sources}.values():
        known &= places[numbers] >= 0
    return known


def _sources(
    absent: pa.ChunkedArray,
    columns: Sequence[str],
    base: Indices,
    lacking: Indices,
    nowhere: int,
    upserted: Indices,
) -> dict[str, Indices]:
    """For each column the numbers of the rows that have its values after the changes `upserted`. `base`: the number of the
    row before each change in `lacking`, up to `nowhere`. Columns that the same images lack have one array.
    """
    patterns, pattern_of = _patterns(absent)
    known: dict[tuple[bool, ...], Indices] = {}
    found: dict[str, Indices] = {}
    for name in columns:
        lacks = tuple(name in pattern for pattern in patterns)
        if lacks not in known:
            source = np.arange(nowhere + 1, dtype=np.int64)
            without = lacking[np.array(lacks, bool)[pattern_of[lacking]]]
            source[without] = base[without]
            known[lacks] = _followed(source)[upserted]
        found[name] = known[lacks]
    return found


def _patterns(absent: pa.ChunkedArray) -> tuple[list[frozenset[str]], Indices]:
    """The different lists of names, and for each row the number of its list; any number for null."""
    known: dict[str, int] = {}
    parts: list[Indices] = []
    separator = scalar(SPECIAL)
    for chunk in absent.chunks:
        for first in range(0, len(chunk), _PATTERN_ROWS):
            names = pc.binary_join(chunk.slice(first, _PATTERN_ROWS), separator).dictionary_encode()
            numbers = [known.setdefault(text, len(known)) for text in names.dictionary.to_pylist()]
            places = to_numpy(pc.fill_null(names.indices, scalar(0, pa.int32())))
            parts.append(np.array([*numbers, 0], np.int64)[places])
    return [frozenset(text.split(SPECIAL)) for text in known], np.concatenate(parts)


def _followed(source: Indices) -> Indices:
    """Where each chain of references ends."""
    while True:
        further = source[source]
        if np.array_equal(further, source):
            return source
        source = further
