"""`binlake archive` against real servers: byte for byte, whatever happens in between."""

from __future__ import annotations

import json
import random
import re
import subprocess
import urllib.request
from functools import partial
from pathlib import Path

import click
import pytest

import binlake
from binlake.cli.main import PROGRAM
from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from support.servers.archive_setups import BOTH, RESET, SMALL_LOGS, only_directory
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


def _has_grown(growth: Growth, wanted: int, process: subprocess.Popen[bytes]) -> bool:
    """Or it has ended."""
    return growth.look() >= wanted or process.poll() is not None


@BOTH
def test_killed_at_any_instant(fresh: Server, tmp_path: Path) -> None:
    """Under load, again and again; the files are the server's in the end."""
    chance = random.Random(20_261_121)
    with Load(fresh, seed=7):
        for _ in range(5):
            with archiving(url_of(fresh), tmp_path, "--compress", "zstd") as process:
                wanted, growth = chance.randrange(1, 600_000), Growth(tmp_path)
                until(partial(_has_grown, growth, wanted, process))
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
def test_incomplete_events_are_downloaded_again(fresh: Server, tmp_path: Path) -> None:
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
    """Logs with the same names, and more bytes: the archive reports them and keeps them in another directory."""
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
