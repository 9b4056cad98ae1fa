"""The metrics of a running archive, for Prometheus and for the status line."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from binlake.metrics_port import Metric, MetricsPort, families, registry_of

_PREFIX = "binlake_archive_"

# Throughput covers the last seconds.
_WINDOW_SECONDS = 5.0


class ArchiveMetrics:
    """The numbers of one archiver.

    Everything before `file` and `offset` is durable. `bytes` counts the bytes received since the
    start. `event_s` is the time of the last event (seconds since 1970; NaN: none yet).
    `logs_unfinished` are complete logs that are not indexed or compressed yet. `retention_blocked`:
    an unreadable log keeps the age limit from removing the logs before it.
    """

    def __init__(self) -> None:
        self.server = ""
        self.file = ""
        self.offset = 0
        self.bytes = 0
        self.logs_finished = 0
        self.logs_unfinished = 0
        self.retention_blocked = False
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


#: The metrics of one archiver.
ARCHIVE_METRICS: tuple[Metric[ArchiveMetrics], ...] = (
    ("received_bytes", "counter", "Bytes of logs received", lambda m: m.bytes),
    ("logs_finished", "counter", "Logs that were completed", lambda m: m.logs_finished),
    ("syncs", "counter", "Number of times that data was synced to disk or stored", lambda m: m.syncs),
    ("sync_seconds", "counter", "Time that these syncs took", lambda m: m.sync_s),
    ("reconnections", "counter", "Number of reconnections to the server", lambda m: m.reconnections),
    ("lag_seconds", "gauge", "Age of the newest data in the archive; 0: up to date", lambda m: m.lag_s),
    ("behind_bytes", "gauge", "Bytes that the server has and the archive does not", lambda m: m.behind_bytes),
    ("connected", "gauge", "1 while connected", lambda m: m.connected),
    ("last_event_timestamp_seconds", "gauge", "Time of the last event", lambda m: m.event_s),
    ("logs_unfinished", "gauge", "Complete logs that wait to be indexed or compressed", lambda m: m.logs_unfinished),
    ("retention_blocked", "gauge", "1 if an unreadable log stops retention by age", lambda m: m.retention_blocked),
    ("received_bytes_per_second", "gauge", "Throughput of the last seconds", lambda m: m.bytes_per_second),
)  # fmt: skip
_PLACE: Metric[ArchiveMetrics] = (
    "durable_offset_bytes", "gauge", "Everything before this offset of this log is durable", lambda m: m.offset,
)  # fmt: skip


def archive_families(archives: Sequence[ArchiveMetrics]) -> Iterator[Any]:
    """Yield one family for each metric, with a sample for each archiver."""
    yield from families(_PREFIX, ARCHIVE_METRICS, ["server"], [([m.server], m) for m in archives])
    files = [([m.server, m.file], m) for m in archives]
    yield from families(_PREFIX, [_PLACE], ["server", "file"], files)


def serve_metrics(metrics: Sequence[ArchiveMetrics], address: str, port: int) -> MetricsPort:
    """Serve Prometheus on a port, until `close`. Raises SourceError, OptionError."""
    registry = registry_of(lambda: archive_families(metrics))
    from prometheus_client import ProcessCollector

    ProcessCollector(registry=registry)
    return MetricsPort(registry, address, port, lambda: _not_connected(metrics))


def _not_connected(metrics: Sequence[ArchiveMetrics]) -> str:
    """Return the reason why the archives are not ready: servers that are not connected."""
    lost = [one.server or "a server" for one in metrics if not one.connected]
    return f"not connected: {', '.join(lost)}" if lost else ""
