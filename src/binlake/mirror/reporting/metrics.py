"""A mirror's status for Prometheus: as text, or answered on a port while the mirror runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from binlake.archive.metrics_port import MetricsPort
from binlake.errors import OptionError, SourceError
from binlake.mirror.reporting.report import MirrorStatus, TableStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["MIRROR_METRICS", "TABLE_METRICS", "Exporter", "prometheus_text"]

_PREFIX = "binlake_mirror_"


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)


#: Name without `binlake_mirror_`, meaning, value. NaN: not known.
MIRROR_METRICS: tuple[tuple[str, str, Callable[[MirrorStatus], float]], ...] = (
    ("lag_seconds", "Age of the newest moment that the lake shows", lambda s: _known(s.lag_seconds)),
    ("behind_bytes", "Bytes of log that the lake does not have", lambda s: _known(s.behind_bytes)),
    (
        "changes_per_second",
        "Rows applied per second, in the last minute",
        lambda s: _known(s.changes_per_second),
    ),
    ("rounds", "Number of the newest round", lambda s: s.round),
    ("paused", "1 while the mirror is paused", lambda s: s.paused),
    ("tables_quarantined", "Tables that are left alone", lambda s: len(s.quarantined)),
    (
        "tables_different",
        "Tables that the last scheduled comparison found different",
        lambda s: len(s.different),
    ),
    (
        "verified_timestamp_seconds",
        "Time of the last scheduled comparison",
        lambda s: _known(s.verified_s),
    ),
)  # fmt: skip
#: The same for a table.
TABLE_METRICS: tuple[tuple[str, str, Callable[[TableStatus], float]], ...] = (
    ("table_rows", "Rows of the table", lambda t: t.rows),
    ("table_deleted_share", "Share of the rows in data files that are deleted", lambda t: t.deleted_share),
    ("table_files", "Data files", lambda t: t.files),
    ("table_bytes", "Bytes of the files of the table", lambda t: t.bytes),
    ("table_compaction_due", "Data files that the next compaction rewrites", lambda t: t.compaction_due),
    ("table_index_bytes", "Bytes of the row index", lambda t: t.index_bytes),
    ("table_quarantined", "1 while the table is quarantined", lambda t: t.state == "quarantined"),
)  # fmt: skip


class _Collector:
    """Families of a status that is asked for at each scrape."""

    def __init__(self, status: Callable[[], MirrorStatus | None]) -> None:
        self._status = status

    def collect(self) -> Iterator[Any]:
        """The families that there are."""
        from prometheus_client.core import GaugeMetricFamily

        status = self._status()
        if status is None:
            return
        for name, text, value in MIRROR_METRICS:
            family = GaugeMetricFamily(_PREFIX + name, text, labels=["source"])
            family.add_metric([status.source], float(value(status)))
            yield family
        for name, text, of in TABLE_METRICS:
            family = GaugeMetricFamily(_PREFIX + name, text, labels=["source", "table"])
            for table in status.tables:
                family.add_metric([status.source, table.table], float(of(table)))
            yield family


def _registry(status: Callable[[], MirrorStatus | None]) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        raise OptionError(
            "metrics need prometheus_client", hint="pip install 'binlake[mirror,server]'"
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(status))
    return registry


def prometheus_text(status: MirrorStatus) -> str:
    """A status in Prometheus's text format. Raises OptionError without its client."""
    from prometheus_client import generate_latest

    return generate_latest(_registry(lambda: status)).decode()


class Exporter:
    """Answers Prometheus on a port with the status that was shown last. Raises SourceError, OptionError."""

    def __init__(self, address: str, port: int) -> None:
        self._status: MirrorStatus | None = None
        registry = _registry(lambda: self._status)
        try:
            self._port = MetricsPort(registry, address, port, self._not_ready)
        except (OSError, OverflowError) as error:
            raise SourceError(
                f"cannot serve metrics on {address}:{port}: {getattr(error, 'strerror', '') or error}"
            ) from None
        self.url = f"http://{address}:{self._port.port}/metrics"

    def _not_ready(self) -> str:
        return "" if self._status is not None else "no round has finished yet"

    def show(self, status: MirrorStatus) -> None:
        """Answer with this from now on."""
        self._status = status

    def close(self) -> None:
        """Answer no more."""
        self._port.close()
