"""A change of a character set, and rows after it, in one range of a log that names no character sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dev.servers import running
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


def test_rows_after_a_change_of_the_character_set(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:  # its default: binlog_row_metadata=NO_LOG
        server.execute("CREATE DATABASE sets")
        with server.session("sets") as session:
            session.execute(
                "SET NAMES utf8mb4",
                "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20) CHARACTER SET utf8mb4)",
                "INSERT INTO t VALUES (1, 'é')",
            )
            lake = Lake(iceberg_spark, tmp_path, server, tables=("sets.*",), on_alter="resync")
            lake.catch_up()
            session.execute(
                "INSERT INTO t VALUES (2, 'è')",
                "ALTER TABLE t MODIFY c VARCHAR(20) CHARACTER SET latin1",
                "INSERT INTO t VALUES (3, 'é'), (4, 'è')",
            )
            lake.catch_up()
            assert quarantined(lake) == {}
            assert lake.equals_source("sets.*") == ["sets.t"]


def test_columns_that_are_added_after_a_change_of_the_table_s_character_set(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE sets")
        with server.session("sets") as session:
            session.execute("SET NAMES utf8mb4")
            for name in ("one", "two", "three"):
                session.execute(
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, w INT) DEFAULT CHARSET=latin1",
                    f"INSERT INTO {name} VALUES (1, 1)",
                )
            lake = Lake(iceberg_spark, tmp_path, server, tables=("sets.*",))
            lake.catch_up()
            session.execute(
                "ALTER TABLE one CONVERT TO CHARACTER SET utf8mb4",
                "ALTER TABLE one NOWAIT ADD note VARCHAR(100)",
                "ALTER TABLE two DEFAULT CHARACTER SET utf8mb4",
                "ALTER TABLE two WAIT 5 ADD note VARCHAR(100)",
                "ALTER TABLE three ADD note VARCHAR(100), DEFAULT CHARACTER SET utf8mb4",
            )
            for name in ("one", "two", "three"):
                session.execute(f"INSERT INTO {name} VALUES (2, 2, 'Zoë 10 €')")
            lake.catch_up()
            assert quarantined(lake) == {}
            assert sorted(lake.equals_source("sets.*")) == ["sets.one", "sets.three", "sets.two"]
