"""Lakes in an object store that speaks S3, with a catalog in a file of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from conftest import missing
from dev.servers import Server
from support.spark.mirror_commands import settings_as_words
from support.spark.mirrored import Lake, iceberg_jar

__all__ = [
    "CATALOG",
    "EXECUTOR_MEMORY",
    "LOCATION",
    "StoreLake",
    "duckdb_settings",
    "need_store",
    "newest_metadata",
    "pyiceberg_properties",
    "running_store",
    "store_settings",
]

CATALOG = "prod"
LOCATION = "s3://lake/warehouse"
#: An application of a test and a command share two workers.
EXECUTOR_MEMORY = "512m"


def need_store() -> None:
    """Skip a test, or have it fail, without what a lake in a store needs."""
    from dev.servers.lake_jars import LAKE_STORE_JARS
    from dev.servers.object_store import OBJECT_STORE
    from dev.servers.packages import home

    iceberg_jar()
    for needed in (OBJECT_STORE, LAKE_STORE_JARS):
        if not (home() / "roots" / needed).exists():
            missing(f"not provisioned: python -m dev.servers provision {needed}")


@contextmanager
def running_store() -> Iterator[dict[str, str]]:
    """An S3 server with the bucket `lake`: the environment that finds it."""
    from dev.servers.object_store import object_store

    need_store()
    with object_store("lake") as variables:
        yield variables


def store_settings(store: Mapping[str, str], folder: Path, name: str = CATALOG) -> dict[str, str]:
    """Settings of Spark for the catalog `name` in `folder`, whose tables are in a store."""
    from dev.servers.lake_jars import lake_store_jars

    jars = [str(jar) for jar in (iceberg_jar(), *lake_store_jars())]
    prefix = f"spark.sql.catalog.{name}."
    catalog = {prefix + setting: value for setting, value in _catalog(store, folder).items()}
    # tasks are Python: executors need none of the classes
    return {**catalog, "spark.driver.extraClassPath": ":".join(jars), "spark.cores.max": "2"}


def _catalog(store: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "jdbc.schema-version": "V1",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": store["AWS_ENDPOINT_URL"],
        "s3.path-style-access": "true",
        "client.region": store["AWS_DEFAULT_REGION"],
    }


def newest_metadata(folder: Path) -> dict[str, str]:
    """The metadata files of the tables in the catalog in `folder`, by their names."""
    query = "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
    with closing(sqlite3.connect(folder / "catalog.db")) as catalog:
        is_new = not catalog.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'"
        ).fetchall()
        return {} if is_new else dict(catalog.execute(query).fetchall())


def pyiceberg_properties(store: Mapping[str, str]) -> dict[str, str]:
    """The properties with which PyIceberg reads from a store."""
    return {
        "s3.endpoint": store["AWS_ENDPOINT_URL"],
        "s3.access-key-id": store["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": store["AWS_SECRET_ACCESS_KEY"],
        "s3.region": store["AWS_DEFAULT_REGION"],
    }


def duckdb_settings(store: Mapping[str, str]) -> dict[str, str]:
    """The settings with which DuckDB reads from a store."""
    return {
        "s3_endpoint": store["AWS_ENDPOINT_URL"].removeprefix("http://"),
        "s3_use_ssl": "false",
        "s3_url_style": "path",
        "s3_access_key_id": store["AWS_ACCESS_KEY_ID"],
        "s3_secret_access_key": store["AWS_SECRET_ACCESS_KEY"],
        "s3_region": store["AWS_DEFAULT_REGION"],
    }


class StoreLake(Lake):
    """A lake in a store: a catalog `name` of its own, which is in the folder, as are the row indexes."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        server: Server,
        store: Mapping[str, str],
        name: str,
        **options: Any,
    ) -> None:
        self._store, self._name = store, name
        super().__init__(spark, folder, server, **options)
        self.location = f"s3://lake/{name}"
        self.state = str(folder / "state")

    def _catalog_name(self) -> str:
        return self._name  # the entries of a catalog in a database contain its name

    def _catalog_settings(self) -> dict[str, str]:
        return {"warehouse": f"s3://lake/{self._name}", **_catalog(self._store, self.folder)}

    def words(self) -> list[str]:
        """The options with which commands find the catalog."""
        settings = store_settings(self._store, self.folder, self._name)
        settings["spark.executor.memory"] = EXECUTOR_MEMORY
        return ["--catalog", self._name, *settings_as_words(settings)]

    def versions(self) -> int:
        """How many versions the metadata of the tables has, by the numbers in the names of its files."""
        found = newest_metadata(self.folder).values()
        return sum(int(Path(file).name.partition("-")[0]) for file in found)
