"""`binlake mirror compact LAKE`: rewrite tables without deleted rows and small files."""

from __future__ import annotations

from typing import Annotated

from binlake.cli.common.parameters import Argument
from binlake.cli.common.terminal import note
from binlake.cli.mirror.common import (
    LakeArgument,
    SparkSettings,
    StateOption,
    lake_command,
    lake_session,
    need_libraries,
    need_mirror,
)


@lake_command("compact")
def compact(
    *,
    lake: LakeArgument,
    tables: Annotated[
        list[str] | None,
        Argument(
            metavar="[DB.TABLE…]",
            required=False,
            help="Tables to compact; * and ? are wildcards; default: all.",
        ),
    ] = None,
    state: StateOption = None,
    session: SparkSettings,
) -> None:
    """Rewrite data files: remove deleted rows, and combine small files.

    A mirror compacts its tables by itself; use this after a large change, or if the mirror runs with
    --compact off. If a mirror of the lake is running, that mirror compacts the tables while it
    continues. It does not contact the server. The exit code is 1 if a table cannot be compacted.

    Examples:
      binlake mirror compact /lake

      binlake mirror compact /lake shop.orders

      binlake mirror compact /lake 'crm.*'
    """
    need_libraries()
    from binlake.mirror.api import compact as compacted
    from binlake.mirror.selection import checked_patterns

    if tables:
        checked_patterns(tables)  # before Spark starts
    need_mirror(lake, session)
    with lake_session(lake, session) as spark:
        compacted(lake, tables or (), spark=spark, catalog=session.catalog, state=state, note=note)
