"""`binlake inspect FILE…`: the events of a log, one line each, in full, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from binlake.cli.event_text import field_lines, hex_lines, one_line
from binlake.cli.flags import with_event_options
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
from binlake.stream.log_events import LogEvent
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["inspect"]


@with_event_options
def inspect(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    full: Annotated[bool, typer.Option("--full", help="Show every field of every event.")] = False,
    hexdump: Annotated[
        bool, typer.Option("--hexdump", "-H", help="Show the bytes of every event.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per event.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N events.")
    ] = None,
) -> None:
    """Show the events of a log, also those inside compressed transactions.

    A line has place, time (UTC), server, type, size, and what matters of the event. Events
    inside a payload are numbered behind its position: binlog.000001:4711#3. With --table,
    --exclude-table or --op: of transactions that change such rows, the control events and those
    of the tables. Exit code 1 if a checksum that was shown is bad.

    Examples:
      binlake inspect binlog.000012 | less

      binlake inspect binlog.000012 --at binlog.000012:4711 --full

      binlake inspect binlog.000012 --json | jq -c 'select(.type == "QUERY_EVENT")'
    """
    if as_json and (full or hexdump):
        raise OptionError("--json shows every field already; leave out --full and --hexdump")
    say_time_zone(options, sys.argv)
    ledger = Ledger()
    shown = bad = 0
    with hinting(options), reading(files, ledger) as seen:
        for event in islice(seen(_events(files, options, ledger)), limit):
            for line in _lines(event, full, hexdump, as_json):
                print(line)
            bad += event.checksum == "bad"
            shown += 1
    say_result(ledger)
    if not shown:
        say_nothing_found(files, options)
    fail_if_lost(ledger)
    if bad:
        note(f"{bad} of the events shown {'have' if bad > 1 else 'has'} a bad checksum")
        raise typer.Exit(1)


def _events(files: list[str], options: ReadOptions, ledger: Ledger) -> Iterator[LogEvent]:
    for reader in LogReader.of_chains(resolve(files), options, ledger):
        yield from reader.events()


def _lines(event: LogEvent, full: bool, hexdump: bool, as_json: bool) -> Iterator[str]:
    if as_json:
        yield json.dumps(event.to_json(), ensure_ascii=False, separators=(",", ":"))
        return
    place = f"{event.file}:{event.pos}"
    if event.inner is not None:
        place += f"#{event.inner}"
    yield one_line(place, event.event) + ("  BAD CHECKSUM" if event.checksum == "bad" else "")
    if full:
        if event.flags:
            yield f"    header_flags: {', '.join(event.flags)}"
        yield from field_lines(event.event)
    if hexdump:
        yield from hex_lines(event.raw, event.frame.offset)
