"""`binlake mirror history`, `tag` and `untag`: moments at which all tables of a lake can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Option
from binlake.cli.common.terminal import note
from binlake.cli.mirror.common import (
    LakeArgument,
    SparkSettings,
    lake_command,
    lake_session,
    need_libraries,
    need_mirror,
)
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.mirror.moments import Moment

NameArgument = Annotated[str, Argument(metavar="NAME", help="The name of the moment.")]


@lake_command("history")
def history(
    *,
    lake: LakeArgument,
    newest: Annotated[
        int, Option(metavar="N", min=1, help="How many of the newest rounds to list.")
    ] = 20,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object for each round, with its snapshots.")
    ] = False,
    session: SparkSettings,
) -> None:
    """List the newest rounds, and those that have names.

    A round contains a snapshot of each table that the mirror followed, all at the same moment of the server.

    Examples:
      binlake mirror history /lake

      binlake mirror history /lake --newest 1 --json | jq .snapshots
    """
    need_libraries()
    from binlake.mirror.moments import history as rounds_of

    need_mirror(lake, session)
    with lake_session(lake, session) as spark:
        found = rounds_of(lake, newest=newest, spark=spark, catalog=session.catalog)
    for moment in found:
        show(json.dumps(moment.to_json()) if as_json else _line(moment))


def _line(moment: Moment) -> str:
    names = f"  {', '.join(moment.names)}" if moment.names else ""
    place = f"{moment.log_file}:{moment.log_pos}"
    return f"{moment.round:>8}  {moment.commit_time or 'unknown':<26}  {place}  {moment.gtid_set}{names}".rstrip()


@lake_command("tag")
def tag(
    *,
    lake: LakeArgument,
    name: NameArgument,
    number: Annotated[
        int | None,
        Option("--round", metavar="N", min=1, help="The round to name.", show_default="the newest"),
    ] = None,
    session: SparkSettings,
) -> None:
    """Give a round a name. In Iceberg, the name keeps its snapshots.

    In an Iceberg lake, the name is a tag in each table of the round. Readers use the name as a version:
    SELECT … FROM lake.shop.orders VERSION AS OF 'NAME'. The tags keep the data files until you run
    `binlake mirror untag`.

    In a Delta lake, the name does not keep files: VACUUM removes them even if the round has a name.

    A round contains the tables that the mirror followed at that time. The command lists the tables that are missing.
    You can run it while a mirror of the lake is running.

    Examples:
      binlake mirror tag /lake end-of-2026

      binlake mirror tag /lake release-7 --round 4711
    """
    need_libraries()
    from binlake.mirror.moments import absent_tables, check_moment_name, name_moment
    from binlake.mirror.tables.formats import DELTA, format_of

    check_moment_name(name)
    need_mirror(lake, session, writes=True)
    with lake_session(lake, session) as spark:
        made = name_moment(lake, name, number, spark=spark, catalog=session.catalog)
        absent = absent_tables(lake, made, spark=spark, catalog=session.catalog)
    here = [full_name for full_name in made.snapshots if full_name not in absent]
    note(
        f"{name} is round {made.round}, at {made.log_file}:{made.log_pos}, in {counted(len(here), 'table')}"
    )
    for line in _remarks(made, absent):
        note(line)
    if format_of(lake) == DELTA:
        note(
            "a name does not keep the files of a Delta table: VACUUM removes them even if the round has a name"
        )


def _remarks(moment: Moment, absent: Sequence[str]) -> Iterator[str]:
    """Why a name does not concern some tables."""
    dropped = [name for name in absent if name in moment.snapshots]
    others = [name for name in absent if name not in moment.snapshots]
    if others:
        yield f"the mirror did not follow these tables in round {moment.round}: {', '.join(others)}"
    if dropped:
        yield f"these lake tables of round {moment.round} have been dropped since: {', '.join(dropped)}"


@lake_command("untag")
def untag(
    *,
    lake: LakeArgument,
    name: NameArgument,
    session: SparkSettings,
) -> None:
    """Remove the name of a round.

    In Iceberg, its snapshots then expire like others.

    Examples:
      binlake mirror untag /lake end-of-2026
    """
    need_libraries()
    from binlake.mirror.moments import drop_moment

    need_mirror(lake, session, writes=True)
    with lake_session(lake, session) as spark:
        drop_moment(lake, name, spark=spark, catalog=session.catalog)
    note(f"{name} is no longer the name of a round")
