"""Conditions over integers, which the core decides: the same rows as arrays choose."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.core.images.row_condition import AND, IN_RANGES, NOT, OF_ROW, RowCondition
from binlake.core.rows.walk import UndecidedError
from binlake.errors import BinlogError
from binlake.table.where.finding import RowFinder
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import DELETE, Log, image, rows_body, table_map

GOLDEN = Path(__file__).parents[2] / "golden"
SERVERS = ("mariadb-10.11", "mariadb-11.8", "mysql-5.6.24", "mysql-9.7")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
CASES = ("types-full", "types-minimal", "transactions", "partial-json")
TABLES_A_CASE = 2
HOW: tuple[dict[str, Any], ...] = (
    {},
    {"threads": 1},
    {"batch_bytes": 4096, "threads": 1},
    {"whole_transaction": True},
    {"query": True},
)


def integer_columns(log: binlake.Log, table: str) -> dict[str, list[int]]:
    """The integer columns of a table, and values of each."""
    batch = log.to_arrow(table)
    return {
        one.name: [int(value) for value in batch.column(one.name).to_pylist() if value is not None]
        for one in batch.schema
        if ((one.metadata or {}).get(b"mysql.type", b"").decode().split("(")[0].split() or [""])[0]
        in INTEGERS
    }


def condition(rng: random.Random, columns: dict[str, list[int]], depth: int) -> str:
    """A random condition over these columns."""
    if depth and rng.random() < 0.7:
        word = rng.choice(("AND", "OR", "XOR", "NOT"))
        first = condition(rng, columns, depth - 1)
        if word == "NOT":
            return f"NOT ({first})"
        return f"({first}) {word} ({condition(rng, columns, depth - 1)})"
    column = rng.choice(sorted(columns))
    image = rng.choice(("", "", "before.", "after."))
    quoted = "`" + column.replace("`", "``") + "`"
    name, choice = image + quoted, rng.random()

    def constant() -> str:
        value = rng.choice(columns[column] or [0]) + rng.choice((0, 0, 0, 1, -1))
        value = max(value, 1901) if column == "c_year" or "year" in column else value
        return rng.choice((str(value), str(value), f"{value}.5", str(value * 3), str(1 << 70)))

    if choice < 0.1:
        return f"changed({quoted})"
    if choice < 0.2:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    if choice < 0.25:
        return f"{name} {rng.choice(OPERATORS)} NULL"
    if choice < 0.4:
        return f"{name} IN ({', '.join(constant() for _ in range(rng.randint(1, 6)))})"
    if choice < 0.5:
        return f"{name} BETWEEN {constant()} AND {constant()}"
    return f"{name} {rng.choice(OPERATORS)} {constant()}"


def places(path: Path, where: str, table: str, **how: Any) -> tuple[list[Any], list[str]]:
    """Where the chosen rows are in the log, and the warnings of the read."""
    log = binlake.open(str(path), where=where, table=table, **how)
    found = [
        (row["file"], row["pos"], row["row"], row["op"])
        for batch in log.changes()
        for row in batch.to_pylist()
    ]
    return found, log.ledger.warnings


def integer_tables(case: Path) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """The tables of a case, and their integer columns."""
    try:
        tables = binlake.open(str(case), on_unshown="count").tables()
    except BinlogError:  # needs a keyring
        return
    for table in tables:
        with suppress(BinlogError):  # definitions that do not fit each other
            columns = integer_columns(binlake.open(str(case), on_unshown="count"), table)
            if columns:
                yield table, columns


def counted(decided: list[bool]) -> Callable[[RowFinder, Any], Any]:
    """RowFinder.find, which notes whether the core decided."""
    find = RowFinder.find

    def find_and_note(self: RowFinder, run: Any) -> Any:
        decided.append(False)
        found = find(self, run)
        decided[-1] = True
        return found

    return find_and_note


def never(self: RowFinder, run: Any) -> Any:
    """Leave everything to arrays."""
    raise UndecidedError


@pytest.mark.parametrize("server", SERVERS)
def test_the_core_selects_the_same_rows_as_arrays(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(server)
    decided: list[bool] = []
    compared = 0
    for case in (GOLDEN / server / name for name in CASES if (GOLDEN / server / name).exists()):
        for table, columns in islice(integer_tables(case), TABLES_A_CASE):
            for number in range(len(HOW)):
                where = condition(rng, columns, rng.randint(0, 3))
                how = {**HOW[number], "on_unshown": "count"}
                with monkeypatch.context() as patched:
                    patched.setattr(RowFinder, "find", counted(decided))
                    by_core = places(case, where, table, **how)
                    patched.setattr(RowFinder, "find", never)
                    by_arrays = places(case, where, table, **how)
                assert by_core == by_arrays, (case, table, where, how)
                compared += bool(by_arrays[0])
    assert compared > 5
    assert any(decided)
    assert not all(decided)


def test_a_condition_is_in_postfix_order() -> None:
    one = (IN_RANGES, OF_ROW, 0, ((1, 1),))
    RowCondition((one, one, (AND, OF_ROW, 0, ())))
    for wrong in (
        (),
        (one, one),
        ((NOT, OF_ROW, 0, ()),),
        (one, (AND, OF_ROW, 0, ())),
        (one,) * 65,
    ):
        with pytest.raises(ValueError):
            RowCondition(wrong)


def test_tables_without_the_column_are_named_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.insert((1, "a", None), gno=1)  # of shop.t, which has no column "other", and no row deleted
    other = table_map("u", names=("id", "other", "day"))
    log.commit((TABLE_MAP, other), (DELETE, rows_body(image((2, "b", None)))), gno=2)
    path = log.save(tmp_path)
    found = []
    for decide in (RowFinder.find, never):
        monkeypatch.setattr(RowFinder, "find", decide)
        found.append(places(path, "other = 'b' AND id = 2", "shop.*", op="delete"))
    assert found[0] == found[1]
    rows, warnings = found[0]
    assert len(rows) == 1
    assert [line for line in warnings if "shop.t has no column 'other'" in line]
