"""Every view and type in tables of Iceberg and Delta: written, merged into, changed, and read whole by
Spark, DuckDB and PyIceberg. Spark 4.1 only: the formats' jars are of that line.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import binlake
from binlake.table.metadata import METADATA
from binlake.values.options import ReadOptions
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import INSERT, STMT_END, Log, short
from support.spark.spark_processes import PATIENCE, PATIENT

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = {
    flavour: str(GOLDEN / flavour / "types-full" / "binlog.000001")
    for flavour in ("mysql-9.7", "mariadb-11.8")
}

# What the formats take for themselves. Iceberg: org.apache.iceberg.MetadataColumns; Delta: CDCReader,
# RowId; Hudi: HoodieRecord; Hive: VirtualColumn; Spark: FileFormat.METADATA_NAME; BigQuery, by prefix.
RESERVED = {
    *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_change_type"),
    *("_last_updated_sequence_number", "_change_ordinal", "_commit_snapshot_id"),
    *("_commit_version", "_commit_timestamp", "_change_data", "__is_cdc"),
    *("__row_id_metadata_col", "__base_row_id_metadata_col"),
    *("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_operation"),
    *("_hoodie_partition_path", "_hoodie_file_name", "_hoodie_is_deleted"),
    *("input__file__name", "block__offset__inside__file", "row__id", "row__offset__inside__block"),
    *("raw__data__size", "grouping__id", "_metadata"),
}
RESERVED_PREFIXES = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_hoodie_")


def test_metadata_columns_have_names_that_no_format_reserves() -> None:
    names = [column.full_name(ReadOptions()) for column in METADATA]
    assert not RESERVED & set(names)
    assert not [name for name in names if name.startswith(RESERVED_PREFIXES)]
    before = ReadOptions(metadata_prefix="_")
    assert {"_file", "_pos"} <= {column.full_name(before) for column in METADATA}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    from binlake.spark import session
    from dev.servers.lake_jars import LAKE_JARS, lake_jars
    from dev.servers.packages import home

    if not (home() / "roots" / LAKE_JARS).exists() and os.environ.get("BINLAKE_REQUIRE") != "1":
        pytest.skip(
            "no jars are provisioned: python -m dev.servers provision lake-jars lake-readers"
        )
    folder = tmp_path_factory.mktemp("lake")
    os.environ.update(PATIENCE)
    spark = session(
        "binlake lakes",
        master="local[2]",
        config={
            **PATIENT,
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.jars": ",".join(map(str, lake_jars())),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
            "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(folder / "iceberg"),
            "spark.sql.warehouse.dir": str(folder / "delta"),
        },
    )
    yield Lake(spark, folder)
    spark.stop()


class Lake:
    """A session with both formats, and the folder of their tables."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.inserted = 0  # by merges
        self._folder = folder

    def load(self, log: str, **options: str) -> Any:
        """The rows of a log, which are read once."""
        return self.spark.read.format("binlog").options(time="micros", **options).load(log).cache()

    def write(self, frame: Any, format_name: str, name: str) -> str:
        """Make a table of a frame; returns its name in SQL."""
        table = f"ice.db.{name}" if format_name == "iceberg" else name
        frame.writeTo(table).using(format_name).createOrReplace()
        return table

    def write_part(self, frame: Any, format_name: str, name: str, keys: list[str]) -> str:
        """Make a table of the first half of the rows, all with a wrong value in a column.

        Returns its name in SQL.
        """
        from pyspark.sql.functions import lit

        rows = frame.count()
        assert rows
        self.inserted += rows // 2
        others = [field for field in frame.schema if field.name not in keys]
        wrong = next(one for one in others if one.dataType.simpleString() in ("string", "bigint"))
        value = lit("wrong" if wrong.dataType.simpleString() == "string" else -1)
        half = (
            frame.orderBy(*keys)
            .limit(-(-rows // 2))
            .withColumn(wrong.name, value.cast(wrong.dataType))
        )
        return self.write(half, format_name, name)

    def merge(self, table: str, frame: Any, keys: list[str]) -> None:
        """Merge a frame into a table that holds some of its rows."""
        frame.createOrReplaceTempView("changes_to_merge")
        same = " AND ".join(f"t.{key} <=> s.{key}" for key in keys)
        self.spark.sql(
            f"MERGE INTO {table} t USING changes_to_merge s ON {same} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def rows(self, table: str) -> list[str]:
        return contents(self.spark.sql(f"SELECT * FROM {table}"))

    def by_pyiceberg(self, table: str) -> list[str]:
        """The rows as PyIceberg reads them."""
        from pyiceberg.table import StaticTable

        return contents_of(StaticTable.from_metadata(self._metadata(table)).scan().to_arrow())

    def by_duckdb(self, tables: list[str]) -> dict[str, list[str]]:
        """The rows of each table as DuckDB reads them from the table itself."""
        from dev.servers.lake_readers import duckdb_copies

        folder = self._folder / "copies"
        folder.mkdir(exist_ok=True)
        copies = {self._duckdb_query(name): folder / f"{name}.parquet" for name in tables}
        duckdb_copies(copies)
        return {path.stem: contents_of(pq.read_table(path)) for path in copies.values()}

    def _duckdb_query(self, table: str) -> str:
        if table.startswith("ice."):
            return f"SELECT * FROM iceberg_scan('{self._metadata(table)}')"
        return f"SELECT * FROM delta_scan('{self._folder / 'delta' / table.lower()}')"

    def _metadata(self, table: str) -> str:
        folder = self._folder / "iceberg" / "db" / table.rpartition(".")[2] / "metadata"
        return str(max(folder.glob("v*.metadata.json"), key=lambda path: path.stat().st_mtime_ns))


def contents(frame: Any) -> list[str]:
    """The rows of a Spark frame, in no order, as JSON text."""
    return contents_of(frame.toArrow())


def contents_of(table: Any) -> list[str]:
    """The rows of an Arrow table, in no order, as JSON text."""
    return sorted(json.dumps(_plain(row), sort_keys=True) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    """A value in a form that does not depend on the program that read it."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        plain = [_plain(part) for part in value]
        # the entries of a map have no order
        is_map = bool(value) and all(isinstance(part, tuple) for part in value)
        return sorted(plain, key=json.dumps) if is_map else plain
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, datetime):
        return str(value if value.tzinfo is None else value.astimezone(UTC))
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


VIEWS: dict[str, list[str]] = {
    "changes": ["file", "pos", "row"],
    "events": ["file", "pos", "inner"],
    "transactions": ["file", "pos"],
    "statements": ["file", "pos", "inner"],
    "ledger": ["host", "bytes", "events"],
}
PLACE = ["_log_file", "_log_pos", "_row"]


@pytest.mark.lakes
@pytest.mark.spark_line("4.1")
@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_views_are_tables_of_a_lake(lake: Lake, format_name: str) -> None:
    rows = {}
    for view, keys in VIEWS.items():
        frame = lake.load(LOGS["mysql-9.7"], view=view)
        table = lake.write_part(frame, format_name, view, keys)
        rows[table] = contents(frame)
        lake.merge(table, frame, keys)
        assert lake.rows(table) == rows[table], view
        frame.unpersist()
    _others_read(lake, rows)


@pytest.mark.lakes
@pytest.mark.spark_line("4.1")
@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_typed_tables_are_tables_of_a_lake(lake: Lake, format_name: str) -> None:
    """So many tables of both flavours that every type is among their columns."""
    columns = {"before": "true", "query": "true", "thread_id": "true"}
    seen: set[str] = set()
    rows: dict[str, list[str]] = {}
    for flavour, log in LOGS.items():
        for name in binlake.open(log).tables():
            local = binlake.open(log, time="micros").to_arrow(name)
            kinds = {str(field.type) for field in local.schema}
            if kinds <= seen:
                continue
            seen |= kinds
            plain = f"{name.partition('.')[2]}_{flavour[:5]}"
            frame = lake.load(log, table=name, **columns)
            table = lake.write_part(frame, format_name, plain, PLACE)
            rows[table] = contents(frame)
            lake.merge(table, frame, PLACE)
            assert lake.rows(table) == rows[table], name
            assert len(rows[table]) == local.num_rows
            frame.unpersist()
            kept = sum(op != "insert" for op in local["_op"].to_pylist())
    _others_read(lake, rows)
    lake.spark.sql(f"UPDATE {table} SET _op = 'seen' WHERE _op = 'insert'")
    lake.spark.sql(f"DELETE FROM {table} WHERE _op = 'seen'")
    assert len(lake.rows(table)) == kept


def _others_read(lake: Lake, rows: dict[str, list[str]]) -> None:
    """DuckDB and PyIceberg read every value as Spark does."""
    assert lake.inserted > len(rows)
    found = lake.by_duckdb(list(rows))
    for table, expected in rows.items():
        assert found[table] == expected, table
        if table.startswith("ice."):
            assert lake.by_pyiceberg(table) == expected, table


@pytest.mark.lakes
@pytest.mark.spark_line("4.1")
@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_intervals_are_why_there_is_the_option_time(lake: Lake, format_name: str) -> None:
    frame = lake.spark.read.format("binlog").option("view", "transactions").load(LOGS["mysql-9.7"])
    with pytest.raises(Exception, match=r"(?i)interval"):
        lake.write(frame, format_name, "refused")


INT, DOUBLE = 3, 5


def _inserted(columns: dict[str, int], *values: float) -> list[tuple[int, bytes]]:
    """Events that insert a row into shop.t, whose columns have these types."""
    kinds = bytes(columns.values())
    table = (7).to_bytes(6, "little") + struct.pack("<H", 1) + short(b"shop") + b"\0"
    table += short(b"t") + b"\0" + short(kinds) + short(b"\x08" * kinds.count(DOUBLE)) + b"\0"
    names = b"".join(short(name.encode()) for name in columns)
    table += bytes([1, 1, 0]) + bytes([4]) + short(names)  # all signed
    row = struct.pack("<" + "".join("i" if kind == INT else "d" for kind in kinds), *values)
    rows = (7).to_bytes(6, "little") + struct.pack("<HH", STMT_END, 2)
    rows += bytes([len(kinds), (1 << len(kinds)) - 1]) + b"\0" + row
    return [(TABLE_MAP, table), (INSERT, rows)]


@pytest.mark.lakes
@pytest.mark.spark_line("4.1")
def test_a_stream_into_tables_whose_source_changes(lake: Lake, tmp_path: Path) -> None:
    """The settings of docs/streaming.md: new columns arrive, and no digit is lost without an error."""
    log = Log()
    log.commit(*_inserted({"id": INT, "a": INT}, 1, 1))
    path = str(log.save(tmp_path))
    for format_name in ("iceberg", "delta"):
        lake.write(lake.load(path, table="shop.t").limit(0), format_name, "followed")
    log.commit(*_inserted({"id": INT, "a": DOUBLE, "c": INT}, 2, 3.5, 4))
    log.save(tmp_path)
    source = lake.spark.readStream.format("binlog").option("table", "shop.t")

    def follow(format_name: str, table: str, **options: str) -> list[dict[str, Any]]:
        into = source.load(path).writeStream.format(format_name).options(**options)
        into.option("checkpointLocation", str(tmp_path / f"_{format_name}"))
        into.trigger(availableNow=True).toTable(table).awaitTermination()
        rows = lake.spark.table(table).orderBy("id").toArrow().to_pylist()
        return [{name: row[name] for name in ("id", "a", "c")} for row in rows]

    expected = [{"id": 1, "a": 1.0, "c": None}, {"id": 2, "a": 3.5, "c": 4}]
    property_of = "ALTER TABLE {} SET TBLPROPERTIES ('{}' = 'true')"
    lake.spark.sql("ALTER TABLE ice.db.followed DROP COLUMN a")  # its type cannot become DOUBLE
    lake.spark.sql(property_of.format("ice.db.followed", "write.spark.accept-any-schema"))
    merging = {"mergeSchema": "true", "check-ordering": "false"}
    assert follow("iceberg", "ice.db.followed", **merging) == expected

    lake.spark.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
    try:
        with pytest.raises(StreamingQueryException, match=r'up cast a from "DOUBLE" to "INT"'):
            follow("delta", "followed", mergeSchema="true")
    finally:
        lake.spark.conf.unset("spark.sql.storeAssignmentPolicy")
    lake.spark.sql(property_of.format("followed", "delta.enableTypeWidening"))
    assert follow("delta", "followed", mergeSchema="true") == expected
