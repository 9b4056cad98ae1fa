"""Why the reader has no `pushFilters`: Spark 4.1 to 4.3 answer later queries with the first one's rows.

These tests fail on the day a supported Spark has mended it. Then pruning by filters can be
thought about again, and the notes in binlake/spark/__init__.py must change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from binlake.spark.batch import BinlogReader


class PushingReader(DataSourceReader):
    """Six rows; equality filters are honoured here and not given back to Spark."""

    def __init__(self) -> None:
        self.wanted: list[int] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for one in filters:
            if isinstance(one, EqualTo):
                self.wanted.append(one.value)
            else:
                yield one

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for a in range(6):
            if all(a == value for value in self.wanted):
                yield (a,)


class PushingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "a int"

    def reader(self, schema: Any) -> DataSourceReader:
        return PushingReader()


@pytest.fixture
def frame(spark: Any) -> Iterator[Any]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushingSource)
    yield spark.read.format("pushing").load()
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_second_query_gets_the_rows_of_the_first(frame: Any) -> None:
    assert frame.where("a = 1").count() == 1
    assert frame.count() == 1, "mended: all 6 rows were counted"


def test_a_union_of_two_filters_has_one_of_them_twice(frame: Any) -> None:
    both = frame.where("a = 1").union(frame.where("a = 5"))
    assert len({row.a for row in both.collect()}) == 1, "mended: both filters were honoured"


def test_our_reader_does_not_push() -> None:
    assert BinlogReader.pushFilters is DataSourceReader.pushFilters
