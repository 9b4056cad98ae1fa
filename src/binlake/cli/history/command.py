"""`binlake history DB.TABLE KEY… FILE…`: who changed a row."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from binlake.cli.common.flags import HISTORY_OPTIONS, with_read_options
from binlake.cli.common.output_file import output_file
from binlake.cli.common.parameters import Argument, Exit, Option, with_fields
from binlake.cli.common.terminal import (
    fail_if_lost,
    log_input,
    note,
    reading,
    refuse_unknown_table,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.cli.common.undo_run import ForceFlag, VerifyFlag, print_script, require_undo
from binlake.cli.history.arguments import key_and_files
from binlake.cli.history.html import page
from binlake.cli.history.text_form import lines, paints
from binlake.errors import OptionError
from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain
from binlake.table.row_history.entries import RowHistory
from binlake.table.row_history.history import HistoryReader, history_options
from binlake.table.sql.row_undo import undo_of_row
from binlake.table.sql.undo_run import UndoChoices
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


@dataclass(frozen=True, slots=True)
class HistoryFlags:
    """The options of `binlake history` that are not options of a read."""

    key: Annotated[
        list[str] | None,
        Option(
            "--key",
            metavar="COLUMN=VALUE",
            help="A column of the key and its value, instead of KEY; may be repeated.",
        ),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per change.")] = False
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help="Write an HTML page to this file.")
    ] = None
    undo: Annotated[
        str | None,
        Option(
            "--undo",
            metavar="POINT",
            help="Print the SQL that reverses this change of the row and all later ones: its number, FILE:POS or GTID. after:POINT keeps the change.",
        ),
    ] = None
    generated: Annotated[
        list[str] | None,
        Option(
            "--generated", metavar="COLUMN", help="With --undo: a generated column of the table."
        ),
    ] = None
    force: ForceFlag = False
    verify: VerifyFlag = None

    @property
    def choices(self) -> UndoChoices:
        """The choices about the SQL of --undo. Raises OptionError for forms that cannot be combined."""
        if sum((self.as_json, self.html is not None, self.undo is not None)) > 1:
            raise OptionError("--json, --html and --undo cannot be combined", name="html")
        return UndoChoices(tuple(self.generated or ()), force=self.force, verify=self.verify)


@with_read_options(HISTORY_OPTIONS)
@with_fields("flags")
def history(
    table: Annotated[str, Argument(metavar="DB.TABLE", help="The table of the row.")],
    arguments: Annotated[
        list[str],
        Argument(
            metavar="KEY… FILE…",
            help="The values of the primary key, in its order; then the logs to read, - is stdin.",
        ),
    ],
    options: ReadOptions,
    flags: HistoryFlags,
) -> None:
    """Show every change of one row: when, by which transaction, and what it changed.

    binlake follows the row through changes of its key. The first argument after the first KEY that
    names an existing file, and everything after it, are files. Columns that did not change are left
    out. DDL and TRUNCATE on the table are shown between the changes. All times are UTC.

    Examples:
      binlake history shop.orders 4711 /var/lib/mysql/

      binlake history shop.order_lines 4711 1 binlog.000012 binlog.000013

      binlake history shop.orders 4711 /var/lib/mysql/ --since '2026-11-21' --json

      binlake history shop.orders 4711 /var/lib/mysql/ --html history.html

      binlake history shop.orders 4711 /var/lib/mysql/ --undo binlog.000012:4711 > undo.sql

      binlake history shop.orders --key code=A-17 mysql://root@localhost/
    """
    choices = flags.choices
    say_time_zone(options)
    asked, files = key_and_files(arguments, flags.key or ())
    logs = log_input(files, history_options(options, table))
    chain = logs.only("a history covers a row of one server")
    logs = logs.with_options(_check_undo(flags.undo, chain, choices, logs.options))
    ledger = Ledger()
    differs = False
    with closing(logs.schema()) as schema, reading(logs, ledger) as seen:
        reader = HistoryReader(chain, logs.options, schema, ledger, asked)
        found = reader.read(seen)
        if flags.undo is not None and found.changes:
            ledger.take()  # the undo reports what it reads
            run = undo_of_row(flags.undo, found, reader, choices)
            differs = run is not None and print_script(run, seen)
    if not found.changes:
        refuse_unknown_table(logs)
    if flags.undo is not None:
        ledger.json_differences.clear()  # as SQL functions, differences are complete
    else:
        _write(found, flags)
    say_result(ledger)
    if not found.changes:
        values = ", ".join(str(value) for value in asked.values)
        note(f"{table}: no change of a row with this key: {values}")
        say_nothing_found(logs, ledger)
    fail_if_lost(ledger)
    if differs:
        raise Exit(1)


def _write(found: RowHistory, flags: HistoryFlags) -> None:
    """Write the page of --html, which may be empty, or print the changes."""
    if flags.html is not None:
        with output_file(flags.html, "--html") as file:
            file.write(page(found).encode("utf-8", "backslashreplace"))
    elif not found.changes:
        return
    elif flags.as_json:
        for entry in found.to_json():
            print(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    else:
        for line in lines(found, colours=paints()):
            print(line)


def _check_undo(
    point: str | None, chain: Chain, choices: UndoChoices, options: ReadOptions
) -> ReadOptions:
    """Return the options of a history that is undone, or of one that is not (`point` is None).

    Raises OptionError for choices without --undo, and for logs that can be read only once.
    """
    if point is None:
        require_undo(choices)
        return options
    if (pipe := pipe_in(chain.paths)) is not None:
        raise OptionError(
            f"--undo reads the logs again, and {pipe} can be read only once", name="undo"
        )
    choices.exact(options)
    return replace(options, schema=options.schema or choices.verify)
