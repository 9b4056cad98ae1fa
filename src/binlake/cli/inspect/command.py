"""`binlake inspect FILE…`: the events of a log, one line each, in full, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from binlake.cli.common.flags import EVENT_OPTIONS, with_read_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Exit, LogFiles, Option, with_fields
from binlake.cli.common.terminal import (
    fail_if_lost,
    log_input,
    note,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.cli.inspect.event_json import EventJsonWriter, json_of
from binlake.cli.inspect.event_lines import EventLineWriter, line_of
from binlake.cli.inspect.event_text import field_lines, hex_lines
from binlake.errors import OptionError
from binlake.stream.log_events import LogEvent
from binlake.stream.runs import Piece
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


@dataclass(frozen=True, slots=True)
class InspectFlags:
    """The options of `binlake inspect` that are not options of a read."""

    full: Annotated[bool, Option("--full", help="Show every field of every event.")] = False
    hexdump: Annotated[bool, Option("--hexdump", "-H", help="Show the bytes of every event.")] = (
        False
    )
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per event.")] = False
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, metavar="N", help="Stop after N events.")
    ] = None

    def check(self) -> None:
        """Raise OptionError for options that cannot be combined."""
        if self.as_json and self.shows_fields:
            raise OptionError("--json shows every field already; remove --full and --hexdump")

    @property
    def shows_fields(self) -> bool:
        """Whether an event has more lines than its first."""
        return self.full or self.hexdump


@with_read_options(EVENT_OPTIONS)
@with_fields("flags")
def inspect(files: LogFiles, options: ReadOptions, flags: InspectFlags) -> None:
    """Show the events of a log, including those inside compressed transactions.

    Each line contains position, time (UTC), server, type, size and the main fields. Events inside a
    payload have a number after its position: binlog.000001:4711#3. --table, --exclude-table and --op
    select transactions with matching row changes, and show their control events and the events of
    those tables. The exit code is 1 if a shown event has a bad checksum.

    Examples:
      binlake inspect binlog.000012 | less

      binlake inspect binlog.000012 --at binlog.000012:4711 --full

      binlake inspect binlog.000012 --json | jq -c 'select(.type == "QUERY_EVENT")'
    """
    flags.check()
    say_time_zone(options)
    logs = log_input(files, options)
    ledger = Ledger()
    with reading(logs, ledger) as seen:
        if flags.shows_fields or options.chooses_rows or options.on_error != "stop":
            events = (event for reader in logs.readers(ledger) for event in reader.events())
            shown, bad = _print_events(islice(seen(events), flags.limit), flags)
        else:
            pieces = (piece for reader in logs.readers(ledger) for piece in reader.pieces())
            shown, bad = _write_pieces(seen(pieces), flags)
    say_result(ledger)
    if not shown:
        # with filters by table or operation, the ledger does not count the transactions without such rows
        asked = replace(options, at=None) if options.chooses_rows else options
        say_nothing_found(logs.with_options(asked), ledger)
    fail_if_lost(ledger)
    if bad:
        note(f"{bad} of the events shown {'have' if bad > 1 else 'has'} a bad checksum")
        raise Exit(1)


def _print_events(events: Iterable[LogEvent], flags: InspectFlags) -> tuple[int, int]:
    """Print events one by one; return their number, and how many have a bad checksum."""
    shown = bad = 0
    for event in events:
        if flags.as_json:
            print(json_of(event))
        else:
            for line in _lines(event, flags):
                show(line)
        bad += event.checksum == "bad"
        shown += 1
    return shown, bad


def _write_pieces(pieces: Iterable[Piece], flags: InspectFlags) -> tuple[int, int]:
    """Write pieces of logs with compiled code; return the numbers of events as `_print_events`."""
    stdout = sys.stdout
    kind = EventJsonWriter if flags.as_json else EventLineWriter
    writer = kind(stdout.buffer, stdout.encoding, stdout.errors or "strict", flags.limit)
    for piece in pieces:
        writer.write(piece)
        if writer.is_done:
            break
    return writer.shown, writer.bad


def _lines(event: LogEvent, flags: InspectFlags) -> Iterator[str]:
    yield line_of(event)
    if flags.full:
        if event.flags:
            yield f"    header_flags: {', '.join(event.flags)}"
        yield from field_lines(event.event)
    if flags.hexdump:
        yield from hex_lines(event.raw, event.frame.offset)
