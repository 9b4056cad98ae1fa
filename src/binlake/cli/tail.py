"""`binlake tail URL`: row changes of a live server as they commit."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from binlake.cli.change_writer import ChangeWriter, check_format, open_target
from binlake.cli.flags import with_row_options
from binlake.cli.interrupts import Interrupts
from binlake.cli.output_file import growing_file
from binlake.cli.server_flags import ServerUrls, with_server_flags
from binlake.cli.terminal import fail_if_lost, hinting, note, say_result, say_time_zone
from binlake.errors import OptionError
from binlake.source.replica.connection import connect_any
from binlake.source.replica.follower import Follower, FollowOptions
from binlake.stream.live import LiveReader
from binlake.table.batches import Changes
from binlake.table.column_check import ColumnCheck
from binlake.table.decode import ChangeDecoder
from binlake.table.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import Position

__all__ = ["tail"]

# What is written while more comes; parquet and arrow files are complete only at their end.
_FORMATS = ("json", "csv", "arrow")


@with_server_flags
@with_row_options
def tail(
    server: ServerUrls,
    options: ReadOptions,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="|".join(_FORMATS))
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write here as it comes, not to stdout."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N rows.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="GTIDS", help="Begin behind these GTIDs.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest log of the server.")
    ] = False,
    until_current: Annotated[
        bool, typer.Option("--until-current", help="Stop at the server's end.")
    ] = False,
) -> None:
    """Print every row change of a live server as it commits, one JSON object per line.

    Begins now, at --start FILE:POS, behind the GTIDs of --after, or with the oldest log
    (--from-start). Lines are those of `binlake rows`, and so are the filters. A lost connection
    is made again, and goes on where it was. Interrupt it to end it: also then, and after an error,
    the file of --output has what came.

    Examples:
      binlake tail mysql://repl@db1/ --table shop.orders

      binlake tail mysql://repl@db1,db2/ --password-file ~/.repl --start binlog.000012:4711

      binlake tail mariadb://repl@db1/ --op delete | jq .before
    """
    check_format(form, _FORMATS)
    if options.stop or options.at:
        raise OptionError("a live server has no end to stop at: use --until-current", name="stop")
    say_time_zone(options, sys.argv)
    schema = declared_schema(options, map(str, server))
    start = _start(server, options, after, from_start=from_start)
    following = FollowOptions.of(server[0], until_current=until_current)
    ledger = Ledger()
    columns = ColumnCheck(options)
    decoder = ChangeDecoder(options, Target.TEXT, ledger, schema)
    with (
        hinting(options),
        Interrupts() as interrupts,
        open_target(output, form, growing_file) as target,
        Follower(server, start, following, note) as follower,
        ChangeWriter(form, options, target, limit) as writer,
    ):

        def show(changes: Iterable[Changes]) -> None:
            for change in columns.watch(changes):
                with interrupts.later():  # half a line, or half a message of arrow, is none
                    enough = not writer.write(change)
                if enough:
                    raise _Enough
            writer.flush()

        try:
            show(decoder.read(LiveReader(follower, options, ledger, lambda: show(decoder.held()))))
        except (_Enough, KeyboardInterrupt):
            writer.flush()
    say_result(ledger)
    fail_if_lost(ledger)


class _Enough(Exception):  # noqa: N818 - not an error
    """As many rows as were asked for have been written."""


def _start(
    servers: ServerUrls, options: ReadOptions, after: str | None, *, from_start: bool
) -> Position:
    """Where to begin. Raises OptionError, ServerError."""
    if sum((options.start is not None, after is not None, from_start)) > 1:
        raise OptionError("--start, --after and --from-start exclude one another", name="start")
    place = options.start
    if place is not None and not place.file:
        raise OptionError(
            "--start POS: of which of the server's logs?", name="start", hint="say FILE:POS"
        )
    with connect_any(servers) as connection:  # which, unlike following, does not try for ever
        if place is not None:
            return Position("", place.file, place.pos)
        return Position("", "", 0, after or "") if after or from_start else connection.position()
