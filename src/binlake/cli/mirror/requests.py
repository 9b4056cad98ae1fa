"""`binlake mirror add`, `remove`, `resync`, `pause` and `resume`: requests that a mirror finds in its lake."""

from __future__ import annotations

from typing import Annotated, Any

from binlake.cli.common.parameters import Argument
from binlake.cli.common.terminal import note
from binlake.cli.mirror.common import (
    LakeArgument,
    SparkSettings,
    lake_command,
    lake_session,
    need_libraries,
    need_mirror,
)


@lake_command("add")
def add(
    *,
    lake: LakeArgument,
    tables: Annotated[
        list[str], Argument(metavar="DB.TABLE…", help="Tables to follow; * and ? are wildcards.")
    ],
    session: SparkSettings,
) -> None:
    """Follow more tables.

    A running mirror begins after its current round. Otherwise the next mirror begins when it starts. The lake
    stores the request, so you need not change --table. To follow a table again that was removed, give the name or pattern
    with which it was removed. The mirror reports a name or pattern that matches no table of the server.

    Examples:
      binlake mirror add /lake shop.returns

      binlake mirror add /lake 'crm.*'
    """
    _request("add", lake, session, tables, note=note)
    note(f"the mirror of {lake} will copy {', '.join(tables)}")


@lake_command("remove")
def remove(
    *,
    lake: LakeArgument,
    tables: Annotated[
        list[str],
        Argument(metavar="DB.TABLE…", help="Tables to stop following; * and ? are wildcards."),
    ],
    session: SparkSettings,
) -> None:
    """Stop following tables.

    Their lake tables stay as they are, and you can read them. To delete one, use DROP TABLE in Spark.
    `binlake mirror add` follows a table again.

    Examples:
      binlake mirror remove /lake shop.carts

      binlake mirror remove /lake 'shop.tmp_*'
    """
    _request("remove", lake, session, tables, note=note)
    note(f"the mirror of {lake} no longer follows {', '.join(tables)}; the lake tables stay")


@lake_command("resync")
def resync(
    *,
    lake: LakeArgument,
    tables: Annotated[
        list[str],
        Argument(metavar="DB.TABLE…", help="Tables to copy again; * and ? are wildcards."),
    ],
    session: SparkSettings,
) -> None:
    """Copy tables again.

    A running mirror begins after its current round. Otherwise the next mirror begins when it starts. If it is already
    copying a table, it copies the table once more after that. A name that the lake does not have is an error, as is a
    removed table. If the
    columns are unchanged, readers see the old rows until the copy is complete; otherwise the table is empty until then.

    Examples:
      binlake mirror resync /lake shop.orders

      binlake mirror resync /lake 'shop.*'
    """
    _request("resync", lake, session, tables, note=note)
    note(f"the mirror of {lake} will copy {', '.join(tables)} again, if it follows them")


@lake_command("pause")
def pause(*, lake: LakeArgument, session: SparkSettings) -> None:
    """Stop rounds until `binlake mirror resume`.

    A running mirror pauses after its current round, or after the chunks of a copy that it is reading, and keeps running. The
    pause also holds for later starts.

    Examples:
      binlake mirror pause /lake
    """
    _request("pause", lake, session, note=note)


@lake_command("resume")
def resume(*, lake: LakeArgument, session: SparkSettings) -> None:
    """Continue a paused mirror.

    Examples:
      binlake mirror resume /lake
    """
    _request("resume", lake, session, note=note)


def _request(
    name: str, lake: str, session: SparkSettings, tables: list[str] | None = None, **more: Any
) -> None:
    """Call the function of `binlake.mirror` with this name, and `more` arguments."""
    need_libraries()
    from binlake.mirror import api
    from binlake.mirror.selection import checked_patterns

    given = () if tables is None else (sorted(checked_patterns(tables)),)  # before Spark starts
    need_mirror(lake, session, writes=True)
    with lake_session(lake, session) as spark:
        getattr(api, name)(lake, *given, spark=spark, catalog=session.catalog, **more)
