"""A mirror's status for Prometheus: as text, or answered on a port while the mirror runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from binlake.metrics_port import Metric, MetricsPort, families, registry_of
from binlake.mirror.reporting.pulse import last_beat
from binlake.mirror.reporting.report import UNREADABLE, MirrorStatus, TableStatus, with_beat

#: So many seconds after its last check of the log, a mirror is not ready.
STALLED_S = 300.0
#: Where metrics are served by default: programs on this machine only can ask.
METRICS_ADDRESS = "127.0.0.1"
_PREFIX = "binlake_mirror_"


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)


#: The metrics of a mirror. NaN: not known.
MIRROR_METRICS: tuple[Metric[MirrorStatus], ...] = (
    ("lag_seconds", "gauge", "Age of the newest moment that the lake shows", lambda s: _known(s.lag_seconds)),
    ("behind_bytes", "gauge", "Bytes of log that the lake does not have", lambda s: _known(s.behind_bytes)),
    ("changes_per_second", "gauge", "Rows applied per second, in the last minute", lambda s: _known(s.changes_per_second)),
    ("rounds", "gauge", "Number of the newest round", lambda s: s.round),
    ("committed_timestamp_seconds", "gauge", "Time of the last commit of a round", lambda s: _known(s.written_s)),
    ("checked_timestamp_seconds", "gauge", "Time of the last check of the log", lambda s: _known(s.checked_s)),
    ("paused", "gauge", "1 while the mirror is paused", lambda s: s.paused),
    ("tables_quarantined", "gauge", "Tables that are quarantined", lambda s: len(s.quarantined)),
    ("tables_to_copy", "gauge", "Tables that are not followed until a copy or a resync is complete", lambda s: len(s.to_copy)),
    ("tables_different", "gauge", "Tables that scheduled comparisons have found different, and not equal since", lambda s: len(s.different)),
    ("tables_not_compared", "gauge", "Tables that the last scheduled comparison did not compare", lambda s: len(s.not_compared)),
    ("verified_timestamp_seconds", "gauge", "Time of the last scheduled comparison", lambda s: _known(s.verified_s)),
    ("verify_due_timestamp_seconds", "gauge", "Time at which the next scheduled comparison is or was due", lambda s: _known(s.verify_due_s)),
)  # fmt: skip
#: The same for a table.
TABLE_METRICS: tuple[Metric[TableStatus], ...] = (
    ("table_rows", "gauge", "Rows of the table", lambda t: t.rows),
    ("table_deleted_share", "gauge", "Share of the rows in data files that are deleted", lambda t: t.deleted_share),
    ("table_files", "gauge", "Data files", lambda t: t.files),
    ("table_bytes", "gauge", "Bytes of the files of the table", lambda t: t.bytes),
    ("table_compaction_due", "gauge", "Data files that the next compaction rewrites", lambda t: t.compaction_due),
    ("table_index_bytes", "gauge", "Bytes of the row index", lambda t: t.index_bytes),
    ("table_quarantined", "gauge", "1 while the table is quarantined", lambda t: t.state == "quarantined"),
    ("table_to_copy", "gauge", "1 while the table is not followed because a copy or a resync is not complete", lambda t: t.is_to_copy),
)  # fmt: skip
#: The same for a column.
COLUMN_METRICS: tuple[Metric[int], ...] = (
    ("zero_dates_total", "counter", "Zero and partial dates that copies and rounds have read as NULL", lambda count: count),
)  # fmt: skip


def _families(status: MirrorStatus | None) -> Iterator[Any]:
    """The families of a status."""
    if status is None:
        return
    yield from families(_PREFIX, MIRROR_METRICS, ["source"], [([status.source], status)])
    tables = [
        ([status.source, table.table], table)
        for table in status.tables
        if table.state != UNREADABLE  # it has not lost its rows
    ]
    yield from families(_PREFIX, TABLE_METRICS, ["source", "table"], tables)
    columns = [([status.source, name], count) for name, count in sorted(status.zero_dates.items())]
    yield from families(_PREFIX, COLUMN_METRICS, ["source", "column"], columns)


def prometheus_text(status: MirrorStatus) -> str:
    """A status in Prometheus's text format. Raises OptionError without its client."""
    registry = registry_of(lambda: _families(status))
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


class Exporter:
    """Answers Prometheus on a port with the status that was shown last, and with the newest beat in `indexes`, the directory
    that the mirror has on this machine.

    The lag grows until the next beat: a mirror that hangs must not look fresh. Raises SourceError, OptionError.
    """

    def __init__(self, address: str, port: int, indexes: Path) -> None:
        self._shown: MirrorStatus | None = None
        self._indexes = indexes
        registry = registry_of(lambda: _families(self._status()))
        self._port = MetricsPort(registry, address, port, self._not_ready)
        self.url = f"http://{address}:{self._port.port}/metrics"

    def _status(self) -> MirrorStatus | None:
        """The status now; None before the first one."""
        if self._shown is None:
            return None
        beat = last_beat(self._indexes)
        return self._shown if beat is None else with_beat(self._shown, beat)

    def _not_ready(self) -> str:
        status = self._status()
        if status is None:
            return "the mirror has not checked the log yet"
        age_s = time.time() - (status.checked_s or 0.0)
        if age_s > STALLED_S:
            return f"the mirror has not checked the log since {status.checked_at}"
        return ""

    def show(self, status: MirrorStatus) -> None:
        """Answer with this from now on."""
        self._shown = status

    def close(self) -> None:
        """Answer no more."""
        self._port.close()


@contextmanager
def answering(
    port: int | None, address: str, indexes: Path, note: Callable[[str], None]
) -> Iterator[Callable[[MirrorStatus], None] | None]:
    """Answer Prometheus on a port in this block; without a port, do nothing.

    Return the function that receives each new status; None without a port. `indexes` as for `Exporter`. `note` receives
    the URL. Raises SourceError if the port cannot be used, OptionError without Prometheus's client.
    """
    if port is None:
        yield None
        return
    exporter = Exporter(address, port, indexes)
    try:
        note(f"metrics: {exporter.url}")
        yield exporter.show
    finally:
        exporter.close()
