"""The transactions that the row changes of a batch belong to, as columns."""

from typing import NamedTuple

from binlake.core.memory.growing cimport Bytes, append, mark, room
from binlake.core.values.number_text cimport put_number
from binlake.core.columns.column cimport BYTES, COPY_64, held_bytes, put_null, reserve

cdef enum:
    _FEWEST = 64
    _GTID_ROOM = 80  # "uuid:gno", "domain-server-sequence"

cdef const char* _HEX = b"0123456789abcdef"

class TransactionBuffers(NamedTuple):
    """`count` transactions. `gtid`: text as the flavour spells it, null where the log has none.
    `commit_us` i64: commit time, microseconds since 1970 UTC. `start` i64: offset of the first
    event in its file. `thread_id` i64, null if the log does not contain it.
    """

    count: int
    gtid: object
    commit_us: object
    start: object
    thread_id: object


cdef ColumnSink _numbers():
    cdef ColumnSink sink = ColumnSink.__new__(ColumnSink)
    sink.column.kind = COPY_64
    sink.column.item = 8
    sink.column.kept = True
    return sink


cdef class TransactionSink:
    """Collects transactions; row changes name them by index."""

    def __init__(self):
        cdef Transactions* found = &self.transactions
        self.gtid = ColumnSink.__new__(ColumnSink)
        self.gtid.column.kind = BYTES
        self.gtid.column.kept = True
        self.commit_us = _numbers()
        self.start = _numbers()
        self.thread_id = _numbers()
        found.gtid = &self.gtid.column
        found.commit_us = &self.commit_us.column
        found.start = &self.start.column
        found.thread_id = &self.thread_id.column
        found.first = _FEWEST

    cdef object finish(self):
        """Hand over all transactions, without a copy, and start again at index 0."""
        cdef Transactions* found = &self.transactions
        cdef int64_t count = found.count
        done = TransactionBuffers(
            count,
            self.gtid.finish(count, found.capacity),
            self.commit_us.finish(count, found.capacity),
            self.start.finish(count, found.capacity),
            self.thread_id.finish(count, found.capacity),
        )
        found.count = found.capacity = 0
        found.first = max(count + (count >> 4), <int64_t>_FEWEST)
        return done


# -- one transaction -------------------------------------------------------------------------------


cdef int64_t _add(
    Transactions* found, const TransactionFacts* facts, Failure* failure
) noexcept nogil:
    """Append one, whose GTID is not set yet; its index, -1: a failure."""
    cdef int64_t row = found.count
    cdef int64_t capacity
    if row == found.capacity:
        capacity = max(found.first, 2 * row)
        if (
            reserve(found.gtid, row, capacity, failure)
            or reserve(found.commit_us, row, capacity, failure)
            or reserve(found.start, row, capacity, failure)
            or reserve(found.thread_id, row, capacity, failure)
        ):
            return -1
        found.capacity = capacity
    if room(&found.gtid.data, _GTID_ROOM, failure):
        return -1
    (<int64_t*>found.commit_us.values)[row] = facts.commit_us
    (<int64_t*>found.start.values)[row] = facts.start
    if facts.thread_id < 0:
        if put_null(found.thread_id, row, found.capacity, failure):
            return -1
    else:
        (<int64_t*>found.thread_id.values)[row] = facts.thread_id
    return row


cdef int64_t _finish(Transactions* found) noexcept nogil:
    found.count += 1
    found.gtid.offsets[found.count] = <unsigned int>found.gtid.data.count
    return found.count - 1


cdef int64_t add_unnamed(
    Transactions* found, const TransactionFacts* facts, Failure* failure
) noexcept nogil:
    """Append a transaction without a GTID; its index, -1: a failure."""
    cdef int64_t row = _add(found, facts, failure)
    if row < 0 or put_null(found.gtid, row, found.capacity, failure):
        return -1
    return _finish(found)


cdef int64_t add_named(
    Transactions* found,
    const TransactionFacts* facts,
    const uint8_t* gtid,
    int64_t size,
    Failure* failure,
) noexcept nogil:
    """Append a transaction with the text of its GTID; its index, -1: a failure."""
    if _add(found, facts, failure) < 0 or append(&found.gtid.data, gtid, size, failure):
        return -1
    return _finish(found)


cdef int64_t add_mysql(
    Transactions* found,
    const TransactionFacts* facts,
    const uint8_t* sid,
    int64_t gno,
    Failure* failure,
) noexcept nogil:
    """Append a transaction with the GTID `uuid:gno` of MySQL; its index, -1: a failure."""
    cdef Bytes* out = &found.gtid.data
    cdef int i
    if _add(found, facts, failure) < 0:
        return -1
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            mark(out, c"-")
        mark(out, _HEX[sid[i] >> 4])
        mark(out, _HEX[sid[i] & 15])
    mark(out, c":")
    if gno < 0:
        mark(out, c"-")
    put_number(out, <uint64_t>0 - <uint64_t>gno if gno < 0 else <uint64_t>gno)
    return _finish(found)


cdef int64_t add_mariadb(
    Transactions* found,
    const TransactionFacts* facts,
    uint64_t domain,
    uint64_t server_id,
    uint64_t sequence,
    Failure* failure,
) noexcept nogil:
    """Append a transaction with the GTID `domain-server-sequence` of MariaDB; its index, or -1."""
    cdef Bytes* out = &found.gtid.data
    if _add(found, facts, failure) < 0:
        return -1
    put_number(out, domain)
    mark(out, c"-")
    put_number(out, server_id)
    mark(out, c"-")
    put_number(out, sequence)
    return _finish(found)


cdef int64_t held_by_transactions(const Transactions* found) noexcept nogil:
    """Bytes of all buffers so far."""
    return (
        held_bytes(found.gtid, found.count)
        + held_bytes(found.commit_us, found.count)
        + held_bytes(found.start, found.count)
        + held_bytes(found.thread_id, found.count)
    )
