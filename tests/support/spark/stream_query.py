"""A streaming query without Spark: asks a reader what Spark's micro-batch engine asks, in its order.

The checkpoint is two lists that outlive the "process": the ends that were planned (written before a
batch runs), and how many batches were committed. `Query41` knows Spark 4.1's protocol, `Query42`
that of 4.2 and newer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle

from binlake.spark.source import BinlogDataSource
from binlake.spark.streaming.stream import BinlogStreamReader

__all__ = ["OPENED", "Checkpoint", "Query41", "Query42", "ReadAllAvailable"]


#: Every query that was made: tests with real servers close them.
OPENED: list[Query41] = []


class ReadAllAvailable:
    """Spark's limit of that name."""


class ReadMaxRows:
    """Another of Spark's."""


@dataclass
class Checkpoint:
    """The files on disk."""

    ends: list[str] = field(default_factory=list)
    committed: int = 0
    rows: list[list[dict[str, Any]]] = field(default_factory=list)  # the sink: by batch id

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        """The content of the sink, batch by batch."""
        return [row for batch in self.rows for row in batch]


class Query41:
    """A process that runs the query, with the options of the source."""

    def __init__(self, checkpoint: Checkpoint, **options: Any) -> None:
        self.checkpoint = checkpoint
        source = BinlogDataSource({name: str(value) for name, value in options.items()})
        made = source.streamReader(source.schema())
        assert isinstance(made, BinlogStreamReader)
        self.reader = made
        self._initial: str | None = None
        OPENED.append(self)

    def close(self) -> None:
        """The query ends."""
        self.reader.stop()

    def start(self) -> None:
        """Begin, or go on after a restart: a planned batch that was not committed is repeated."""
        ends = self.checkpoint.ends
        if ends:
            self._partitions(ends[-1], ends[-1])
        if len(ends) > self.checkpoint.committed:
            self._run(len(ends) - 1)

    def latest(self) -> str:
        return json.dumps(self.reader.latestOffset())

    def plan(self) -> bool:
        """Write down the next batch; false if there is nothing new."""
        end = self.latest()
        ends = self.checkpoint.ends
        if ends and end == ends[-1]:
            return False
        ends.append(end)
        return True

    def batch(self) -> bool:
        """One trigger; whether a batch ran."""
        if not self.plan():
            return False
        self._run(len(self.checkpoint.ends) - 1)
        return True

    def drain(self, most: int = 1000) -> int:
        """Triggers until nothing is new; how many batches ran."""
        for count in range(most):
            if not self.batch():
                return count
        raise AssertionError(f"still not done after {most} batches")

    def read(self, number: int) -> list[dict[str, Any]]:
        """The rows of a planned batch; every partition through pickle, as it travels."""
        start = self.checkpoint.ends[number - 1] if number else self.initial()
        found = []
        for partition in self._partitions(start, self.checkpoint.ends[number]):
            reader, part = cloudpickle.loads(cloudpickle.dumps((self.reader, partition)))
            for batch in reader.read(part):
                found += batch.to_pylist()
        return found

    def initial(self) -> str:
        if self._initial is None:
            self._initial = json.dumps(self.reader.initialOffset())
        return self._initial

    def _run(self, number: int) -> None:
        rows = self.checkpoint.rows
        rows[number:] = [self.read(number)]  # a sink that knows the batch: repeated, not doubled
        self.checkpoint.committed = number + 1

    def _partitions(self, start: str, end: str) -> Any:
        return self.reader.partitions(json.loads(start), json.loads(end))


class Query42(Query41):
    """Call it as newer versions of Spark do: from where, and how much."""

    limit: Any = ReadMaxRows()

    def start(self) -> None:
        if len(self.checkpoint.ends) > self.checkpoint.committed:
            self._run(len(self.checkpoint.ends) - 1)

    def latest(self) -> str:
        ends = self.checkpoint.ends
        start = json.loads(ends[-1] if ends else self.initial())
        return json.dumps(self.reader.latestOffset(start, self.limit))
