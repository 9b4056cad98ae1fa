"""An archive while its servers are reset, fail over, or share a number; its age and its store."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import binlake
from dev.servers import Server, running
from support.servers.archive_setups import BOTH, RESET, SMALL_LOGS, only_directory
from support.servers.archiving import (
    Load,
    archive,
    archiving,
    await_another_second,
    contents,
    has_caught_up,
    of_server,
    state,
    until,
    url_of,
    write,
)

pytestmark = pytest.mark.server


@pytest.fixture
def roomy() -> Iterator[Server]:
    """A server with few logs."""
    with running("mysql-9.7", ["--max-binlog-size=1048576"]) as started:
        yield started


@BOTH
def test_reset_while_following(fresh: Server, name: str, tmp_path: Path) -> None:
    write(fresh, 5)
    with archiving(url_of(fresh), tmp_path):
        until(lambda: list(tmp_path.glob("*/archive.json")))
        first = only_directory(tmp_path)
        until(lambda: has_caught_up(fresh, first))
        before = contents(first)
        await_another_second(fresh)
        fresh.execute(RESET[name], "DROP DATABASE shop")
        write(fresh, 9)
        second = first.with_name(f"{first.name}.2")
        until(lambda: has_caught_up(fresh, second))
    assert contents(first) == before
    assert contents(second) == of_server(fresh)


@pytest.mark.parametrize("is_reset", [False, True])
@BOTH
def test_only_complete_logs_are_there(
    fresh: Server, name: str, tmp_path: Path, is_reset: bool
) -> None:
    """The archiver was killed after it had compressed a log, and before it received the next one."""
    write(fresh, 5)
    name_of_newest = fresh.position()[0]
    fresh.execute("FLUSH BINARY LOGS")
    assert archive(url_of(fresh), tmp_path).returncode == 0
    first = only_directory(tmp_path)
    (first / fresh.position()[0]).unlink()
    before = contents(first)
    newest = first / name_of_newest
    with pa.output_stream(f"{newest}.zst", compression="zstd") as sink:
        sink.write(newest.read_bytes())
    newest.unlink()
    if is_reset:
        await_another_second(fresh)
        fresh.execute(RESET[name], "DROP DATABASE shop")
        write(fresh, 5)
    while fresh.position()[0] <= newest.name:
        fresh.execute("FLUSH BINARY LOGS")
    done = archive(url_of(fresh), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (f"{newest.name} on the server differs" in done.stderr) == is_reset
    # (MariaDB adds an event to its newest log after FLUSH)
    continued = contents(first.with_name(f"{first.name}.2") if is_reset else first)
    assert continued.keys() == of_server(fresh).keys()
    assert {name: contents(first)[name] for name in before} == before


@BOTH
def test_shutdown_and_crash_of_the_server(fresh: Server, tmp_path: Path) -> None:
    """A log that ends with STOP, and one that just ends; the archiver waits and goes on."""
    write(fresh, 5)
    with archiving(url_of(fresh), tmp_path) as process:
        until(lambda: list(tmp_path.glob("*/archive.json")))
        folder = only_directory(tmp_path)
        until(lambda: has_caught_up(fresh, folder))
        fresh.stop()
        fresh.start(SMALL_LOGS)
        write(fresh, 5)
        fresh.kill()
        fresh.start(SMALL_LOGS)
        write(fresh, 5)
        until(lambda: has_caught_up(fresh, folder))
        assert process.poll() is None
    assert contents(tmp_path) == of_server(fresh)
    assert len(of_server(fresh)) >= 3


@BOTH
def test_purged_logs_are_a_clear_error(fresh: Server, tmp_path: Path) -> None:
    write(fresh, 3)
    assert archive(url_of(fresh), tmp_path).returncode == 0
    first = only_directory(tmp_path)
    before = contents(first)
    for _ in range(3):
        fresh.execute("FLUSH BINARY LOGS")
    write(fresh, 3)
    newest, _ = fresh.position()
    fresh.purge_before(newest)
    done = archive(url_of(fresh), tmp_path)
    assert done.returncode == 3
    assert f"it has {newest} to {newest};" in done.stderr
    assert "Traceback" not in done.stderr
    done = archive(url_of(fresh), tmp_path, "--restart-if-lost")
    assert done.returncode == 0, done.stderr
    assert contents(first) == before
    assert contents(first.with_name(f"{first.name}.2")) == of_server(fresh)


def write_days_ago(server: Server, *days: int) -> None:
    """For each number a log that begins as if it were so many days ago, and a row."""
    with server.session() as session:
        for ago in days:
            session.execute(
                f"SET timestamp = UNIX_TIMESTAMP() - {ago} * 86400",
                "FLUSH BINARY LOGS",
                "INSERT INTO shop.notes (text) VALUES ('x')",
                "COMMIT",
                "SET timestamp = DEFAULT",
            )


def test_keep_days(server: Server, tmp_path: Path) -> None:
    """All four servers: what ended earlier goes, with all that belongs to it; a log that spans the
    limit stays, and a restart fetches nothing again.
    """
    write(server, 1)
    server.execute("FLUSH LOGS")
    server.purge_before(server.position()[0])  # other tests' logs began today
    write_days_ago(server, 9, 7, 5, 3, 1)
    logs = sorted(of_server(server))
    old, spanning, newer = logs[-5:-3], logs[-3], logs[-2:]  # 9 and 7; 5 to 3; 3 to 1 and 1 to now
    everything = of_server(server)
    words = ("--compress", "zstd", "--keep-days", "4")
    done = archive(url_of(server), tmp_path, *words)
    assert done.returncode == 0, done.stderr
    folder = only_directory(tmp_path)
    kept = [spanning, *newer]
    assert sorted(contents(folder)) == kept
    assert all(f"removed {name}" in done.stderr for name in old)
    assert (folder / "binlog.index").read_text().split() == [f"./{name}" for name in kept]
    assert {path.name for path in folder.iterdir()} == {
        "archive.json", "archive.lock", "binlog.index", newer[-1],
        *(f"{name}.zst" for name in kept[:-1]),
        *(f"{name}.index.parquet" for name in kept[:-1]),
    }  # fmt: skip
    with archiving(url_of(server), tmp_path, *words):
        until(lambda: has_caught_up(server, folder))
        write_days_ago(server, 2)
        until(lambda: has_caught_up(server, folder))
        server.execute("FLUSH BINARY LOGS")
        until(lambda: has_caught_up(server, folder))
    found = contents(folder)
    assert sorted(found) == [*kept, *sorted(of_server(server))[-2:]]
    assert all(found[name] == everything[name] for name in kept[:-1])
    damaged = folder / f"{kept[1]}.zst"
    intact = damaged.read_bytes()
    damaged.write_bytes(b"damaged" + intact[7:])
    done = archive(url_of(server), tmp_path, "--keep-days", "0")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("retention by age removes no more logs") == 1
    assert damaged.exists()
    damaged.write_bytes(intact)
    done = archive(url_of(server), tmp_path, "--keep-days", "0")
    assert done.returncode == 0, done.stderr
    assert list(contents(folder)) == [max(of_server(server))]


@pytest.mark.parametrize("name", ["mariadb-11.8"])
def test_a_commit_waits_until_it_is_durable_here(fresh: Server, tmp_path: Path) -> None:
    """Semi-synchronous: when a COMMIT returns, the archive has it."""
    write(fresh, 1)
    fresh.execute(
        "SET GLOBAL rpl_semi_sync_master_enabled=1",
        "SET GLOBAL rpl_semi_sync_master_timeout=600000",  # ms; never while this runs
    )

    def status(name: str) -> int:
        return int(fresh.rows(f"SHOW STATUS LIKE 'Rpl_semi_sync_master_{name}'")[0][1] or 0)

    with archiving(url_of(fresh), tmp_path, "--semi-sync", "on"):
        until(lambda: status("clients") == 1)
        until(lambda: list(tmp_path.glob("*/binlog.000001")))
        (log,) = tmp_path.glob("*/binlog.000001")
        for _ in range(20):
            write(fresh, 1)
            assert log.stat().st_size >= fresh.position()[1]
        assert status("no_tx") == 0
        assert status("yes_tx") >= 20


FOLLOW = {
    "mysql-9.7": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl',"
    " SOURCE_PASSWORD='secret', SOURCE_PORT={}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
    "mariadb-11.8": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl',"
    " MASTER_PASSWORD='secret', MASTER_PORT={}, MASTER_USE_GTID=slave_pos",
}


def executed(server: Server) -> str:
    """The transactions that a server has executed: the GTID set, or MariaDB's position in its log."""
    name = "GLOBAL.gtid_executed" if server.flavour == "mysql" else "GLOBAL.gtid_binlog_pos"
    return (server.rows(f"SELECT @@{name}")[0][0] or "").replace("\n", "")


def gtids_in(folder: Path) -> list[str]:
    """The GTIDs of all transactions of a directory, in the order of its logs."""
    logs = binlake.open(str(folder / "binlog.??????"))
    return [str(one.gtid) for one in logs.transactions()]


@BOTH
def test_failover_to_a_replica(fresh: Server, name: str, tmp_path: Path) -> None:
    """The new server's archive begins with the log that holds the next transaction. Both directories
    together hold every transaction; what both hold has one GTID, so nothing counts twice.
    """
    gtid = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    options = [*SMALL_LOGS, *(gtid if name.startswith("mysql") else ["--log-slave-updates"])]
    fresh.stop()
    fresh.start(options)
    with running(name, [*options, "--server-id=2"]) as replica:
        fresh.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'",
                      "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        replica.execute(FOLLOW[name].format(fresh.port), "START REPLICA")
        write(fresh, 5)
        until(lambda: executed(replica) == executed(fresh))
        replica.execute("FLUSH BINARY LOGS")
        write(fresh, 5)
        until(lambda: executed(replica) == executed(fresh))
        with archiving(f"{url_of(fresh)},{url_of(replica)}", tmp_path):
            until(lambda: list(tmp_path.glob("*/archive.json")))
            first = only_directory(tmp_path)
            until(lambda: has_caught_up(fresh, first))
            before = contents(first)
            replica.execute("STOP REPLICA", "FLUSH BINARY LOGS")
            fresh.stop()
            write(replica, 5)
            directory = "server-2-*"
            if name.startswith("mysql"):
                directory = str(replica.rows("SELECT @@GLOBAL.server_uuid")[0][0])
            until(lambda: list(tmp_path.glob(f"{directory}/archive.json")))
            (second,) = tmp_path.glob(directory)
            until(lambda: has_caught_up(replica, second))
        logs = of_server(replica)
        assert contents(second) == {name: logs[name] for name in sorted(logs)[-1:]}
        kept, whole = contents(first), of_server(fresh)  # except the events that the shutdown wrote
        assert kept.keys() == before.keys()
        assert all(whole[name].startswith(kept[name]) for name in kept)
        assert state(second)["gtid_set"] == executed(replica)
        every = gtids_in(replica.data)
        assert len(every) == len(set(every))
        assert set(gtids_in(first)) | set(gtids_in(second)) == set(every)
        assert not set(gtids_in(first)) & set(gtids_in(second))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a real server that speaks S3."""
    from dev.servers.object_store import OBJECT_STORE, object_store
    from dev.servers.packages import home

    if not (home() / "roots" / OBJECT_STORE).exists() and os.environ.get("BINLAKE_REQUIRE") != "1":
        pytest.skip("no object store is provisioned: python -m dev.servers provision s3")
    with object_store("archive") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield "s3://archive/logs"


def test_into_an_object_store(roomy: Server, store: str) -> None:
    chance = random.Random(5)
    with Load(roomy, seed=3):
        for _ in range(3):
            with archiving(url_of(roomy), store, "--sync-seconds", "0.1") as process:
                deadline = chance.uniform(1.0, 3.0)
                try:
                    process.wait(deadline)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    done = archive(url_of(roomy), store, "--compress", "zstd")
    assert done.returncode == 0, done.stderr
    roomy.execute("FLUSH BINARY LOGS")
    assert archive(url_of(roomy), store, "--compress", "zstd").returncode == 0
    found = contents(store)
    expected = of_server(roomy)
    complete = sorted(expected)[:-1]
    assert found == {name: expected[name] for name in complete}
