"""Lets Spark find the data source `binlog` without registration.

Spark imports every installed top-level module named `pyspark_*` and takes its
`DefaultSource`. A module that fails to import switches that discovery off for *all* data
sources, with no word to the user; so this one never fails, it says what is wrong when used.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader

__all__ = ["DefaultSource"]

try:
    from binlake.spark.source import BinlogDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - the data source below raises it, where users can see it
    _WHY = f"the package binlake cannot be imported: {type(error).__name__}: {error}"

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Stands in for a data source that could not be imported."""

        @classmethod
        def name(cls) -> str:
            """The format name."""
            return "binlog"

        def schema(self) -> str:
            """Say what is wrong."""
            raise ImportError(_WHY)

        def reader(self, schema: Any) -> DataSourceReader:
            """Say what is wrong."""
            raise ImportError(_WHY)
