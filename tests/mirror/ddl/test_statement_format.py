"""Statements in the log of a server whose format is ROW: those of other tables, of one mirrored table, and those that the server makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
