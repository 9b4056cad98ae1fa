"""Sums of the compiled kernels, compared with sums in dictionaries."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Sequence

import pytest

from binlake.core.counting.change_sums import (
    ChangeSums,
    rows_by_transaction,
    sum_changes,
    sum_rows,
    tables_by_transaction,
)
from binlake.core.rows.table_sink import TableBuffers

_SEEDS = range(40)
_OPERATIONS = 3


def _int64(values: list[int]) -> memoryview[int]:
    return memoryview(array("q", values))


def _entries(
    rng: random.Random, transactions: int, tables: int
) -> list[tuple[int, int, int, int, int]]:
    return [
        (
            rng.randrange(transactions),
            rng.randrange(tables),
            rng.randrange(_OPERATIONS),
            rng.randrange(4),
            rng.randrange(1000),
        )
        for _ in range(rng.randrange(200))
    ]


def _columns(entries: list[tuple[int, int, int, int, int]]) -> list[memoryview[int]]:
    return [_int64([entry[place] for entry in entries]) for place in range(5)]


def _summed(
    entries: list[tuple[int, int, int, int, int]], transactions: int, tables: int
) -> ChangeSums:
    transaction, table, op, rows, size = _columns(entries)
    return sum_changes(transaction, table, op, rows, size, transactions, tables)


@pytest.mark.parametrize("seed", _SEEDS)
def test_sums_of_entries_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    transactions, tables = rng.randint(1, 30), rng.randint(1, 9)
    entries = _entries(rng, transactions, tables)
    wanted: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
    for transaction, table, op, rows, size in entries:
        wanted[transaction, table, op][0] += rows
        wanted[transaction, table, op][1] += size
    sums = _summed(entries, transactions, tables)
    assert list(zip(*sums, strict=True)) == [(*key, *wanted[key]) for key in sorted(wanted)]


@pytest.mark.parametrize("seed", _SEEDS)
def test_rows_and_tables_of_transactions(seed: int) -> None:
    rng = random.Random(seed)
    transactions, tables = rng.randint(1, 30), rng.randint(1, 9)
    entries = _entries(rng, transactions, tables)
    transaction, table, op, rows, _ = _columns(entries)
    counts = rows_by_transaction(transaction, op, rows, transactions)
    for operation in range(_OPERATIONS):
        assert list(counts[operation]) == [
            sum(e[3] for e in entries if e[0] == number and e[2] == operation)
            for number in range(transactions)
        ]
    offsets, numbers = tables_by_transaction(transaction, table, transactions, tables)
    lists = [list(numbers[offsets[i] : offsets[i + 1]]) for i in range(transactions)]
    assert lists == [sorted({e[1] for e in entries if e[0] == i}) for i in range(transactions)]
    assert offsets[transactions] == len(numbers)


@pytest.mark.parametrize("seed", _SEEDS)
def test_sums_of_rows(seed: int) -> None:
    """Rows of several tables, two of which are the same one after its definition changed."""
    rng = random.Random(seed)
    transactions = rng.randint(1, 20)
    wanted: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
    tables = []
    for number in (1, 0, 1, 2):
        rows = []
        for transaction in sorted(rng.choices(range(transactions), k=rng.randrange(30))):
            op, pos = rng.randrange(_OPERATIONS), rng.randrange(1 << 40)
            size = rng.randrange(1, 1 << 20)
            for row in range(rng.randint(1, 4)):
                rows.append((transaction, op, row, pos, pos + size))
                wanted[transaction, number, op][0] += 1
                wanted[transaction, number, op][1] += size if row == 0 else 0
        txn, ops, ordinals, starts, ends = zip(*rows, strict=True) if rows else ([],) * 5
        tables.append((number, _buffers(txn, ops, ordinals, starts, ends)))
    sums = sum_rows(tables, transactions, 3)
    assert list(zip(*sums, strict=True)) == [(*key, *wanted[key]) for key in sorted(wanted)]


def _buffers(*columns: Sequence[int]) -> TableBuffers:
    txn, op, row, pos, end_pos = (
        memoryview(array(code, values)).cast("B")
        for code, values in zip("IBIqq", columns, strict=True)
    )
    nothing = memoryview(b"")
    return TableBuffers(
        len(op), op, pos, end_pos, row, txn, nothing, nothing, nothing, None, None  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("transaction", "table", "op"),
    [(5, 0, 0), (-1, 0, 0), (0, 2, 0), (0, -1, 0), (0, 0, 3), (0, 0, -1)],
)
def test_numbers_out_of_range_are_errors(transaction: int, table: int, op: int) -> None:
    with pytest.raises(IndexError):
        _summed([(0, 0, 0, 1, 1), (transaction, table, op, 1, 1)], 5, 2)


def test_an_operation_out_of_range_is_an_error_in_counts_of_transactions() -> None:
    with pytest.raises(IndexError):
        rows_by_transaction(_int64([0]), _int64([3]), _int64([1]), 1)
    with pytest.raises(IndexError):
        rows_by_transaction(_int64([1]), _int64([0]), _int64([1]), 1)
    with pytest.raises(IndexError):
        tables_by_transaction(_int64([0]), _int64([1]), 1, 1)


def test_nothing() -> None:
    assert [len(column) for column in sum_rows([], 0, 0)] == [0] * 5
    offsets, numbers = tables_by_transaction(_int64([]), _int64([]), 0, 0)
    assert (list(offsets), list(numbers)) == ([0], [])
