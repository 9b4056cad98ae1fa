"""Every command that takes a file takes the URL of a live server, and says the same of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.source.replica import server_log
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block
from binlake.source.replica.url import ServerUrl
from dev.golden.keys import Keys, prepare_keys
from dev.servers import Server, installation, running
from support.servers.live import tcp_url, to_the_end, url_of
from support.servers.said import said

pytestmark = pytest.mark.server

COMMANDS = (
    ("inspect", "--full"),
    ("rows", "--query"),
    ("sql",),
    ("sql", "--undo"),
    ("stats",),
    ("verify",),
    ("schema",),
    ("gtid", "gaps"),
    ("mysqlbinlog",),
)


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20), state ENUM('new', 'paid'))",
        "INSERT INTO shop.orders VALUES (1, 'ada', 'new'), (2, 'bob', 'new')",
        "FLUSH BINARY LOGS",
        "UPDATE shop.orders SET state = 'paid' WHERE id = 2",
        "DELETE FROM shop.orders WHERE id = 1",
        "FLUSH BINARY LOGS",
        "INSERT INTO shop.orders VALUES (3, 'eve', 'paid')",
        "FLUSH BINARY LOGS",
    )
    server.settle()
    return server


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_say_the_same_of_a_url(
    filled: Server, capfd: pytest.CaptureFixture[str], command: Sequence[str]
) -> None:
    files = [str(path) for path in filled.log_files()[:-1]]
    urls = [url_of(filled, Path(path).name) for path in files]
    told = ["--schema", urls[0]] if command[0] in ("rows", "sql") else []
    code, out = said(capfd, (*command, *told), files)
    assert said(capfd, command, urls) == (code, out)
    assert out or command[0] in ("gtid", "sql")


@pytest.mark.parametrize(
    "command",
    [
        *(command for command in COMMANDS if command != ("sql", "--undo")),
        ("sql", "--undo", "--start", "binlog.000003:4"),
        ("stats", "--statements"),
        ("query", "SELECT count(*) FROM changes"),
        ("history", "shop.orders", "2"),
        ("history", "shop.orders", "2", "--undo", "2"),
        ("state", "shop.orders", "--as-of", "binlog.000002:4", "--from", "URL"),
        ("export", "--engine", "local", "--workers", "1", "--table", "shop.orders"),
    ],
    ids=" ".join,
)
def test_a_command_lists_the_logs_of_a_server_once(
    filled: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Sequence[str]
) -> None:
    url, listed = url_of(filled), list[str]()
    server_logs = server_log.server_logs

    def counting(text: str) -> list[tuple[str, str, int]]:
        listed.append(text)
        return server_logs(text)

    monkeypatch.setattr(server_log, "server_logs", counting)
    words = [url if word == "URL" else word for word in command]
    lake = [str(tmp_path / "lake")] if command[0] == "export" else []
    assert main([*words, url, *lake]) == 0
    assert listed == [url]


def test_a_server_is_its_logs(filled: Server, capfd: pytest.CaptureFixture[str]) -> None:
    log = binlake.open(url_of(filled))
    assert [file.name for file in log.files] == [path.name for path in filled.log_files()]
    assert [file.size for file in log.files] == [p.stat().st_size for p in filled.log_files()]
    assert len(log.to_pylist("shop.orders")) == 5
    code, out = said(capfd, ("rows", "--start", "binlog.000003:4"), [url_of(filled)])
    assert code == 0
    assert out.count("\n") == 1


@pytest.fixture(scope="module")
def long_log(filled: Server) -> tuple[str, int]:
    """A log, and the place in it behind 4 MB."""
    filled.execute("FLUSH BINARY LOGS", "CREATE TABLE shop.big (id INT PRIMARY KEY, v LONGTEXT)")
    for number in range(8):
        filled.execute(f"INSERT INTO shop.big VALUES ({number}, REPEAT('x', 500000))")
    place = filled.position()
    filled.execute(
        "INSERT INTO shop.orders VALUES (21, 'zoe', 'new')",
        "UPDATE shop.orders SET state = 'paid' WHERE id = 21",
        "FLUSH BINARY LOGS",
    )
    return place


@pytest.mark.parametrize(
    "command",
    [
        ("rows", "--start"),
        ("inspect", "--start"),
        ("sql", "--start"),
        ("stats", "--start"),
        ("mysqlbinlog", "--start-position"),
    ],
    ids=" ".join,
)
def test_the_server_sends_a_log_from_the_place_that_is_asked_for(
    filled: Server,
    long_log: tuple[str, int],
    capfd: pytest.CaptureFixture[str],
    command: Sequence[str],
) -> None:
    name, offset = long_log
    url, file = url_of(filled, name), str(filled.data / name)
    told = ["--schema", url] if command[0] in ("rows", "sql") else []
    started = (*command, str(offset))
    code, expected = said(capfd, (*started, *told), [file])
    before = bytes_sent(filled)
    again, out = said(capfd, started, [url])
    if command[0] == "stats":  # which begins with how much was read
        expected, out = (text.partition("\n")[2] for text in (expected, out))
    assert (again, out) == (code, expected)
    # mysqlbinlog shows the beginning, too: of that connection, what fits into buffers comes along
    assert bytes_sent(filled) - before < (3_000_000 if command[0] == "mysqlbinlog" else 100_000)
    assert out


def test_a_place_inside_of_an_event(
    filled: Server, long_log: tuple[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Such a place the server cannot send from: what starts behind it is found all the same."""
    name, offset = long_log
    url, file = url_of(filled, name), str(filled.data / name)
    for inside in (offset - 3, offset + 1, offset + 19, offset + 40):
        for command in (("rows", "--schema", url), ("mysqlbinlog",)):
            start = "--start" if command[0] == "rows" else "--start-position"
            started = (*command, start, str(inside))
            assert said(capfd, started, [url]) == said(capfd, started, [file])


def bytes_sent(server: Server) -> int:
    with connect(ServerUrl.parse(url_of(server))) as connection:
        return int(connection.rows("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1] or 0)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_encrypted_logs_come_decrypted(name: str, tmp_path: Path) -> None:
    """Lengths of MySQL's encrypted files are told with a header that positions do not count."""
    server = Server(installation(name), tmp_path)
    server.prepare()
    option = "--binlog-encryption=ON" if server.flavour == "mysql" else "--encrypt-binlog=1"
    try:
        server.start([option, *prepare_keys(server, Keys.PLAIN)])
        server.execute("CREATE DATABASE a", "CREATE TABLE a.t (i INT PRIMARY KEY)")
        server.execute("INSERT INTO a.t VALUES (7)", "FLUSH BINARY LOGS")
        server.execute("INSERT INTO a.t VALUES (8)")
        server.settle()
        assert (server.data / "binlog.000001").read_bytes().find(b"CREATE TABLE") < 0
        log = binlake.open(url_of(server))
        assert [row["after"] for row in log.to_pylist()] == ['{"i":7}', '{"i":8}']
        with connect(ServerUrl.parse(url_of(server))) as connection:
            listed = connection.logs()[-1]
            assert (listed.name, listed.size_bytes) == connection.end()
        ends = {
            item.file: item.end for item in to_the_end(url_of(server)) if isinstance(item, Block)
        }
        assert ends == {file.name: file.size for file in log.files}
    finally:
        server.remove()


def test_column_names_missing_in_the_log_come_from_the_server(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """Names, signs and members of a log without the DDL and without metadata."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    server.execute("CREATE DATABASE IF NOT EXISTS hints")
    server.execute(
        "CREATE TABLE hints.t (id INT UNSIGNED PRIMARY KEY, kind ENUM('a', 'b'), old INT)",
        "CREATE TABLE hints.gone (id INT PRIMARY KEY)",
        "FLUSH BINARY LOGS",
    )
    with server.session() as session:
        session.execute("INSERT INTO hints.t VALUES (4000000000, 'b', 1)", "COMMIT")
        session.execute("INSERT INTO hints.gone VALUES (1)", "COMMIT", "DROP TABLE hints.gone")
    name, _ = server.position()
    url = url_of(server, name)
    wanted = '"after":{"id":4000000000,"kind":"b","old":1}'
    assert wanted in said(capfd, ("rows", "--table", "hints.t"), [url])[1]
    file = str(server.data / name)
    command = ("rows", "--table", "hints.t", "--schema", url_of(server))
    assert wanted in said(capfd, command, [file])[1]
    assert '"after"' in said(capfd, ("rows", "--table", "hints.gone"), [url])[1]


def test_each_of_several_servers_knows_its_own_tables(
    provisioned: Callable[[str], str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two servers, and a file of one of them, that have a table of one name and the same types."""
    with running(provisioned("mysql-9.7")) as one, running(provisioned("mariadb-11.8")) as two:
        urls = []
        for server, column in ((one, "a"), (two, "b")):
            server.execute(
                "CREATE DATABASE hints",
                f"CREATE TABLE hints.t ({column} INT UNSIGNED, PRIMARY KEY ({column}))",
                "FLUSH BINARY LOGS",
                "INSERT INTO hints.t VALUES (4000000000)",
            )
            urls.append(url_of(server, server.position()[0]))
        named = ['"after":{"a":4000000000}', '"after":{"b":4000000000}']
        lines = said(capfd, ("rows",), urls)[1].splitlines()
        assert [after in line for after, line in zip(named, lines, strict=True)] == [True, True]
        rows = binlake.open(urls).to_pylist()
        assert [row["after"] for row in rows] == ['{"a":4000000000}', '{"b":4000000000}']
        copy = tmp_path / "binlog.000002"
        copy.write_bytes((two.data / "binlog.000002").read_bytes())
        lines = said(capfd, ("rows",), [urls[0], str(copy)])[1].splitlines()
        assert ['"a"' in line for line in lines] == [True, False]


def test_tail_prints_changes_as_they_commit(filled: Server, tmp_path: Path) -> None:
    """Committed rows arrive immediately, and equal the output of `rows`."""
    name, offset = filled.position()
    url = url_of(filled)
    command = [sys.executable, "-m", "binlake.cli.main", "tail", url, "-n", "4"]
    command += ["--start", f"{name}:{offset}"]  # however long the program takes to start
    with (tmp_path / "err").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(180, process.kill)
    try:
        watchdog.start()
        lines = []
        for number in (101, 102):
            filled.execute(f"INSERT INTO shop.orders VALUES ({number}, 'live', 'new')")
            lines.append(process.stdout.readline())
            assert f'"id":{number}' in lines[-1]
        with filled.session() as session:
            session.execute("BEGIN", "DELETE FROM shop.orders WHERE id = 101")
            session.execute("UPDATE shop.orders SET state = 'paid' WHERE id = 102", "COMMIT")
        lines += process.stdout.readlines()
        assert process.wait(timeout=120) == 0, (tmp_path / "err").read_text()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    begun = (tmp_path / "err").read_text().splitlines()[0]
    assert re.fullmatch(rf"following \S+ from {name}:{offset} on, 20[-0-9 :]{{17}}Z", begun), begun
    rows = binlake.open(url_of(filled, name), start=f"{name}:{offset}").to_pylist()
    assert [json.loads(line)["pos"] for line in lines] == [row["pos"] for row in rows]
    assert [json.loads(line)["op"] for line in lines] == ["insert", "insert", "delete", "update"]


def test_tail_until_a_gtid(filled: Server, capfd: pytest.CaptureFixture[str]) -> None:
    until = url_of(filled, until_gtid="0-1-4")
    if filled.flavour != "mariadb":
        assert main(["tail", until]) == 2
        return
    code, out = said(capfd, ("tail", "--from-start"), [until])
    assert code == 0
    assert [json.loads(line)["gtid"] for line in out.splitlines()] == ["0-1-3", "0-1-3", "0-1-4"]
    code, out = said(capfd, ("tail", "--after", "0-1-3"), [until])
    assert [json.loads(line)["gtid"] for line in out.splitlines()] == ["0-1-4"]
    started = ("tail", "--start", "binlog.000001:4")
    assert said(capfd, started, [until])[0] == 2


def test_tail_ends_when_its_reader_closes_the_pipe(filled: Server) -> None:
    """`tail | head`: nothing more is written that would show that the reader has gone."""
    command = [sys.executable, "-m", "binlake.cli.main", "tail", url_of(filled), "--from-start"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


def test_tail_from_the_start_is_rows(filled: Server, capfd: pytest.CaptureFixture[str]) -> None:
    url = url_of(filled)
    code, out = said(capfd, ("tail", "--from-start", "--until-current"), [url])
    assert (code, out) == said(capfd, ("rows",), [url])
    assert '"database":"shop"' in out
    started = ("tail", "--until-current", "--start", "binlog.000003:4", "--op", "insert")
    assert said(capfd, started, [url])[1] == said(capfd, ("rows", *started[2:]), [url])[1]


def test_a_configuration_file(
    filled: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One process checks and archives the servers that a file names."""
    filled.execute("CREATE USER conf@'127.0.0.1' IDENTIFIED BY 's3cret'",
                   "GRANT ALL ON *.* TO conf@'127.0.0.1'")  # fmt: skip
    (tmp_path / "secret").write_text("s3cret\n")
    url, _, query = tcp_url(filled, "conf").partition("?")
    options = dict(part.split("=") for part in query.split("&"))
    file = tmp_path / "binlake.toml"
    lines = [
        "[archive]", 'target = "logs"', 'password_file = "secret"', "[archive.connection]",
        *(f'{name.replace("-", "_")} = "{value}"' for name, value in options.items()),
        "[archive.servers.one]", f'url = "{url}"',
        "[archive.servers.two]", f'url = "{url.replace("127.0.0.1", "localhost")}"', 'target = "two"',
    ]  # fmt: skip
    file.write_text("\n".join(lines))
    code, out = main(["doctor", "--config", str(file)]), capfd.readouterr()
    assert code in (0, 1), out.err
    assert re.search(r"^one: 127.0.0.1:\d+: m", out.out, re.MULTILINE)
    assert main(["archive", "--config", str(file), "--until-current", "--quiet"]) in (0, 1)
    said = capfd.readouterr().err
    assert re.search(r"^one: everything before ", said, re.MULTILINE)
    assert "s3cret" not in said + out.out + out.err
    (archived,) = tmp_path.glob("logs/*/binlog.000001")
    assert archived.read_bytes()[:4] == b"\xfebin"


def test_the_first_server_that_answers(
    filled: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = url_of(filled)
    scheme, _, rest = own.partition("://root@")
    url = f"{scheme}://root@127.0.0.1:1,{rest}"
    for command in (
        ("tail", url, "--until-current"),
        ("archive", url, str(tmp_path / "logs"), "--until-current", "--quiet"),
    ):
        code = main(list(command))
        assert code == 0, capfd.readouterr().err
    assert list(tmp_path.glob("logs/*/binlog.000001"))
    assert main(["archive", f"{scheme}://127.0.0.1:1,127.0.0.1:2/", str(tmp_path / "none")]) == 1
