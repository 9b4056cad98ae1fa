"""The answers to a session, by flavour and version."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pymysql
import pytest

from support.servers.serving import CHECKSUMS, COM_REGISTER, client, dump, rows, serving

SERVERS = ["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"]


@pytest.fixture(params=SERVERS)
def case(request: pytest.FixtureRequest, golden: Path, tmp_path: Path) -> tuple[str, Path]:
    for log in (golden / request.param / "gtid").glob("binlog.0*"):
        shutil.copy(log, tmp_path)
    return request.param, tmp_path


def test_queries_return_values_of_the_flavour(case: tuple[str, Path]) -> None:
    name, logs = case
    mysql = name.startswith("mysql")
    sizes = sorted((path.name, path.stat().st_size) for path in logs.iterdir())
    with serving(logs) as server, client(server) as connection:
        version = name.partition("-")[2]
        ((said,),) = rows(connection, "SELECT VERSION()")
        assert said.startswith(version)
        assert ("MariaDB" in said) is not mysql
        assert rows(connection, "SHOW VARIABLES LIKE 'SERVER_ID'") == [
            ("server_id", str(server.who.server_id))
        ]
        assert rows(connection, "SELECT @@global.binlog_checksum") == [("CRC32",)]
        assert [row[:2] for row in rows(connection, "SHOW BINARY LOGS")] == [
            (log, size) for log, size in sizes
        ]
        status = rows(connection, "SHOW MASTER STATUS")[0]
        assert status[:2] == sizes[-1]
        for known, flavour in (
            ("gtid_mode", True),
            ("server_uuid", True),
            ("gtid_domain_id", False),
        ):
            if flavour is mysql:
                rows(connection, f"SELECT @@global.{known}")
            else:
                with pytest.raises(pymysql.MySQLError) as caught:
                    rows(connection, f"SELECT @@global.{known}")
                assert caught.value.args[0] == 1193
        if mysql:
            assert rows(connection, "SELECT @@global.gtid_mode") == [("ON",)]
            assert status[4] == str(server.library.executed())
            assert rows(connection, "SELECT @@global.gtid_executed") == [(status[4],)]
        else:
            ((position,),) = rows(connection, "SELECT @@gtid_binlog_pos")
            assert set(position.split(",")) == {"0-1-5", "4294967295-99-1000000007", "7-1-1"}
            ((at,),) = rows(connection, f"SELECT BINLOG_GTID_POS('{sizes[1][0]}', 4)")
            assert "0-1-4" in at
            assert rows(connection, "SELECT BINLOG_GTID_POS('../etc/passwd', 4)") == [(None,)]


def test_the_identity_is_not_the_servers_and_stays(
    case: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, logs = case
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for log in sorted(logs.iterdir())[1:]:
        shutil.copy(log, elsewhere)
    with serving(logs) as one, serving(elsewhere) as two, serving(logs, server_id=7) as three:
        assert one.who == two.who
        assert one.who.server_id > 1 << 30
        assert three.who.server_id == 7
        assert one.who.server_uuid not in str(one.library.executed())


def test_replicas_are_listed(case: tuple[str, Path]) -> None:
    _, logs = case
    with serving(logs) as server, client(server) as replica, client(server) as other:
        rows(replica, CHECKSUMS)
        rows(replica, "SET @slave_uuid='u-u'")
        body = struct.pack("<I", 42) + b"\x04host\0\0" + struct.pack("<HII", 3306, 0, 0)
        replica._execute_command(COM_REGISTER, body)
        replica._read_ok_packet() if hasattr(replica, "_read_ok_packet") else replica._read_packet()
        next(dump(replica, flags=0, server_id=42))
        want = [(42, "host", 3306, server.who.server_id, "u-u")]
        assert rows(other, "SHOW SLAVE HOSTS") == want
        assert rows(other, "SHOW REPLICAS") == want
        other.ping()
        with pytest.raises(pymysql.MySQLError, match="does not answer: DROP TABLE x"):
            rows(other, "DROP TABLE x")
        rows(other, "SELECT @@version_comment LIMIT 1")
