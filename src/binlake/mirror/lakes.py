"""The tables of a lake, by its format.

lake = open_lake(spark, "lake", "/lake")
table = lake.open_table("shop", "orders", ("id",), indexes)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    `key_reader` completes row indexes, by default in the thread that opens a table.
    """
    if (format_of(lake) or wanted) == DELTA:
        from binlake.mirror.delta.lake import DeltaLake

        return DeltaLake(spark, lake)
    from binlake.mirror.iceberg.lake import IcebergLake

    return IcebergLake(spark, catalog, key_reader)
