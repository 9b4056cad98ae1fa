"""Statements in the log of a server whose format is ROW: those of other tables, of one mirrored table, and those that the
server makes; and events that are missing from the log."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import IncompleteError
from binlake.mirror import resync
from dev.servers import running
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7", "mariadb-11.8"])
def test_statements_in_the_log(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned(name)) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE shop.u (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE shop.mem (id INT PRIMARY KEY, v INT) ENGINE=MEMORY",
            *(f"INSERT INTO shop.{table} VALUES (1, 1), (2, 2)" for table in ("t", "u", "mem")),
            "CREATE DATABASE percona",
            "CREATE TABLE percona.checksums (tbl VARCHAR(64) PRIMARY KEY, cnt INT, crc VARCHAR(40))",
            "CREATE TABLE mysql.rds_heartbeat2 (id INT PRIMARY KEY, value BIGINT)",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
        lake.catch_up()
        with server.session("shop") as session:  # as pt-table-checksum, and the agent of Amazon RDS
            session.execute(
                "SET SESSION binlog_format = 'STATEMENT'",
                "REPLACE INTO `percona`.`checksums` (tbl, cnt, crc) SELECT 't', COUNT(*) AS cnt, COALESCE(LOWER(CONV("
                "BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, `v`)) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `shop`.`t` "
                "WHERE ((`id` >= '1')) /*checksum chunk*/",
                "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,7) ON DUPLICATE KEY UPDATE value = 7",
                "SET SESSION binlog_format = 'ROW'",
                "UPDATE t SET v = 5 WHERE id = 1",
            )
        lake.catch_up()
        assert quarantined(lake) == {}
        tables = ["shop.mem", "shop.t", "shop.u"]
        assert lake.equals_source("shop.*") == tables
        server.stop()
        server.start()
        server.execute(
            "INSERT INTO shop.mem VALUES (3, 3)"
        )  # the server logs that the table is empty
        lake.catch_up()
        assert lake.equals_source("shop.*") == tables
        with server.session("shop") as session:
            session.execute("SET SESSION binlog_format = 'STATEMENT'", "UPDATE u SET v = 6")
        server.execute("UPDATE shop.t SET v = 8")
        lake.catch_up()
        assert list(quarantined(lake)) == ["shop.u"]
        assert lake.equals_source("shop.*", "shop.u") == ["shop.mem", "shop.t"]


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7", "mariadb-11.8"])
def test_load_data_as_a_statement(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Into a table that is not mirrored, then into one that is."""
    with running(provisioned(name)) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE DATABASE other",
            *(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))" for table in ("other.x", "shop.t", "shop.u")),
            "INSERT INTO shop.t VALUES (1, 'a')",
            "INSERT INTO shop.u VALUES (1, 'a')",
        )  # fmt: skip
        lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",))
        lake.catch_up()
        (tmp_path / "rows.csv").write_text("7,seven\n8,eight\n")
        load = f"LOAD DATA INFILE '{tmp_path}/rows.csv'"
        fields = "FIELDS TERMINATED BY ',' LINES TERMINATED BY '\\n' (id, @v) SET v = UPPER(@v)"
        with server.session("shop") as session:
            session.execute(
                "SET SESSION binlog_format = 'STATEMENT'",
                f"{load} INTO TABLE other.x {fields}",
                "SET SESSION binlog_format = 'ROW'",
                f"{load} INTO TABLE t {fields}",
            )
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.t", "shop.u"]
        with server.session("other") as session:
            session.execute(
                "SET SESSION binlog_format = 'STATEMENT'", f"{load} INTO TABLE shop.u {fields}"
            )
        server.execute("INSERT INTO shop.t VALUES (2, 'b')")
        lake.catch_up()
        [(table, reason)] = quarantined(lake).items()
        assert table == "shop.u"
        assert "set binlog_format=ROW" in reason
        assert "`binlake mirror resync` copies the table again" in reason
        assert lake.equals_source("shop.*", "shop.u") == ["shop.t"]
        resync(tmp_path / "lake", ["shop.u"], spark=iceberg_spark, catalog=lake.catalog)
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.t", "shop.u"]


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7", "mariadb-11.8"])
def test_events_that_are_missing_from_the_log(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The rows of a statement are more than the cache of the log may hold, and MyISAM has no rollback."""
    with running(provisioned(name)) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE shop.wide (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MyISAM",
            "INSERT INTO shop.t VALUES (1, 1)",
            "INSERT INTO shop.wide VALUES (1, 'a')",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
        lake.catch_up()
        before = lake.table("shop.wide").num_rows
        server.execute(
            "SET GLOBAL binlog_stmt_cache_size = 4096",
            "SET GLOBAL max_binlog_stmt_cache_size = 4096",
        )
        rows = ", ".join(f"({number}, REPEAT('x', 200))" for number in range(2, 500))
        with server.session("shop") as session, suppress(Exception):  # an error in some versions
            session.execute(f"INSERT INTO wide VALUES {rows}")
        server.execute("INSERT INTO shop.t VALUES (2, 2)")
        for _ in range(2):
            with pytest.raises(IncompleteError, match=r"events are missing from its log") as stop:
                lake.catch_up()
            assert "binlake mirror resync LAKE '*.*'" in (stop.value.hint or "")
            assert lake.table("shop.wide").num_rows == before
        resync(tmp_path, ["*.*"], spark=iceberg_spark, catalog=lake.catalog)
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.t", "shop.wide"]
        server.execute("INSERT INTO shop.t VALUES (3, 3)")
        lake.catch_up()
        assert lake.equals_source("shop.*") == ["shop.t", "shop.wide"]


def test_set_statement_behind_comments(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Some programs write their name into a comment before each statement."""
    name, set_statement = "mariadb-11.8", "SET STATEMENT lock_wait_timeout=5 FOR"
    statements = {
        "a": f"/* ApplicationName=DBeaver */ {set_statement} TRUNCATE TABLE a",
        "b": f"-- x\n{set_statement} ALTER TABLE b DROP v",
        "c": "/*!100100 SET STATEMENT lock_wait_timeout=5 FOR */ TRUNCATE c",
        "d": "/*!100100 SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE d */",
        "e": "SET /* x */ STATEMENT lock_wait_timeout=5 FOR/* x */ALTER TABLE e ADD w INT FIRST",
        "f": f"SET STATEMENT sql_mode='' FOR {set_statement} TRUNCATE TABLE f",
    }
    with running(provisioned(name)) as server:
        server.execute("CREATE DATABASE shop")
        for table in (*statements, "g"):
            server.execute(
                f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO shop.{table} VALUES (1, 1), (2, 2)",
            )
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
        lake.catch_up()
        with server.session("shop") as session:
            session.execute(*statements.values())
        lake.catch_up()
        assert quarantined(lake) == {}
        tables = [f"shop.{table}" for table in (*statements, "g")]
        assert sorted(lake.equals_source("shop.*")) == tables
        with server.session("shop") as session:
            session.execute(
                "/* x */ SET STATEMENT binlog_format=STATEMENT FOR INSERT INTO g VALUES (7, 7)",
            )
        lake.catch_up()
        assert list(quarantined(lake)) == ["shop.g"]


def test_a_temporary_table_gets_the_name_of_another_table(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """MariaDB logs the rename in row format, too."""
    with running(provisioned("mariadb-11.8")) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
        lake.catch_up()
        lake.notes.clear()
        with server.session("shop") as session:
            session.execute(
                "CREATE TEMPORARY TABLE scratch (q INT)",
                "RENAME TABLE scratch TO t",
                "INSERT INTO t VALUES (9)",
            )
        server.execute("UPDATE shop.t SET v = 3 WHERE id = 1")
        lake.catch_up()
        assert quarantined(lake) == {}
        assert [note for note in lake.notes if "copied again" in note]
        assert lake.equals_source("shop.*") == ["shop.t"]
