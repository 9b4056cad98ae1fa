"""Lakes in the sessions of users: another session is active, a catalog keeps tables in a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.iceberg.jvm import Lake
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.tables.schema import iceberg_schema

pytestmark = pytest.mark.lakes

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.int32())])


@pytest.fixture
def other(iceberg_spark: Any) -> Iterator[Any]:
    """A session that has none of the settings of the first, and is active."""
    made = iceberg_spark.newSession()
    made.createDataFrame([(1,)], "a INT")
    assert is_active(made)
    yield made
    iceberg_spark.createDataFrame([(1,)], "a INT")


def is_active(spark: Any) -> bool:
    """Whether a session is active, for the JVM and for PySpark."""
    sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    in_jvm = sessions.getActiveSession().get().equals(spark._jsparkSession)
    return bool(in_jvm) and spark.getActiveSession() is spark


def catalog(spark: Any, name: str, folder: Path, **more: str) -> str:
    """Set a catalog in a session."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"type": "hadoop", "warehouse": str(folder), **more}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return name


def test_a_catalog_that_only_the_given_session_has(
    iceberg_spark: Any, other: Any, tmp_path: Path
) -> None:
    assert Lake(iceberg_spark, catalog(iceberg_spark, "only_here", tmp_path)).tables() == []
    assert is_active(other)


def test_a_catalog_with_a_cache(iceberg_spark: Any, tmp_path: Path) -> None:
    """Tables are as the catalog has them now, also for Spark after binlake has loaded them."""
    direct = Lake(
        iceberg_spark, catalog(iceberg_spark, "direct", tmp_path, **{"cache-enabled": "false"})
    )
    cached = Lake(iceberg_spark, catalog(iceberg_spark, "cached", tmp_path))
    cached.create("db", "t", iceberg_schema(SCHEMA), {})
    count = "SELECT count(*) FROM cached.db.t"
    assert iceberg_spark.sql(count).collect()[0][0] == 0
    direct.load("db", "t").append(pa.table({"id": [1], "v": [1]}), {"at": "1"})
    assert iceberg_spark.sql(count).collect()[0][0] == 0
    assert cached.load("db", "t").describe()["summary"]["at"] == "1"
    assert iceberg_spark.sql(count).collect()[0][0] == 1
    assert cached.tables() == [("db", "t")]
    direct.drop("db", "t")
    assert not cached.exists("db", "t")


def test_commits_to_delta(iceberg_spark: Any, other: Any, tmp_path: Path) -> None:
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    table = lake.create_table("db", "t", NewTable(SCHEMA, ("id",)), tmp_path)
    rows = pa.Table.from_pylist([{"id": 1, "v": 1}, {"id": 2, "v": 2}], SCHEMA)
    table.replace([], {"at": "0"}, {})
    table.commit(Change(appended=[rows]), {"at": "1"})
    table.commit(
        Change(upserts=rows.slice(0, 1), deletes=rows.select(["id"]).slice(1)), {"at": "2"}
    )
    assert is_active(other)
    assert [row for part in table.scan() for row in part.to_pylist()] == [{"id": 1, "v": 1}]
    assert table.summary["at"] == "2"
