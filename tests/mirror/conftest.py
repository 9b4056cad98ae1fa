"""A Spark session with Iceberg's jar, the folder of its catalog, and a REST catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from conftest import missing
from support.spark.spark_processes import PATIENCE, PATIENT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("lakes"):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.spark_line("4.1"))
            # warnings of PySpark (about pandas, sockets left open) are not ours to mend
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose catalog `lake` is in `spark.conf.get("test.lake")`, and which has Delta, too."""
    from binlake.mirror.sessions import mirror_session
    from support.spark.mirrored import BOTH_FORMATS, format_jars, iceberg_jar, jdbc_driver

    os.environ.update(PATIENCE)
    folder = tmp_path_factory.mktemp("lake")
    spark = mirror_session(
        str(folder),
        master="local[2]",
        iceberg_jar=str(iceberg_jar()),
        config={
            **PATIENT,
            **BOTH_FORMATS,
            "spark.jars": ",".join(format_jars()),
            "spark.driver.extraClassPath": ":".join([*format_jars(), *jdbc_driver()]),
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "2",
            "test.lake": str(folder),
        },
    )
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def rest_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a REST catalog, whose tables are in a folder."""
    from dev.servers.rest_catalog import rest_catalog
    from support.spark.mirrored import jdbc_driver

    if not jdbc_driver():
        missing("not provisioned: python -m dev.servers provision lake-store-jars")
    with rest_catalog(tmp_path_factory.mktemp("rest")) as address:
        yield address


@pytest.fixture
def rest_catalog_address(rest_address: str, iceberg_spark: Any) -> Iterator[str]:
    """The address of a REST catalog without tables."""
    from binlake.mirror.iceberg.lake import IcebergLake
    from support.spark.mirrored import set_catalog

    set_catalog(iceberg_spark, "emptied", {"type": "rest", "uri": rest_address})
    lake = IcebergLake(iceberg_spark, "emptied")
    yield rest_address
    for name in lake.tables():
        lake.drop(*name)
