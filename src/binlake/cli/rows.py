"""`binlake rows FILE…`: row changes as JSON lines, CSV, Arrow or Parquet."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from binlake.cli.common.change_writer import FORMATS, ChangeWriter, check_format, open_target
from binlake.cli.common.flags import with_row_options
from binlake.cli.common.parameters import Argument, Option
from binlake.cli.common.terminal import (
    chains_of,
    fail_if_lost,
    hinting,
    reading,
    say_if_nothing_matched,
    say_result,
    say_time_zone,
)
from binlake.table.checks.column_check import ColumnCheck
from binlake.table.reading import read_changes
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["rows"]


_FEW_BYTES = 64 << 10
_ROW_BYTES = 256


@with_row_options
def rows(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    form: Annotated[
        str, Option("--format", "-f", metavar="FORMAT", help="|".join(FORMATS))
    ] = "json",
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
    ] = None,
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, metavar="N", help="Stop after N rows.")
    ] = None,
) -> None:
    """Print every committed row change, one JSON object per line, in commit order.

    Values are those of the server's SELECT at time zone +00:00. A missing key was not in the log;
    null means NULL. At the end, stderr reports the changes that are not row changes.

    Examples:
      binlake rows binlog.000012 --table shop.orders --op delete

      binlake rows /var/lib/mysql/ --since '2026-11-21 14:00' --until '2026-11-21 14:05'

      binlake rows binlog.000012 --at binlog.000012:4711 --query

      binlake rows binlog.000012 --table shop.orders --where "id = 4711 AND changed(state)"

      zcat binlog.000012.gz | binlake rows - --format parquet -o changes.parquet
    """
    check_format(form, FORMATS)
    say_time_zone(options, sys.argv)
    schema = declared_schema(
        options, files
    )  # a wrong one is reported before anything is read or written
    if limit is not None:  # no more is decoded than that many rows are likely to need
        few = max(_FEW_BYTES, limit * _ROW_BYTES)
        if few < options.batch_bytes:
            options = replace(options, batch_bytes=few, threads=1)
    chains = chains_of(files, options)
    ledger = Ledger()
    columns = ColumnCheck(options)
    with hinting(options), open_target(output, form) as target, reading(chains, ledger) as seen:
        with ChangeWriter(form, options, target, limit) as writer:
            found = read_changes(chains, options, ledger, Target.TEXT, schema, writer.shape)
            for shaped in seen(found):
                columns.see(shaped.changes)
                if not writer.write(shaped):
                    break
        columns.finish(ledger)
    say_result(ledger)
    say_if_nothing_matched(chains, options, ledger)
    fail_if_lost(ledger)
