"""`binlake stats FILE…`: write volume by table, time, server and thread; the largest transactions;
every statement.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from binlake.cli.common.flags import STATS_OPTIONS, with_read_options
from binlake.cli.common.lines import show
from binlake.cli.common.output_file import output_file
from binlake.cli.common.parameters import LogFiles, Option, with_fields
from binlake.cli.common.terminal import (
    fail_if_lost,
    log_input,
    note,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.cli.stats.statements import StatementChoices, print_statements
from binlake.cli.stats.text_form import report
from binlake.errors import OptionError
from binlake.stream.sql.statements import KIND_WORDS
from binlake.stream.statistics import UNITS, Statistics
from binlake.table.counting.gather import TakesCounts, gather
from binlake.table.log_input import LogInput
from binlake.ui.frozen import frozen_page
from binlake.ui.overview import Overview
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_TOP = 10
#: The most buckets of time in JSON, and in the text report.
_JSON_BARS, _TEXT_BARS = 300, 60  # so long are lists


@dataclass(frozen=True, slots=True)
class StatsFlags:
    """The options of `binlake stats` that are not options of a read."""

    top: Annotated[
        int | None,
        Option(
            "--top",
            min=1,
            max=10_000,
            metavar="N",
            help="Number of entries in each list.",
            show_default="10",
        ),
    ] = None
    by: Annotated[
        str | None,
        Option("--by", metavar="UNIT", help=f"Unit of time ({'|'.join(UNITS)}).", one_of=UNITS),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False
    html: Annotated[
        Path | None,
        Option(
            "--html",
            metavar="FILE",
            help="Write a page to this file: the overview of binlake ui, with its data.",
        ),
    ] = None
    list_statements: Annotated[
        bool, Option("--statements", help="List every statement (--json: one per line).")
    ] = False
    kind: Annotated[
        list[str] | None,
        Option(
            "--kind",
            metavar="KIND",
            help=f"With --statements: only of this kind ({'|'.join(KIND_WORDS)}); may be repeated.",
        ),
    ] = None
    digest: Annotated[
        bool,
        Option(
            "--digest",
            help="With --statements: group statements that differ in their values only, with count, rows and bytes.",
        ),
    ] = False

    def statements(self) -> StatementChoices | None:
        """Return the choices of a list of statements; None if the report is wanted.

        Raises OptionError for an option that belongs to the other one.
        """
        if not self.list_statements:
            if self.kind or self.digest:
                flag = "--kind" if self.kind else "--digest"
                raise OptionError(f"{flag} requires --statements", name=flag)
            return None
        choices = StatementChoices.of(self.kind, self.digest, self.top, self.as_json)
        top = None if self.digest else self.top
        for flag, value in (("--html", self.html), ("--by", self.by), ("--top", top)):
            if value is not None:
                raise OptionError(
                    f"--statements excludes {flag}, which is for the report", name=flag
                )
        return choices


@with_read_options(STATS_OPTIONS)
@with_fields("flags")
def stats(files: LogFiles, options: ReadOptions, flags: StatsFlags) -> None:
    """Report write volume by table, operation, time, server and thread.

    Also reports the largest and the longest transactions, and DDL. Filters select transactions;
    --table, --exclude-table and --op select those with matching row changes. All times are UTC.
    --statements is an audit: it lists the statements in the log, with their users if the log has them.

    Examples:
      binlake stats /var/lib/mysql/ --since '2026-11-21 14:00'

      binlake stats binlog.000012 --table shop.orders --by minute --json

      binlake stats /var/lib/mysql/ --html today.html

      binlake stats binlog.000012 --statements --kind ddl,account

      binlake stats binlog.000012 --statements --digest --top 20
    """
    say_time_zone(options)
    logs = log_input(files, options)
    choices = flags.statements()
    if choices is None:
        _print_report(logs, flags)
    else:
        print_statements(logs, choices)


def _print_report(logs: LogInput, flags: StatsFlags) -> None:
    """Count, and print the report or write it to the page of --html. Raises BinlogError."""
    ledger = Ledger()
    bars = _JSON_BARS if flags.as_json else _TEXT_BARS
    found = Statistics(top=flags.top or _TOP, unit=flags.by, bars=bars)
    overview = Overview(found)
    with reading(logs, ledger) as seen:
        into: TakesCounts = found if flags.html is None else overview
        gather(logs.chains, logs.options, ledger, into, seen)
    document = found.to_json(ledger)
    if flags.by is not None and document["time"]["unit"] != flags.by:
        note(f"the time span of the logs is too long for --by {flags.by}")
    if flags.html is not None:
        names = [file.shown for chain in logs.chains for file in chain.files]
        with output_file(flags.html, "html") as file:
            file.write(frozen_page(overview, ledger, names).encode("utf-8", "backslashreplace"))
    if flags.as_json:
        print(json.dumps(document, ensure_ascii=False, indent=1))
    elif flags.html is None:
        for line in report(document):
            show(line)
    say_result(ledger)
    if not found.total.transactions:
        say_nothing_found(logs, ledger)
    fail_if_lost(ledger)
