"""Row changes summed up by transaction, table and operation.

Counting a log makes few numbers of many rows. All kernels here take time in proportion to their input, in any
order of it: they sort by counting, since transactions, tables and operations are small numbers.

Buffers are of int64 where nothing else is said.
"""

from typing import NamedTuple

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    _OPERATIONS = 3  # INSERT, UPDATE, DELETE


class ChangeSums(NamedTuple):
    """Sums in the order of transactions, then of tables, then of operations; an entry of each is in each column.

    `transaction` and `table` are numbers, `op` is INSERT, UPDATE or DELETE, `rows` are changes, `bytes` those of
    their rows events.
    """

    transaction: memoryview
    table: memoryview
    op: memoryview
    rows: memoryview
    bytes: memoryview


def sum_rows(tables, int64_t transactions, int64_t table_count):
    """Sum up row changes: of each table a number below `table_count`, and its `TableBuffers`.

    An event's bytes count with its first row. Raises IndexError for numbers that are out of range.
    """
    cdef int64_t entries = 0
    cdef int64_t at = 0
    for _, found in tables:
        entries += _runs(found.txn.cast("I"), found.op)
    sums = _columns(entries)
    for number, found in tables:
        at = _add_runs(
            sums,
            at,
            number,
            found.txn.cast("I"),
            found.op,
            found.row.cast("I"),
            found.pos.cast("q"),
            found.end_pos.cast("q"),
        )
    return sum_changes(*sums, transactions, table_count)


def sum_changes(
    const int64_t[::1] transaction not None,
    const int64_t[::1] table not None,
    const int64_t[::1] op not None,
    const int64_t[::1] rows not None,
    const int64_t[::1] bytes not None,
    int64_t transactions,
    int64_t table_count,
):
    """Sum up entries in any order, by transaction (a number below `transactions`), table and operation.

    Raises IndexError for numbers that are out of range.
    """
    cdef int64_t count = transaction.shape[0]
    cdef int64_t[::1] order = _order(transaction, table, transactions, table_count)
    cdef int64_t[_OPERATIONS] row_sums
    cdef int64_t[_OPERATIONS] byte_sums
    cdef bint[_OPERATIONS] found
    cdef int64_t at = 0
    cdef int64_t kept = 0
    cdef int64_t entry, txn, number, operation
    sums = _columns(count)
    cdef int64_t[::1] to_transaction = sums.transaction
    cdef int64_t[::1] to_table = sums.table
    cdef int64_t[::1] to_op = sums.op
    cdef int64_t[::1] to_rows = sums.rows
    cdef int64_t[::1] to_bytes = sums.bytes
    while at < count:
        entry = order[at]
        txn = transaction[entry]
        number = table[entry]
        for operation in range(_OPERATIONS):
            row_sums[operation] = byte_sums[operation] = found[operation] = 0
        while at < count:
            entry = order[at]
            if transaction[entry] != txn or table[entry] != number:
                break
            operation = op[entry]
            if not 0 <= operation < _OPERATIONS:
                raise IndexError(f"operation {operation}")
            row_sums[operation] += rows[entry]
            byte_sums[operation] += bytes[entry]
            found[operation] = True
            at += 1
        for operation in range(_OPERATIONS):
            if found[operation]:
                to_transaction[kept] = txn
                to_table[kept] = number
                to_op[kept] = operation
                to_rows[kept] = row_sums[operation]
                to_bytes[kept] = byte_sums[operation]
                kept += 1
    return ChangeSums(*[column[:kept] for column in sums])


def rows_by_transaction(
    const int64_t[::1] transaction not None,
    const int64_t[::1] op not None,
    const int64_t[::1] rows not None,
    int64_t transactions,
):
    """How many rows each transaction inserts, updates and deletes: three buffers with an entry for each.

    Raises IndexError for numbers that are out of range.
    """
    cdef int64_t at
    found = [_zeros(transactions) for _ in range(_OPERATIONS)]
    cdef int64_t[::1] inserts = found[0]
    cdef int64_t[::1] updates = found[1]
    cdef int64_t[::1] deletes = found[2]
    for at in range(transaction.shape[0]):
        if op[at] == 0:
            inserts[transaction[at]] += rows[at]
        elif op[at] == 1:
            updates[transaction[at]] += rows[at]
        elif op[at] == 2:
            deletes[transaction[at]] += rows[at]
        else:
            raise IndexError(f"operation {op[at]}")
    return tuple(found)


def tables_by_transaction(
    const int64_t[::1] transaction not None,
    const int64_t[::1] table not None,
    int64_t transactions,
    int64_t table_count,
):
    """Which tables each transaction changes: `transactions + 1` offsets, and between them the tables' numbers,
    ascending, each once.

    Raises IndexError for numbers that are out of range.
    """
    cdef int64_t count = transaction.shape[0]
    cdef int64_t[::1] order = _order(transaction, table, transactions, table_count)
    cdef int64_t at, entry
    cdef int64_t kept = 0
    cdef int64_t txn = -1
    cdef int64_t number = -1
    offsets = _zeros(transactions + 1)
    numbers = _zeros(count)
    cdef int64_t[::1] to_offsets = offsets
    cdef int64_t[::1] to_numbers = numbers
    for at in range(count):
        entry = order[at]
        if transaction[entry] == txn and table[entry] == number:
            continue
        txn = transaction[entry]
        number = table[entry]
        to_numbers[kept] = number
        kept += 1
        to_offsets[txn + 1] += 1
    for at in range(transactions):
        to_offsets[at + 1] += to_offsets[at]
    return offsets, numbers[:kept]


cdef object _zeros(int64_t count):
    return memoryview(bytearray(8 * max(count, 0))).cast("q")


cdef object _columns(int64_t count):
    return ChangeSums(*[_zeros(count) for _ in range(5)])


cdef int64_t _runs(const uint32_t[::1] txn, const uint8_t[::1] op) except -1:
    """How many runs of rows there are with the same transaction and operation."""
    cdef int64_t at
    cdef int64_t runs = txn.shape[0] > 0
    for at in range(1, txn.shape[0]):
        runs += txn[at] != txn[at - 1] or op[at] != op[at - 1]
    return runs


cdef int64_t _add_runs(
    object sums,
    int64_t to,
    int64_t number,
    const uint32_t[::1] txn,
    const uint8_t[::1] op,
    const uint32_t[::1] row,
    const int64_t[::1] pos,
    const int64_t[::1] end_pos,
) except -1:
    """Add an entry for each such run at `to`; return where the entries end."""
    cdef int64_t[::1] to_transaction = sums.transaction
    cdef int64_t[::1] to_table = sums.table
    cdef int64_t[::1] to_op = sums.op
    cdef int64_t[::1] to_rows = sums.rows
    cdef int64_t[::1] to_bytes = sums.bytes
    cdef int64_t at
    for at in range(txn.shape[0]):
        if at == 0 or txn[at] != txn[at - 1] or op[at] != op[at - 1]:
            to_transaction[to] = txn[at]
            to_table[to] = number
            to_op[to] = op[at]
            to += 1
        to_rows[to - 1] += 1
        if row[at] == 0:
            to_bytes[to - 1] += end_pos[at] - pos[at]
    return to


cdef object _order(
    const int64_t[::1] transaction,
    const int64_t[::1] table,
    int64_t transactions,
    int64_t table_count,
):
    """The entries in the order of transactions, then of tables, then as they are."""
    cdef int64_t count = transaction.shape[0]
    cdef int64_t at
    cdef bint in_order = True
    order = _zeros(count)
    cdef int64_t[::1] to = order
    for at in range(count):
        to[at] = at
        if not (0 <= transaction[at] < transactions and 0 <= table[at] < table_count):
            raise IndexError(
                f"transaction {transaction[at]} of {transactions}, table {table[at]} of {table_count}"
            )
        if at and (
            transaction[at] < transaction[at - 1]
            or (transaction[at] == transaction[at - 1] and table[at] < table[at - 1])
        ):
            in_order = False
    if in_order:
        return order
    return _sorted(_sorted(order, table, table_count), transaction, transactions)


cdef object _sorted(const int64_t[::1] order, const int64_t[::1] keys, int64_t key_count):
    """The entries in the order of their keys; equal ones stay in the given order."""
    cdef int64_t[::1] next_place = _zeros(key_count + 1)
    cdef int64_t at, key
    result = _zeros(order.shape[0])
    cdef int64_t[::1] to = result
    for at in range(keys.shape[0]):
        next_place[keys[at] + 1] += 1
    for at in range(key_count):
        next_place[at + 1] += next_place[at]
    for at in range(order.shape[0]):
        key = keys[order[at]]
        to[next_place[key]] = order[at]
        next_place[key] += 1
    return result
