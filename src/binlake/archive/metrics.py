"""What an archive tells of itself while it runs: numbers for Prometheus and for the status line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from binlake.errors import OptionError, SourceError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["ArchiveMetrics"]

# Throughput is that of the last moments.
_WINDOW_SECONDS = 5.0


class ArchiveMetrics:
    """The numbers of one archiver.

    `file` and `offset` are the place before which everything is durable, `bytes` what came since
    the start, `event_s` the time of the last event (seconds since 1970), `behind_bytes` what the
    server had more when it was last asked (None: not known). `caught_up`: nothing more was there.
    """

    def __init__(self) -> None:
        self.server = ""
        self.file = ""
        self.offset = 0
        self.bytes = 0
        self.logs_finished = 0
        self.syncs = 0
        self.sync_s = 0.0
        self.reconnections = 0
        self.event_s = 0.0
        self.caught_up = False
        self.connected = False
        self.behind_bytes: int | None = None
        self._marks: list[tuple[float, int]] = [(time.monotonic(), 0)]

    @property
    def lag_s(self) -> float:
        """How old the last event is, 0 if nothing more was there, in seconds."""
        if self.caught_up or not self.event_s:
            return 0.0
        return max(0.0, time.time() - self.event_s)

    @property
    def bytes_per_second(self) -> float:
        """The throughput of the last moments."""
        now = time.monotonic()
        self._marks.append((now, self.bytes))
        while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW_SECONDS:
            self._marks.pop(0)
        then, count = self._marks[0]
        return (self.bytes - count) / max(now - then, 1e-6)

    def line(self) -> str:
        """The status line."""
        state = "up to date" if self.caught_up else f"{self.lag_s:.0f} s behind"
        if not self.connected:
            state = "not connected"
        rate = "" if self.caught_up else f", {self.bytes_per_second / 1e6:.1f} MB/s"
        return f"{self.server} {self.file}:{self.offset} {state}{rate}"

    def serve(self, address: str, port: int) -> Any:
        """Answer Prometheus on a port. Returns what `shutdown()` ends. Raises SourceError."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise OptionError(
                "--metrics-port needs prometheus_client", hint="pip install binlake[server]"
            ) from None
        registry = CollectorRegistry()
        self._register(registry)
        try:
            server, _ = start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            raise SourceError(
                f"metrics cannot be served on {address}:{port}: {error.strerror or error}"
            ) from None
        return server

    def _register(self, registry: CollectorRegistry) -> None:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        metrics = self

        class Collector:
            def collect(self) -> Any:
                labels = ["server"]
                for name, text, value in metrics._counters():
                    counter = CounterMetricFamily(name, text, labels=labels)
                    counter.add_metric([metrics.server], value)
                    yield counter
                for name, text, value in metrics._gauges():
                    gauge = GaugeMetricFamily(name, text, labels=labels)
                    gauge.add_metric([metrics.server], value)
                    yield gauge
                place = GaugeMetricFamily(
                    "binlake_archive_durable_offset_bytes",
                    "Everything before this offset of this log is durable",
                    labels=["server", "file"],
                )
                place.add_metric([metrics.server, metrics.file], metrics.offset)
                yield place

        registry.register(Collector())

    def _counters(self) -> list[tuple[str, str, float]]:
        return [
            ("binlake_archive_bytes", "Bytes of logs that came", self.bytes),
            ("binlake_archive_logs_finished", "Logs that were completed", self.logs_finished),
            ("binlake_archive_syncs", "How often data was made durable", self.syncs),
            ("binlake_archive_sync_seconds", "Time that took", self.sync_s),
            ("binlake_archive_reconnections", "Connections after the first", self.reconnections),
        ]

    def _gauges(self) -> list[tuple[str, str, float]]:
        gauges = [
            ("binlake_archive_lag_seconds", "Age of the last event; 0: up to date", self.lag_s),
            ("binlake_archive_connected", "1 if the server sends", float(self.connected)),
            ("binlake_archive_last_event_timestamp_seconds", "Of the last event", self.event_s),
            (
                "binlake_archive_bytes_per_second",
                "Throughput of the last seconds",
                self.bytes_per_second,
            ),
        ]
        if self.behind_bytes is not None:
            gauges.append(
                ("binlake_archive_behind_bytes", "What the server had more", self.behind_bytes)
            )
        return gauges
