"""The changes of a commit to a lake table of any format, and the error if another writer was first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from binlake.errors import BinlogError

if TYPE_CHECKING:
    import pyarrow as pa

    from binlake.mirror.tables.keys import Keys, SortedKeys

#: A step of a change of the schema, as `Lake.java` takes it.
Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Upserts that are in a data file, given as Iceberg's JSON, and their keys."""

    file: Mapping[str, Any]
    keys: SortedKeys


@dataclass(frozen=True)
class Change:
    """The changes of a commit to a table, in this order: empty it, change its schema, delete, insert.

    With a key: `upserts` has at most one row per key (of those that can be found), and replaces the row of that key; `deletes`
    are key columns; `upsert_keys` and `delete_keys` are the keys of both, if they are known. `written`: upserts in
    data files; then `delete_keys` are those of the deletes. Without a key: `upserts` are inserted, and each row of `deletes`, which are whole
    rows, removes one row that equals it. `appended` are rows of a table without an index, which are read once. `schema` are steps as `Lake.java` takes them, in groups
    that are done one after the other; `table_properties` are set.
    """

    upserts: pa.Table | None = None
    deletes: pa.Table | None = None
    upsert_keys: Keys | None = None
    delete_keys: Keys | None = None
    written: Sequence[WrittenRows] = ()
    appended: Iterable[pa.Table] | None = None
    truncate: bool = False
    schema: Sequence[Sequence[Mapping[str, Any]]] = ()
    table_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it surely changes nothing."""
        others = (self.appended, self.truncate, self.schema, self.table_properties)
        return not (self.rows or any(others))

    @property
    def rows(self) -> int:
        """How many rows are upserted and deleted."""
        tables = [rows for rows in (self.upserts, self.deletes) if rows is not None]
        if not tables and self.delete_keys is not None:
            return len(self.delete_keys) + sum(len(one.keys.keys) for one in self.written)
        return sum(rows.num_rows for rows in tables)


def in_order(names: Sequence[str]) -> list[Step]:
    """Steps that put columns in an order, before all others."""
    first: Step = {"do": "first", "name": names[0]}
    pairs = itertools.pairwise(names)
    return [first, *({"do": "after", "name": name, "other": other} for other, name in pairs)]


class CommitConflictError(BinlogError):
    """Another writer has committed to the table."""

    retryable = True


class CommittedBesideError(CommitConflictError):
    """Another writer has committed to the table, and the mirror, too: its commit must not be repeated."""

    retryable = False
