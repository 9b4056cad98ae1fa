"""The log with the position of a mirror is purged: it continues only if no change can be lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import PositionLostError, ServerError
from binlake.mirror.followed.first_copy import LogLagsError
from dev.servers import Server, running
from support.servers.archiving import archive, until, url_of
from support.spark.engines import HereEngine
from support.spark.mirrored import Lake, chunk_by_chunk, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

_FLUSH = "FLUSH BINARY LOGS"
_OFF = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
_WITH_GTIDS_5_6 = ("--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates")


@pytest.fixture(params=["mysql-9.7", "mysql-5.6.24", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    options = _WITH_GTIDS_5_6 if request.param == "mysql-5.6.24" else ()
    with running(provisioned(request.param), options) as started:
        started.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
        )
        yield started


def current_log(server: Server) -> str:
    with server.session() as session:
        [row] = session.rows(server.kind.position_query)
    return str(row[0])


def purge(server: Server) -> None:
    """Leave a log without a transaction."""
    server.execute(_FLUSH)
    server.execute(f"PURGE BINARY LOGS TO '{current_log(server)}'")


def without_gtids(server: Server) -> None:
    """Have the server write transactions without GTIDs, after others that have them."""
    if server.name == "mysql-5.6.24":
        server.stop()
        server.start()
    else:
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in _OFF))


def followed_without_gtids(server: Server, spark: Any, folder: Path) -> Lake:
    """A lake whose server has written a transaction without a GTID since."""
    lake = Lake(spark, folder / "lake", server, tables=("shop.*",))
    caught_up(lake)
    without_gtids(server)
    server.execute("UPDATE shop.t SET v = v + 1")
    return lake


def caught_up(lake: Lake, logs: str | None = None) -> None:
    lake.catch_up(logs, patience_s=0)
    assert quarantined(lake) == {}
    assert lake.equals_source("shop.*") == ["shop.t"]


def test_nothing_was_written_after_the_position(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",))
    caught_up(lake)
    for _ in range(2):
        purge(server)
        caught_up(lake)
        server.execute("UPDATE shop.t SET v = v + 1")
        caught_up(lake)


@pytest.mark.parametrize("server", ["mysql-9.7", "mysql-5.6.24"], indirect=True)
def test_transactions_without_gtids_in_a_purged_log(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The GTIDs of the server are still those of the position."""
    lake = followed_without_gtids(server, iceberg_spark, tmp_path)
    purge(server)
    with pytest.raises(PositionLostError):
        lake.catch_up()


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_a_position_behind_a_transaction_without_a_gtid(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """MySQL refuses to send logs from before a change of gtid_mode; later it has GTIDs again."""
    lake = followed_without_gtids(server, iceberg_spark, tmp_path)
    with pytest.raises(ServerError, match=r"GTID_MODE = OFF.*; set gtid_mode to OFF_PERMISSIVE"):
        lake.catch_up()
    server.execute("SET GLOBAL gtid_mode = OFF_PERMISSIVE")
    caught_up(lake)
    server.execute("INSERT INTO shop.t VALUES (3, 0)")
    caught_up(lake)
    server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = ON")
    with pytest.raises(ServerError, match=r"GTID_MODE = ON.*; set gtid_mode to OFF_PERMISSIVE"):
        lake.catch_up()
    server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    caught_up(lake)
    purge(server)
    with pytest.raises(PositionLostError, match="without GTIDs"):
        lake.catch_up()


def test_a_copy_whose_first_position_is_the_end_of_a_purged_log(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute("INSERT INTO shop.t VALUES " + ", ".join(f"({n}, 0)" for n in range(3, 20)))
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",), chunk_rows=5)
    before = current_log(server)
    with chunk_by_chunk(monkeypatch, lambda number: purge(server) if number == 1 else None):
        caught_up(lake)
    assert current_log(server) != before


@pytest.mark.parametrize("begun", ["before the copy", "in the copy"])
def test_an_archive_does_not_have_the_newest_log_which_is_empty(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    server.execute("INSERT INTO shop.t VALUES " + ", ".join(f"({n}, 0)" for n in range(3, 20)))
    logs = str(tmp_path / "archive")
    assert archive(url_of(server), logs).returncode == 0
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",), chunk_rows=5)
    at = 0 if begun == "before the copy" else 1
    with chunk_by_chunk(monkeypatch, lambda n: server.execute(_FLUSH) if n == at else None):
        caught_up(lake, logs)
    server.execute("CREATE TABLE shop.u LIKE shop.t", "INSERT INTO shop.u SELECT * FROM shop.t")
    with pytest.raises(LogLagsError, match="but the last row was read at"):
        lake.catch_up(logs, patience_s=0)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_the_log_of_one_table_is_purged_during_its_copy(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest log is the same one, so an open connection has no reason to list the logs again."""
    with running(provisioned(name)) as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.other (id INT PRIMARY KEY)")
        server.execute("INSERT INTO shop.other VALUES (1)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",), chunk_rows=50)
        lake.catch_up()
        rows = ", ".join(f"({number}, {number})" for number in range(1000))
        with server.session("shop") as session:
            session.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
            session.execute(f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t")

        def change(number: int) -> None:
            if number == 5:
                server.execute("UPDATE shop.t SET v = v + 1", _FLUSH)
                server.execute("INSERT INTO shop.other VALUES (5)")
            if number == 15:
                server.execute(f"PURGE BINARY LOGS TO '{current_log(server)}'")

        with chunk_by_chunk(monkeypatch, change):
            mirror = lake.mirror(patience_s=0.0, copy_s=0.0)
            with ThreadPoolExecutor() as threads, closing(mirror):
                run = threads.submit(mirror.run, once=False, interval_s=0.05)
                try:
                    until(lambda: run.done() or "shop.t" in quarantined(lake))
                finally:
                    mirror.stop()
                run.result()
        assert quarantined(lake).keys() == {"shop.t"}
        server.execute("INSERT INTO shop.other VALUES (6)")
        lake.catch_up()
        assert quarantined(lake).keys() == {"shop.t"}
        assert lake.equals_source("shop.other") == ["shop.other"]


def test_the_log_is_purged_while_the_first_chunk_is_read(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no other log: to copy the table again would not help."""
    with running(provisioned("mysql-9.7")) as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (v INT)")  # one chunk
        server.execute("INSERT INTO shop.t VALUES (1), (2)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("shop.*",))

        class Purging(HereEngine):
            def run(self, tasks: Any, what: str, watch: Any) -> list[str]:
                answers = super().run(tasks, what, watch)
                if what == "copy shop.t":
                    server.execute("INSERT INTO shop.t VALUES (3)", _FLUSH)
                    server.execute(f"PURGE BINARY LOGS TO '{current_log(server)}'")
                return answers

        with monkeypatch.context() as patch:
            patch.setattr("binlake.mirror.loop.SparkEngine", lambda _spark: Purging())
            lake.catch_up()
        assert "set binlog_expire_logs_seconds" in quarantined(lake)["shop.t"]
        assert not any("begins again" in note for note in lake.notes)
