"""`binlake rows FILE…`: row changes as JSON lines, CSV, Arrow or Parquet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import pyarrow as pa
import typer

from binlake.cli.flags import with_row_options
from binlake.cli.terminal import (
    fail_if_lost,
    hinting,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.errors import OptionError
from binlake.source.chain import resolve
from binlake.stream.log_reader import LogReader
from binlake.table.batches import Changes
from binlake.table.column_check import ColumnCheck
from binlake.table.declared import DeclaredSchema
from binlake.table.decode import ChangeDecoder
from binlake.table.row_json import change_batch, change_schema, json_lines
from binlake.table.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["rows"]

_FORMATS = ("json", "csv", "arrow", "parquet")
_BINARY_FORMATS = ("arrow", "parquet")


@with_row_options
def rows(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="|".join(_FORMATS))
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N rows.")
    ] = None,
) -> None:
    """Print every committed row change, one JSON object per line, in commit order.

    Values are what the server's own SELECT says at time zone +00:00. A key that is missing was
    not in the log; null is NULL. What could not be shown is said at the end, on stderr.

    Examples:
      binlake rows binlog.000012 --table shop.orders --op delete

      binlake rows /var/lib/mysql/ --since '2026-11-21 14:00' --until '2026-11-21 14:05'

      binlake rows binlog.000012 --at binlog.000012:4711 --query

      zcat binlog.000012.gz | binlake rows - --format parquet -o changes.parquet
    """
    if form not in _FORMATS:
        raise OptionError(
            f"--format {form}: not one of {', '.join(_FORMATS)}", name="format", value=form
        )
    say_time_zone(options, sys.argv)
    schema = declared_schema(options)  # a wrong one is told before anything is read or written
    ledger = Ledger()
    columns = ColumnCheck(options)
    with hinting(options), _target(output, form) as target, reading(files, ledger) as seen:
        changes = seen(columns.watch(_changes(files, options, ledger, schema)))
        if form == "json":
            _write_lines(changes, options, target, limit)
        else:
            _write_table(form, changes, options, target, limit)
        columns.finish()
    say_result(ledger)
    if not ledger.rows:
        say_nothing_found(files, options)
    fail_if_lost(ledger)


def _changes(
    files: list[str], options: ReadOptions, ledger: Ledger, schema: DeclaredSchema
) -> Iterator[Changes]:
    for reader in LogReader.of_chains(resolve(files), options, ledger):
        yield from ChangeDecoder(options, Target.TEXT, ledger, schema).read(reader)


@contextmanager
def _target(output: Path | None, form: str) -> Iterator[BinaryIO]:
    """The open output. A file appears under its name only when it is complete."""
    if output is None:
        if form in _BINARY_FORMATS and sys.stdout.isatty():
            raise OptionError(
                f"--format {form} is binary",
                name="format",
                value=form,
                hint="name a file with --output",
            )
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = output.with_name(output.name + ".partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise OptionError(f"cannot write {output}: {error.strerror}", name="output") from None
    finally:
        partial.unlink(missing_ok=True)


def _write_lines(
    changes: Iterable[Changes], options: ReadOptions, target: BinaryIO, limit: int | None
) -> None:
    left = limit
    for change in changes:
        text = json_lines(change, options).to_pybytes()
        if left is None:
            target.write(text)
            continue
        lines = text.splitlines(keepends=True)[:left]
        target.writelines(lines)
        left -= len(lines)
        if not left:
            return


def _write_table(
    form: str, changes: Iterable[Changes], options: ReadOptions, target: BinaryIO, limit: int | None
) -> None:
    schema = change_schema(options)
    sink = pa.PythonFile(target, mode="w")
    with _WRITERS[form](sink, schema) as writer:
        left = limit
        for change in changes:
            batch = change_batch(change, options)
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            writer.write_batch(batch)
            if left == 0:
                return


def _csv_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(sink, schema)


def _parquet_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")


_WRITERS: dict[str, Callable[[pa.NativeFile, pa.Schema], pa.ipc.RecordBatchStreamWriter]] = {
    "csv": _csv_writer,
    "arrow": pa.ipc.new_stream,
    "parquet": _parquet_writer,
}
