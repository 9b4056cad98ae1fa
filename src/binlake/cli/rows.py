"""`binlake rows FILE…`: row changes as JSON lines, CSV, Arrow or Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from binlake.cli.change_writer import FORMATS, ChangeWriter, check_format, open_target
from binlake.cli.flags import with_row_options
from binlake.cli.terminal import (
    fail_if_lost,
    hinting,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.source.chain import resolve
from binlake.stream.log_reader import LogReader
from binlake.table.batches import Changes
from binlake.table.column_check import ColumnCheck
from binlake.table.declared import DeclaredSchema
from binlake.table.decode import ChangeDecoder
from binlake.table.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["rows"]


@with_row_options
def rows(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="|".join(FORMATS))
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
    check_format(form, FORMATS)
    say_time_zone(options, sys.argv)
    schema = declared_schema(
        options, files
    )  # a wrong one is told before anything is read or written
    ledger = Ledger()
    columns = ColumnCheck(options)
    with hinting(options), open_target(output, form) as target, reading(files, ledger) as seen:
        changes = seen(columns.watch(_changes(files, options, ledger, schema)))
        with ChangeWriter(form, options, target, limit) as writer:
            for change in changes:
                if not writer.write(change):
                    break
        columns.finish()
    say_result(ledger)
    if not ledger.rows:
        say_nothing_found(files, options)
    fail_if_lost(ledger)


def _changes(
    files: list[str], options: ReadOptions, ledger: Ledger, schema: DeclaredSchema
) -> Iterator[Changes]:
    chains = resolve(files)
    for chain, reader in zip(chains, LogReader.of_chains(chains, options, ledger), strict=True):
        known = schema.of_logs(chain.paths)
        yield from ChangeDecoder(options, Target.TEXT, ledger, known).read(reader)
