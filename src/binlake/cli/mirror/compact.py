"""`binlake mirror compact LAKE`: rewrite tables without deleted rows and small files."""

from __future__ import annotations

from typing import Annotated

from binlake.cli.common.parameters import Argument, Option
from binlake.cli.common.terminal import note
from binlake.cli.mirror.session import (
    CatalogOption,
    ConfOption,
    JarOption,
    LakeArgument,
    MasterOption,
    SparkSettings,
    lake_session,
    mirror_command,
    need_libraries,
    need_mirror,
)

__all__ = ["compact"]


@mirror_command("compact")
def compact(
    lake: LakeArgument,
    tables: Annotated[
        list[str] | None,
        Argument(metavar="DB.TABLE…", required=False, help="Tables to compact; default: all."),
    ] = None,
    state: Annotated[
        str | None,
        Option(metavar="DIR", help="Where the key indexes are kept.", show_default="in the lake"),
    ] = None,
    master: MasterOption = None,
    iceberg_jar: JarOption = None,
    catalog: CatalogOption = "lake",
    conf: ConfOption = None,
) -> None:
    """Rewrite tables so that they have no deleted rows and no small files.

    A mirror compacts its tables by itself; use this after a large change, or if the mirror runs with
    --compact off. If a mirror of the lake is running on this machine, that mirror compacts the tables
    while it continues. The server is not contacted.

    Examples:
      binlake mirror compact /lake

      binlake mirror compact /lake shop.orders
    """
    need_libraries()
    from binlake.mirror.api import compact as compacted

    session = SparkSettings.of(master, iceberg_jar, catalog, conf)
    need_mirror(lake, session)
    with lake_session(lake, session) as spark:
        compacted(lake, tables or (), spark=spark, catalog=catalog, state=state, note=note)
