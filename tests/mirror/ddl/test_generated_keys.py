"""Tables with a generated invisible primary key of MySQL, whose column stays the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dev.servers import running
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


def test_columns_that_are_put_first(provisioned: Any, iceberg_spark: Any, tmp_path: Path) -> None:
    """Two columns have the type of the key, so only the order tells them apart in a log without names."""
    with running(provisioned("mysql-9.7")) as server:
        server.execute("CREATE DATABASE shop")
        with server.session("shop") as session:
            session.execute(
                "SET SESSION sql_generate_invisible_primary_key = ON",
                "CREATE TABLE moved (a INT, b BIGINT UNSIGNED)",
                "INSERT INTO moved VALUES (1, 11), (2, 12), (3, 13)",
                "CREATE TABLE added (a INT)",
                "INSERT INTO added VALUES (1), (2), (3)",
            )
            lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
            lake.catch_up()
            session.execute(
                "ALTER TABLE moved MODIFY b BIGINT UNSIGNED FIRST",
                "UPDATE moved SET b = 5 WHERE a = 1",
                "ALTER TABLE added ADD b BIGINT UNSIGNED NULL FIRST",
                "INSERT INTO added (a, b) VALUES (4, 14)",
            )
            lake.catch_up()
            for table in ("moved", "added"):
                session.execute(
                    f"ALTER TABLE {table} ALTER my_row_id SET VISIBLE",
                    f"INSERT INTO {table} (a, b) VALUES (5, 1)",
                    f"DELETE FROM {table} WHERE a = 2",
                )
            lake.catch_up()
            for table in ("moved", "added"):
                session.execute(
                    f"ALTER TABLE {table} ADD c BIGINT UNSIGNED NULL FIRST",
                    f"UPDATE {table} SET c = 2 WHERE a = 3",
                )
            lake.catch_up()
        assert quarantined(lake) == {}
        assert sorted(lake.equals_source("shop.*")) == ["shop.added", "shop.moved"]
