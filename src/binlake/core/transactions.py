"""The transactions that the row changes of a batch belong to, as columns."""

from __future__ import annotations

from typing import NamedTuple

import cython

from binlake.core.gtid import GtidFields
from binlake.core.sink import Sink64, SinkBuffers, VarSink

__all__ = ["TransactionBuffers", "TransactionSink"]

_FEWEST = cython.declare(cython.Py_ssize_t, 64)


class TransactionBuffers(NamedTuple):
    """`count` transactions. `gtid`: text as the flavour spells it, null where the log has none.
    `commit_us` i64: commit time, microseconds since 1970 UTC. `start` i64: offset of the first
    event in its file. `thread_id` i64, null where the log does not tell.
    """

    count: int
    gtid: SinkBuffers
    commit_us: SinkBuffers
    start: SinkBuffers
    thread_id: SinkBuffers


@cython.final
@cython.cclass
class TransactionSink:
    """Collects transactions; row changes name them by index."""

    def __init__(self) -> None:
        self.count = 0
        self.capacity = 0
        self.first = _FEWEST
        self.gtid = VarSink()
        self.commit_us = Sink64()
        self.start = Sink64()
        self.thread_id = Sink64()

    def add(
        self, commit_us: cython.Py_ssize_t, start: cython.Py_ssize_t, thread_id: cython.Py_ssize_t
    ) -> int:
        """Append one; its index. `thread_id` -1: unknown. One of the `name_…` methods follows."""
        row: cython.Py_ssize_t = self.count
        if row == self.capacity:
            self.capacity = max(self.first, 2 * self.capacity)
            self.gtid.reserve(self.capacity)
            self.commit_us.reserve(self.capacity)
            self.start.reserve(self.capacity)
            self.thread_id.reserve(self.capacity)
        self.commit_us.values[row] = commit_us
        self.start.values[row] = start
        if thread_id < 0:
            self.thread_id.append_null(row)
        else:
            self.thread_id.values[row] = thread_id
        self.gtid.fill(row)
        self.count = row + 1
        return row

    def name(self, gtid: bytes | None) -> int:
        """The transaction added last has this GTID, or none."""
        if gtid is None:
            return self.gtid.append_null(self.count - 1)
        self.gtid.out.put(gtid)
        return self.gtid.fill(self.count)

    def name_mysql(self, gtid: GtidFields) -> int:
        """The transaction added last has this GTID of MySQL."""
        gtid.write_mysql(self.gtid.out)
        return self.gtid.fill(self.count)

    def name_mariadb(self, gtid: GtidFields, server_id: cython.Py_ssize_t) -> int:
        """The transaction added last has this GTID of MariaDB."""
        gtid.write_mariadb(self.gtid.out, server_id)
        return self.gtid.fill(self.count)

    def held(self) -> int:
        """Bytes held."""
        return self.count * 33 + self.gtid.var_bytes()

    def finish(self) -> TransactionBuffers:
        """Hand over all transactions, without a copy, and start again at index 0."""
        count: cython.Py_ssize_t = self.count
        done = TransactionBuffers(
            count,
            self.gtid.finish(count),
            self.commit_us.finish(count),
            self.start.finish(count),
            self.thread_id.finish(count),
        )
        self.count = 0
        self.capacity = 0
        self.first = max(count + (count >> 4), _FEWEST)
        return done
