"""Binary logs as Spark tables: the data source `binlog`.

    import binlake.spark

    spark = binlake.spark.session()
    spark.read.format("binlog").load("/var/lib/mysql/binlog.*").show()

Filters and the wanted columns are options, never pushed down from `where`. Spark 4.1 to 4.3 keeps
the plan with the pushed filters for later queries on the same loaded DataFrame, which then
silently get the rows of the first query. The same clauses in `where` work, after the read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.lazy import lazy_names

if TYPE_CHECKING:
    from binlake.spark.sessions import prepare, session
    from binlake.spark.source import BinlogDataSource
    from binlake.spark.streaming.metrics import stream_metrics
else:
    # The local export needs parts of this package and no PySpark.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "binlake.spark.sessions": "prepare session",
            "binlake.spark.source": "BinlogDataSource",
            "binlake.spark.streaming.metrics": "stream_metrics",
        },
    )

__all__ = ["BinlogDataSource", "prepare", "session", "stream_metrics"]
