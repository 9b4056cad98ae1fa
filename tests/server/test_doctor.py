"""binlake doctor on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from binlake.cli.main import main
from binlake.source.replica.connection import connect
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.health import Finding, Who, clashes, examine
from binlake.source.replica.url import ServerUrl
from dev.servers import Server, running
from support.servers.live import tcp_url, url_of
from support.servers.said import said
from support.servers.serving import eventually

pytestmark = pytest.mark.server


def test_doctor(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    server.execute("CREATE DATABASE IF NOT EXISTS ill", "CREATE TABLE ill.t (i INT) ENGINE=MyISAM")
    code, out = said(capfd, ("doctor",), [url_of(server)])
    assert code == 1
    assert "sync_binlog is 0" in out
    assert "SET PERSIST sync_binlog = 1;" in out or "SET GLOBAL sync_binlog = 1;" in out
    assert "without a key: ill.t" in out
    server.execute("CREATE USER doc@'127.0.0.1' IDENTIFIED BY 'geheim'")
    code, out = said(capfd, ("doctor", "--json"), [tcp_url(server, "doc", "geheim")])
    found = json.loads(out)["findings"]
    sql = [finding["sql"] for finding in found if finding["topic"] == "privileges"]
    assert code == 1
    assert "GRANT REPLICATION SLAVE ON *.* TO 'doc'@'127.0.0.1'" in sql
    assert "geheim" not in out
    settings = [f["sql"] for f in _findings(server, capfd) if f["topic"] == "settings"]
    server.execute(*(one for sql in settings for one in sql.split(";") if one.strip()))
    left = [f["what"] for f in _findings(server, capfd) if f["topic"] == "settings"]
    # without GTIDs 5.6 has to be started again
    assert left == (["gtid_mode is OFF"] if server.name == "mysql-5.6.24" else [])


ILL = {
    "mysql-5.6.24": ["--binlog-error-action=IGNORE_ERROR"],
    "mysql-9.7": [
        "--gtid-mode=OFF",
        "--enforce-gtid-consistency=OFF",
        "--binlog-expire-logs-auto-purge=OFF",
        "--binlog-expire-logs-seconds=600",
        "--binlog-row-value-options=PARTIAL_JSON",
        "--binlog-error-action=IGNORE_ERROR",
    ],
    "mariadb-10.11": ["--mysql56-temporal-format=OFF", "--expire-logs-days=0.5"],
    "mariadb-11.8": [
        "--max-binlog-total-size=1073741824",
        "--slave-connections-needed-for-purge=0",
        "--read-binlog-speed-limit=100",
    ],
}


ILL_ALL = [
    "--binlog-format=STATEMENT",
    "--binlog-row-image=MINIMAL",
    "--binlog-checksum=NONE",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
]


# Each of these has to be found, and mended by the SQL that is proposed.
FOUND = {
    "mysql-5.6.24": ["binlog_error_action", "logs are never purged"],
    "mysql-9.7": [
        "the source is not semi-synchronous",
        *("gtid_mode", "binlog_expire_logs_auto_purge", "binlog_row_value_options"),
        *("binlog_error_action", "binlog_row_metadata", "logs are kept for 600 seconds"),
    ],
    "mariadb-10.11": [
        "the source is not semi-synchronous",
        *("mysql56_temporal_format", "gtid_strict_mode", "binlog_row_metadata"),
        "logs are kept for 43200 seconds",
    ],
    "mariadb-11.8": [
        *("slave_connections_needed_for_purge", "read_binlog_speed_limit", "gtid_strict_mode"),
        *("binlog_row_metadata", "the source is not semi-synchronous"),
    ],
}


FOUND_ALL = [
    *("binlog_format", "binlog_row_image", "binlog_checksum", "sync_binlog"),
    "innodb_flush_log_at_trx_commit",
]


@pytest.mark.parametrize("name", sorted(ILL))
def test_doctor_mends_everything_that_it_finds(
    name: str, provisioned: Callable[[str], str]
) -> None:
    """The server takes every statement, and then there is nothing to mend."""
    with running(provisioned(name), [*ILL_ALL, *ILL[name]]) as server:
        # the package of 5.6 comes without plugins
        url = url_of(server, **({} if name == "mysql-5.6.24" else {"semi_sync": "on"}))
        found = findings_at(url)
        whats = [f.what for f in found if f.sql]
        for expected in (*FOUND_ALL, *FOUND[name]):
            assert any(what.startswith(expected) for what in whats), expected
        statements = [s.strip() for f in found for s in f.sql.split(";") if s.strip()]
        server.execute(*statements)
        left = [f for f in findings_at(url) if f.sql]
        assert left == []


def test_doctor_leaves_no_replica_behind(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """On MySQL 5.6 one that has never asked for a log stays listed after its session has ended."""
    assert main(["doctor", url_of(server)]) in (0, 1), capfd.readouterr().err
    newer = server.name == "mysql-9.7"
    listing = "SHOW REPLICAS" if newer else "SHOW SLAVE HOSTS"
    eventually(lambda: server.rows(listing) == [], "a list without replicas")


def test_doctor_and_numbers(server: Server) -> None:
    """Our own is taken; and two servers that stand in for one another have the same."""
    number = server.rows("SELECT @@GLOBAL.server_id")[0][0]
    (clash,) = [
        f for f in findings_at(url_of(server, server_id=str(number))) if "server-id" in f.what
    ]
    assert clash.what == f"server-id {number} belongs to the server itself"
    with connect(ServerUrl.parse(url_of(server))) as connection:
        who = Who.of(connection)
    nothing, (same,) = clashes([who, replace(who, where="db2:3306")])
    assert nothing == []
    server.execute(same.sql)
    try:
        assert server.rows("SELECT @@GLOBAL.server_id")[0][0] != number
    finally:
        server.execute(f"SET GLOBAL server_id = {number}")
        if "PERSIST" in same.sql:
            server.execute("RESET PERSIST server_id")
    (copied,) = clashes([who, replace(who, where="db2:3306", server_id=77)])[1]
    assert "auto.cnf" in copied.why


def findings_at(url: str) -> list[Finding]:
    parsed = ServerUrl.parse(url)
    with connect(parsed) as connection:
        return examine(connection, FollowOptions.of(parsed))


def test_doctor_prints_table_fixes_for_a_user_with_select_only(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute(
        "DROP DATABASE IF EXISTS ill",
        "CREATE DATABASE ill",
        "CREATE TABLE ill.good (id INT PRIMARY KEY)",
        "CREATE TABLE ill.one (id INT, row_id INT)",
        "CREATE TABLE ill.two (i INT, n INT AUTO_INCREMENT, KEY (n)) ENGINE=MyISAM",
        "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'geheim'",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@'127.0.0.1'",
    )
    url = tcp_url(server, "reader", "geheim")

    def found() -> list[dict[str, str]]:
        listed: list[dict[str, str]] = json.loads(said(capfd, ("doctor", "--json"), [url])[1])[
            "findings"
        ]
        return [f for f in listed if f["topic"] in ("tables", "privileges")]

    tables = [f for f in found() if f["topic"] == "tables" and "ill." in f["what"]]
    assert [f["what"].partition(": ")[2] for f in tables] == ["ill.one, ill.two", "ill.two"]
    wanted = ["REPLICA MONITOR"] if server.flavour == "mariadb" else []
    lacks = [f["what"].partition(" lacks ")[2] for f in found() if f["topic"] == "privileges"]
    assert lacks == wanted
    server.execute(*(one for f in found() for one in f["sql"].split(";")))
    assert found() == []


@pytest.mark.not_on("mysql-5.6.24")  # it has one channel only
def test_doctor_names_the_channel_that_stands_still(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    if server.flavour == "mariadb":
        server.execute("CHANGE MASTER 'east' TO MASTER_HOST='127.0.0.1', MASTER_PORT=1")
        start, end = "START SLAVE 'east'", "RESET SLAVE 'east' ALL"
    else:
        server.execute(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'east'"
        )
        start, end = "START REPLICA FOR CHANNEL 'east'", "RESET REPLICA ALL FOR CHANNEL 'east'"
    try:
        states = [f for f in _findings(server, capfd) if "thread is" in f["what"]]
    finally:
        server.execute(end)
    assert [f["sql"] for f in states] == [start, start]


def _findings(server: Server, capfd: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(
        said(capfd, ("doctor", "--json"), [url_of(server)])[1]
    )["findings"]
    return found


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_server_without_a_log_is_no_matter_of_privileges(
    name: str, provisioned: Callable[[str], str]
) -> None:
    with running(provisioned(name), ["--skip-log-bin"]) as server:
        found = findings_at(url_of(server))
    whats = [f.what for f in found]
    assert "log_bin is OFF" in whats
    assert not any("GRANT" in f.sql for f in found)
    (refused,) = [f for f in found if f.what.startswith("the server does not send its logs: ")]
    assert (refused.topic, refused.sql) == ("connection", "")


def test_the_retention_of_amazon_rds(server: Server) -> None:
    """Its table decides there, and not the variables."""

    def retention() -> list[Finding]:
        return [f for f in findings_at(url_of(server)) if f.topic == "retention"]

    server.execute(
        "SET SESSION sql_log_bin = 0",
        "CREATE TABLE mysql.rds_configuration (name VARCHAR(100) PRIMARY KEY, value VARCHAR(100), description VARCHAR(300))",
        "INSERT INTO mysql.rds_configuration VALUES ('binlog retention hours', NULL, ''), ('source delay', '0', '')",
    )
    try:
        whats = [f.what for f in retention() if f.sql]
        assert whats == [
            "'binlog retention hours' is not set: the server purges logs as soon as it can"
        ]
        server.execute("UPDATE mysql.rds_configuration SET value = '72' WHERE value IS NULL")
        assert [f for f in retention() if f.sql] == []
        assert "kept for 72 hours" in [f.why for f in retention()]
    finally:
        server.execute("DROP TABLE mysql.rds_configuration")
