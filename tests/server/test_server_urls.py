"""Every command that takes a file takes the URL of a live server, and says the same of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block
from binlake.source.replica.url import ServerUrl
from dev.golden.keys import Keys, prepare_keys
from dev.servers import Server, installation
from live import to_the_end, url_of

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
    code, out = said(capfd, command, files)
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
        server.kill()
