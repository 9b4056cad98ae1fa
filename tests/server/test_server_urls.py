"""Every command that takes a file takes the URL of a live server, and says the same of it.

Long: its tests share the servers, and one module starts each of them once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block
from binlake.source.replica.health import Finding, Who, clashes, examine
from binlake.source.replica.session import FollowOptions
from binlake.source.replica.url import ServerUrl
from dev.golden.keys import Keys, prepare_keys
from dev.servers import Server, installation, running
from support.servers.live import tcp_url, to_the_end, url_of
from support.servers.serving import eventually

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


def said(
    capfd: pytest.CaptureFixture[str], command: Sequence[str], inputs: Sequence[str]
) -> tuple[int, str]:
    code = main([*command, *inputs])
    return code, capfd.readouterr().out


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


def test_the_server_names_what_its_log_does_not(
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
    """What is committed is there at once, and it is what `rows` says."""
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


def test_tail_ends_with_who_reads_it(filled: Server) -> None:
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
    assert clash.what == f"server-id {number} is that of the server itself"
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


def test_doctor_mends_tables_as_one_who_may_only_read(
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


def test_a_configuration_file(
    filled: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same process checks, and archives, what a file names."""
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


def _findings(server: Server, capfd: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(
        said(capfd, ("doctor", "--json"), [url_of(server)])[1]
    )["findings"]
    return found
