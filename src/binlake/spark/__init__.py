"""Binary logs as Spark tables: the data source `binlog`.

    import binlake.spark

    spark = binlake.spark.session()
    spark.read.format("binlog").load("/var/lib/mysql/binlog.*").show()

Filters and the wanted columns are options, never pushed down from `where`: in Spark 4.1 to 4.3
the plan with the pushed filters is kept for later queries on the same loaded DataFrame, which
then silently get the rows of the first. The same clauses in `where` work, after the read.
"""

from binlake.spark.sessions import prepare, session
from binlake.spark.source import BinlogDataSource

__all__ = ["BinlogDataSource", "prepare", "session"]
