"""The search for the rows that differ, in the parts of a table whose checksums differ.

The rows of some parts are in memory at the same time: as many parts as fit. A part without differences may have other checksums,
because a server has no digest of a row that it would shorten (long floats), or that is larger than max_allowed_packet.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from binlake.mirror.equality.source_rows import SourceRows
from binlake.mirror.equality.sums import ALL_ROWS, PartSum, RowTexts, TableParts
from binlake.mirror.equality.value_texts import SEPARATOR

# A value takes up to 65 bytes, the digits of a digest and a separator, and a row about 400 bytes more: at least as much as these values.
_VALUES_OF_A_ROW = 10
# The rows of a table without a key are shown with all their values.
_BYTES_AT_ONCE = 256 << 20
_NOTHING = PartSum(0, 0)
_MOST_GROUPS = 20  # of parts that are compared row by row, if there are differences among them


@dataclass(frozen=True, slots=True)
class LakeRows:
    """A table of the lake at one moment: its Arrow schema, and a function that reads all rows."""

    schema: pa.Schema
    scan: Callable[[], Iterable[pa.Table]]


@dataclass(frozen=True, slots=True)
class TableDifference:
    """One difference.

    `kind`: `changed` (columns of a row differ), `missing` (the lake lacks the row), `extra` (only the lake
    has it), `doubled` (the lake has it more often), `type` or `column` (of a column as a whole), `checksum` (of a part of
    the table whose rows are equal).
    `key`: the names and values of the key, or of all columns where there is none.
    """

    kind: str
    key: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        row = ", ".join(f"{name}={value}" for name, value in self.key)
        columns = ", ".join(self.columns)
        return " ".join(
            part for part in (self.kind, row and f"({row})", columns, self.detail) if part
        )


@dataclass(slots=True)
class Search:
    """Compares the rows of parts; `found` has at most `most` differences. About `most_values` values of both sides are in memory."""

    source: SourceRows
    lake: LakeRows
    parts: TableParts
    most: int
    most_values: int
    found: list[TableDifference] = field(default_factory=list)
    groups: int = 0
    # the parts with rows that differ
    _explained: set[int] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        """Return whether enough differences are found: each group of parts reads all of the lake's table."""
        return len(self.found) >= self.most or bool(self.found and self.groups >= _MOST_GROUPS)

    def look(self, there: Mapping[int, PartSum], here: Mapping[int, PartSum]) -> int:
        """Compare the rows of the parts whose checksums differ, those of the server (`there`) and of the lake (`here`), until the
        search is full. Return how many these parts are.
        """
        differing = _differing(there, here)
        if not differing:
            return 0
        of_server = {} if self.source.is_placed_here or self.parts.may_misplace else there
        left, of_lake, is_exact = differing, frozenset(differing), self.source.is_placed_here
        if self.parts.may_misplace and not is_exact:
            there, here, of_lake = self._placed_here(differing, here)
            left, is_exact = _differing(there, here), True
        while left and not self.is_full:
            group, before = self._first_of(left, there, here), len(self.found)
            self._look_at(group, of_lake)
            self.groups += 1
            left = left[len(group) :]
            if left and not is_exact and len(self.found) == before:
                # Other parts, too, may only seem to differ: each group reads all of the lake.
                there = self.parts.of_rows(self.source.of_parts(left))
                rest = frozenset(left)
                here = {number: here[number] for number in rest & here.keys()}
                left, is_exact = _differing(there, here), True
        if not self.is_full:
            exact = (n for n in differing if n in of_server and of_server[n].total >= 0)
            self.found += self._unexplained(exact)[: self.most - len(self.found)]
        return len(differing)

    def _unexplained(self, numbers: Iterable[int]) -> list[TableDifference]:
        """The parts whose rows are equal, as binlake reads them, although the server has another checksum. None of a table with
        floats or invalid text, which a server may show in another way.
        """
        if self.parts.has_floats or self.parts.table.options.invalid != "error":
            return []
        why = "its checksum on the server is another one, although binlake reads the same rows there: please report this"
        return [
            TableDifference("checksum", detail=f"of part {number} of {self.parts.count}: {why}")
            for number in numbers
            if number not in self._explained
        ]

    def _placed_here(
        self, differing: Sequence[int], here: Mapping[int, PartSum]
    ) -> tuple[Mapping[int, PartSum], Mapping[int, PartSum], frozenset[int]]:
        """Let binlake find the part of each row. Return the checksums of both sides, and the parts of the lake that are compared."""
        if self.parts.has_all_rows:
            # A row that the server counts to another part is in two parts that differ, or it is missing in the lake.
            there = self.source.place_here(self.parts, self.parts.condition(differing))
            of_lake = frozenset(differing)
            return there, {number: here[number] for number in of_lake & here.keys()}, of_lake
        # The server may count a row to another sample, so all rows are compared.
        self.parts = replace(self.parts, sample=ALL_ROWS)
        there = self.source.place_here(self.parts, "")
        return there, self.parts.of_rows(self.lake.scan()), frozenset(range(self.parts.count))

    def _first_of(
        self, left: Sequence[int], there: Mapping[int, PartSum], here: Mapping[int, PartSum]
    ) -> list[int]:
        """The first parts, as many as fit into memory, and at least one."""
        most = self.most_values // max(_VALUES_OF_A_ROW, len(self.parts.fields))
        table = self.parts.table
        if not table.key and table.row_bytes:
            most = min(most, _BYTES_AT_ONCE // table.row_bytes)
        rows = 0
        for at, number in enumerate(left):
            rows += there.get(number, _NOTHING).rows + here.get(number, _NOTHING).rows
            if at and rows > most:
                return list(left[:at])
        return list(left)

    def _look_at(self, numbers: Sequence[int], of_lake: frozenset[int]) -> None:
        """Compare all rows of some parts; of the lake, only those that are also in the parts `of_lake`."""
        source = self._by_key(self.source.of_parts(numbers), self.source.wanted(numbers))
        lake = self._by_key(self.lake.scan(), of_lake.intersection(numbers))
        for key in dict.fromkeys(
            (*source, *lake)
        ):  # in the order in which the server sends its rows
            for difference in self._of_key(source.get(key, []), lake.get(key, [])):
                self._explained.add(self.parts.number_of(key))
                if len(self.found) >= self.most:
                    return
                self.found.append(difference)

    def _by_key(
        self, tables: Iterable[pa.Table], wanted: Container[int]
    ) -> dict[bytes, list[_Row]]:
        """The rows of some parts, by their keys."""
        found: dict[bytes, list[_Row]] = defaultdict(list)
        names = self._shown_names
        for table, texts in RowTexts.pieces(tables, self.parts):
            columns = [table.column(name) for name in names]
            for at, number in enumerate(texts.numbers):
                if number in wanted:
                    shown = _packed(str(column[at].as_py()) for column in columns)
                    found[texts.keys[at]].append(_Row(shown, texts.rows[at]))
        return found

    @property
    def _shown_names(self) -> tuple[str, ...]:
        """The columns that identify a row: those of the key, or all."""
        return self.parts.table.key or tuple(f.name for f in self.parts.fields)

    def _of_key(self, source: list[_Row], lake: list[_Row]) -> Iterator[TableDifference]:
        """The differences among the rows of one key."""
        if len(source) == len(lake) == 1:
            if source[0].texts == lake[0].texts:
                return
            texts = (row[0].texts.decode().split(SEPARATOR) for row in (source, lake))
            pairs = zip(self.parts.fields, *texts, strict=True)
            columns = tuple(f.name for f, one, other in pairs if one != other)
            yield TableDifference("changed", self._shown(source[0]), columns)
            return
        there, here = Counter(row.texts for row in source), Counter(row.texts for row in lake)
        if there == here:
            return
        shown = self._shown((source or lake)[0])
        for _ in range((there - here).total()):
            yield TableDifference("missing", shown)
        kind = "doubled" if source else "extra"
        for _ in range((here - there).total()):
            yield TableDifference(kind, shown)

    def _shown(self, row: _Row) -> tuple[tuple[str, str], ...]:
        """The names and values of the columns that identify a row."""
        return tuple(zip(self._shown_names, _unpacked(row.key), strict=True))


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: the values that identify it, and the texts of all values. Each is one object, because there are many rows."""

    key: bytes
    texts: bytes


def _differing(there: Mapping[int, PartSum], here: Mapping[int, PartSum]) -> list[int]:
    """The parts whose checksums differ, sorted."""
    return sorted(n for n in there.keys() | here.keys() if there.get(n) != here.get(n))


def _packed(texts: Iterable[str]) -> bytes:
    return json.dumps(list(texts), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _unpacked(packed: bytes) -> list[str]:
    found: list[str] = json.loads(packed.decode("utf-8", "surrogatepass"))
    return found
