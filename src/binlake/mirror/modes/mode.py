"""The interface of a mode: the columns of the lake, the commits for changes, and the rows that the server has now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from binlake.errors import UnsupportedError
from binlake.mirror.apply.net import RowsOf
from binlake.mirror.columns.names import ANOTHER_NAME, caseless
from binlake.mirror.tables.change import Change
from binlake.values.position import Position

#: Reads columns of all rows of a lake table, in the same order each time.
Scan = Callable[[Sequence[str]], Iterator[pa.Table]]

#: As the number of a row: sorts before every row change at its position or after it.
BEFORE_ALL_ROWS = -1


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Row changes of one table in the order of the log, see `change_rows`, in the types of the lake.

    `tables` reads them, again each time. `rows` and `nbytes` count them as they were decoded; `lacking` of them are inserts
    or updates whose image lacks a column. `may_be_ahead`: the lake may have rows of a later moment. `rows_of` finds rows of
    the lake; `row_bytes` estimates the memory for one of them.
    """

    table: str
    key: tuple[str, ...]
    tables: Callable[[], Iterator[pa.Table]]
    rows: int
    nbytes: int
    lacking: int
    may_be_ahead: bool
    rows_of: RowsOf
    row_bytes: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Emptying:
    """A statement at `position` that removes all rows of a table, committed at `commit_us`.

    `rows` reads the rows of the lake, also while changes are committed. `may_be_ahead`: see `RowChanges`.
    """

    table: str
    position: Position
    commit_us: int | None
    may_be_ahead: bool
    rows: Callable[[], Iterator[pa.Table]]

    @property
    def time(self) -> pa.Scalar:
        """When it was committed. Raises UnsupportedError if the log does not say."""
        if self.commit_us is None:
            raise UnsupportedError(f"{self.table}: the log does not contain the statement's time")
        return pa.scalar(self.commit_us, pa.timestamp("us", "UTC"))


class Mode(ABC):
    """One mode. `fields` are the columns that the lake has beside the server's; `facts` of each change are needed
    for them, by the names of metadata columns. `holds_rows`: the rows that are there must equal the
    server's, so the effect of an ALTER on them must be known. `open_column`: several rows may have
    one key, of which the server has
    the one where this column is null. `keeps_gone`: rows that the server removes stay, with the time. `begins_after_copy`: changes up to the end of the copy are committed apart
    from later ones. `is_net_by_key`: of a table with a key, the rows are written that the net changes of its keys have.
    """

    name: ClassVar[str]
    fields: ClassVar[tuple[pa.Field, ...]] = ()
    facts: ClassVar[tuple[str, ...]] = ()
    holds_rows: ClassVar[bool] = True
    open_column: ClassVar[str | None] = None
    keeps_gone: ClassVar[bool] = False
    begins_after_copy: ClassVar[bool] = False
    is_net_by_key: ClassVar[bool] = False

    def check(self, table: str, names: Sequence[str], key: Sequence[str]) -> None:
        """Raise UnsupportedError for a table with these columns and this key that cannot be in the mode."""
        if why := self.taken(names):
            raise UnsupportedError(f"{table}: {why}", hint=ANOTHER_NAME)

    def taken(self, names: Iterable[str]) -> str:
        """Why the mode cannot have columns of these names; "" if it can."""
        own = {field.name for field in self.fields}
        for name in names:
            if caseless(name) in own:
                return f"it has a column {name}, and the mode {self.name!r} adds one of that name"
        return ""

    def index_key(self, key: tuple[str, ...]) -> tuple[str, ...] | None:
        """The key of the index of a lake table; None: it needs none."""
        return key

    def lake_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the lake table, of the server's columns."""
        for field in self.fields:
            schema = schema.append(field)
        return schema

    def copied(self, rows: pa.Table, _position: Position, _moment_us: int) -> pa.Table:
        """Rows that a copy has read, which contain every change before a position.

        `_moment_us`: the server's clock before they were read, microseconds since 1970 UTC.
        """
        return rows

    @abstractmethod
    def changes(self, of: RowChanges, most_bytes: int) -> Iterator[Change]:
        """The changes to commit, in one part or in several of about `most_bytes`.

        All parts except the last may be committed again after a kill. Raises the errors of `apply.net`.
        """

    def emptied(self, _of: Emptying, _most_bytes: int) -> Iterator[Change]:
        """The changes to commit when all rows are removed, in parts as `changes`. Raises UnsupportedError."""
        yield Change(truncate=True)

    @abstractmethod
    def present(self, scan: Scan, key: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows that the server has, in its columns. Raises UnsupportedError if the lake cannot show them."""


def in_parts(tables: Iterable[pa.Table], most_bytes: int) -> Iterator[pa.Table]:
    """The rows of tables, in tables of about `most_bytes` or of one of them."""
    part: list[pa.Table] = []
    for rows in tables:
        if not rows.num_rows:
            continue
        if part and sum(one.nbytes for one in part) + rows.nbytes > most_bytes:
            yield pa.concat_tables(part)
            part = []
        part.append(rows)
    if part:
        yield pa.concat_tables(part)


def repeated(
    rows: pa.Table | None, fields: Iterable[pa.Field], values: Mapping[str, object], count: int
) -> pa.Table:
    """`count` rows with more columns, whose values are the same in all rows; null without a value."""
    columns = {} if rows is None else dict(zip(rows.column_names, rows.columns, strict=True))
    for field in fields:
        columns[field.name] = pa.repeat(pa.scalar(values.get(field.name), field.type), count)
    return pa.table(columns)
