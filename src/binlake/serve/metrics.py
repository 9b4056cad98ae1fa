"""Metrics for Prometheus, read from the connections on request, so nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from binlake.archive.metrics_port import MetricsPort, registry_of
from binlake.errors import BinlogError
from binlake.values.log_names import LogName

if TYPE_CHECKING:
    from binlake.serve.server import BinlogServer

#: Name, kind and meaning of each metric; those about replicas have the labels replica and address.
METRICS: tuple[tuple[str, str, str], ...] = (
    ("binlake_serve_replicas", "gauge", "Replicas that follow now"),
    ("binlake_serve_refused_logins", "counter", "Logins with a wrong user or password"),
    ("binlake_serve_files", "gauge", "Log files that can be served"),
    ("binlake_serve_sent_bytes", "counter", "Bytes sent to a replica on this connection"),
    ("binlake_serve_sent_events", "counter", "Events of the logs sent to a replica"),
    ("binlake_serve_heartbeats", "counter", "Heartbeats sent to a replica"),
    ("binlake_serve_acks", "counter", "Semi-synchronous acknowledgements received from a replica"),
    ("binlake_serve_files_behind", "gauge", "Log files after the one that a replica reads"),
    ("binlake_serve_position", "gauge", "Position of a replica in the file that it reads"),
    ("binlake_serve_acknowledged_position", "gauge", "Position in the last acknowledgement"),
)


def serve_metrics(server: BinlogServer, port: int) -> Callable[[], None]:
    """Serve http://<bind>:<port>/metrics; the result ends that. Raises OptionError, SourceError."""
    registry = registry_of(lambda: _collect(server))
    return MetricsPort(registry, server.settings.bind, port, server.not_ready).close


def _collect(server: BinlogServer) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    following = [one for one in server.replicas.listed() if one.following]
    names = server.library.chain.names
    whole = {
        "replicas": len(following),
        "refused_logins": server.refused_logins,
        "files": len(names),
    }
    for name, kind, meaning in METRICS:
        short = name.removeprefix("binlake_serve_")
        if short in whole:
            family = kinds[kind](name, meaning, labels=[])
            family.add_metric([], whole[short])
            yield family
            continue
        family = kinds[kind](name, meaning, labels=["replica", "address"])
        for one in following:
            with suppress(ValueError, BinlogError):
                family.add_metric(
                    [str(one.server_id), one.address], replica_metric(one.progress, short, names)
                )
        yield family


def replica_metric(progress: Any, short: str, names: tuple[str, ...]) -> int:
    """Return one metric of one replica, by its name without `binlake_serve_`. Raises ValueError
    for an unknown name.
    """
    if short == "files_behind":
        return _files_after(progress.file, names)
    if short == "acknowledged_position":
        return int(progress.acknowledged.rpartition(":")[2])
    attribute = {"sent_bytes": "bytes", "sent_events": "events"}.get(short, short)
    return int(getattr(progress, attribute))


def _files_after(file: str, names: tuple[str, ...]) -> int:
    """Return how many files follow one, which may be purged or may not exist yet."""
    if file in names:
        return len(names) - 1 - names.index(file)
    numbers = [named.number for name in names if (named := LogName.parse(name))]
    here = LogName.parse(file)
    if here is None or not numbers:
        raise ValueError(file)
    return sum(number > here.number for number in numbers)
