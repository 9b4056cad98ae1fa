from typing import NamedTuple

from binlake.core.columns.sink import SinkBuffers

class TransactionBuffers(NamedTuple):
    count: int
    gtid: SinkBuffers
    commit_us: SinkBuffers
    start: SinkBuffers
    thread_id: SinkBuffers
