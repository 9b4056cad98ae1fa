"""The facts about the session that the planner of a read needs.

Spark plans a read in a helper process of the driver, which has no access to the session. So a session
that binlake has prepared registers a data source that contains these facts.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.spark.ledger_collector import CollectorAddress
from binlake.stream.lanes import usable_cores
from binlake.table.log_part import TaskSize


@dataclass(frozen=True)
class SessionDriver:
    """`collector` listens in the driver of a cluster; `cores` are those of a session on one machine.

    Both are None if binlake has not prepared the session, and under Connect.
    """

    collector: CollectorAddress | None = None
    cores: int | None = None

    def task_size(self, max_partition_bytes: int | None) -> TaskSize:
        """Return the size of the tasks of a read whose option has this value."""
        if max_partition_bytes is not None:
            return TaskSize(max_partition_bytes)
        return TaskSize(cores=self._cores_now())

    def _cores_now(self) -> int:
        """Return how many tasks can run at the same time: executors of a cluster come and go, so
        its driver is asked. Without an answer, the cores of this machine count.
        """
        asked = None if self.collector is None else self.collector.cores()
        return asked or self.cores or usable_cores()
