"""`binlake stats FILE…`: who wrote how much, and when; the largest transactions; every statement."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from binlake.cli.flags import with_stats_options
from binlake.cli.stats_html import page
from binlake.cli.stats_text import report, statement_line
from binlake.cli.terminal import (
    fail_if_lost,
    hinting,
    note,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.errors import OptionError
from binlake.source.chain import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.statistics import UNITS, Statistics, utc_text
from binlake.stream.views import VIEWS, check_statement_options, statements
from binlake.table.gather import gather
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["stats"]

_TOP = 10  # so long are lists


@with_stats_options
def stats(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            min=1,
            max=10_000,
            metavar="N",
            help="How long lists may be.",
            show_default="10",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="UNIT", help=f"Unit of time ({'|'.join(UNITS)})."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with plots.")
    ] = None,
    list_statements: Annotated[
        bool, typer.Option("--statements", help="List every statement (--json: one per line).")
    ] = False,
) -> None:
    """Say who wrote how much and when: by table, operation, time, server and thread.

    Also the largest transactions, those that took longest, and DDL. With filters, of the
    transactions that they choose; --table, --exclude-table and --op choose those with such
    a change. All times are UTC. --statements is an audit: who ran what, as far as the log tells.

    Examples:
      binlake stats /var/lib/mysql/ --since '2026-11-21 14:00'

      binlake stats binlog.000012 --table shop.orders --by minute --json

      binlake stats /var/lib/mysql/ --html today.html

      binlake stats binlog.000012 --statements --json | jq 'select(.kind == "DDL")'
    """
    if by is not None and by not in UNITS:
        raise OptionError(f"--by {by}: not one of {', '.join(UNITS)}", name="by", value=by)
    say_time_zone(options, sys.argv)
    if list_statements:
        for flag, value in (("--html", html), ("--by", by), ("--top", top)):
            if value is not None:
                raise OptionError(
                    f"--statements lists every statement, {flag} is for the report; give one",
                    name=flag,
                )
        _print_statements(files, options, as_json)
        return
    ledger = Ledger()
    chains = resolve(files)
    with hinting(options), reading(files, ledger) as seen:
        found = gather(chains, options, ledger, Statistics(top=top or _TOP, unit=by), seen)
    document = found.to_json(ledger)
    if by is not None and document["time"]["unit"] != by:
        note(f"the logs span too long a time for --by {by}")
    if html is not None:
        names = [file.name for chain in chains for file in chain.files]
        _write(html, page(document, names))
    if as_json:
        print(json.dumps(document, ensure_ascii=False, indent=1))
    elif html is None:
        print("\n".join(report(document)))
    say_result(ledger)
    if not found.total.transactions:
        say_nothing_found(files, options)
    fail_if_lost(ledger)


def _write(path: Path, text: str) -> None:
    """A page appears under its name only when it is complete."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OptionError(f"cannot write {path}: {error.strerror}", name="html") from None


def _print_statements(files: list[str], options: ReadOptions, as_json: bool) -> None:
    check_statement_options(options)
    ledger = Ledger()
    shown = False
    with hinting(options), reading(files, ledger) as seen:
        for entry in seen(_statements(files, options, ledger)):
            shown = True
            if as_json:
                print(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
            else:
                print(statement_line(entry))
    say_result(ledger)
    if not shown:
        say_nothing_found(files, options)
    fail_if_lost(ledger)


def _statements(files: list[str], options: ReadOptions, ledger: Ledger) -> Iterator[dict[str, Any]]:
    columns = VIEWS["statements"].columns
    for reader in LogReader.of_chains(resolve(files), options, ledger):
        for row in statements(reader.groups()):
            entry = {column.name: column.value(row) for column in columns}
            entry["ts"] = utc_text(entry["ts"])
            yield entry
