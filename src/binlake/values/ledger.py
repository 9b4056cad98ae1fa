"""The ledger: what a read covered, what it returned, and what it left out.

Every task has its own ledger. The ledgers are added up (`+=`) where the results are collected.
There, `join_problems` proves that the ranges of the tasks join.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from binlake.format.event_types import event_name
from binlake.values.options import ReadOptions
from binlake.values.plan import NameSource
from binlake.values.quantities import counted

_SHOWN_TABLES = 5
# A warning about a table: its name, and the words that introduce the subject.
_OF_TABLE = re.compile(r"[^\s:]+\.[^\s:]+: (?:\S+ ){3}")
_OPERATIONS = ("insert", "update", "delete")


class CoveredRange(NamedTuple):
    """Bytes [start, end) of a file whose transactions one task has read."""

    file: str
    start: int
    end: int


class SkippedRange(NamedTuple):
    """Bytes [start, end) of a file that could not be read, and why (`on_error=skip`)."""

    file: str
    start: int
    end: int
    why: str


class RenamedColumn(NamedTuple):
    """A column that DDL at a position of the log renames."""

    file: str
    pos: int
    database: str
    table: str
    old: str
    new: str


@dataclass(slots=True)
class FileCounts:
    """The complete events of one file itself (not those inside payloads).

    `bytes`: their total length; `events_by_type` by type code; by checksum: `verified` (correct), `bad`,
    and `unchecked` (the log has none, or verifying was turned off).
    """

    bytes: int = 0
    events_by_type: Counter[int] = field(default_factory=Counter)
    verified: int = 0
    bad: int = 0
    unchecked: int = 0

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.events_by_type.total()

    def __iadd__(self, other: FileCounts) -> FileCounts:
        self.bytes += other.bytes
        self.events_by_type.update(other.events_by_type)
        self.verified += other.verified
        self.bad += other.bad
        self.unchecked += other.unchecked
        return self

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, in the shape of `binlake verify --json`."""
        return {
            "bytes": self.bytes,
            "events": self.events,
            "types": {str(code): n for code, n in sorted(self.events_by_type.items())},
            "checksum": {"verified": self.verified, "bad": self.bad, "none": self.unchecked},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileCounts:
        """Read the output of `to_json`."""
        checksum = value["checksum"]
        return cls(
            bytes=value["bytes"],
            events_by_type=Counter({int(code): n for code, n in value["types"].items()}),
            verified=checksum["verified"],
            bad=checksum["bad"],
            unchecked=checksum["none"],
        )


@dataclass(slots=True)
class Ledger:
    """The counts of one read; `+=` adds the ledgers of tasks.

    - `files`: counts by file, keyed as the reader names it; make an entry with `file(name)`.
    - `rows`: row changes shown, by (database, table), then "insert", "update", "delete".
    - `names`: where the column names of tables with rows came from (`values.plan.NameSource`), by
      (database, table); several where definitions differ.
    - `transactions`: by outcome: "committed", "rolled back", "prepared", "torn".
    - `unshown`: changes that rows cannot show, by kind (`stream.sql.statements.UNSHOWN_KINDS`);
      `unshown_of_others` of them concern no table that the options want.
    - `decoded_bytes`: bytes of row events whose images were decoded; filters reduce them.
    - `zero_dates`: zero and partial dates that became null, by `database.table.column`.
    - `json_differences`: JSON values shown as the differences they are, by `database.table`.
    - `planned`: the ranges to read, [start, end) by file (`plan`); `covered`: the byte ranges that
      were read (`cover`); `skipped`: ranges lost to damage.
    - `columns`: for each column that a user's schema names, whether the table of any row has it (`look_for`).
    - `where_columns`: the same for the columns that the option where names (`look_for_where`).
    - `renamed`: columns that DDL renames, in the order of the log, where columns of several
      definitions are united.
    - `warnings`: sentences, each once (`warn`).
    """

    files: dict[str, FileCounts] = field(default_factory=dict)
    rows: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    names: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    transactions: Counter[str] = field(default_factory=Counter)
    unshown: Counter[str] = field(default_factory=Counter)
    unshown_of_others: int = 0
    decoded_bytes: int = 0
    zero_dates: Counter[str] = field(default_factory=Counter)
    json_differences: Counter[str] = field(default_factory=Counter)
    skipped: list[SkippedRange] = field(default_factory=list)
    renamed: list[RenamedColumn] = field(default_factory=list)
    covered: list[CoveredRange] = field(default_factory=list)
    planned: dict[str, tuple[int, int]] = field(default_factory=dict)
    columns: dict[str, bool] = field(default_factory=dict)
    where_columns: dict[str, bool] = field(default_factory=dict)
    _warnings: dict[str, None] = field(default_factory=dict)

    def file(self, name: str) -> FileCounts:
        """The counts of one file, to add to."""
        return self.files.setdefault(name, FileCounts())

    def add_rows(self, database: str, table: str, operation: str, count: int) -> None:
        """Count row changes."""
        self.rows.setdefault((database, table), Counter())[operation] += count

    def plan(self, file: str, start: int, end: int) -> None:
        """Record that this task or others should read bytes [start, end) of a file."""
        known = self.planned.get(file, (start, end))
        self.planned[file] = (min(known[0], start), max(known[1], end))

    def cover(self, file: str, start: int, end: int) -> None:
        """Record that the transactions that start in bytes [start, end) of a file have been read."""
        self.covered.append(CoveredRange(file, start, end))

    def look_for(self, wanted: Iterable[str], names: Iterable[str]) -> None:
        """Note which wanted columns are among a table's; upper and lower case are the same."""
        _look_for(self.columns, wanted, names)

    def look_for_where(self, wanted: Iterable[str], names: Iterable[str]) -> None:
        """Note which of the columns that the option where names are among a table's."""
        _look_for(self.where_columns, wanted, names)

    def warn(self, sentence: str) -> None:
        """Keep a warning, once."""
        self._warnings[sentence] = None

    def take(self) -> Ledger:
        """Move all counts to a new ledger and return it."""
        taken = Ledger()
        for one in fields(self):
            mine, fresh = getattr(self, one.name), getattr(taken, one.name)
            setattr(taken, one.name, mine)
            setattr(self, one.name, fresh)
        return taken

    @property
    def warnings(self) -> list[str]:
        """The warnings, in the order in which they occurred."""
        return list(self._warnings)

    @property
    def total(self) -> FileCounts:
        """The counts of all files together."""
        result = FileCounts()
        for counts in self.files.values():
            result += counts
        return result

    def matched(self, options: ReadOptions) -> bool:
        """Whether the filters of this read matched anything: a row change; without filters by value or
        operation, a change that rows cannot show; without filters by table or operation, a
        transaction.
        """
        if self.rows or options.where is not None:
            return bool(self.rows)
        if not options.op and self.unshown.total() > self.unshown_of_others:
            return True
        return not options.chooses_rows and any(self.transactions.values())

    def __iadd__(self, other: Ledger) -> Ledger:
        for name, counts in other.files.items():
            self.file(name).__iadd__(counts)
        for (database, table), operations in other.rows.items():
            for operation, count in operations.items():
                self.add_rows(database, table, operation, count)
        for full_name, sources in other.names.items():
            self.names.setdefault(full_name, set()).update(sources)
        self.transactions.update(other.transactions)
        self.unshown.update(other.unshown)
        self.unshown_of_others += other.unshown_of_others
        self.decoded_bytes += other.decoded_bytes
        self.zero_dates.update(other.zero_dates)
        self.json_differences.update(other.json_differences)
        self.skipped += other.skipped
        self.renamed += other.renamed
        self.covered += other.covered
        for name, (start, end) in other.planned.items():
            self.plan(name, start, end)
        for mine, its in (
            (self.columns, other.columns),
            (self.where_columns, other.where_columns),
        ):
            for name, there in its.items():
                mine[name] = mine.get(name, False) or there
        self._warnings.update(other._warnings)
        return self

    def renames(self, database: str, table: str) -> list[list[tuple[str, str]]]:
        """Old and new names of the columns of a table that DDL renames, a list for each statement, in
        the order of the log.
        """
        name = (database.lower(), table.lower())
        statements: dict[tuple[str, int], list[tuple[str, str]]] = {}
        for r in self.renamed:
            if (r.database.lower(), r.table.lower()) == name:
                statements.setdefault((r.file, r.pos), []).append((r.old, r.new))
        return list(statements.values())

    def join_problems(self) -> list[str]:
        """Prove that the covered ranges join to the planned ones without gap or overlap.

        Returns a sentence per gap, overlap or unplanned range; [] proves that every planned
        byte was covered once.
        """
        by_file: dict[str, list[tuple[int, int]]] = {name: [] for name in self.planned}
        problems = []
        for name, start, end in self.covered:
            if name in by_file:
                by_file[name].append((start, end))
            else:
                problems.append(f"{name}: bytes {start} to {end} were read but not planned")
        for name, ranges in by_file.items():
            problems += _join(name, sorted(ranges), *self.planned[name])
        return problems

    def lines(self) -> list[str]:
        """The counts as lines of text; `remarks` contains what was left out."""
        total = self.total
        types = total.events_by_type.most_common()
        lines = [
            f"{counted(len(self.files), 'file')}, {counted(total.bytes, 'byte')}, "
            f"{counted(total.events, 'event')}: "
            + ", ".join(f"{event_name(code)} {count:,}" for code, count in types),
            f"checksums: {total.verified:,} right, {total.bad:,} bad, {total.unchecked:,} unchecked",
            "transactions: "
            + ", ".join(f"{count:,} {outcome}" for outcome, count in self.transactions.items()),
        ]
        lines += [
            f"{database}.{table}: "
            + ", ".join(f"{counted(counts[op], op)}" for op in _OPERATIONS if counts[op])
            for (database, table), counts in sorted(self.rows.items())
        ]
        if self.planned and not self.join_problems():
            lines.append(
                f"{counted(len(self.covered), 'range')} of bytes read, proven to join without "
                "gap or overlap"
            )
        return lines

    def remarks(self) -> list[str]:
        """Sentences for the end of a run about changes that were not shown; [] if there are none."""
        lines = [
            f"{r.file}: bytes {r.start} to {r.end} were skipped: {r.why}"
            for r in sorted(self.skipped)
        ]
        lines += [
            f"{outcome} transactions: {count}"
            for outcome, count in sorted(self.transactions.items())
            if count > 0 and outcome != "committed"  # less: prepared before what was read
        ]
        if any(self.unshown.values()):
            kinds = ", ".join(f"{kind}: {n}" for kind, n in sorted(self.unshown.items()) if n)
            lines.append(f"changes that rows cannot show: {kinds}")
        lines += [
            f"{column}: {counted(count, 'zero or partial date')} read as null"
            for column, count in sorted(self.zero_dates.items())
        ]
        lines += [
            f"{table}: {counted(count, 'JSON value')} shown as differences (JSON_DIFF), as the log "
            "lacks the documents they change (binlog_row_image=FULL logs them)"
            for table, count in sorted(self.json_differences.items())
        ]
        missing = [repr(name) for name, there in self.columns.items() if not there]
        if missing:
            lines.append(
                f"no row that was read has the column {', '.join(missing)} of the given schema: null"
            )
        for name, there in self.where_columns.items():
            if not there:
                lines.append(f"no table that was read has the column {name!r} of option where")
        return lines + self._name_sources() + _one_of_each(self.warnings)

    def _name_sources(self) -> list[str]:
        """Report which column names do not come from the row events; missing ones are in `warnings`."""
        lines = []
        for source, where in (
            (NameSource.DDL, "DDL in the log"),
            (NameSource.SCHEMA, "the schema"),
        ):
            tables = sorted(".".join(t) for t, sources in self.names.items() if source in sources)
            if tables:
                more = len(tables) - _SHOWN_TABLES
                listed = ", ".join(tables[:_SHOWN_TABLES]) + (
                    f" and {more} more" if more > 0 else ""
                )
                lines.append(f"names of columns from {where}: {listed}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; `from_json` reads it back."""
        total = self.total
        return {
            "files": [
                {"file": name, **counts.to_json()} for name, counts in sorted(self.files.items())
            ],
            "bytes": total.bytes,
            "events": {event_name(code): n for code, n in sorted(total.events_by_type.items())},
            "checksum": total.to_json()["checksum"],
            "decoded_bytes": self.decoded_bytes,
            "rows": _rows_json(self.rows.items()),
            "names": [
                {"database": database, "table": table, "sources": sorted(sources)}
                for (database, table), sources in sorted(self.names.items())
            ],
            "transactions": dict(sorted(self.transactions.items())),
            "unshown": dict(sorted(self.unshown.items())),
            "unshown_of_others": self.unshown_of_others,
            "zero_dates": dict(sorted(self.zero_dates.items())),
            "json_differences": dict(sorted(self.json_differences.items())),
            "skipped": [r._asdict() for r in sorted(self.skipped)],
            "renamed": [r._asdict() for r in self.renamed],
            "planned": {name: list(ends) for name, ends in sorted(self.planned.items())},
            "covered": [r._asdict() for r in sorted(self.covered)],
            "columns": dict(sorted(self.columns.items())),
            "where_columns": dict(sorted(self.where_columns.items())),
            "warnings": self.warnings,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ledger:
        """Read the output of `to_json`; derived sums are computed again."""
        result = cls(
            files={entry["file"]: FileCounts.from_json(entry) for entry in value["files"]},
            names={
                (entry["database"], entry["table"]): set(entry["sources"])
                for entry in value.get("names", ())
            },
            transactions=Counter(value["transactions"]),
            unshown=Counter(value["unshown"]),
            unshown_of_others=value.get("unshown_of_others", 0),
            decoded_bytes=value["decoded_bytes"],
            zero_dates=Counter(value["zero_dates"]),
            json_differences=Counter(value["json_differences"]),
            skipped=[SkippedRange(**entry) for entry in value["skipped"]],
            renamed=[RenamedColumn(**entry) for entry in value.get("renamed", ())],
            covered=[CoveredRange(**entry) for entry in value["covered"]],
            planned={name: (start, end) for name, (start, end) in value["planned"].items()},
            columns=dict(value.get("columns", {})),
            where_columns=dict(value.get("where_columns", {})),
        )
        for entry in value["rows"]:
            for operation in _OPERATIONS:
                if entry[operation]:
                    result.add_rows(entry["database"], entry["table"], operation, entry[operation])
        for sentence in value["warnings"]:
            result.warn(sentence)
        return result


def _look_for(found: dict[str, bool], wanted: Iterable[str], names: Iterable[str]) -> None:
    there = {name.lower() for name in names}
    for name in wanted:
        found[name] = found.get(name, False) or name.lower() in there


def _one_of_each(warnings: Sequence[str]) -> list[str]:
    """The warnings. Of warnings about one table that begin alike, this returns the last one and
    their number, because each definition of a table can cause one.
    """
    alike: dict[str, list[str]] = {}
    for sentence in warnings:
        found = _OF_TABLE.match(sentence)
        alike.setdefault(sentence if found is None else found[0], []).append(sentence)
    return [
        same[-1] if len(same) == 1 else f"{same[-1]} (the last of {len(same):,} such remarks)"
        for same in alike.values()
    ]


def _rows_json(rows: Iterable[tuple[tuple[str, str], Counter[str]]]) -> list[dict[str, Any]]:
    return [
        {
            "database": database,
            "table": table,
            **{operation: counts[operation] for operation in _OPERATIONS},
        }
        for (database, table), counts in sorted(rows)
    ]


def _join(name: str, ranges: list[tuple[int, int]], start: int, end: int) -> list[str]:
    """Sentences for each difference between sorted `ranges` and [start, end)."""
    problems = []
    reached = start
    for first, last in ranges:
        if first > reached:
            problems.append(f"{name}: bytes {reached} to {first} were not read")
        elif first < reached:
            problems.append(f"{name}: bytes {first} to {min(reached, last)} were read twice")
        reached = max(reached, last)
    if reached < end:
        problems.append(f"{name}: bytes {reached} to {end} were not read")
    elif reached > end:
        problems.append(f"{name}: bytes {end} to {reached} were read but not planned")
    return problems
