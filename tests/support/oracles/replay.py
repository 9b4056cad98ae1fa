"""Replay the row changes of a log, and compare the tables with the server's snapshots.

Rows are held by their `id` where the table has one, else as a bag. The after-image of a partial
row image is laid over what is known of the row; a column of which the log never told a value
(an insert that left it to its default) is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from binlake.core.values.json_diff import (
    MARK,
    Difference,
    apply_differences,
    parse_json,
    write_json,
)
from support.oracles.oracle import OracleColumn, Snapshot, differences

__all__ = ["Definition", "Outcome", "Replay"]

Row = dict[str, Any]
_NOT_TOLD = object()


@dataclass(frozen=True)
class Definition:
    """A statement that empties, drops or renames a table, at a position of the log."""

    file: str
    end_pos: int
    database: str
    table: str
    new_table: str | None = None


@dataclass
class Outcome:
    """The result of a comparison: values by table, those compared and those that differ of them."""

    snapshots: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, int]:
        """The sums in the report of fidelity."""
        return {"compared": self.values, "differing": self.differing.total()}

    @property
    def values(self) -> int:
        """How many values were compared, right and wrong."""
        return self.compared.total()


def _get(row: Row, column: OracleColumn) -> Any:
    """A column's value; a log that tells no names has col_0, col_1 …"""
    return row.get(column.name, row.get(f"col_{column.ordinal}", _NOT_TOLD))


def _whole(value: Any, known: Any) -> Any:
    """JSON differences, where the log has no more, applied to the document that is known."""
    if not (isinstance(value, str) and value.startswith(MARK)) or known is None:
        return value
    entries = parse_json(value.removeprefix(MARK))
    found = [
        Difference(e["op"], e["path"], write_json(e["value"]) if "value" in e else "")
        for e in entries
    ]
    return apply_differences(known, found)


class Keyed:
    """Rows by the value of their `id`."""

    def __init__(self, key: OracleColumn) -> None:
        self.key = key
        self.rows: dict[Any, Row] = {}

    def take(self, before: Row) -> Row | None:
        """Remove and return the row that a before-image is of; None when there is none."""
        return self.rows.pop(_get(before, self.key), None)

    def put(self, row: Row) -> None:
        """Add a row."""
        self.rows[_get(row, self.key)] = row

    def pairs(self, snapshot: Snapshot) -> Iterator[tuple[Row | None, tuple[Any, ...]]]:
        """Each row of the server, and the one here with the same key."""
        key = snapshot.key()  # a renamed table may have it in another place
        assert key is not None
        by_text = {str(_get(row, key)): row for row in self.rows.values()}
        for want in snapshot.rows:
            yield by_text.get(want[key.place]), want


class Bag:
    """Rows of a table without `id`; equal ones may be there several times."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def take(self, before: Row) -> Row | None:
        """Remove and return a row that has all of a before-image; None when there is none."""
        for at, row in enumerate(self.rows):
            if before.items() <= row.items():
                return self.rows.pop(at)
        return None

    def put(self, row: Row) -> None:
        """Add a row."""
        self.rows.append(row)

    def pairs(self, snapshot: Snapshot) -> Iterator[tuple[Row | None, tuple[Any, ...]]]:
        """Rows of both sides that agree; then what is left over, in any order."""
        left = list(self.rows)
        alone = []
        for want in snapshot.rows:
            at = next((i for i, row in enumerate(left) if _agrees(snapshot, row, want)), None)
            if at is None:
                alone.append(want)
            else:
                yield left.pop(at), want
        yield from zip(left, alone, strict=True)


def _agrees(snapshot: Snapshot, row: Row, want: tuple[Any, ...]) -> bool:
    return all(
        value is _NOT_TOLD or differences(column, want, value) is None
        for column in snapshot.columns
        for value in (_get(row, column),)
    )


class Replay:
    """Tables as the log says they are, compared on the way with what the server said.

    `files`: base names in the order of the chain. `skip` leaves out snapshots that do not say
    what the log says; the caller knows why. `virtual` are columns, as (table, column), that the
    server computes: an after-image that lacks one does not say that it is as before.
    """

    def __init__(
        self,
        files: Iterable[str],
        wanted: Iterable[Snapshot],
        skip: Callable[[Snapshot], bool] = lambda _: False,
        virtual: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.order = {name: number for number, name in enumerate(files)}
        self.wanted = [snapshot for snapshot in wanted if not skip(snapshot)]
        self.keys = {s.table_name: s.key() for s in reversed(self.wanted)}
        self.tables: dict[str, Keyed | Bag] = {}
        self.virtual = virtual
        self.outcome = Outcome()

    def run(self, lines: Iterable[Row], definitions: Iterable[Definition] = ()) -> Outcome:
        """Apply row changes (objects of `binlake rows`, in their order); compare on the way."""
        pending = sorted(definitions, key=lambda d: (self.order[d.file], d.end_pos))
        for definition in reversed(pending):
            if definition.new_table is not None:  # snapshots may know the later name only
                later = f"{definition.database}.{definition.new_table}"
                if later in self.keys:
                    name = f"{definition.database}.{definition.table}"
                    self.keys.setdefault(name, self.keys[later])
        for line in lines:
            at = (self.order[line["file"]], line["end_pos"])
            while pending and (self.order[pending[0].file], pending[0].end_pos) < at:
                self._define(pending.pop(0))
            self._compare_before(at)
            self._apply(line)
        for definition in pending:
            self._define(definition)
        self._compare_before((len(self.order), 0))
        return self.outcome

    def _table(self, name: str) -> Keyed | Bag:
        if name not in self.tables:
            key = self.keys.get(name)
            self.tables[name] = Bag() if key is None else Keyed(key)
        return self.tables[name]

    def _apply(self, line: Row) -> None:
        name = f"{line['database']}.{line['table']}"
        table = self._table(name)
        known: Row = {}
        if line["before"] is not None:
            held = table.take(line["before"])
            if held is None and name in self.keys:
                self.outcome.problems.append(f"{name}: no such row to change: {line['before']}")
            self._compare_before_image(line, held or {})
            known = {**(held or {}), **line["before"]}
            for column in [c for c in known if (line["table"], c) in self.virtual]:
                del known[column]
        if line["after"] is not None:
            after = {k: _whole(v, known.get(k)) for k, v in line["after"].items()}
            table.put({**known, **after})

    def _compare_before_image(self, line: Row, held: Row) -> None:
        """A before-image contains only values that the log has recorded for the row before."""
        for column in held.keys() & line["before"].keys():
            was, said = held[column], line["before"][column]
            if was != said and (line["table"], column) not in self.virtual:
                place = f"{line['database']}.{line['table']}.{column} at {line['pos']}"
                self.outcome.problems.append(
                    f"{place}: before it is {said!r}, it was {was!r}"[:500]
                )

    def _define(self, definition: Definition) -> None:
        self._compare_before((self.order[definition.file], definition.end_pos))
        rows = self.tables.pop(f"{definition.database}.{definition.table}", None)
        if definition.new_table is not None and rows is not None:
            self.tables[f"{definition.database}.{definition.new_table}"] = rows

    def _compare_before(self, at: tuple[int, int]) -> None:
        """Compare the snapshots at whose position the log stands now."""
        while self.wanted and (self.order[self.wanted[0].file], self.wanted[0].pos) < at:
            self._compare(self.wanted.pop(0))

    def _compare(self, snapshot: Snapshot) -> None:
        self.outcome.snapshots += 1
        table = self._table(snapshot.table_name)
        if len(table.rows) != len(snapshot.rows):
            found = f"{len(table.rows)} rows, the server has {len(snapshot.rows)}"
            self.outcome.problems.append(f"{snapshot}: {found}")
            return
        for row, want in table.pairs(snapshot):
            if row is None:
                self.outcome.problems.append(f"{snapshot}: no row {want}"[:500])
                continue
            for column in snapshot.columns:
                self._compare_value(snapshot, column, want, row)

    def _compare_value(
        self, snapshot: Snapshot, column: OracleColumn, want: tuple[Any, ...], row: Row
    ) -> None:
        value = _get(row, column)
        if value is _NOT_TOLD:
            return
        self.outcome.compared[snapshot.table] += 1
        wrong = differences(column, want, value)
        if wrong is not None:
            self.outcome.differing[snapshot.table] += 1
            self.outcome.problems.append(f"{snapshot}: row {want[0]}: {wrong}")
