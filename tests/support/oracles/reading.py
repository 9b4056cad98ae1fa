"""Read logs in the ways that users go: the command `binlake rows`, the Python API, and Spark's data source."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import binlake
from binlake.cli.main import main
from binlake.events.base import Event
from binlake.values.ledger import Ledger

if TYPE_CHECKING:
    from binlake.spark.batch import BinlogReader
    from binlake.stream.positions.splits import Split

__all__ = [
    "Line",
    "binlog_reader",
    "command",
    "events",
    "flags_of",
    "lines_of",
    "printed_rows",
    "row_lines",
    "split_lines",
    "task_lines",
]

Line = dict[str, Any]


def command(*argv: str) -> tuple[int, bytes, str]:
    """Run `binlake` in this process; its exit code, and what it wrote to standard output and standard error."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    thresholds = gc.get_threshold()
    try:
        with redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
            code = main([*argv])
            out.flush()
    finally:  # a process of one command does not need its garbage collected
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    assert isinstance(out.buffer, io.BytesIO)
    return code, out.buffer.getvalue(), err.getvalue()


def printed_rows(*paths: Path | str, **given: Any) -> Iterator[Line]:
    """The objects that `binlake rows PATH…` prints; options by their names."""
    code, out, err = command("rows", *map(str, paths), *flags_of(**given))
    assert code == 0, err
    return map(json.loads, out.splitlines())


def flags_of(**given: Any) -> Iterator[str]:
    """The flags of the command line for options by their names."""
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        yield from [flag] if value is True else [flag, str(value)]


def row_lines(*paths: Path | str, **given: Any) -> Iterator[Line]:
    """The row changes of `binlake.open([PATH…])`; options by their names. Raises BinlogError, after the changes
    before the error.
    """
    return lines_of(binlake.open(paths, **given))


def lines_of(log: binlake.Log) -> Iterator[Line]:
    """The row changes of an opened log, whose `ledger` is complete after the last of them."""
    return _lines(log.changes())


def events(path: Path | str, **given: Any) -> Iterator[Event]:
    """The events of the file itself, without those inside a payload; options by their names."""
    return (found.event for found in binlake.open(path, **given).events() if found.inner is None)


def binlog_reader(*paths: Path | str, **given: Any) -> BinlogReader:
    """The reader of `spark.read.format("binlog").load([PATH…])`, made as Spark makes it; options by their names."""
    pytest.importorskip("pyspark", reason="needs the extra [spark]")
    from binlake.spark.batch import BinlogReader
    from binlake.spark.source import BinlogDataSource

    texts = {name: str(value) for name, value in given.items()}
    named = json.dumps([str(path) for path in paths])
    source = BinlogDataSource({"view": "changes", **texts, "paths": named})
    made = source.reader(source.schema())
    assert isinstance(made, BinlogReader)
    return made


def task_lines(*paths: Path | str, ledger: Ledger | None = None, **given: Any) -> Iterator[Line]:
    """The row changes that the tasks of a Spark read yield, in their order; options by their names.

    With `ddl_scan_bytes=0` the tasks know the names in row events and in the schema, and none from DDL, as the tasks
    of a stream do.
    """
    from binlake.spark.partitions import LogPartition

    reader = binlog_reader(*paths, **given)
    held = Ledger() if ledger is None else ledger
    for partition in reader.partitions():
        assert isinstance(partition, LogPartition)
        yield from _lines(reader.batches(partition, held))


def split_lines(
    reader: BinlogReader, tasks: Iterable[Sequence[Split]], ledger: Ledger
) -> Iterator[Line]:
    """The row changes of tasks that read these splits, one task after the other."""
    from binlake.spark.partitions import LogPartition

    for splits in tasks:
        yield from _lines(reader.batches(LogPartition(tuple(splits)), ledger))


def _lines(batches: Iterable[pa.RecordBatch]) -> Iterator[Line]:
    for batch in batches:
        for row in batch.to_pylist():
            for side in ("before", "after"):
                if row[side] is not None:
                    row[side] = json.loads(row[side])
            yield row
