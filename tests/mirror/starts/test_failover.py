"""A failover to a replica, or to a server that was set up from a backup: the mirror continues by GTID."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import PositionLostError
from binlake.mirror.apply.decode import decode_range
from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from mirror.killed_mirror import Kill, killed
from support.servers.archiving import until
from support.servers.flaky_proxy import FlakyProxy
from support.servers.live import trusting, url_of
from support.spark.mirrored import (
    Lake,
    current_position,
    quarantined,
    recorded_position,
    states,
)

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SERVERS = ["mysql-9.7", "mariadb-11.8"]
GTID = {
    "mysql": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    "mariadb": ["--log-slave-updates", "--gtid-strict-mode=ON"],
}
FOLLOW = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl', SOURCE_PASSWORD='secret',"
    " SOURCE_PORT={}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='secret',"
    " MASTER_PORT={}, MASTER_USE_GTID=slave_pos, MASTER_SSL_VERIFY_SERVER_CERT=0",
}


@pytest.mark.parametrize("name", SERVERS)
def test_failover_to_a_replica(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Tables that had come to different places of the old server continue with the new one, by GTID."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE two")
        for table in ("a", "b"):
            first.execute(f"CREATE TABLE two.{table} (id INT PRIMARY KEY, v INT)")
            first.execute(f"INSERT INTO two.{table} VALUES (1, 1), (2, 2), (3, 3)", "FLUSH BINARY LOGS")  # fmt: skip
        lake = Lake(iceberg_spark, tmp_path, first, tables=("two.*",))
        lake.catch_up()
        for table in ("a", "b"):
            first.execute(f"UPDATE two.{table} SET v = 10 WHERE id = 1")
        assert killed(lake, Kill("commit", 1, after=True)) == -signal.SIGKILL
        first.execute("UPDATE two.a SET v = 11 WHERE id = 1", "DELETE FROM two.b WHERE id = 3")
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        first.stop()
        second.execute("INSERT INTO two.a VALUES (4, 4)", "UPDATE two.b SET v = v + 1")
        second.execute("ALTER TABLE two.a ADD COLUMN more INT NULL")
        second.execute("UPDATE two.a SET more = 1 WHERE id = 2")
        lake.server = second
        lake.catch_up()
        assert quarantined(lake) == {}
        assert recorded_position(lake, "two.a") == current_position(second)
        assert lake.equals_source("two.*") == ["two.a", "two.b"]
        assert not any("copied again" in note for note in lake.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_failover_behind_one_name_in_a_round(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual address moves to the replica after the range was planned, and before it is read: the mirror goes on."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        first.execute("CREATE USER reader@'%'", "GRANT ALL ON *.* TO reader@'%'")
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE moved", "CREATE TABLE moved.t (id INT PRIMARY KEY, v INT)")
        first.execute("INSERT INTO moved.t VALUES (1, 1), (2, 2)")
        proxy = FlakyProxy(first.port)
        lake = Lake(iceberg_spark, tmp_path, first, tables=("moved.*",))
        query = f"{trusting(tmp_path, first, second)}&option-file=none".lstrip("&?")
        lake.url = f"mysql://reader@127.0.0.1:{proxy.port}/?{query}"
        mirror = lake.mirror()
        try:
            mirror.run(once=True)
            first.execute("UPDATE moved.t SET v = 3 WHERE id = 1")
            until(lambda: _gtids(second) == _gtids(first))
            second.execute("STOP REPLICA", "FLUSH BINARY LOGS", "INSERT INTO moved.t VALUES (4, 4)")
            moved: list[int] = []

            def read(*of: Any, **options: Any) -> Any:
                if not moved:
                    moved.append(first.port)
                    proxy.target = second.port
                    proxy.cut()
                return decode_range(*of, **options)

            monkeypatch.setattr("binlake.mirror.apply.decode_tables.decode_range", read)
            mirror.reach()
            mirror.reach()
        finally:
            mirror.close()
            proxy.close()
        assert moved
        lake.server = second
        assert quarantined(lake) == {}
        assert lake.equals_source("moved.t") == ["moved.t"]
        assert not any("copied again" in note for note in lake.notes)


#: Statements that make a server begin where another one was, as the restore of a backup does: its logs do not have what came before.
BEGIN_AT = {
    "mysql": ("RESET BINARY LOGS AND GTIDS", "SET GLOBAL gtid_purged = '{}'"),
    "mariadb": ("RESET MASTER", "SET GLOBAL gtid_slave_pos = '{}'"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_failover_to_a_server_that_was_set_up_from_a_backup(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its logs begin at the backup. A mirror that has the changes before it continues, and one that lacks some of them ends with an
    error; the way back is possible, too.
    """
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        schema = ("CREATE DATABASE one", "CREATE TABLE one.t (id INT PRIMARY KEY, v INT)")
        user = ("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        first.execute(*user)
        first.execute(*schema, "INSERT INTO one.t VALUES (1, 1), (2, 2), (3, 3)")
        early = Lake(iceberg_spark, tmp_path / "early", first, tables=("one.*",))
        early.catch_up()
        first.execute("UPDATE one.t SET v = 10 WHERE id = 1", "FLUSH BINARY LOGS")
        second.execute(*user)
        second.execute(*schema, "INSERT INTO one.t VALUES (1, 10), (2, 2), (3, 3)")
        second.execute(*(text.format(_gtids(first)) for text in BEGIN_AT[flavour]))
        first.execute("UPDATE one.t SET v = 20 WHERE id = 2")
        late = Lake(iceberg_spark, tmp_path / "late", first, tables=("one.*",))
        late.catch_up()
        first.execute("UPDATE one.t SET v = 30 WHERE id = 3", "DELETE FROM one.t WHERE id = 1")
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        second.execute("INSERT INTO one.t VALUES (4, 4)")
        before = early.table("one.t").sort_by("id")
        for lake in (early, late):
            lake.server = second
        with pytest.raises(PositionLostError, match=r"purged|its logs do not have"):
            early.catch_up()
        assert early.table("one.t").sort_by("id") == before
        late.catch_up()
        assert quarantined(late) == {}
        assert late.equals_source("one.*") == ["one.t"]
        assert not any("copied again" in note for note in late.notes)
        if flavour == "mysql":  # MariaDB's position does not say what came before the backup
            back = Lake(iceberg_spark, tmp_path / "back", second, tables=("one.*",))
            back.catch_up()
            first.execute(FOLLOW[flavour].format(second.port), "START REPLICA")
            until(lambda: _gtids(second) == _gtids(first))
            first.execute("STOP REPLICA", "INSERT INTO one.t VALUES (5, 5)")
            back.server = first
            back.catch_up()
            assert quarantined(back) == {}
            assert back.equals_source("one.*") == ["one.t"]
            assert not any("copied again" in note for note in back.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_statements_after_a_failover(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The first range of the new server's log has statements that change tables, and all tables are at one place."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE one", "CREATE TABLE one.t (id INT PRIMARY KEY, v INT)")
        first.execute("INSERT INTO one.t VALUES (1, 1), (2, 2), (3, 3)")
        lake = Lake(iceberg_spark, tmp_path, first, tables=("one.*",))
        lake.catch_up()
        first.execute("UPDATE one.t SET v = 10 WHERE id = 1")
        lake.catch_up()
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        first.stop()
        second.execute("TRUNCATE TABLE one.t", "INSERT INTO one.t VALUES (4, 4)")
        second.execute("ALTER TABLE one.t ADD COLUMN more INT NULL")
        second.execute("CREATE TABLE one.u (id INT PRIMARY KEY)", "INSERT INTO one.u VALUES (1)")
        second.execute("INSERT INTO one.t VALUES (5, 5, 5)")
        lake.server = second
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("one.*") == ["one.t", "one.u"]
        assert not any("copied again" in note for note in lake.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_a_first_host_that_does_not_answer(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Copies, rounds and comparisons use the next host of the URL."""
    with running(provisioned(name)) as server:
        nothing = ReservedPort()
        server.execute("CREATE DATABASE hosts", "CREATE TABLE hosts.t (id INT PRIMARY KEY, v INT)")
        server.execute("INSERT INTO hosts.t VALUES (1, 1), (2, 2)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("hosts.*",))
        lake.url = f"{server.flavour}://root@127.0.0.1:{nothing.number}/,{url_of(server)}"
        lake.catch_up()
        server.execute("UPDATE hosts.t SET v = 7", "CREATE TABLE hosts.u (id INT PRIMARY KEY)")
        server.execute("INSERT INTO hosts.u VALUES (3)")
        lake.catch_up()
        assert quarantined(lake) == {}
        assert states(lake) == {"hosts.t": "equal", "hosts.u": "equal"}
        nothing.release()


def _gtids(server: Server) -> str:
    name = "GLOBAL.gtid_executed" if server.flavour == "mysql" else "GLOBAL.gtid_current_pos"
    return (server.rows(f"SELECT @@{name}")[0][0] or "").replace("\n", "")
