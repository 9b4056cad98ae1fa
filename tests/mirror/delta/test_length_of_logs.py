"""The commits that Delta keeps in the logs of a mirror's tables, and the versions that can still be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from binlake.errors import UnsupportedError
from binlake.mirror import resync
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.formats import NewTable
from binlake.mirror.tables.schema import iceberg_schema
from dev.servers import Server
from support.spark.mirrored import Lake, quarantined, states

pytestmark = pytest.mark.lakes

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def period(table: DeltaStored) -> str | None:
    """How long the table keeps its commits."""
    table.refresh()
    found: str | None = table.describe()["properties"].get("delta.logRetentionDuration")
    return found


def test_the_log_is_kept_for_as_long_as_versions_can_be_read(
    iceberg_spark: Any, tmp_path: Path
) -> None:
    """For tables of earlier versions, too. Delta accepts all periods."""
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    made = lake.create("shop", "t", iceberg_schema(ROWS.schema), {"binlake.table": "shop.t"})
    control = lake.create("_binlake", "rounds", iceberg_schema(ROWS.schema), {})
    assert (period(made), period(control)) == ("interval 720 hours", "interval 1 day")
    made.vacuum(800 * 3600)
    assert period(made) == "interval 824 hours"
    iceberg_spark.sql(
        f"ALTER TABLE {made.sql_name} UNSET TBLPROPERTIES ('delta.logRetentionDuration')"
    )
    assert period(made) is None
    made.vacuum(0)
    assert period(made) == "interval 720 hours"
    assert made.describe()["properties"]["binlake.table"] == "shop.t"


def test_properties_and_constraints_of_a_user(iceberg_spark: Any, tmp_path: Path) -> None:
    """Delta refuses rows that a user does not allow. That concerns this table only."""
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    made = lake.create("shop", "u", iceberg_schema(ROWS.schema), {"binlake.table": "shop.u"})
    made.append(ROWS, {})

    def alter(what: str) -> None:
        iceberg_spark.sql(f"ALTER TABLE {made.sql_name} {what}")
        made.refresh()

    alter("ADD CONSTRAINT small CHECK (id < 10)")
    with pytest.raises(UnsupportedError, match="Delta refuses"):
        made.append(pa.table({"id": pa.array([11], pa.int64())}), {})
    alter("DROP CONSTRAINT small")
    alter("SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(UnsupportedError, match="Delta refuses"):
        made.commit(
            lambda: made.spark.sql(f"DELETE FROM {made.sql_name}").collect(), made.log.state
        )


@pytest.mark.server
def test_a_quarantined_table_after_the_cleanup_of_its_log(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The commits with the mirror's record are gone. The table can be copied again."""
    server.execute("CREATE DATABASE cleaned")
    with server.session("cleaned") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("cleaned.*",), format="delta")
    lake.catch_up()
    path = tmp_path / "cleaned" / "t"
    iceberg_spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    )
    iceberg_spark.sql(f"UPDATE delta.`{path}` SET v = -1")
    server.execute("UPDATE cleaned.t SET v = v + 1")
    lake.catch_up()
    assert quarantined(lake).keys() == {"cleaned.t"}
    [*_, newest] = sorted((path / "_delta_log").glob("*.checkpoint.parquet"))
    for commit in (path / "_delta_log").glob("*.json"):  # Delta does so after 30 days
        if commit.name[:20] < newest.name[:20]:
            commit.unlink()
    resync(tmp_path, ["cleaned.t"], spark=iceberg_spark)
    lake.catch_up()
    server.execute("DELETE FROM cleaned.t WHERE id = 1")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {"cleaned.t": "equal"}
    server.execute("DROP DATABASE cleaned")


def test_versions_whose_files_are_gone(iceberg_spark: Any, tmp_path: Path) -> None:
    """The versions that a moment can have are those that Spark can read."""
    lake = DeltaLake(iceberg_spark, str(tmp_path))
    table = lake.create_table("shop", "t", NewTable(ROWS.schema, ("id",)), tmp_path)
    stored = table.stored

    def is_read(version: int) -> bool:
        try:
            iceberg_spark.sql(f"SELECT * FROM {stored.sql_name} VERSION AS OF {version}").collect()
        except (Py4JJavaError, PySparkException):
            return False
        return True

    def check() -> list[bool]:
        table.reload()
        versions = range(stored.log.version + 1)
        found = [stored.has_version(version, 1 << 60) for version in versions]
        assert found == [is_read(version) for version in versions]
        return found

    def vacuum() -> None:
        setting = "spark.databricks.delta.retentionDurationCheck.enabled"
        iceberg_spark.conf.set(setting, "false")
        try:
            iceberg_spark.sql(f"VACUUM {stored.sql_name} RETAIN 0 HOURS").collect()
        finally:
            iceberg_spark.conf.unset(setting)

    def rows(*numbers: int) -> pa.Table:
        return pa.table({"id": pa.array(numbers, pa.int64())})

    table.commit(Change(rows(*range(100))), {})
    table.commit(Change(rows(*range(100, 200))), {})
    table.commit(Change(deletes=rows(1)), {})  # a deletion vector
    table.commit(Change(deletes=rows(2, 101)), {})
    table.commit(Change(rows(300)), {})
    table.commit(Change(deletes=rows(3)), {})
    vacuum()
    assert {*check()} == {True, False}
    table.optimize(128 << 20, {})
    table.commit(Change(truncate=True), {})
    table.commit(Change(rows(400)), {})
    vacuum()
    assert check().count(True) < 6  # the newest, and those of VACUUM itself
