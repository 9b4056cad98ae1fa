"""Mirrors of real servers in tests: a lake of their own, and equality with the server."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from binlake.mirror.control import Control
from binlake.mirror.followed.first_copy import CopyProgress
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.lakes import open_lake
from binlake.mirror.loop import Mirror
from binlake.mirror.modes.names import HISTORY
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema
from binlake.mirror.verification import Verification, verify_tables
from binlake.snapshot.chunks import chunks_of
from binlake.values.table_names import full_name_of, table_name
from dev.servers import Server
from support.servers.live import url_of
from support.spark.engines import HereEngine

__all__ = [
    "BOTH_FORMATS",
    "Lake",
    "RestLake",
    "Writer",
    "chunk_by_chunk",
    "current_position",
    "format_jars",
    "gone",
    "iceberg_jar",
    "iceberg_table",
    "jdbc_driver",
    "quarantined",
    "recorded_position",
    "rows_of",
    "set_catalog",
    "states",
]

_PATIENCE_S = 300


class Writer:
    """Changes keyed and keyless rows, keys too, until it is stopped; pauses for `pause_s` after each transaction."""

    def __init__(self, server: Server, rng: random.Random, pause_s: float = 0.01) -> None:
        self.server, self.rng, self._pause_s = server, rng, pause_s
        self.written = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_PATIENCE_S)

    def write(self, transactions: int) -> None:
        """So many transactions, now."""
        with self.server.session("shop") as session:
            for _ in range(transactions):
                self._transaction(session)

    def _run(self) -> None:
        with self.server.session("shop") as session:
            while not self._over.is_set():
                self._transaction(session)
                self._over.wait(self._pause_s)

    def _transaction(self, session: Any) -> None:
        session.execute("BEGIN", *(self._statement() for _ in range(20)), "COMMIT")
        self.written += 1

    def _statement(self) -> str:
        rng = self.rng
        one, other, value = rng.randrange(3000), rng.randrange(3000), rng.randrange(10)
        return rng.choice(
            (
                f"INSERT IGNORE INTO keyed (id, v, t) VALUES ({one}, {value}, 'é{other}')",
                f"UPDATE keyed SET v = v + 1 WHERE id BETWEEN {one} AND {one + 5}",
                f"UPDATE IGNORE keyed SET id = {other} WHERE id = {one}",
                f"DELETE FROM keyed WHERE id = {one}",
                f"REPLACE INTO keyed (id, v, t) VALUES ({one}, {value}, NULL)",
                f"INSERT INTO keyless VALUES ({value}, 'x')",
                f"UPDATE keyless SET v = {value} WHERE v = {rng.randrange(10)} LIMIT 2",
                f"DELETE FROM keyless WHERE v = {value} LIMIT 1",
            )
        )


def iceberg_jar() -> Path:
    """The jar, if it is provisioned."""
    from conftest import missing
    from dev.servers.lake_jars import LAKE_JARS, lake_jars
    from dev.servers.packages import home

    if not (home() / "roots" / LAKE_JARS).exists() and os.environ.get("BINLAKE_REQUIRE") != "1":
        missing("no jars are provisioned: python -m dev.servers provision lake-jars")
    return next(jar for jar in lake_jars() if jar.name.startswith("iceberg-spark-runtime"))


def format_jars() -> list[str]:
    """The jars of Iceberg and Delta."""
    from dev.servers.lake_jars import lake_jars

    iceberg_jar()
    return [str(jar) for jar in lake_jars()]


def jdbc_driver() -> list[str]:
    """The jar of SQLite's JDBC driver, for JDBC catalogs in a file; empty if it is not provisioned."""
    from dev.servers.lake_jars import LAKE_STORE_JARS, lake_store_jars
    from dev.servers.packages import home

    if not (home() / "roots" / LAKE_STORE_JARS).exists():
        return []
    return [str(jar) for jar in lake_store_jars() if jar.name.startswith("sqlite-jdbc")]


def set_catalog(spark: Any, name: str, settings: Mapping[str, str]) -> None:
    """Give a session a catalog of Iceberg; `settings`: `type`, `uri` and others, as Spark names them."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for setting, value in {"cache-enabled": "false", **settings}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{setting}", value)


BOTH_FORMATS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
    "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@contextmanager
def chunk_by_chunk(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]
) -> Iterator[None]:
    """Copies are made in this process, with `before(number)` before each chunk, whose number counts from 0 in its table."""
    with monkeypatch.context() as patch:
        patch.setattr("binlake.mirror.loop.SparkEngine", lambda _spark: HereEngine(before))
        yield


class Lake:
    """A lake in a folder, whose catalog in the session has a name of its own.

    `location` is what commands call the lake, `state` the directory of its row indexes if that is another.
    """

    state: str | None = None

    def __init__(self, spark: Any, folder: Path, server: Server, **options: Any) -> None:
        self.spark = spark
        self.folder = folder
        self.location = str(folder)
        self.server = server
        self.options = MirrorOptions.of(options)
        self.url = ""  # that of the server
        self.catalog = self._catalog_name()
        self.notes: list[str] = []
        self.progress: list[CopyProgress] = []
        set_catalog(spark, self.catalog, self._catalog_settings())

    def _catalog_name(self) -> str:
        return f"lake_{abs(hash(str(self.folder)))}"

    def _catalog_settings(self) -> dict[str, str]:
        return {"type": "hadoop", "warehouse": str(self.folder)}

    def mirror(self, logs: str | None = None, **more: Any) -> Mirror:
        """A new one, as after a restart."""
        return Mirror(
            self.spark,
            self.url or url_of(self.server),
            self.location,
            self.options,
            catalog=self.catalog,
            logs=logs,
            **{
                "state": self.state,
                "note": self.notes.append,
                "watch": self.progress.append,
                **more,
            },
        )

    def catch_up(self, logs: str | None = None, **more: Any) -> Mirror:
        """Bring the lake up to date."""
        made = self.mirror(logs, **more)
        try:
            made.run(once=True)
        finally:
            made.close()
        return made

    def words(self) -> list[str]:
        """The options with which commands find the catalog."""
        return ["--iceberg-jar", str(iceberg_jar())]

    def versions(self) -> int:
        """How many versions the metadata of the tables has: a commit adds at least one."""
        hints = self.folder.glob("*/*/metadata/version-hint.text")
        return sum(int(hint.read_text() or 0) for hint in hints)

    def verify(self) -> Verification:
        """Bring the lake up to date, and compare it with the server."""
        mirror = self.mirror()
        try:
            return verify_tables(mirror)
        finally:
            mirror.close()

    def table(self, full_name: str) -> pa.Table:
        """The rows of a table that Spark reads."""
        if self.options.format == "delta":
            path = self.folder.joinpath(*table_name(full_name))
            of_delta: pa.Table = self.spark.read.format("delta").load(str(path)).toArrow()
            return of_delta
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in table_name(full_name))
        found: pa.Table = self.spark.sql(f"SELECT * FROM {self.catalog}.{quoted}").toArrow()
        return found

    def equals_source(self, pattern: str, *but: str) -> list[str]:
        """The tables that were compared, all but some. Raises AssertionError for one that is not equal.

        Of a table with a history the open versions are compared; see `check_history` for the others.
        """
        options = MirrorOptions.of({"tables": (pattern,), "exclude_tables": but})
        names = [
            full_name_of(*n) for n in WantedTables(SourceHost(url_of(self.server)), options).names()
        ]
        for name in names:
            here, there = rows_of(self._now(name)), source_rows(self.server, name, self.options)
            assert here == there, f"{name}: {_difference(here, there)}"
        return names

    def _now(self, full_name: str) -> pa.Table:
        """The rows of a table without earlier versions."""
        found = self.table(full_name)
        if self.options.mode(*table_name(full_name)) != HISTORY:
            return found
        now = found.filter(pc.is_null(found["_valid_to"]))
        return now.drop_columns(["_valid_from", "_valid_to", "_op", "_gtid", "_seq"])


class RestLake(Lake):
    """A lake in a REST catalog at an address; its folder has the row indexes."""

    def __init__(
        self, spark: Any, folder: Path, server: Server, address: str, **options: Any
    ) -> None:
        self._address = address
        super().__init__(spark, folder, server, **options)

    def _catalog_settings(self) -> dict[str, str]:
        return {"type": "rest", "uri": self._address}


def iceberg_table(followed: Followed) -> MirrorTable:
    """The lake table of a followed table, in a lake of Iceberg tables."""
    assert isinstance(followed.lake, MirrorTable)
    return followed.lake


def quarantined(lake: Lake) -> dict[str, str]:
    """Which tables, and why."""
    found = Control(open_lake(lake.spark, lake.catalog, lake.location), None, None).quarantined
    return {name: entry.reason for name, entry in found.items()}


def gone(lake: Lake) -> dict[str, str]:
    """The tables that the server no longer has, and how they went."""
    found = Control(open_lake(lake.spark, lake.catalog, str(lake.folder)), None, None).gone
    return {name: entry.reason for name, entry in found.items()}


def recorded_position(lake: Lake, full_name: str) -> dict[str, str]:
    """The position in the source that the properties of a table's newest snapshot contain."""
    tables = open_lake(lake.spark, lake.catalog, str(lake.folder))
    summary = tables.load(*table_name(full_name)).describe()["summary"]
    names = ("binlake.source", "binlake.file", "binlake.position", "binlake.gtid-set")
    return {name: summary[name] for name in names}


def current_position(server: Server) -> dict[str, str]:
    """The position at the end of a server's log, as `recorded_position` returns it."""
    file, offset = server.position()
    is_mysql = server.flavour == "mysql"
    query = "@@server_uuid, @@GLOBAL.gtid_executed" if is_mysql else "@@server_id, @@GLOBAL.gtid_binlog_state"  # fmt: skip
    [[identity, gtids]] = server.rows(f"SELECT {query}")
    return {
        "binlake.source": str(identity) if is_mysql else f"server-{identity}",
        "binlake.file": file,
        "binlake.position": str(offset),
        "binlake.gtid-set": (gtids or "").replace("\n", ""),
    }


def source_rows(server: Server, full_name: str, options: MirrorOptions) -> list[str]:
    """The rows of a table of the server, in the lake's types."""
    table, _ = WantedTables(SourceHost(url_of(server)), options).read(table_name(full_name))
    schema = storage_schema(iceberg_schema(table.arrow_schema))
    parts = [schema.empty_table()]
    for chunk in chunks_of(url_of(server), table):
        with chunk.read(url_of(server)) as reading:
            parts += [conformed(pa.Table.from_batches([batch]), schema) for batch in reading]
    return rows_of(pa.concat_tables(parts))


def rows_of(table: pa.Table) -> list[str]:
    """Rows as texts, sorted."""
    return sorted(json.dumps(row, default=_plain, sort_keys=True) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _difference(here: list[str], there: list[str]) -> str:
    only_here = [row for row in here if row not in there][:2]
    only_there = [row for row in there if row not in here][:2]
    return f"{len(here)} rows, source {len(there)}; lake only {only_here}; source only {only_there}"


def states(lake: Lake) -> dict[str, str]:
    """The report of `verify` about each table: its state, and the reason if there is one."""
    found = lake.verify().tables
    assert not [table.differences for table in found if table.differences]
    return {table.table: f"{table.state} {table.reason}".strip() for table in found}
