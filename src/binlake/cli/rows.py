"""`binlake rows FILE…`: row changes as JSON lines, CSV, Arrow or Parquet."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from binlake.cli.common.change_writer import FORMATS, ChangeWriter, format_option, open_target
from binlake.cli.common.flags import ROW_OPTIONS, with_read_options
from binlake.cli.common.parameters import LogFiles, Option, OutputFile
from binlake.cli.common.terminal import (
    fail_if_lost,
    reading,
    say_excluded,
    say_if_nothing_matched,
    say_result,
    say_time_zone,
)
from binlake.errors import BinlogError
from binlake.source.bytes import is_read_once
from binlake.source.replica.url import is_server_url
from binlake.table.checks.column_check import ColumnCheck
from binlake.table.log_input import LogInput
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_FEW_BYTES = 64 << 10
_ROW_BYTES = 256


@with_read_options(ROW_OPTIONS)
def rows(
    files: LogFiles,
    options: ReadOptions,
    form: Annotated[str, format_option(FORMATS)] = "json",
    output: OutputFile = None,
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
    say_time_zone(options)
    if limit is not None:  # no more is decoded than that many rows are likely to need
        few = max(_FEW_BYTES, limit * _ROW_BYTES)
        if few < options.batch_bytes:
            options = replace(options, batch_bytes=few, threads=1)
    logs = LogInput(files, options)
    declared = logs.schema()  # a wrong one is reported before anything is read or written
    say_excluded(logs)
    ledger = Ledger()
    columns = ColumnCheck(options)
    with open_target(output, form) as target, reading(logs, ledger) as seen:
        with ChangeWriter(form, options, target, limit) as writer:
            found = logs.changes(ledger, Target.TEXT, declared, writer.shape)
            for number, shaped in enumerate(seen(found)):
                columns.see(shaped.changes)
                if number == 0 and columns.lacks is not None:
                    _look_for_columns(columns, logs, declared)
                if not writer.write(shaped):
                    break
        columns.finish(ledger)
    say_result(ledger)
    say_if_nothing_matched(logs, ledger)
    fail_if_lost(ledger)


def _look_for_columns(columns: ColumnCheck, logs: LogInput, declared: DeclaredSchema) -> None:
    """Raise OptionError for a wanted column that no table of the logs has, before a row is written.

    Logs that can be read once only, or with an error in them, are checked while they are read.
    """
    paths = [path for chain in logs.chains for path in chain.paths]
    if any(is_server_url(path) or is_read_once(path) for path in paths):
        return
    from binlake.query.definitions import find_tables
    from binlake.query.scans import is_logged

    try:
        found = find_tables(logs.chains, replace(logs.options, columns=()), declared)
    except BinlogError:
        return
    for table in found.readable.values():
        logged = (one for schema in table.schemas for one in schema if is_logged(one))
        columns.note(table.name, (one.name for one in logged))
    if not found.unreadable:
        columns.check_names()
