"""Delta tables in a Spark application whose user has set options that change how Spark reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import BinlogError
from binlake.mirror import history
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.table import DeltaTable
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.formats import NewTable
from dev.servers import Server
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.lakes]

SCHEMA = pa.schema([("id", pa.int32()), ("v.*", pa.int32())])
SETTINGS = {
    "spark.databricks.delta.commitInfo.enabled": "false",
    "spark.databricks.delta.stats.collect": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


@pytest.fixture
def spark_of_user(iceberg_spark: Any) -> Iterator[Any]:
    """A session of an application that was started with these settings."""
    conf = iceberg_spark.sparkContext._jsc.sc().conf()
    for name, value in SETTINGS.items():
        conf.set(name, value)
    yield iceberg_spark.newSession()
    for name in SETTINGS:
        conf.remove(name)


def of_rows(first: int, value: int) -> pa.Table:
    numbers = pa.array(range(first, first + 10), pa.int32())
    return pa.table({"id": numbers, "v.*": pa.array([value] * 10, pa.int32())})


@pytest.fixture
def table(spark_of_user: Any, tmp_path: Path) -> DeltaTable:
    """Four data files with ten rows each."""
    lake = DeltaLake(spark_of_user, str(tmp_path / "lake"))
    made = lake.create_table("db", "t", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(4):
        made.commit(Change(of_rows(10 * number, number)), {"at": str(number)})
    return made


def unreadable(file: Path, how: str) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    if how == "missing":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[:4] + b"x" * 56 + content[60:])


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_rows_of_files_that_cannot_be_read_are_not_left_out(how: str, table: DeltaTable) -> None:
    """By none of Delta's commands, and not by a copy."""
    assert table.rows == 40
    assert table.summary == {"at": "3"}
    found, rows = table.rows_of(pa.table({"id": pa.array([7, 99, 31], pa.int32())}))
    assert found.tolist() == [0, -1, 1] or found.tolist() == [1, -1, 0]
    assert rows.column_names == SCHEMA.names
    writer = DataFileWriter(table.schema, table.data_prefix())
    parts = [of_rows(10 * number, 5).cast(table.schema) for number in range(3)]
    copied = [file for part in parts for file in writer.write([part])]
    assert len(copied) > 1
    name = next(iter(table.stored.log.files))
    data = table.stored.log.data_file(name)
    assert data is not None
    unreadable(data, how)
    unreadable(Path(copied[1]["file-path"]), how)
    before = table.snapshot
    with pytest.raises(DAMAGED):
        table.commit(Change(of_rows(0, 9)), {"at": "later"})
    with pytest.raises(BinlogError):
        table.optimize(128 << 20, {"at": "later"})
    with pytest.raises(BinlogError):
        table.replace(copied, {"at": "later"}, {})
    table.reload()
    assert table.snapshot == before
    assert table.rows == 40


@pytest.mark.server
def test_moments_and_rounds(server: Server, spark_of_user: Any, tmp_path: Path) -> None:
    """A TIMESTAMP is a moment in the lake, too."""
    server.execute("CREATE DATABASE moments")
    with server.session("moments") as session:
        session.execute(
            "SET SESSION time_zone = '+00:00'",
            "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL)",
            "INSERT INTO t VALUES (1, '2026-01-01 10:00:00'), (2, NULL)",
        )
    lake = Lake(spark_of_user, tmp_path, server, tables=("moments.*",), format="delta")
    lake.catch_up()
    with server.session("moments") as session:
        session.execute(
            "SET SESSION time_zone = '+00:00'",
            "UPDATE t SET at = '2026-02-01 10:00:00' WHERE id = 2",
            "ALTER TABLE t ADD later TIMESTAMP NULL",
            "UPDATE t SET later = '2026-03-01 10:00:00' WHERE id = 1",
        )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {"moments.t": "equal"}
    types = lake.table("moments.t").schema
    assert {types.field(name).type for name in ("at", "later")} == {pa.timestamp("us", "UTC")}
    assert len(history(tmp_path, spark=spark_of_user)) > 1
