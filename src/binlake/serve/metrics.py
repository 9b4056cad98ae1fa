"""Metrics for Prometheus, read from the connections on request, so nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from binlake.metrics_port import Metric, MetricsPort, families, registry_of
from binlake.values.log_names import LogName

if TYPE_CHECKING:
    from binlake.serve.dump import DumpProgress
    from binlake.serve.server import BinlogServer

_PREFIX = "binlake_serve_"


class Following(NamedTuple):
    """A replica that follows: its progress, and the names of the logs that it can have."""

    progress: DumpProgress
    names: tuple[str, ...]

    @property
    def files_behind(self) -> int | None:
        """How many files follow the one that it reads, which may be purged or may not exist yet; None if unknown."""
        file, names = self.progress.file, self.names
        if file in names:
            return len(names) - 1 - names.index(file)
        numbers = [named.number for name in names if (named := LogName.parse(name))]
        here = LogName.parse(file)
        if here is None or not numbers:
            return None
        return sum(number > here.number for number in numbers)

    @property
    def acknowledged_position(self) -> int | None:
        """The position of its last acknowledgement; None before the first."""
        position = self.progress.acknowledged.rpartition(":")[2]
        return int(position) if position else None


#: The metrics of a server.
SERVER_METRICS: tuple[Metric[BinlogServer], ...] = (
    ("replicas", "gauge", "Replicas that follow now", lambda s: len(s.replicas.following())),
    ("refused_logins", "counter", "Logins with a wrong user or password", lambda s: s.refused_logins),
    ("files", "gauge", "Log files that can be served", lambda s: len(s.library.chain.names)),
)  # fmt: skip
#: The metrics of a replica.
REPLICA_METRICS: tuple[Metric[Following], ...] = (
    ("sent_bytes", "counter", "Bytes sent to a replica on this connection", lambda r: r.progress.bytes),
    ("sent_events", "counter", "Events of the logs sent to a replica", lambda r: r.progress.events),
    ("heartbeats", "counter", "Heartbeats sent to a replica", lambda r: r.progress.heartbeats),
    ("acks", "counter", "Semi-synchronous acknowledgements received from a replica", lambda r: r.progress.acks),
    ("files_behind", "gauge", "Log files after the one that a replica reads", lambda r: r.files_behind),
    ("position", "gauge", "Position of a replica in the file that it reads", lambda r: r.progress.position),
    ("acknowledged_position", "gauge", "Position in the last acknowledgement", lambda r: r.acknowledged_position),
)  # fmt: skip


def serve_metrics(server: BinlogServer, port: int) -> Callable[[], None]:
    """Serve http://<bind>:<port>/metrics; the result ends that. Raises OptionError, SourceError."""
    registry = registry_of(lambda: _collect(server))
    return MetricsPort(registry, server.settings.bind, port, server.not_ready).close


def _collect(server: BinlogServer) -> Iterator[Any]:
    names = server.library.chain.names
    replicas = [
        ([str(one.server_id), one.address], Following(one.progress, names))
        for one in server.replicas.following()
    ]
    yield from families(_PREFIX, SERVER_METRICS, [], [([], server)])
    yield from families(_PREFIX, REPLICA_METRICS, ["replica", "address"], replicas)
