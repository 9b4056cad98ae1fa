"""Binary logs as Spark tables: the data source `binlog`.

    import binlake.spark

    spark = binlake.spark.session()
    spark.read.format("binlog").load("/var/lib/mysql/binlog.*").show()

Filters and the wanted columns are options, never pushed down from `where`. Spark 4.1 to 4.3 keeps
the plan with the pushed filters for later queries on the same loaded DataFrame, which then
silently get the rows of the first query. The same clauses in `where` work, after the read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlake.spark.sessions import prepare, session
    from binlake.spark.source import BinlogDataSource
    from binlake.spark.streaming.metrics import stream_metrics

__all__ = ["BinlogDataSource", "prepare", "session", "stream_metrics"]

# Imported when first used: the local export needs parts of this package and no PySpark.
_HOMES = {
    "BinlogDataSource": "binlake.spark.source",
    "prepare": "binlake.spark.sessions",
    "session": "binlake.spark.sessions",
    "stream_metrics": "binlake.spark.streaming.metrics",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
