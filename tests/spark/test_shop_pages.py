"""The commands and blocks of all pages run that `test_pages.py` and `tests/mirror/test_pages.py` leave.

A MySQL and a MariaDB server have the same shop as the logs in `demo/`. Each page gets a folder with their
logs, dumps and archives, and runs from its first block to its last.
"""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import S3FileSystem

import binlake
from dev.servers import Server, running
from dev.servers.object_store import object_store
from dev.servers.ports import ReservedPort
from spark.shop_pages import SECONDS, ShopReader, World, reading, runs_elsewhere
from support.logs.ibb_parts import small, transaction
from support.pages import ROOT, RUN_PAGES, Block, blocks_of, is_left_out, needs_lakes
from support.servers.archiving import until
from support.servers.certificates import certificate
from support.servers.shop import Shop, checksums

pytestmark = pytest.mark.server

GOLDEN = ROOT / "tests" / "golden"
PORTS = ("3307", "8700", "9105", "9106")
REPL = (
    "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'",
    "GRANT SELECT, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl@'127.0.0.1'",
)
DURABLE = ("SET GLOBAL sync_binlog = 1", "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
DURABLE_NOT = (
    "SET GLOBAL sync_binlog = 0",
    "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
    "SET GLOBAL binlog_row_metadata = MINIMAL",
)


def runs_here(block: Block) -> bool:
    """Whether a block has anything that no other test runs."""
    if is_left_out(block.page, block.code) and block.language in ("python", "sql"):
        return False
    return not (runs_elsewhere(block) or is_about_mirrors(block))


def is_about_mirrors(block: Block) -> bool:
    """Whether `tests/mirror/test_pages.py` runs the block."""
    return needs_lakes(block) and "binlake mirror" in block.code


PAGES = [
    page
    for page in sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
    if page not in RUN_PAGES and any(map(runs_here, blocks_of(page)))
]


@pytest.fixture(scope="module")
def world(provisioned: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("shop")
    files = certificate(folder)
    options = [f"--ssl-{kind}={files[kind]}" for kind in ("ca", "key")]
    options += [f"--ssl-cert={files['server']}", "--binlog-row-metadata=FULL"]
    gtids = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    with ExitStack() as stack:
        mysql = stack.enter_context(running(provisioned("mysql-9.7"), [*options, *gtids]))
        mariadb = stack.enter_context(
            running(provisioned("mariadb-11.8"), [*options, "--log-bin-compress-min-len=10"])
        )
        replica = stack.enter_context(running("mysql-9.7", [*gtids, "--server-id=2"]))
        shops = [Shop(server, folder / server.flavour) for server in (mysql, mariadb)]
        for shop in shops:
            shop.open()
            shop.server.execute("SET sql_log_bin = 0", *REPL, *DURABLE)
        reserved = {shown: ReservedPort() for shown in PORTS}
        for port in reserved.values():
            stack.callback(port.release)
        store = stack.enter_context(object_store("bucket"))
        fill(store, shops[0])
        variables = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in store.items():
            variables.setenv(name, value)
        numbers = {shown: port.number for shown, port in reserved.items()}
        yield World(shops[0], shops[1], replica, files, store, numbers)


def fill(store: dict[str, str], shop: Shop) -> None:
    """The buckets of the pages, and the logs of the shop in one of them."""
    address = store["AWS_ENDPOINT_URL"]
    for bucket in ("logs", "lake"):
        urllib.request.urlopen(urllib.request.Request(f"{address}/{bucket}", method="PUT")).close()
    found = S3FileSystem(
        access_key=store["AWS_ACCESS_KEY_ID"],
        secret_key=store["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=address,
    )
    for path in shop.server.log_files():
        with found.open_output_stream(f"logs/shop/{path.name}") as stream:
            stream.write(path.read_bytes())


@pytest.fixture(scope="module")
def session(world: World, spark: Any) -> Any:
    """The session of Spark. It starts after the store, because its workers inherit the environment."""
    return spark


@pytest.fixture
def page_reader(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ShopReader]:
    monkeypatch.chdir(tmp_path)
    with reading(world, tmp_path) as reader:
        reader.names["binlake"] = binlake
        yield reader


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run(page: str, page_reader: ShopReader, session: Any) -> None:
    page_reader.names["spark"] = session
    steps = Steps(page_reader)
    prepare = steps.of_pages.get(page)
    if prepare is not None:
        prepare()
    page_reader.before, page_reader.after = steps.before, steps.after
    for block in filter(runs_here, blocks_of(page)):
        page_reader.run(block)


class Steps:
    """Steps between the commands of the pages: they change the servers, and check them."""

    def __init__(self, reader: ShopReader) -> None:
        self.reader = reader
        self.world = reader.world
        self.of_pages: dict[str, Callable[[], None]] = {
            "docs/encryption.md": self._encrypted,
            "docs/innodb-binlog.md": self._innodb,
            "docs/operations.md": self._operations,
            "docs/deployment.md": self._deployment,
            "docs/state.md": self._state,
        }
        self.world.replicate = self._sql

    def _encrypted(self) -> None:
        mysql, mariadb = GOLDEN / "mysql-9.7" / "encrypted", GOLDEN / "mariadb-10.11" / "encrypted"
        other = mariadb.with_name("encrypted-ctr")
        self.reader.own |= {
            "/var/lib/mysql/binlog.000012": str(mysql / "binlog.000001"),
            "/var/lib/mysql/": f"{mariadb}/",
            "/var/lib/mysql-keyring/component_keyring_file": str(mysql / "keyring"),
            "/etc/mysql/encryption/keyfile": str(mariadb / "file-keys.txt"),
            "mysql-bin.000007": str(other / "binlog.000001"),
            "keyfile.enc": str(other / "file-keys.enc"),
            "keyfile.key": str(other / "file-keys.password"),
        }

    def _innodb(self) -> None:
        folder = self.reader.folder / "ibb"
        folder.mkdir()
        writer = small(4)
        for number in range(1, 20):
            writer.commit(b"".join(transaction(number, 100)))
        newest = writer.save(folder)[-1]
        self.reader.own |= {
            "/var/lib/mysql/binlog-000007.ibb": str(newest),
            "/var/lib/mysql/": f"{folder}/",
        }

    def _operations(self) -> None:
        self.world.mysql.server.execute(*DURABLE_NOT)
        self.reader.codes["binlake doctor mysql://repl@db1/"] = 1

    def _deployment(self) -> None:
        file = self.reader.folder / "etc" / "binlake" / "binlake.toml"
        file.write_text(self.reader.text((ROOT / "deploy" / "binlake.toml").read_text()))
        (self.reader.folder / "var").mkdir()

    def _state(self) -> None:
        self.reader.own |= {
            "binlog.000012:4711": self.world.mysql.places["later"],
            "> dump.sql": "> newest.sql",
        }

    def before(self, command: str) -> None:
        """Bring the servers into the state that a command expects."""
        if "mysql < backup.sql" in command:
            self.world.empty_replica()
        elif "mysql < changes.sql" in command:
            self.world.restore("dump.sql")
        elif "| mysql" in command:
            self.world.restore("dump.sql" if "stop" in command else "later.sql")
        elif "--engine local" in command:
            shutil.rmtree(self.reader.folder / "lake")
        elif "mysql < undo.sql" in command:
            self.reader.client_of(self.world.mysql.server)

    def after(self, command: str) -> None:
        """Look at the servers, and bring them back."""
        server = self.world.mysql.server
        if "mysql < undo.sql" in command:
            [[back]] = server.rows("SELECT COUNT(*) FROM shop.orders WHERE state = 'returned'")
            assert back == "32"
            self.world.mysql.delete_again()
        elif "mysql < changes.sql" in command or ("stop" in command and "| mysql" in command):
            assert checksums(self.world.replica) == self.world.mysql.held, command
        elif command == "binlake doctor mysql://repl@db1/" and self.reader.codes:
            server.execute(*DURABLE, "SET GLOBAL binlog_row_metadata = FULL")

    def _sql(self, code: str) -> None:
        """Run SQL of a page where it belongs."""
        if "CHANGE MASTER" in code:
            self._follow_mariadb(code)
        elif "CHANGE REPLICATION" in code:
            self.world.empty_replica()
            self.world.replica.run_script(code.encode())
            until(lambda: has_shop(self.world.replica, self.world.mysql.server), SECONDS)
        elif "CREATE USER" in code:
            self.world.mysql.server.run_script(b"SET sql_log_bin = 0;" + code.encode())
        else:
            self.world.empty_replica()
            self.world.replica.execute("CREATE DATABASE shop")
            if "INSERT" in code:
                self.world.replica.execute(
                    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)",
                    "INSERT INTO shop.orders VALUES (1, NULL)",
                )
            self.world.replica.run_script(code.encode())

    def _follow_mariadb(self, code: str) -> None:
        port = ReservedPort()
        shown = f"={self.world.ports['3307']},"
        folder = self.world.mariadb.folder / "archive" / self.world.mariadb.identity
        serve = f"binlake serve --port {port.number} --password-file etc/binlake/serve.password {folder}"
        self.reader.command(f"{serve} &", "", serve)  # it runs until the end of the page
        with running("mariadb-11.8", ["--server-id=3"]) as replica:
            replica.run_script(code.replace(shown, f"={port.number},").encode())
            until(lambda: has_shop(replica, self.world.mariadb.server), SECONDS)
        port.release()


def has_shop(replica: Server, source: Server) -> bool:
    """Whether a replica has as many orders as the source."""
    if not replica.rows("SHOW DATABASES LIKE 'shop'"):
        return False
    counted = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'"
    if replica.rows(counted) != source.rows(counted):
        return False
    query = "SELECT COUNT(*), MAX(id), SUM(state = 'returned') FROM shop.orders"
    return replica.rows(query) == source.rows(query)
