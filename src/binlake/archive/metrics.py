"""The metrics of a running archive, for Prometheus and for the status line."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from binlake.archive.metrics_port import MetricsPort
from binlake.errors import OptionError, SourceError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["ArchiveMetrics", "serve_metrics"]

# Throughput covers the last seconds.
_WINDOW_SECONDS = 5.0


class ArchiveMetrics:
    """The numbers of one archiver.

    Everything before `file` and `offset` is durable. `bytes` counts the bytes received since the
    start. `event_s` is the time of the last event (seconds since 1970; NaN: none yet).
    `logs_unfinished` are complete logs that are not indexed or compressed yet.
    """

    def __init__(self) -> None:
        self.server = ""
        self.file = ""
        self.offset = 0
        self.bytes = 0
        self.logs_finished = 0
        self.logs_unfinished = 0
        self.syncs = 0
        self.sync_s = 0.0
        self.reconnections = 0
        self.event_s = math.nan
        self.connected = False
        self.caught_up = False
        # the last time when the server had nothing more
        self._current_s = math.nan
        # how many more bytes the server had at the last check, and how many had been received then
        self._behind: tuple[int, int] | None = None
        self._marks: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def came(self, size: int, event_s: int) -> None:
        """Count received bytes, with the time of one event in them (0: it has none)."""
        self.bytes += size
        self.caught_up = False
        if event_s:
            self.event_s = event_s

    def nothing_more(self) -> None:
        """Note that the server has sent everything."""
        self.caught_up = True
        self._current_s = time.time()
        self._behind = (0, self.bytes)

    def lost_connection(self) -> None:
        """Note that the end of the server's log is unknown."""
        self.connected = self.caught_up = False

    def has_more(self, behind_bytes: int) -> None:
        """Note how many more bytes the server has."""
        self._behind = (behind_bytes, self.bytes)

    @property
    def behind_bytes(self) -> float:
        """The bytes that the server had more at the last check, less those received since; NaN
        before.
        """
        if self._behind is None:
            return math.nan
        behind, then = self._behind
        return max(0, behind - (self.bytes - then))

    @property
    def lag_s(self) -> float:
        """For how many seconds the archive may lack data of the server; NaN if unknown.

        That is the age of the last event, or of the last moment in which nothing was missing.
        """
        if self.connected and self.caught_up:
            return 0.0
        known = [moment for moment in (self.event_s, self._current_s) if moment == moment]
        return max(0.0, time.time() - max(known)) if known else math.nan

    @property
    def bytes_per_second(self) -> float:
        """The throughput of the last seconds."""
        now = time.monotonic()
        self._marks.append((now, self.bytes))
        while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW_SECONDS:
            self._marks.pop(0)
        then, count = self._marks[0]
        return (self.bytes - count) / max(now - then, 1e-6)

    def line(self) -> str:
        """The status line."""
        lag = self.lag_s
        state = "catching up" if math.isnan(lag) else f"{lag:.0f} s behind" if lag else "up to date"
        if not self.connected:
            state = "not connected"
        rate = "" if self.caught_up else f", {self.bytes_per_second / 1e6:.1f} MB/s"
        return f"{self.server} {self.file}:{self.offset} {state}{rate}"

    def register(self, registry: CollectorRegistry) -> None:
        """Register the metrics of the archivers."""
        _register(registry, [self])

    def _counters(self) -> list[tuple[str, str, float]]:
        return [
            ("binlake_archive_received_bytes", "Bytes of logs received", self.bytes),
            ("binlake_archive_logs_finished", "Logs that were completed", self.logs_finished),
            ("binlake_archive_syncs", "How often data was made durable", self.syncs),
            ("binlake_archive_sync_seconds", "Time that took", self.sync_s),
            ("binlake_archive_reconnections", "Connections after the first", self.reconnections),
        ]

    def _gauges(self) -> list[tuple[str, str, float]]:
        return [
            (
                "binlake_archive_lag_seconds",
                "Age of the newest data in the archive; 0: up to date",
                self.lag_s,
            ),
            (
                "binlake_archive_behind_bytes",
                "Bytes that the server has and the archive does not",
                self.behind_bytes,
            ),
            ("binlake_archive_connected", "1 if the server sends", float(self.connected)),
            (
                "binlake_archive_last_event_timestamp_seconds",
                "Time of the last event",
                self.event_s,
            ),
            (
                "binlake_archive_logs_unfinished",
                "Complete logs that wait to be indexed or compressed",
                self.logs_unfinished,
            ),
            (
                "binlake_archive_received_bytes_per_second",
                "Throughput of the last seconds",
                self.bytes_per_second,
            ),
        ]


def serve_metrics(metrics: Sequence[ArchiveMetrics], address: str, port: int) -> MetricsPort:
    """Serve Prometheus on a port, until `close`. Raises SourceError, OptionError."""
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
    except ImportError:
        raise OptionError(
            "--metrics-port needs prometheus_client", hint="pip install binlake[server]"
        ) from None
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    _register(registry, metrics)
    try:
        return MetricsPort(registry, address, port, lambda: _not_connected(metrics))
    except (OSError, OverflowError) as error:
        raise SourceError(
            f"cannot serve metrics on {address}:{port}: {getattr(error, 'strerror', '') or error}"
        ) from None


def _not_connected(metrics: Sequence[ArchiveMetrics]) -> str:
    """Return the reason why the archives are not ready: servers that are not connected."""
    lost = [one.server or "a server" for one in metrics if not one.connected]
    return f"not connected: {', '.join(lost)}" if lost else ""


def _register(registry: CollectorRegistry, all_metrics: Sequence[ArchiveMetrics]) -> None:
    """Yield one family for each metric, with a sample for each archiver."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Collector:
        def collect(self) -> Any:
            labels = ["server"]
            for kind, rows in (
                (CounterMetricFamily, [one._counters() for one in all_metrics]),
                (GaugeMetricFamily, [one._gauges() for one in all_metrics]),
            ):
                for samples in zip(*rows, strict=True):
                    name, text, _ = samples[0]
                    family = kind(name, text, labels=labels)
                    for metrics, (_, _, value) in zip(all_metrics, samples, strict=True):
                        family.add_metric([metrics.server], value)
                    yield family
            place = GaugeMetricFamily(
                "binlake_archive_durable_offset_bytes",
                "Everything before this offset of this log is durable",
                labels=["server", "file"],
            )
            for metrics in all_metrics:
                place.add_metric([metrics.server, metrics.file], metrics.offset)
            yield place

    registry.register(Collector())
