"""The search for rows that differ: bounded memory, and rows that the server counts to other parts."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.mirror.equality import compare as comparison
from binlake.mirror.equality import source_rows
from binlake.mirror.equality.compare import LakeRows, TableComparison, VerifyOptions, compare
from binlake.mirror.equality.sums import NO_PART, PartSum, RowTexts, TableParts
from binlake.mirror.equality.value_texts import SHA256
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.schema.schema_file import parse_schema

SLOTS = 65_536


class Server:
    """A server with one table. It counts the rows whose `strange` column is odd to the part after theirs, as one that writes
    floats in fewer digits. `read`: how many rows it has sent; `scans`: how often the lake was read.
    """

    flavour, version = "mysql", (8, 0)

    def __init__(self, monkeypatch: pytest.MonkeyPatch, create_table: str, rows: pa.Table) -> None:
        [declared] = parse_schema(create_table.encode()).tables
        key = tuple(name for name in rows.column_names if name.startswith("id"))
        self.table = SourceTable("a", "t", definition_of(declared, "mysql"), key)
        self.rows = rows
        self.read = self.scans = 0
        self.parts: TableParts | None = None
        monkeypatch.setattr(comparison, "take_raw_text", lambda _server: None)
        monkeypatch.setattr(TableParts, "of_server", lambda parts, _: self._sums(parts))
        monkeypatch.setattr(
            TableParts, "condition", lambda parts, numbers: self._condition(parts, numbers)
        )
        monkeypatch.setattr(
            source_rows, "RowSelect", lambda *_: SimpleNamespace(batches_to_the_end=self._batches)
        )

    def _numbers(self, parts: TableParts) -> list[int]:
        keys = [key for _, texts in RowTexts.pieces([self.rows], parts) for key in texts.keys]
        slots = [zlib.crc32(key) % SLOTS for key in keys]
        if "strange" in self.rows.column_names:
            odd = [value % 2 for value in self.rows["strange"].to_pylist()]
            step = SLOTS // parts.count
            slots = [(slot + step * one) % SLOTS for slot, one in zip(slots, odd, strict=True)]
        return [s * parts.count // SLOTS if s in parts.sample else NO_PART for s in slots]

    def _sums(self, parts: TableParts) -> dict[int, PartSum]:
        found: dict[int, PartSum] = {}
        rows = [row for _, texts in RowTexts.pieces([self.rows], parts) for row in texts.rows]
        for number, row in zip(self._numbers(parts), rows, strict=True):
            if number != NO_PART:
                before = found.get(number, PartSum(0, 0))
                total = before.total + int(parts.digest.hex(row)[:16], 16)
                found[number] = PartSum(before.rows + 1, total)
        return found

    def _condition(self, parts: TableParts, numbers: Iterable[int]) -> str:
        self.parts = parts
        return json.dumps(sorted(numbers))

    def _batches(self, _server: Any, condition: str) -> Iterator[pa.RecordBatch]:
        rows = self.rows
        if condition:
            assert self.parts is not None
            wanted = frozenset(json.loads(condition))
            rows = rows.filter(pa.array([one in wanted for one in self._numbers(self.parts)]))
        self.read += rows.num_rows
        yield from rows.to_batches(1000)

    def compared(
        self, lake: pa.Table, parts: int, most: int = 1000, most_values: int = 2_000_000
    ) -> TableComparison:
        """The result of comparing the table with one of the lake."""
        made: Any = self
        options = VerifyOptions(parts=parts, most_differences=most, most_values=most_values)

        def scan() -> list[pa.Table]:
            self.scans += 1
            return [lake]

        return compare(made, self.table, LakeRows(lake.schema, scan), options=options)


def wide(rows: int, columns: int, add: int) -> pa.Table:
    names = {f"c{n}": pa.array(range(n + add, n + add + rows), pa.int32()) for n in range(columns)}
    return pa.table({"id": pa.array(range(rows), pa.int32()), **names})


def test_a_wide_table_that_differs_everywhere_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the process is killed before it records the comparison, which then begins again."""
    rows, columns = 1_200, 30
    listed = ", ".join(f"c{n} INT" for n in range(columns))
    server = Server(
        monkeypatch, f"CREATE TABLE a.t (id INT PRIMARY KEY, {listed})", wide(rows, columns, 0)
    )
    lake = wide(rows, columns, 1)
    found = server.compared(lake, 60, most=50, most_values=6_000)
    assert found.is_cut
    assert {one.kind for one in found.differences} == {"changed"}
    assert {len(one.columns) for one in found.differences} == {columns}
    assert 50 <= server.read <= 6_000 / columns / 2 + rows / 60, "the first parts are enough"


def test_few_rows_that_differ_in_a_large_wide_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group of parts reads the whole lake table, which may take minutes."""
    rows, columns = 1_200, 30
    listed = ", ".join(f"c{n} INT" for n in range(columns))
    server = Server(
        monkeypatch, f"CREATE TABLE a.t (id INT PRIMARY KEY, {listed})", wide(rows, columns, 0)
    )
    few = pa.array([n % 10 == 0 for n in range(rows)])
    changed = pc.if_else(few, 7_000_000, server.rows["c3"]).cast(pa.int32())
    lake = server.rows.set_column(4, "c3", changed)
    found = server.compared(lake, 60, most_values=1_200)
    assert found.is_cut
    assert {one.columns for one in found.differences} == {("c3",)}
    assert 20 <= server.scans <= 22


def test_rows_become_texts_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group has a million rows, and each value as text takes a hundred bytes."""
    columns = 60
    listed = ", ".join(f"c{n} INT" for n in range(columns))
    rows = wide(5_000, columns, 0)
    server = Server(monkeypatch, f"CREATE TABLE a.t (id INT PRIMARY KEY, {listed})", rows)
    parts = TableParts(server.table, SHA256, tuple(rows.schema), 16)
    pieces = [piece.num_rows for piece, _ in RowTexts.pieces([rows], parts)]
    assert sum(pieces) == 5_000
    assert max(pieces) * columns <= 200_000


FLOATS = "CREATE TABLE a.t (id DOUBLE PRIMARY KEY, strange INT)"


def floats(rows: Iterable[int]) -> pa.Table:
    """Rows with a float as their key, of which the server counts every third to another part."""
    values = list(rows)
    strange = pa.array([int(n % 3 == 0) for n in values], pa.int32())
    return pa.table({"id": pa.array([n + 0.5 for n in values], pa.float64()), "strange": strange})


@pytest.mark.parametrize("values", [300, 2_000_000], ids=["groups", "one group"])
def test_rows_that_the_server_counts_to_other_parts(
    monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    """They are compared in as many groups as other rows."""
    server = Server(monkeypatch, FLOATS, floats(range(300)))
    equal = server.compared(floats(range(300)), 50, most_values=values)
    assert equal.is_equal
    assert equal.differing_parts > 40
    assert server.read <= 300

    lake = floats([*range(1, 250), 252, 252, 400, 403]).set_column(
        1,
        "strange",
        pa.array([9, *floats(range(2, 250))["strange"].to_pylist(), 1, 1, 0, 1], pa.int32()),
    )
    found = server.compared(lake, 50, most_values=values)
    kinds: dict[str, set[str]] = {}
    for one in found.differences:
        kinds.setdefault(one.kind, set()).add(one.key[0][1])
    missing = {0, 250, 251, *range(253, 300)}
    assert kinds.pop("missing") == {f"{n}.5" for n in missing}
    assert kinds == {"changed": {"1.5"}, "doubled": {"252.5"}, "extra": {"400.5", "403.5"}}


def test_a_sample_of_rows_that_the_server_counts_to_other_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row may be in the sample on one side only, so all rows are compared if anything seems to differ."""
    server = Server(monkeypatch, FLOATS, floats(range(300)))
    made: Any = server
    lake = floats([*range(150), *range(151, 300)])
    found = [
        compare(
            made,
            server.table,
            LakeRows(lake.schema, lambda: [lake]),
            options=VerifyOptions(parts=50, sample=0.25, sample_number=number),
        )
        for number in range(4)
    ]
    assert [[str(one) for one in part.differences] for part in found] == [
        ["missing (id=150.5)"]
    ] * 4


def test_parts_that_only_seem_to_differ_are_not_searched_group_by_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each group reads all of the lake: of a large table with long floats, that would be hundreds of times."""
    rows = pa.table(
        {"id": pa.array(range(300), pa.int32()), "c": pa.array([n / 3 for n in range(300)])}
    )
    server = Server(monkeypatch, "CREATE TABLE a.t (id INT PRIMARY KEY, c DOUBLE)", rows)
    exact = TableParts.of_server

    def without_digest(parts: TableParts, of: Any) -> dict[int, PartSum]:
        return {number: PartSum(one.rows, -1) for number, one in exact(parts, of).items()}

    monkeypatch.setattr(TableParts, "of_server", without_digest)
    found = server.compared(rows, 50, most_values=300)
    assert found.is_equal
    assert found.differing_parts > 40
    assert server.scans == 2, "for the checksums, and for the first group"
    other = rows.set_column(1, "c", pa.array([n / 3 + (n in (7, 250)) for n in range(300)]))
    different = {str(one) for one in server.compared(other, 50, most_values=300).differences}
    assert different == {"changed (id=7) c", "changed (id=250) c"}


def test_a_checksum_that_equal_rows_do_not_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    """If binlake decoded a value wrongly, in the copy and now, only the server's checksum would show it."""
    rows = pa.table({"id": pa.array(range(300), pa.int32()), "c": pa.array(range(300), pa.int32())})
    server = Server(monkeypatch, "CREATE TABLE a.t (id INT PRIMARY KEY, c INT)", rows)
    exact = TableParts.of_server

    def of_other_values(parts: TableParts, of: Any) -> dict[int, PartSum]:
        found = exact(parts, of)
        return {n: PartSum(one.rows, one.total + (n in (7, 40))) for n, one in found.items()}

    monkeypatch.setattr(TableParts, "of_server", of_other_values)
    for values in (300, 2_000_000):
        found = server.compared(rows, 50, most_values=values)
        assert [(one.kind, one.detail[:15]) for one in found.differences] == [
            ("checksum", "of part 7 of 50"),
            ("checksum", "of part 40 of 5"),
        ]
    assert len(server.compared(rows, 50, most=1).differences) == 1
    other = rows.set_column(1, "c", pa.array([n + (n == 7) for n in range(300)], pa.int32()))
    kinds = {one.kind for one in server.compared(other, 50).differences}
    assert kinds == {"changed", "checksum"}


def test_rows_without_a_key_are_shown_with_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"v": pa.array([1, 1, None, 3], pa.int32()), "w": ["ä", "ä", "\0|~", None]})
    server = Server(monkeypatch, "CREATE TABLE a.t (v INT, w VARCHAR(9)) CHARSET=utf8mb4", rows)
    found = server.compared(rows.slice(1), 20).differences
    assert [(one.kind, one.key) for one in found] == [("missing", (("v", "1"), ("w", "ä")))]
    found = server.compared(pa.concat_tables([rows, rows.slice(2, 1)]), 20).differences
    assert [(one.kind, one.key) for one in found] == [("doubled", (("v", "None"), ("w", "\0|~")))]
