"""The check of servers that the tests do not have: what the findings propose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from binlake.errors import ConnectionLostError
from binlake.source.replica.commands import COM_REGISTER_SLAVE
from binlake.source.replica.connection import ServerConnection, connect, error_of_answer
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.health import Finding, examine
from binlake.source.replica.url import ServerUrl
from support.servers.fake_server import OK, Conversation, fake_server

RETENTION = "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'"
VARIABLES = {
    "log_bin": "ON",
    "binlog_format": "MIXED",
    "sync_binlog": "0",
    "basedir": "/rdsdbbin/mysql-8.0.36.R2/",
    "binlog_expire_logs_seconds": "2592000",
}


def talker(answers: dict[str, list[tuple[str, ...]]]) -> Callable[[Conversation], None]:
    """A server that answers these queries, and nothing else with rows."""

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while True:
            command = conversation.hear()
            sql = command[1:].decode("utf-8", "replace")
            if command[0] != COM_REGISTER_SLAVE and sql in answers:
                conversation.result(*answers[sql])
            else:
                conversation.send(OK, 1)

    return talk


@contextmanager
def connected(answers: dict[str, list[tuple[str, ...]]]) -> Iterator[ServerConnection]:
    with (
        fake_server(talker(answers)) as (port, _),
        connect(ServerUrl.parse(f"mysql://u:p@127.0.0.1:{port}/")) as server,
    ):
        yield server


def findings(more: dict[str, list[tuple[str, ...]]], **variables: str) -> list[Finding]:
    answers: dict[str, list[tuple[str, ...]]] = {
        f"SHOW GLOBAL VARIABLES LIKE '{name.replace('_', chr(92) + '_')}'": [(name, value)]
        for name, value in {**VARIABLES, **variables}.items()
    }
    answers["SHOW BINARY LOGS"] = [("mysql-bin-changelog.000001", "157")]
    with connected({**answers, **more}) as server:
        return examine(server, FollowOptions.of(server.url))


def test_variables_of_amazon_rds_are_set_in_the_parameter_group() -> None:
    own = [
        f
        for f in findings({}, basedir="/usr/")
        if f.what in ("binlog_format is MIXED", "sync_binlog is 0")
    ]
    assert sorted(f.sql for f in own) == [
        "SET PERSIST binlog_format = 'ROW'",
        "SET PERSIST sync_binlog = 1",
    ]
    managed = findings({RETENTION: [("24",)]})
    settings = [f for f in managed if f.what in ("binlog_format is MIXED", "sync_binlog is 0")]
    assert [f.sql for f in settings] == ["", ""]
    assert all(f.why.endswith("; set it in the DB parameter group") for f in settings)
    assert not any("SET GLOBAL" in f.sql or "SET PERSIST" in f.sql for f in managed)


@pytest.mark.parametrize(
    ("hours", "kept", "problem"),
    [
        ("", "kept until Amazon RDS needs them no longer", "'binlog retention hours' is not set"),
        ("1", "kept for 1 hour", "'binlog retention hours' is 1"),
        ("48", "kept for 48 hours", ""),
    ],
)
def test_the_retention_of_amazon_rds_is_in_its_configuration(
    hours: str, kept: str, problem: str
) -> None:
    found = [f for f in findings({RETENTION: [(hours,)]}) if f.topic == "retention"]
    assert [f.why for f in found if "1 log," in f.what] == [kept]
    others = [f for f in found if "1 log," not in f.what]
    assert len(others) == bool(problem)
    for finding in others:
        assert finding.what.startswith(problem)
        assert finding.sql == "CALL mysql.rds_set_configuration('binlog retention hours', 168)"


def test_the_gtids_of_a_position_are_those_that_the_server_sent_with_it() -> None:
    """A transaction that commits between two queries would lie behind the position and in the set."""
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    answers: dict[str, list[tuple[str, ...]]] = {
        "SHOW MASTER STATUS": [("binlog.000003", "157", "", "", f"{uuid}:1-5,\n{uuid[::-1]}:1")],
        "SELECT @@GLOBAL.gtid_executed": [(f"{uuid}:1-6",)],
        "SELECT @@GLOBAL.server_uuid": [(uuid,)],
    }
    with connected(answers) as server:
        position = server.position()
    assert (position.file, position.offset) == ("binlog.000003", 157)
    assert position.gtid_set == f"{uuid}:1-5,{uuid[::-1]}:1"


def test_an_account_with_too_many_connections_is_asked_again() -> None:
    text = "User 'repl' has exceeded the 'max_user_connections' resource (current value: 2)"
    error = error_of_answer(1226, text, "db1")
    assert isinstance(error, ConnectionLostError)
    assert error.retryable
