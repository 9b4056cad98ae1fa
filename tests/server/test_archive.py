"""`binlake archive` against real servers: byte for byte, whatever happens in between.

Long: every way in which an archive is made, interrupted and taken up again, once.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import binlake
from binlake.cli.main import PROGRAM
from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from support.servers.archiving import (
    Growth,
    Load,
    archive,
    archiving,
    await_another_second,
    command,
    contents,
    has_caught_up,
    of_server,
    state,
    until,
    url_of,
    write,
)

pytestmark = pytest.mark.server

SMALL_LOGS = ["--max-binlog-size=65536"]
BOTH = pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
RESET = {"mysql-9.7": "RESET BINARY LOGS AND GTIDS", "mariadb-11.8": "RESET MASTER"}


@pytest.fixture
def fresh(name: str) -> Iterator[Server]:
    """A server with small logs, for one test."""
    with running(name, SMALL_LOGS) as started:
        yield started


@pytest.fixture
def roomy() -> Iterator[Server]:
    """A server with few logs."""
    with running("mysql-9.7", ["--max-binlog-size=1048576"]) as started:
        yield started


def only_directory(root: Path) -> Path:
    (folder,) = [path for path in root.iterdir() if path.is_dir()]
    return folder


def test_equal_to_the_tool_and_to_the_server(server: Server, tmp_path: Path) -> None:
    """All four servers: our files, those of mysqlbinlog --raw, and the server's own."""
    write(server, 3)
    server.execute("FLUSH LOGS")
    write(server, 3, size=20_000)
    done = archive(url_of(server), tmp_path / "ours")
    assert done.returncode == 0, done.stderr
    ours = contents(tmp_path / "ours")
    assert ours == of_server(server)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    tool = server.read_log(
        "--read-from-remote-server", "--raw", f"--socket={server.run / 'server.sock'}", "--user=root",
        f"--result-file={theirs}/", "--to-last-log", min(ours),
    )  # fmt: skip
    assert tool.returncode == 0, tool.stderr
    assert {path.name: path.read_bytes() for path in theirs.iterdir()} == ours
    folder = only_directory(tmp_path / "ours")
    assert (folder / "binlog.index").read_text().split() == [f"./{name}" for name in ours]
    *complete, last = sorted(ours)
    assert all((folder / f"{name}.index.parquet").exists() for name in complete)
    assert (state(folder)["file"], state(folder)["offset"]) == (last, len(ours[last]))


def test_mysqlbinlog_raw(server: Server, tmp_path: Path) -> None:
    """The tool's options, its file names, and the same bytes; from a position too."""
    write(server, 3)
    server.execute("FLUSH LOGS")
    write(server, 3)
    server.execute("FLUSH LOGS")
    server.settle()
    logs = sorted(path.name for path in server.log_files())
    events = binlake.open(server.data / logs[-3]).events()
    event = next(e for e in events if e.type == "QUERY_EVENT")
    login = ["-R", "--raw", f"--socket={server.run / 'server.sock'}", "-u", "root"]
    cases = [
        ["-t", logs[0]],
        [logs[-3], logs[-2]],
        ["--to-last-log", "-j", str(event.pos), logs[-3]],
    ]
    if server.name == "mysql-9.7":
        cases.append(["--compression-algorithms=zstd", "--get-server-public-key", logs[-2]])
    for number, asked in enumerate(cases):
        ours, theirs = tmp_path / f"ours{number}", tmp_path / f"theirs{number}"
        ours.mkdir()
        theirs.mkdir()
        words = [*login, "-r"]
        done = subprocess.run(command("mysqlbinlog", *words, f"{ours}/a-", *asked), check=False)
        assert done.returncode == 0
        assert server.read_log(*words, f"{theirs}/a-", *asked).returncode == 0
        found = {path.name: path.read_bytes() for path in theirs.iterdir()}
        assert {path.name: path.read_bytes() for path in ours.iterdir()} == found, asked
        assert found
    text = [
        subprocess.run(command("mysqlbinlog", *words), check=True, capture_output=True).stdout
        for words in (["-R", *login[2:], logs[-2]], [server.data / logs[-2]])
    ]
    assert text[0] == text[1]


def test_mysqlbinlog_takes_every_option_of_the_tools(server: Server) -> None:
    """Each is known: done, without effect here, or refused in a line that says why."""
    text = server.read_log("--help").stdout.decode(errors="replace")
    theirs = set(re.findall(r"^  (?:-., |    )?(--[a-z][a-z0-9-]+)", text, re.MULTILINE))
    assert len(theirs) > 40
    tool = PROGRAM.get_command(click.Context(PROGRAM), "mysqlbinlog")
    assert tool is not None
    ours = {
        name for parameter in tool.params for name in (*parameter.opts, *parameter.secondary_opts)
    }
    assert theirs - ours - {"--help", "--debug"} == set()  # its value may be missing


def test_mysqlbinlog_from_an_address(server: Server, tmp_path: Path) -> None:
    """A user who may come from one address only, whose login an extra option file holds."""
    server.execute(
        "CREATE USER far@'127.0.0.2' IDENTIFIED BY 'geheim'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO far@'127.0.0.2'",
    )
    write(server, 1)
    server.execute("FLUSH LOGS")
    log = sorted(path.name for path in server.log_files())[-2]
    options = tmp_path / "extra.cnf"
    options.write_text(f"[client_far]\nuser=far\npassword=geheim\nport={server.port}\n")
    verified = [f"--ssl-ca={server.data / 'ca.pem'}", "--ssl-mode=VERIFY_CA"]
    channel = verified if server.name == "mysql-9.7" else ["--ssl-mode=preferred"]
    words = ["-R", "--raw", "-h", "127.0.0.1", *channel, "--no-defaults",
             f"--defaults-extra-file={options}", "--defaults-group-suffix=_far",
             "--compression-algorithms=zstd", "--zstd-compression-level=7", "-r", f"{tmp_path}/"]  # fmt: skip

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command_line = command("mysqlbinlog", *words, *more, log)
        return subprocess.run(command_line, capture_output=True, text=True, check=False)

    done = run("--bind-address=127.0.0.2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / log).read_bytes() == of_server(server)[log]
    elsewhere = run()
    assert elsewhere.returncode == 1
    assert "Access denied" in elsewhere.stderr


@BOTH
def test_killed_at_any_instant(fresh: Server, tmp_path: Path) -> None:
    """Under load, again and again; the files are the server's in the end."""
    chance = random.Random(20_261_121)
    with Load(fresh, seed=7):
        for _ in range(5):
            with archiving(url_of(fresh), tmp_path, "--compress", "zstd") as process:
                wanted, growth = chance.randrange(1, 600_000), Growth(tmp_path)
                until(lambda n=wanted, g=growth: g.look() >= n or process.poll() is not None)
                assert process.poll() is None
                process.kill()
                process.wait()
    done = archive(url_of(fresh), tmp_path, "--compress", "zstd")
    assert done.returncode == 0, done.stderr
    expected = of_server(fresh)
    assert contents(tmp_path) == expected
    folder = only_directory(tmp_path)
    assert has_caught_up(fresh, folder)
    complete = sorted(expected)[:-1]
    assert complete
    for log in complete:
        assert (folder / f"{log}.zst").exists()
        assert not (folder / log).exists()
        assert (folder / f"{log}.index.parquet").exists()


@BOTH
def test_what_is_no_whole_event_is_fetched_again(fresh: Server, tmp_path: Path) -> None:
    write(fresh, 5)
    assert archive(url_of(fresh), tmp_path).returncode == 0
    log = only_directory(tmp_path) / "binlog.000001"
    whole = log.read_bytes()
    write(fresh, 2)
    for harm in (whole[:-7], b"", whole[:-40] + b"\0" * 5000):
        log.write_bytes(harm)
        done = archive(url_of(fresh), tmp_path)
        assert done.returncode == 0, done.stderr
        assert contents(tmp_path) == of_server(fresh)


@BOTH
def test_reset_while_away(fresh: Server, name: str, tmp_path: Path) -> None:
    """The same names again, and more bytes than before: never overwritten, told, in a place of its own."""
    write(fresh, 5)
    assert archive(url_of(fresh), tmp_path).returncode == 0
    first = only_directory(tmp_path)
    before = contents(first)
    await_another_second(fresh)
    fresh.execute(RESET[name], "DROP DATABASE shop")
    write(fresh, 12)
    done = archive(url_of(fresh), tmp_path)
    assert done.returncode == 0, done.stderr
    second = first.with_name(f"{first.name}.2")
    assert f"{second.name}/" in done.stderr
    assert contents(first) == before
    assert contents(second) == of_server(fresh)
    write(fresh, 2)
    assert archive(url_of(fresh), tmp_path).returncode == 0
    assert contents(second) == of_server(fresh)
    assert contents(first) == before


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
    assert done.returncode == 1
    assert f"it has {newest} to {newest};" in done.stderr
    assert "Traceback" not in done.stderr
    done = archive(url_of(fresh), tmp_path, "--restart-if-lost")
    assert done.returncode == 0, done.stderr
    assert contents(first) == before
    assert contents(first.with_name(f"{first.name}.2")) == of_server(fresh)


@pytest.mark.parametrize("name", ["mysql-9.7"])
def test_one_at_a_time_metrics_and_retention(fresh: Server, tmp_path: Path) -> None:
    write(fresh, 30, size=10_000)
    with archiving(url_of(fresh), tmp_path, "--metrics-port", "0") as process:
        assert process.stderr is not None
        said = b""
        while b"/metrics" not in said:
            said = process.stderr.readline()
            assert said, "it ended"
        address = said.decode().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        until(lambda: list(tmp_path.glob("*/archive.json")))
        folder = only_directory(tmp_path)
        until(lambda: has_caught_up(fresh, folder))

        def metric(text: str) -> list[str]:
            with urllib.request.urlopen(address, timeout=120) as answer:
                lines = answer.read().decode().splitlines()
            return [line for line in lines if line.startswith(text) and folder.name in line]

        until(lambda: any(m.endswith(" 0.0") for m in metric("binlake_archive_lag_seconds")))
        assert metric("binlake_archive_connected")[0].endswith(" 1.0")
        assert float(metric("binlake_archive_received_bytes_total")[0].split()[-1]) > 300_000
        file, offset = fresh.position()
        (place,) = metric("binlake_archive_durable_offset_bytes")
        assert f'file="{file}"' in place
        assert float(place.split()[-1]) == offset
        assert metric("binlake_archive_behind_bytes")[0].endswith(" 0.0")
        assert metric("binlake_archive_logs_unfinished")
        second = archive(url_of(fresh), tmp_path)
        assert second.returncode == 2
        assert "another process writes this archive" in second.stderr
    before = contents(folder)
    assert archive(url_of(fresh), tmp_path, "--keep-bytes", "150k").returncode == 0
    after = contents(folder)
    assert list(after) == list(before)[-len(after) :]
    assert 1 <= len(after) < len(before)
    assert (folder / "binlog.index").read_text().split() == [f"./{name}" for name in after]
    assert {p.name.partition(".index")[0] for p in folder.glob("*.parquet")} <= set(after)
    assert archive(url_of(fresh), tmp_path).returncode == 0
    assert list(contents(folder)) == list(after)


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


@pytest.mark.parametrize("name", ["mariadb-11.8"])
def test_servers_with_one_number(fresh: Server, tmp_path: Path) -> None:
    """Two MariaDB servers with the same server_id: a directory for each, whichever comes; and each
    finds its own when its port, and with it its server_uid, has changed.
    """
    with running("mariadb-10.11", SMALL_LOGS) as other:
        servers = (fresh, other)
        numbers = {server.rows("SELECT @@GLOBAL.server_id")[0][0] for server in servers}
        assert len(numbers) == 1

        def archived() -> list[Path]:
            for count, server in enumerate(servers, start=2):
                write(server, count)
                done = archive(url_of(server), tmp_path)
                assert done.returncode == 0, done.stderr
            folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
            assert len(folders) == len(servers)
            kept = [contents(folder) for folder in folders]
            assert all(of_server(server) in kept for server in servers)
            return folders

        before = archived()
        assert archived() == before
        uids = [server.rows("SELECT @@GLOBAL.server_uid")[0][0] for server in servers]
        ports = [ReservedPort() for _ in servers]
        for server, port in zip(servers, ports, strict=True):
            server.stop()
            server.port = port.number
            server.start(SMALL_LOGS)
        assert uids != [server.rows("SELECT @@GLOBAL.server_uid")[0][0] for server in servers]
        assert archived() == before
        assert archived() == before
        for server in servers:  # as if it were of a version that knew no server_uid
            old = tmp_path / f"server-{server.rows('SELECT @@GLOBAL.server_id')[0][0]}"
            mine = next(path for path in before if contents(path) == of_server(server))
            said = json.loads((mine / "archive.json").read_text())
            del said["server_uid"], said["address"]
            mine.rename(old)
            (old / "archive.json").write_text(json.dumps({**said, "identity": old.name}))
            write(server, 2)
            assert archive(url_of(server), tmp_path).returncode == 0
            assert contents(old) == of_server(server)
            old.rename(mine)
            (mine / "archive.json").unlink()
    for port in ports:
        port.release()


FOLLOW = {
    "mysql-9.7": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl',"
    " SOURCE_PASSWORD='secret', SOURCE_PORT={}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
    "mariadb-11.8": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl',"
    " MASTER_PASSWORD='secret', MASTER_PORT={}, MASTER_USE_GTID=slave_pos",
}


def executed(server: Server) -> str:
    """What a server has executed: the GTID set, or MariaDB's position in its log."""
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
        kept, whole = contents(first), of_server(fresh)  # but for what the shutdown wrote
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
