"""The tables of a lake, by its format.

lake = open_lake(spark, "lake", "/lake")
table = lake.open_table("shop", "orders", ("id",), indexes)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.errors import OptionError
from binlake.mirror.lake_state import is_same_lake
from binlake.mirror.sessions import check_classic
from binlake.mirror.tables.formats import DELTA, LakeTables, format_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binlake.mirror.iceberg.missing_keys import KeyReader


def open_lake(
    spark: SparkSession,
    catalog: str,
    lake: str,
    wanted: str = "",
    key_reader: KeyReader | None = None,
) -> LakeTables:
    """The tables of a lake, in the format that it has, or `wanted` if it has none yet. Raises SourceError.

    `key_reader` completes row indexes, by default in the thread that opens a table. Raises OptionError if the catalog of the session is
    another lake: Spark keeps the one that it has loaded first; and if the session is one of Spark Connect.
    """
    check_classic(spark)
    if (format_of(lake) or wanted) == DELTA:
        from binlake.mirror.delta.lake import DeltaLake

        return DeltaLake(spark, lake)
    from binlake.mirror.iceberg.lake import IcebergLake

    opened = IcebergLake(spark, catalog, key_reader)
    if opened.directory is not None and not is_same_lake(opened.directory, lake):
        raise OptionError(
            f"the catalog {catalog} of the Spark session is {opened.directory}, not {lake}",
            name="spark",
            hint="give the session a catalog of another name for this lake, and name it as `catalog`; or leave `spark` out",
        )
    return opened
