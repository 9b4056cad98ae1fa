"""The view `ledger`: one row per task, with the counts of what it read and left out."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from binlake.format.event_types import event_name
from binlake.spark.partitions import LogPartition
from binlake.stream.views import Column, View
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


def _list(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", value))


def _records(**fields: pa.DataType) -> pa.DataType:
    return _list(pa.struct(list(fields.items())))


_INT, _TEXT = pa.int64(), pa.string()
_COUNTS = pa.map_(_TEXT, _INT)


def _counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted((name, count) for name, count in counts.items() if count)


def _rows(ledger: Ledger) -> list[dict[str, str | int]]:
    return [
        {
            "database": database,
            "table": table,
            "inserts": counts["insert"],
            "updates": counts["update"],
            "deletes": counts["delete"],
        }
        for (database, table), counts in sorted(ledger.rows.items())
    ]


LEDGER = View(
    "ledger",
    (
        Column("host", _TEXT, lambda _: socket.gethostname()),
        Column(
            "covered",
            _records(file=_TEXT, start=_INT, end=_INT),
            lambda e: [c._asdict() for c in e.covered],
        ),
        Column("bytes", _INT, lambda e: e.total.bytes),
        Column("events", _INT, lambda e: e.total.events),
        Column(
            "event_types",
            _COUNTS,
            lambda ledger: _counts(
                {event_name(code): n for code, n in ledger.total.events_by_type.items()}
            ),
        ),
        Column("checksums_verified", _INT, lambda e: e.total.verified),
        Column("checksums_bad", _INT, lambda e: e.total.bad),
        Column("checksums_unchecked", _INT, lambda e: e.total.unchecked),
        Column("decoded_bytes", _INT, lambda e: e.decoded_bytes),
        Column(
            "rows",
            _records(database=_TEXT, table=_TEXT, inserts=_INT, updates=_INT, deletes=_INT),
            _rows,
        ),
        Column("transactions", _COUNTS, lambda e: _counts(e.transactions)),
        Column("unshown", _COUNTS, lambda e: _counts(e.unshown)),
        Column("zero_dates", _COUNTS, lambda e: _counts(e.zero_dates)),
        Column("json_differences", _COUNTS, lambda e: _counts(e.json_differences)),
        Column(
            "skipped",
            _records(file=_TEXT, start=_INT, end=_INT, why=_TEXT),
            lambda e: [lost._asdict() for lost in sorted(e.skipped)],
        ),
        Column("warnings", _list(_TEXT), lambda e: e.warnings),
        Column("remarks", _list(_TEXT), lambda e: e.remarks()),
    ),
)


def ledger_rows(
    partition: LogPartition,
    options: ReadOptions,
    target: Target,
    columns: Sequence[str],
    ledger: Ledger,
) -> Iterator[pa.RecordBatch]:
    """Read a partition for its ledger alone: one row. Raises BinlogError.

    Everything is decoded as for the rows of `target`, because only that shows which values became
    null.
    """
    for changes in partition.changes(options, target, ledger):
        if target is Target.TYPED:
            changes.table_batches(options)
    yield from LEDGER.batches([ledger], columns)
