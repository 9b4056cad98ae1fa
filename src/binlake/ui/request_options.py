"""The selection of the page as options of a read, from the fields of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from binlake.errors import OptionError
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

_EARLIEST_US, _LATEST_US = 0, 253_402_300_799_000_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The span, tables, operations and condition that a request names, inside the options of the
    command.

    Times are microseconds since 1970 UTC; `until_us` is exclusive.
    """

    base: ReadOptions
    since_us: int | None = None
    until_us: int | None = None
    table: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    where: str | None = None

    @classmethod
    def of(cls, base: ReadOptions, query: Mapping[str, str]) -> Selection:
        """Parse the fields of a request. Raises OptionError."""
        given: dict[str, Any] = {name: query[name] for name in ("table", "op") if query.get(name)}
        if where := query.get("where", "").strip():
            given["where"] = where
        asked = ReadOptions.parse(given)
        return cls(
            base, _time(query, "since"), _time(query, "until"), asked.table, asked.op, asked.where
        )

    @property
    def is_everything(self) -> bool:
        """Whether it leaves out nothing of the logs that the command names."""
        return self.since_us is self.until_us is None and not (self.table or self.op or self.where)

    @property
    def options(self) -> ReadOptions:
        """The options for reading it. Raises OptionError for changes that the command excludes."""
        base = self.base
        since = [time for time in (base.since, self.since_us) if time is not None]
        until = [time for time in (base.until, self.until_us) if time is not None]
        return replace(
            base,
            since=max(since, default=None),
            until=min(until, default=None),
            table=self.table or base.table,
            op=self.op or base.op,
            where=self.where,
        )

    def wants(self, table: str) -> bool:
        """Whether it includes a table (`database.table`)."""
        return TableFilter(self.options).wants(*table.split(".", 1))


def _time(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not _EARLIEST_US <= int(text) <= _LATEST_US:
        raise OptionError(
            f"{name} {text!r}: expected microseconds since 1970", name=name, value=text
        )
    return int(text)
