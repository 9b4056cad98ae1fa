"""The active Spark session of a thread.

Spark looks catalogs up, and Delta commits, with the settings of the session that is active in the thread. That can be
another session than the one whose method is called. PySpark's `createDataFrame` makes its session active and leaves
it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session active in this thread, and afterwards the one that was active before."""
    from pyspark.sql import SparkSession

    jvm: Any = spark._jvm
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    before, in_python = sessions.getActiveSession(), SparkSession._activeSession
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
        if SparkSession._activeSession is spark:  # another thread may have made another one active
            SparkSession._activeSession = in_python
