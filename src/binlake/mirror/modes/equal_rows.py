"""The mode of a lake table that has the same rows as the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from binlake.errors import IncompleteError
from binlake.mirror.apply.net import Net, moves_without_columns, net_by_key, net_of_rows
from binlake.mirror.apply.shares import KeyShare
from binlake.mirror.modes.mode import Mode, RowChanges, Scan
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.tables.change import Change


class EqualRows(Mode):
    """Writes the net change of each row."""

    name = MIRROR
    is_net_by_key = True

    def changes(self, of: RowChanges, most_bytes: int) -> Iterator[Change]:
        parts = _parts(of, most_bytes)
        if parts <= 1:
            yield _change(_net(of))
            return
        # A part can be committed before the others: the whole range applied again gives the same rows. A column that the
        # updates of a row lack has one value in the lake before and after them.
        for part in range(parts):
            share = KeyShare(of.key, part, parts)
            changes = pa.concat_tables([share.changes(rows) for rows in of.tables()])
            net = net_by_key(of.table, changes, of.key, of.rows_of)
            yield _change(share.net(net))

    def present(
        self, scan: Scan, _key: Sequence[str], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        return scan(columns)


def _parts(of: RowChanges, most_bytes: int) -> int:
    """Into how many shares of the keys the changes are cut, so that one and the rows of the lake that it needs have about
    `most_bytes`.

    The new key of an update may be in another share, and that share lacks the changes of the row under the old key.
    """
    if not of.key:
        return 1
    nbytes = of.nbytes + (of.lacking * of.row_bytes() if of.lacking else 0)
    parts = -(-nbytes // most_bytes)
    if parts > 1 and of.lacking and any(moves_without_columns(one, of.key) for one in of.tables()):
        return 1
    return parts


def _change(net: Net) -> Change:
    return Change(
        net.upserts, net.deletes, upsert_keys=net.upsert_keys, delete_keys=net.delete_keys
    )


def _net(of: RowChanges) -> Net:
    changes = pa.concat_tables(of.tables())
    if not of.key:
        return net_of_rows(of.table, changes)
    check_moves(of, changes)
    return net_by_key(of.table, changes, of.key, of.rows_of)


def check_moves(of: RowChanges, changes: pa.Table) -> None:
    """Raise IncompleteError for changes that need a row as it was before them, while it may be a later one."""
    if of.may_be_ahead and moves_without_columns(changes, of.key):
        raise IncompleteError(
            f"{of.table}: while it was copied, an update changed a key, and its image lacks columns",
            hint="binlog_row_image=FULL avoids this",
        )
