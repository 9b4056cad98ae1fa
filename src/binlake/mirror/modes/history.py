"""The mode of a lake table with a row for each version of a row (a slowly changing dimension of type 2).

A change closes the open version and opens a new one; a delete only closes. A closed version is
written again with the time, replacing the open one. The index has open versions only, so it finds
the versions that a commit closes.

Versions begin when the copy ends. Earlier changes in the log lead to the rows with which they
begin, as in a table that equals the server's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import OP, fact
from binlake.mirror.apply.net import KeySteps, RowsOf, net_by_key
from binlake.mirror.columns.chosen_rows import take_rows
from binlake.mirror.columns.numpy_arrays import to_numpy
from binlake.mirror.control import position_key
from binlake.mirror.modes.equal_rows import check_moves
from binlake.mirror.modes.mode import (
    BEFORE_ALL_ROWS,
    Emptying,
    Mode,
    RowChanges,
    Scan,
    in_parts,
    repeated,
)
from binlake.mirror.modes.names import HISTORY
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.schema import conformed
from binlake.table.batches import OPERATIONS
from binlake.table.metadata import SEQUENCE_TYPE
from binlake.values.position import Position
from binlake.values.times import utc_moment

_TIME = pa.timestamp("us", "UTC")
#: The times at which a version began and ended; null: it is the current row.
_FROM, _TO = "_valid_from", "_valid_to"
_SNAPSHOT = "snapshot"

Numbers = npt.NDArray[np.int64]


class History(Mode):
    """Keeps every version of a row."""

    name = HISTORY
    fields = (
        pa.field(_FROM, _TIME),
        pa.field(_TO, _TIME),
        pa.field("_op", pa.string()),
        pa.field("_gtid", pa.string()),
        pa.field("_seq", SEQUENCE_TYPE),
    )
    facts = ("ts", "gtid", "seq")
    open_column = _TO
    keeps_gone = True
    begins_after_copy = True

    def check(self, table: str, names: Sequence[str], key: Sequence[str]) -> None:
        super().check(table, names, key)
        if not key:
            raise UnsupportedError(
                f"{table}: a history needs a primary key, or a unique key of NOT NULL columns",
                hint="--append keeps the changes of a table without a key",
            )

    def copied(self, rows: pa.Table, position: Position, moment_us: int) -> pa.Table:
        number, offset = position_key(position)
        own = {
            _FROM: utc_moment(moment_us),
            "_op": _SNAPSHOT,
            "_seq": {"file": number, "pos": offset, "row": BEFORE_ALL_ROWS},
        }
        return repeated(rows, self.fields, own, rows.num_rows)

    def changes(self, of: RowChanges, _most_bytes: int) -> Iterator[Change]:
        changes = pa.concat_tables(of.tables())
        if of.may_be_ahead:
            check_moves(of, changes)
            net = net_by_key(of.table, _with_own(changes), of.key, of.rows_of)
            yield Change(net.upserts, net.deletes)
        else:
            yield Change(versions(of.table, changes, of.key, of.rows_of))

    def emptied(self, of: Emptying, most_bytes: int) -> Iterator[Change]:
        if of.may_be_ahead:  # versions begin later
            yield Change(truncate=True)
            return
        for rows in in_parts(
            (part.filter(pc.is_null(part[_TO])) for part in of.rows()), most_bytes
        ):
            began = rows[_FROM]
            until = pc.if_else(pc.greater(began, of.time), began, of.time)
            yield Change(rows.set_column(rows.column_names.index(_TO), rows.field(_TO), until))

    def present(
        self, scan: Scan, _key: Sequence[str], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        for rows in scan([*columns, _TO]):
            yield rows.filter(pc.is_null(rows[_TO])).select(columns)


def _with_own(changes: pa.Table) -> pa.Table:
    """Row changes with the columns of the version that each begins."""
    own = {
        _FROM: changes[fact("ts")],
        _TO: pa.nulls(changes.num_rows, _TIME),
        "_op": pa.array(OPERATIONS, pa.string()).take(changes[OP].combine_chunks()),
        "_gtid": changes[fact("gtid")],
        "_seq": changes[fact("seq")],
    }
    for field in History.fields:
        changes = changes.append_column(field, own[field.name].cast(field.type))
    return changes


def versions(table: str, changes: pa.Table, key: Sequence[str], rows_of: RowsOf) -> pa.Table:
    """The versions that row changes (see `change_rows`, with the facts) close and open, as rows of the lake.

    Of each key at most one is open. Raises what `KeySteps` raises.
    """
    of = KeySteps.of(changes, key)
    ids, steps = of.steps.ids, of.steps.steps
    begins = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    ends = np.append(begins[1:], True)[: len(ids)]
    found, open_rows = rows_of(_keys(of, steps[begins], key), None)
    times = to_numpy(changes[fact("ts")].cast(pa.int64()))[steps >> 1]
    times = _ascending(times, begins, _began(found, open_rows))
    # the first step of a key closes the open version
    closed = take_rows(open_rows, found[found >= 0])
    closed = _with(closed, _TO, times[begins][found >= 0])
    # every step but the last closes the version that it opens
    is_put = steps & 1 == 1
    until = pa.array(np.append(times[1:], 0)[is_put], pa.int64(), mask=ends[is_put])
    puts = steps[is_put] >> 1
    own = take_rows(_with_own(changes).select([field.name for field in History.fields]), puts)
    _, opened = of.rows_after(table, puts, rows_of)
    for field in History.fields:
        opened = opened.append_column(field, own[field.name])
    opened = _with(opened, _FROM, times[is_put])
    opened = opened.set_column(opened.column_names.index(_TO), _TO, until.cast(_TIME))
    return pa.concat_tables([closed, conformed(opened, closed.schema)])


def _keys(of: KeySteps, first: Numbers, key: Sequence[str]) -> pa.Table:
    """The key of each of some steps."""
    both = pa.concat_tables([of.before, of.changes.select(list(key)).cast(of.before.schema)])
    is_put = first & 1
    return take_rows(both, (first >> 1) + is_put * of.changes.num_rows)


def _began(found: Numbers, open_rows: pa.Table) -> Numbers:
    """When the current version of each key began; a time before all others for a key without a version."""
    began = to_numpy(open_rows[_FROM].cast(pa.int64()).fill_null(0))
    times = np.full(len(found), np.iinfo(np.int64).min)
    times[found >= 0] = began[found[found >= 0]]
    return times


def _ascending(times: Numbers, begins: npt.NDArray[np.bool_], least: Numbers) -> Numbers:
    """The times of the steps of each key, none before an earlier one of the key: clocks step back, and MariaDB
    logs when a statement began.
    """
    times = times.copy()
    times[begins] = np.maximum(times[begins], least)
    known, ranks = np.unique(times, return_inverse=True)
    shift = (np.cumsum(begins) - 1) * len(known)
    ascending: Numbers = known[np.maximum.accumulate(ranks + shift) - shift]
    return ascending


def _with(rows: pa.Table, name: str, times: Numbers) -> pa.Table:
    at = rows.column_names.index(name)
    return rows.set_column(at, rows.schema.field(at), pa.array(times, pa.int64()).cast(_TIME))
