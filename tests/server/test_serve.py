"""Real replicas of an archive: their tables equal the source's, by position and by GTID."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from binlake.serve.replicas import Replica
from binlake.serve.server import BinlogServer
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions
from dev.servers import Server, running
from support.servers.archiving import archiving, has_caught_up, url_of
from support.servers.serving import PASSWORD, USER, client, eventually, rows, serving

pytestmark = pytest.mark.server

TABLES = "a.t, a.u"
SEMI_SYNC = {
    "mysql-5.6.24": [],  # it comes without the plugin
    "mysql-9.7": [
        "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
        "SET GLOBAL rpl_semi_sync_replica_enabled = 1",
    ],
    "mariadb-10.11": ["SET GLOBAL rpl_semi_sync_slave_enabled = 1"],
    "mariadb-11.8": ["SET GLOBAL rpl_semi_sync_slave_enabled = 1"],
}


class Archive:
    """A source and a directory that has the whole events of its logs so far."""

    def __init__(self, source: Server, folder: Path) -> None:
        self.source = source
        self.folder = folder
        folder.mkdir()
        source.execute(
            "CREATE DATABASE a",
            "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200))",
            "CREATE TABLE a.u (id INT PRIMARY KEY, d DATETIME, n DECIMAL(10,2))",
            "INSERT INTO a.t (v) VALUES ('a'), ('b')",
            "INSERT INTO a.u VALUES (1, '2026-01-01', 1.5), (2, NULL, NULL)",
            "FLUSH LOGS",
            "UPDATE a.u SET n = 7 WHERE id = 2",
        )
        self.grow()

    def change(self, *statements: str) -> None:
        self.source.execute(*statements)
        self.grow()

    def grow(self) -> None:
        """Append what is new to files under their final names, as `archive` does."""
        self.source.execute("FLUSH TABLES")
        self.source.settle()
        for log in self.source.log_files():
            copy = self.folder / log.name
            have = copy.stat().st_size if copy.exists() else 0
            with log.open("rb") as whole, copy.open("ab") as part:
                whole.seek(have)
                part.write(whole.read())

    def checksums(self) -> list[list[str | None]]:
        return self.source.rows(f"CHECKSUM TABLE {TABLES}")


def source_options(server: str) -> list[str]:
    if server.startswith("mysql"):
        return ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-slave-updates=ON"]
    return []


@contextmanager
def replica_of(
    serve: BinlogServer, name: str, number: int, how: str, semi_sync: bool = False
) -> Iterator[Server]:
    """A server that follows; `how` ends the statement."""
    options = [*source_options(name), f"--server-id={number}", "--relay-log=relay"]
    with running(name, options) as replica:
        if semi_sync:
            replica.execute(*SEMI_SYNC[name])
        attach(replica, serve, how)
        yield replica


def attach(replica: Server, serve: BinlogServer, how: str) -> None:
    new = replica.name == "mysql-9.7"
    word = "SOURCE" if new else "MASTER"
    host, port = serve.address
    verb = "CHANGE REPLICATION SOURCE TO" if new else "CHANGE MASTER TO"
    how = how.replace("MASTER_", f"{word}_")
    replica.execute(
        f"{verb} {word}_HOST='{host}', {word}_PORT={port}, {word}_USER='{USER}',"
        f" {word}_PASSWORD='{PASSWORD}', {word}_HEARTBEAT_PERIOD=0.5, {how}",
        "START REPLICA" if new else "START SLAVE",
    )


def stop(replica: Server) -> None:
    replica.execute("STOP REPLICA" if replica.name == "mysql-9.7" else "STOP SLAVE")


def status(replica: Server) -> dict[str, str]:
    """SHOW REPLICA STATUS by column, with the old names."""
    new = replica.name == "mysql-9.7"
    with replica.session() as session, session.connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS" if new else "SHOW SLAVE STATUS")
        names = [
            column[0].replace("Source", "Master").replace("Replica", "Slave")
            for column in cursor.description
        ]
        row = cursor.fetchone()
    return dict(zip(names, (str(value) for value in row), strict=True))


def by_gtid(name: str) -> str:
    return "MASTER_AUTO_POSITION=1" if name.startswith("mysql") else "MASTER_USE_GTID=slave_pos"


def assert_follows(archive: Archive, *replicas: Server) -> None:
    assert_holds(archive.checksums(), *replicas)


def assert_holds(want: list[list[str | None]], *replicas: Server) -> None:
    def equal(replica: Server) -> bool:
        found = status(replica)
        errors = (found["Last_IO_Error"], found["Last_SQL_Error"])
        assert not any(errors), errors
        return replica.rows(f"CHECKSUM TABLE {TABLES}") == want

    for replica in replicas:
        eventually(partial(equal, replica), f"{replica.name} caught up")


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_replicas_follow_by_position_and_by_gtid(name: str, tmp_path: Path) -> None:
    """Two at once, while the directory grows; one of them stops reading for a while."""
    with ExitStack() as stack:
        archive = Archive(
            stack.enter_context(running(name, source_options(name))), tmp_path / "logs"
        )
        serve = stack.enter_context(serving(archive.folder))
        first = min(path.name for path in archive.folder.iterdir())
        positional = stack.enter_context(
            replica_of(serve, name, 2, f"MASTER_LOG_FILE='{first}', MASTER_LOG_POS=4")
        )
        following = stack.enter_context(replica_of(serve, name, 3, by_gtid(name), semi_sync=True))
        assert_follows(archive, positional, following)
        beside = LogInput([str(following.data)], ReadOptions())  # relay logs, too
        assert [chain.names for chain in beside.chains] == [
            tuple(path.name for path in following.log_files())
        ]
        assert "the relay logs relay in" in "".join(beside.remarks)

        stalled = int((positional.run / "pid").read_text())
        os.kill(stalled, signal.SIGSTOP)
        try:
            for _ in range(3):
                archive.change(
                    *["INSERT INTO a.t (v) SELECT REPEAT('x', 190) FROM a.t"] * 3, "FLUSH LOGS"
                )
            assert_follows(archive, following)
        finally:
            os.kill(stalled, signal.SIGCONT)
        assert_follows(archive, positional)

        # each continues at its position; heartbeats arrive when nothing else does
        for replica in (positional, following):
            stop(replica)
        archive.change("DELETE FROM a.t WHERE id % 3 = 0", "INSERT INTO a.u VALUES (3, NULL, 3)")
        for replica in (positional, following):
            replica.execute("START REPLICA" if name == "mysql-9.7" else "START SLAVE")
        assert_follows(archive, positional, following)
        listed = {one.server_id: one for one in serve.replicas.listed()}
        assert set(listed) == {2, 3}
        eventually(lambda: all(one.progress.heartbeats for one in listed.values()), "heartbeats")
        archive.change("INSERT INTO a.t (v) VALUES ('acknowledged')")
        assert_follows(archive, positional, following)
        if SEMI_SYNC[name]:
            file, position = archive.source.position()
            end = f"{file}:{position}"
            eventually(lambda: listed[3].progress.acknowledged == end, "the acknowledgement")

        # what is gone stops a replica, and it says what is there
        stop(positional)
        logs = sorted(archive.folder.iterdir())
        logs[0].unlink()
        eventually(lambda: serve.library.chain.names[0] == logs[1].name, "the library knew")
        attach(positional, serve, f"MASTER_LOG_FILE='{first}', MASTER_LOG_POS=4")
        found = eventually(lambda: _io_error(positional), "the error")
        assert found["Last_IO_Errno"] in ("1236", "13114"), found["Last_IO_Error"]
        assert f"which has {logs[1].name} to" in found["Last_IO_Error"]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_running_archive_outlives_its_source(name: str, tmp_path: Path) -> None:
    """A replica follows while `archive` writes and compresses; the source dies for good; then a
    new replica gets everything from the archive alone.
    """
    logs = tmp_path / "archive"
    with ExitStack() as stack:
        source = stack.enter_context(running(name, source_options(name)))
        archive = Archive(source, tmp_path / "unused")
        stack.enter_context(archiving(url_of(source), logs, "--compress", "zstd"))
        eventually(lambda: any(logs.rglob("archive.json")), "the archive")
        (folder,) = (path.parent for path in logs.rglob("archive.json"))
        eventually(lambda: has_caught_up(source, folder), "the archive had all")

        serve = stack.enter_context(serving(logs))
        early = stack.enter_context(replica_of(serve, name, 2, by_gtid(name), semi_sync=True))
        for number in range(4):
            source.execute(
                "INSERT INTO a.t (v) SELECT REPEAT('x', 190) FROM a.t",
                f"UPDATE a.u SET n = n + {number}",
                "FLUSH BINARY LOGS",
            )
            assert_follows(archive, early)  # through archive and serve alone
        finished = len(source.log_files()) - 1
        eventually(lambda: len(list(folder.glob("*.zst"))) == finished, "finished logs compressed")
        assert_follows(archive, early)

        source.settle()
        source.execute("DELETE FROM a.t WHERE id % 2 = 0", "INSERT INTO a.u VALUES (7, NULL, 7)")
        eventually(lambda: has_caught_up(source, folder), "the archive had all")
        wanted = archive.checksums()
        source.kill()

        first = min(path.name for path in folder.glob("*.zst")).removesuffix(".zst")
        late = stack.enter_context(replica_of(serve, name, 3, by_gtid(name)))
        positional = stack.enter_context(
            replica_of(serve, name, 4, f"MASTER_LOG_FILE='{first}', MASTER_LOG_POS=4")
        )
        assert_holds(wanted, early, late, positional)
        with client(serve) as connection:
            listed = rows(connection, "SHOW SLAVE HOSTS")
            assert sorted(int(row[0]) for row in listed) == [2, 3, 4]
            ((file, position, *_),) = rows(connection, "SHOW MASTER STATUS")
        for replica in (early, late, positional):
            # a replica with several appliers writes down late how far it is
            eventually(partial(_has_executed, replica, (file, int(position))), "the end")


def _heartbeats(replica: Replica) -> int:
    return replica.progress.heartbeats


def _has_executed(replica: Server, wanted: tuple[str, int]) -> bool:
    return _executed(replica) == wanted


def _executed(replica: Server) -> tuple[str, int]:
    found = status(replica)
    return found["Relay_Master_Log_File"], int(found["Exec_Master_Log_Pos"])


def _io_error(replica: Server) -> dict[str, str] | None:
    found = status(replica)
    return found if found["Last_IO_Error"] else None


# What ends the statement, what is set before it, and what the line of serve says then.
MYSQL, MARIADB = "MASTER_AUTO_POSITION=1", "MASTER_USE_GTID=slave_pos"
COMPRESSED = "SET GLOBAL slave_compressed_protocol = 1"
WAYS = {
    "mysql-5.6.24": [(MYSQL, [], ""), (MYSQL, [COMPRESSED], ", compressed by zlib")],
    "mysql-9.7": [
        (f"{MYSQL}, GET_MASTER_PUBLIC_KEY=1", [], " with TLS"),
        (f"{MYSQL}, MASTER_SSL=1", [], " with TLS"),
        *(
            (f"{MYSQL}, MASTER_COMPRESSION_ALGORITHMS='{wanted}'", SEMI_SYNC["mysql-9.7"],
             f" with TLS, compressed by {got}")
            for wanted, got in (("zlib", "zlib"), ("zstd", "zstd"), ("zstd,zlib", "zlib"))
        ),
    ],
    **{
        name: [
            (f"{MARIADB}, MASTER_SSL=0", [], ""),
            (f"{MARIADB}, MASTER_SSL=1", [], " with TLS"),
            (f"{MARIADB}, MASTER_SSL=1", [COMPRESSED, *SEMI_SYNC[name]],
             " with TLS, compressed by zlib"),
        ]
        for name in ("mariadb-10.11", "mariadb-11.8")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(WAYS))
def test_the_ways_in_which_replicas_connect(name: str, tmp_path: Path) -> None:
    """With and without TLS, compressed or not, semi-synchronous too: the same tables."""
    with ExitStack() as stack:
        archive = Archive(
            stack.enter_context(running(name, source_options(name))), tmp_path / "logs"
        )
        serve = stack.enter_context(serving(archive.folder))
        options = [*source_options(name), "--server-id=2", "--relay-log=relay"]
        replica = stack.enter_context(running(name, options))
        said: list[str] = serve.said  # type: ignore[attr-defined]
        ready: list[str] = []
        for number, (how, before, line) in enumerate(WAYS[name]):
            if before != ready:
                replica.execute(*before)
                ready = before
            del said[:]
            attach(replica, serve, how)
            archive.change(
                f"INSERT INTO a.t (v) SELECT REPEAT('{number}', 150) FROM a.t",
                *[f"UPDATE a.u SET n = n + 1, d = '2026-02-0{number + 1}'"] * 30,
            )
            assert_follows(archive, replica)
            connected = [one.partition(" connected")[2] for one in said if " connected" in one]
            assert connected == [line], how
            (listed,) = serve.replicas.listed()
            eventually(partial(_heartbeats, listed), "heartbeats")
            stop(replica)
            eventually(lambda: not serve.replicas.listed(), "it was gone")
            verb = "RESET REPLICA ALL" if name == "mysql-9.7" else "RESET SLAVE ALL"
            replica.execute(verb)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_clients_without_tls(name: str, tmp_path: Path) -> None:
    """No password crosses the connection, so none asks for the server's key; a wrong one is refused."""
    (tmp_path / "logs").mkdir()
    with ExitStack() as stack:
        source = stack.enter_context(running(name, source_options(name)))
        for log in source.log_files():
            (tmp_path / "logs" / log.name).write_bytes(log.read_bytes())
        serve = stack.enter_context(serving(tmp_path / "logs"))
        host, port = serve.address
        ways = [["--ssl-mode=DISABLED"], ["--ssl-mode=DISABLED", "--get-server-public-key"]]
        if name.startswith("mariadb"):
            ways = [["--skip-ssl"], ["--skip-ssl", "--compress"]]
        for way in ways:
            for password, works in ((PASSWORD, True), ("wrong", False)):
                run = subprocess.run(
                    [*source.kind.client_command(), f"--host={host}", f"--port={port}",
                     "--protocol=tcp", f"--user={USER}", f"--password={password}", *way,
                     "--execute=SHOW BINARY LOGS"],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                assert (run.returncode == 0) == works, run.stderr
                assert ("binlog.000001" in run.stdout) == works
                assert works or "Access denied" in run.stderr
        assert not any("TLS" in line for line in serve.said)  # type: ignore[attr-defined]


def test_a_mariadb_replica_stops_at_its_gtid(tmp_path: Path) -> None:
    with ExitStack() as stack:
        archive = Archive(stack.enter_context(running("mariadb-11.8")), tmp_path / "logs")
        wanted = archive.checksums()
        ((position,),) = archive.source.rows("SELECT @@gtid_binlog_pos")
        archive.change("DELETE FROM a.t", "FLUSH LOGS", "DELETE FROM a.u")
        serve = stack.enter_context(serving(archive.folder))
        replica = stack.enter_context(running("mariadb-11.8", ["--server-id=2"]))
        host, port = serve.address
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{USER}',"
            f" MASTER_PASSWORD='{PASSWORD}', MASTER_USE_GTID=slave_pos",
            f"START SLAVE UNTIL master_gtid_pos='{position}'",
        )
        eventually(lambda: status(replica)["Slave_SQL_Running"] == "No", "the end")
        assert replica.rows(f"CHECKSUM TABLE {TABLES}") == wanted
        replica.execute("STOP SLAVE", "START SLAVE")
        assert_follows(archive, replica)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_the_servers_tools(name: str, tmp_path: Path) -> None:
    """mysqlbinlog reads from serve what is in the files; the client shows which there are."""
    with ExitStack() as stack:
        source = stack.enter_context(running(name, source_options(name)))
        archive = Archive(source, tmp_path / "logs")
        archive.change("FLUSH LOGS", "INSERT INTO a.u VALUES (9, NULL, 9)", "FLUSH LOGS")
        logs = sorted(archive.folder.iterdir())
        logs.pop().unlink()
        for log in logs:  # a flag in them said that they were in use
            log.write_bytes((source.data / log.name).read_bytes())
        serve = stack.enter_context(serving(archive.folder))
        host, port = serve.address
        remote = [
            "-R",
            f"--host={host}",
            f"--port={port}",
            f"--user={USER}",
            f"--password={PASSWORD}",
        ]
        raw = tmp_path / "raw"
        raw.mkdir()
        read = source.read_log(
            *remote, "--raw", "--to-last-log", f"--result-file={raw}/", logs[0].name
        )
        assert read.returncode == 0, read.stderr
        assert {path.name: path.read_bytes() for path in raw.iterdir()} == {
            path.name: path.read_bytes() for path in logs
        }
        text = source.read_log(*remote, logs[1].name)
        local = source.read_log(str(logs[1]))
        assert text.returncode == 0, text.stderr
        assert _statements(text.stdout) == _statements(local.stdout)
        with client(serve) as connection:
            shown = rows(connection, "SHOW BINARY LOGS")
            assert [(row[0], int(row[1])) for row in shown] == [
                (path.name, path.stat().st_size) for path in logs
            ]


def _statements(text: bytes) -> list[bytes]:
    """The lines that a client runs, without those that say where they come from."""
    return [
        line
        for line in text.splitlines()
        if not line.startswith((b"#", b"/*!50530", b"DELIMITER")) and b"Format_desc" not in line
    ]
