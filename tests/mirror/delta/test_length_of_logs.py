"""The commits that Delta keeps in the logs of a mirror's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import UnsupportedError
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.tables.schema import iceberg_schema

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
