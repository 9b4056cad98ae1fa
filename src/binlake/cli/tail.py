"""`binlake tail URL`: row changes of a live server as they commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from binlake.cli.common.change_writer import ChangeWriter, format_option, open_target
from binlake.cli.common.flags import TAIL_OPTIONS, with_read_options
from binlake.cli.common.output_file import growing_file
from binlake.cli.common.parameters import Option, with_fields
from binlake.cli.common.server_flags import ServerUrls, with_server_flags
from binlake.cli.common.terminal import fail_if_lost, hinting, note, say_result, say_time_zone
from binlake.errors import OptionError
from binlake.interrupts import Interrupts
from binlake.source.replica.connection import connect_any
from binlake.source.replica.follower import Follower, FollowOptions
from binlake.stream.live import LiveReader
from binlake.table.batches import Changes
from binlake.table.checks.column_check import ColumnCheck
from binlake.table.decode import ChangeDecoder
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.table.where.choosing import WhereRowsNow
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import Position

# Flushed while more data comes; parquet and arrow files are complete only at their end.
_FORMATS = ("json", "csv", "csv-guarded", "arrow")


@dataclass(frozen=True, slots=True)
class TailFlags:
    """The options of `binlake tail` that are not options of a read or of the connection."""

    form: Annotated[str, format_option(_FORMATS)] = "json"
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write changes to this file as they arrive, instead of stdout.",
        ),
    ] = None
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, metavar="N", help="Stop after N rows.")
    ] = None
    after: Annotated[
        str | None, Option("--after", metavar="GTIDS", help="Start after these GTIDs.")
    ] = None
    from_start: Annotated[
        bool, Option("--from-start", help="Start with the oldest log of the server.")
    ] = False
    until_current: Annotated[
        bool, Option("--until-current", help="Stop at the current end of the server's log.")
    ] = False


@with_server_flags()
@with_read_options(TAIL_OPTIONS)
@with_fields("flags")
def tail(server: ServerUrls, options: ReadOptions, flags: TailFlags) -> None:
    """Print every row change of a live server as it commits, one JSON object per line.

    It starts at the current end of the log, at --start FILE:POS, after the GTIDs of --after, or with
    the oldest log (--from-start). Output and filters are those of `binlake rows`. After a lost
    connection it reconnects and continues. Press Ctrl-C to stop it; the file of --output then contains
    everything received.

    Examples:
      binlake tail mysql://repl@db1/ --table shop.orders

      binlake tail mysql://repl@db1,db2/ --password-file ~/.repl --start binlog.000012:4711

      binlake tail mariadb://repl@db1/ --op delete | jq .before
    """
    if options.stop or options.at:
        raise OptionError("a live server's log has no end: use --until-current", name="stop")
    say_time_zone(options)
    schema = declared_schema(options, map(str, server))
    start = _start(server, options, flags)
    following = FollowOptions.of(server[0], until_current=flags.until_current)
    ledger = Ledger()
    columns = ColumnCheck(options)
    starts_now = not (options.start or flags.after or flags.from_start)
    rows = WhereRowsNow(options) if options.where and starts_now else None
    lacking = _LackingColumns(ledger)
    decoder = ChangeDecoder(options, Target.TEXT, ledger, schema, rows=rows)
    with (
        hinting(options),
        Interrupts() as interrupts,
        open_target(flags.output, flags.form, growing_file) as target,
        Follower(server, start, following, note) as follower,
        ChangeWriter(flags.form, options, target, flags.limit) as writer,
    ):

        def show(changes: Iterable[Changes]) -> None:
            for change in changes:
                columns.see(change)
                with interrupts.later():  # half a line, or half an arrow message, is not output
                    enough = not writer.write(writer.shape(change))
                if enough:
                    raise _Enough
            writer.flush()
            lacking.note_new()

        try:
            show(decoder.read(LiveReader(follower, options, ledger, lambda: show(decoder.held()))))
        except (_Enough, KeyboardInterrupt):
            writer.flush()
        columns.finish(ledger)
    say_result(ledger)
    fail_if_lost(ledger)


class _Enough(Exception):  # noqa: N818 - not an error
    """The requested number of rows has been written."""


class _LackingColumns:
    """Reports a column of the option where that no table has had so far. The end may be days away."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._noted: set[str] = set()

    def note_new(self) -> None:
        """Report each such column once."""
        for name, is_there in self._ledger.where_columns.items():
            if not is_there and name not in self._noted:
                self._noted.add(name)
                note(f"so far, no table has the column {name!r} of option where")


def _start(servers: ServerUrls, options: ReadOptions, flags: TailFlags) -> Position:
    """Return where to begin. Raises OptionError, ServerError."""
    place, after = options.start, flags.after
    if sum((place is not None, after is not None, flags.from_start)) > 1:
        raise OptionError("--start, --after and --from-start cannot be combined", name="start")
    if place is not None and not place.file:
        raise OptionError("--start POS: the file is missing", name="start", hint="use FILE:POS")
    with connect_any(
        servers
    ) as connection:  # which, unlike following, does not retry without an end
        if place is not None:
            start, shown = Position("", place.file, place.offset), str(place)
        elif after or flags.from_start:
            start = Position("", "", 0, after or "")
            shown = f"the first transaction that is not in {after}" if after else "its oldest log"
        else:
            start = connection.position()
            shown = str(start)
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        note(f"following {connection.url.where} from {shown} on, {now}")
    return start
