"""Settings of the server with which its log lacks changes: the mirror stops, at its start before it copies anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import IncompleteError
from dev.servers import Server, running
from support.servers.archiving import archive, until
from support.servers.live import tcp_url, url_of
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SERVERS = ["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"]
NO_LOGGED_UPDATES = {
    "mysql-5.6.24": (),  # the default
    "mysql-9.7": ("--log-replica-updates=OFF",),
    "mariadb-10.11": (),
    "mariadb-11.8": (),
}
FOLLOW = {
    "mysql-5.6.24": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='secret', MASTER_PORT={}",
    "mysql-9.7": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl', SOURCE_PASSWORD='secret',"
    " SOURCE_PORT={}, GET_SOURCE_PUBLIC_KEY=1",
    "mariadb-10.11": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='secret', MASTER_PORT={}",
    "mariadb-11.8": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='secret', MASTER_PORT={},"
    " MASTER_SSL_VERIFY_SERVER_CERT=0",
}


@contextmanager
def started(name: str, provisioned: Any, *options: str) -> Iterator[Server]:
    with running(provisioned(name), options) as server:
        server.execute("CREATE DATABASE shop", "CREATE DATABASE crm")
        for table in ("shop.t", "crm.t"):
            server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1)")  # fmt: skip
        yield server


def refusal(lake: Lake, logs: str | None = None) -> str:
    lake.progress.clear()
    with pytest.raises(IncompleteError) as caught:
        lake.catch_up(logs)
    assert lake.progress == []
    return str(caught.value)


@pytest.mark.parametrize("name", SERVERS)
def test_settings(name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path) -> None:
    options = ("--binlog-do-db=shop", "--binlog-row-image=MINIMAL")
    with started(name, provisioned, *options) as server:
        wide = Lake(iceberg_spark, tmp_path / "wide", server, tables=("*.t",))
        assert "binlog_do_db is shop" in refusal(wide)
        lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",))
        logs = tmp_path / "archive"
        assert archive(url_of(server), logs).returncode == 0
        lake.catch_up()
        assert [note for note in lake.notes if note.startswith("binlog_row_image is MINIMAL")]
        assert quarantined(lake) == {}

        server.execute("SET GLOBAL binlog_format = 'STATEMENT'")
        for path in (None, str(logs)):
            text = refusal(lake, path)
            assert "binlog_format is STATEMENT" in text
            assert "binlog_format = 'ROW'" in text
            assert "binlake mirror resync" in text
        ignoring = Lake(
            iceberg_spark, tmp_path / "lake", server, tables=("shop.*",), on_statement="ignore"
        )
        ignoring.catch_up()
        assert any("binlog_format is STATEMENT" in note for note in ignoring.notes)
        server.execute("SET GLOBAL binlog_format = 'ROW'")
        if name == "mysql-5.6.24":  # newer servers do not have the setting, or ignore it
            server.execute("SET GLOBAL innodb_support_xa = OFF")
            assert "copies of tables can lack rows: innodb_support_xa is OFF" in refusal(lake)
            server.execute("SET GLOBAL innodb_support_xa = ON")
        lake.catch_up()
        assert lake.equals_source("shop.*") == ["shop.t"]


@pytest.mark.parametrize("name", SERVERS)
def test_a_replica_that_does_not_log_the_changes_of_its_source(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with (
        running(provisioned(name), ["--server-id=1"]) as source,
        running(provisioned(name), ["--server-id=2", *NO_LOGGED_UPDATES[name]]) as replica,
    ):
        replica.execute("CREATE DATABASE own", "CREATE TABLE own.t (id INT PRIMARY KEY)")
        lake = Lake(iceberg_spark, tmp_path, replica)
        lake.catch_up()  # it is no replica yet
        source.execute("CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")  # fmt: skip
        replica.execute(FOLLOW[name].format(source.port), "START REPLICA" if name == "mysql-9.7" else "START SLAVE")  # fmt: skip
        source.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        until(lambda: replica.rows("SHOW DATABASES LIKE 'shop'"))
        text = refusal(lake)
        assert "_updates is OFF: its logs do not contain changes" in text
        if name.startswith("mariadb"):  # whose status needs a privilege that mirrors do not need
            replica.execute("CREATE USER m@'127.0.0.1'", "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO m@'127.0.0.1'")  # fmt: skip
            lake.url = tcp_url(replica, "m")
            assert "log_slave_updates is OFF" in refusal(lake)


def test_a_server_that_is_restarted_with_other_settings(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The mirror runs on, and the log would lack changes from then on."""
    with started("mariadb-11.8", provisioned) as server:
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))
        mirror = lake.mirror()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                mirror.run(once=False, interval_s=0.05)
            except IncompleteError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            until(lambda: mirror.tables.keys() == {"shop.t"})
            server.stop()
            server.start(["--binlog-ignore-db=shop"])
            until(lambda: errors)
        finally:
            mirror.stop()
            thread.join(300)
            mirror.close()
        assert "binlog_ignore_db is shop" in str(errors[0])
