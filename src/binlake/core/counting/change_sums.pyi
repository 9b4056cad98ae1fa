from collections.abc import Sequence
from typing import NamedTuple

from binlake.core.rows.table_sink import TableBuffers

class ChangeSums(NamedTuple):
    transaction: memoryview[int]
    table: memoryview[int]
    op: memoryview[int]
    rows: memoryview[int]
    bytes: memoryview[int]

def sum_rows(
    tables: Sequence[tuple[int, TableBuffers]], transactions: int, table_count: int
) -> ChangeSums: ...
def sum_changes(
    transaction: memoryview[int],
    table: memoryview[int],
    op: memoryview[int],
    rows: memoryview[int],
    bytes: memoryview[int],
    transactions: int,
    table_count: int,
) -> ChangeSums: ...
def rows_by_transaction(
    transaction: memoryview[int], op: memoryview[int], rows: memoryview[int], transactions: int
) -> tuple[memoryview[int], memoryview[int], memoryview[int]]: ...
def tables_by_transaction(
    transaction: memoryview[int], table: memoryview[int], transactions: int, table_count: int
) -> tuple[memoryview[int], memoryview[int]]: ...
