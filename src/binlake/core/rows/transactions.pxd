# The transactions that the row changes of a batch belong to, without the interpreter's lock.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.columns.column cimport Column
from binlake.core.columns.sink cimport ColumnSink

cdef struct Transactions:
    int64_t count
    int64_t capacity
    int64_t first
    Column* gtid
    Column* commit_us
    Column* start
    Column* thread_id

cdef class TransactionSink:
    cdef Transactions transactions
    cdef ColumnSink gtid
    cdef ColumnSink commit_us
    cdef ColumnSink start
    cdef ColumnSink thread_id

    cdef object finish(self)

# The facts that identify a transaction. `thread_id` is -1 if the log does not contain it.
cdef struct TransactionFacts:
    int64_t commit_us
    int64_t start
    int64_t thread_id

cdef int64_t add_unnamed(Transactions* found, const TransactionFacts* facts, Failure* failure) noexcept nogil
cdef int64_t add_named(Transactions* found, const TransactionFacts* facts, const uint8_t* gtid, int64_t size, Failure* failure) noexcept nogil
cdef int64_t add_mysql(Transactions* found, const TransactionFacts* facts, const uint8_t* sid, int64_t gno, Failure* failure) noexcept nogil
cdef int64_t add_mariadb(Transactions* found, const TransactionFacts* facts, uint64_t domain, uint64_t server_id, uint64_t sequence, Failure* failure) noexcept nogil
cdef int64_t held_by_transactions(const Transactions* found) noexcept nogil
