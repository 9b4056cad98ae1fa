"""The parts of a history: changes of the row, and statements on its table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final

from binlake.stream.sql.comments import text_without_comments

Row = dict[str, Any]

_DROPS = re.compile(
    r"\s*(?:DROP\s+(?:TABLES?|DATABASE|SCHEMA)\b|CREATE\s+OR\s+REPLACE\s+(?:TABLE|SEQUENCE|DATABASE|SCHEMA)\b)",
    re.IGNORECASE,
)


class NotLogged(Enum):
    """Stands for a value that the log does not contain, which is not the same as NULL."""

    NOT_LOGGED = "not logged"

    def __repr__(self) -> str:
        return "NOT_LOGGED"


NOT_LOGGED: Final = NotLogged.NOT_LOGGED


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The value of a column before and after a change. `NOT_LOGGED` is a value that the log does
    not contain; also `old` of an insert and `new` of a delete, where there is no row.
    """

    old: Any
    new: Any

    def to_json(self) -> Row:
        """The object with the keys `old` and `new`; a value that is not logged has none."""
        values = {"old": self.old, "new": self.new}
        return {name: value for name, value in values.items() if value is not NOT_LOGGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The time and the position of an entry.

    `ts` is the commit time, `pos` and `end_pos` are offsets in `file`; of a transaction that is
    one compressed event, those of that event. `query` is the statement, `thread_id` that of the
    connection, None where the log does not contain it.
    """

    ts: datetime
    gtid: str | None
    server_id: int
    file: str
    pos: int
    end_pos: int
    thread_id: int | None
    query: str | None

    @property
    def place(self) -> str:
        """The position of the event, `binlog.000012:4711`."""
        return f"{self.file}:{self.pos}"

    def _json(self) -> Row:
        return {
            "ts": self.ts.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "gtid": self.gtid,
            "server_id": self.server_id,
            "file": self.file,
            "pos": self.pos,
            "end_pos": self.end_pos,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange(Entry):
    """A change of the row.

    `number` counts the changes of a history from 1. `life` is the number of the row: one that is
    deleted and inserted again has another. `op` is insert, update or delete; `row` the ordinal in
    the event. `before` and `after` have the columns of the images in the form of `binlake rows`,
    None where there is no image. `changed` has the columns with another value, of an insert or
    delete all. `absent` are the columns whose value at the change the log does not contain.
    """

    number: int
    life: int
    op: str
    row: int
    source_file: str | None
    source_pos: int | None
    key: Mapping[str, Any]
    new_key: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changed: Mapping[str, ColumnChange]
    absent: tuple[str, ...]

    def to_json(self, database: str, table: str) -> Row:
        """The line of `binlake history --json`."""
        source = {"source_file": self.source_file, "source_pos": self.source_pos}
        return {
            "op": self.op,
            "database": database,
            "table": table,
            **self._json(),
            "row": self.row,
            **({} if self.source_pos is None else source),
            "thread_id": self.thread_id,
            "query": self.query,
            "number": self.number,
            "life": self.life,
            "key": dict(self.key),
            "new_key": None if self.new_key is None else dict(self.new_key),
            "changed": {name: change.to_json() for name, change in self.changed.items()},
            "absent": list(self.absent) or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement(Entry):
    """A statement on the table of the row: DDL or TRUNCATE, in `query`. `user` is the account that
    ran it, if the log contains it.
    """

    op: str
    database: str
    user: str | None

    @property
    def ends_rows(self) -> bool:
        """Whether the table has no rows afterwards, or another table has its name."""
        sql = text_without_comments(self.query or "")
        return self.op == "truncate" or _DROPS.match(sql) is not None

    def to_json(self, database: str, table: str) -> Row:
        """The line of `binlake history --json`."""
        return {
            "op": self.op,
            "database": database,
            "table": table,
            **self._json(),
            "thread_id": self.thread_id,
            "user": self.user,
            "query": self.query,
        }


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The history of a row: its entries in commit order.

    `key` are the requested values, by column; empty if the logs contain no change of the
    table. `lives` is how many rows had the key.
    """

    database: str
    table: str
    key: Mapping[str, Any]
    entries: tuple[RowChange | TableStatement, ...] = field(repr=False)

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """The changes of the row, without the statements on its table."""
        return tuple(entry for entry in self.entries if isinstance(entry, RowChange))

    @property
    def lives(self) -> int:
        """The number of rows that had the key, one after the other."""
        return max((change.life for change in self.changes), default=0)

    def __iter__(self) -> Iterator[RowChange | TableStatement]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to_json(self) -> Iterator[Row]:
        """Yield one object per entry, as `binlake history --json` prints them."""
        for entry in self.entries:
            yield entry.to_json(self.database, self.table)
