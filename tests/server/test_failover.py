"""Following across lost connections and servers: behind, cut, filtered, and beyond 4 GB."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from binlake.errors import ConnectionLostError, PositionLostError
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block, Follower, FollowOptions, Idle, Item
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from dev.servers import Server, running
from support.logs.log_builder import header
from support.servers.flaky_proxy import FlakyProxy
from support.servers.live import files_of, next_block, tcp_url, to_the_end, url_of

pytestmark = pytest.mark.server

GTIDS = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
BOTH = pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
QUICK = {"backoff_s": 0.05, "longest_backoff_s": 0.2}
BEHIND = re.compile("has never had|not in the master's binlog")
ROW = re.compile(rb"row (\d+)\.")
FILLER = "INSERT INTO mysql.rows_of_ours VALUES (REPEAT('x', 200))"


def options_of(name: str) -> list[str]:
    return GTIDS if name.startswith("mysql") else []


@contextmanager
def servers(name: str) -> Iterator[tuple[Server, Server]]:
    """Two that could replicate one another."""
    options = options_of(name)
    with running(name, options) as first, running(name, [*options, "--server-id=2"]) as second:
        yield first, second


def write(server: Server, *numbers: int, filler: int = 0) -> None:
    """Transactions under GTIDs that are the same on every server; the table comes with number 0.

    Between the two rows of each are `filler` others, of 200 bytes.
    """
    for number in numbers:
        with server.session() as session:
            if server.flavour == "mysql":
                gtid = f"SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:{number + 1}'"
            else:
                gtid = f"SET gtid_domain_id = 3, server_id = 7, gtid_seq_no = {number + 1}"
            if not number:
                session.execute(gtid, "CREATE TABLE mysql.rows_of_ours (v VARCHAR(200))")
            else:
                row = f"INSERT INTO mysql.rows_of_ours VALUES (CONCAT('row ', {number}, '.'))"
                session.execute(gtid, "BEGIN", row, *[FILLER] * filler, row, "COMMIT")


def cut_often(proxy: FlakyProxy, most_bytes: int, rng: random.Random) -> None:
    """Cuts connections after so many bytes, a dozen times."""
    proxy.cut(*(rng.randrange(1_000, most_bytes) for _ in range(12)))


def rows_in(data: bytes) -> Counter[int]:
    return Counter(int(number) for number in ROW.findall(data))


def read_until(items: Iterator[Item], number: int, data: bytes = b"") -> bytes:
    """The rows up to the second row of a transaction."""
    while rows_in(data)[number] < 2:
        data += next_block(items).data
    return data


class Refused(Follower):
    """Counts how often a server was behind; at the second time `then` is done."""

    refused = 0
    then: Callable[[], None]

    def _pause(self, error: ConnectionLostError) -> None:
        if BEHIND.search(str(error)):
            self.refused += 1
            if self.refused == 2:
                self.then()
        super()._pause(error)


@BOTH
def test_a_server_that_is_behind_is_waited_for(name: str) -> None:
    """It has fewer transactions than were read; when it has caught up it is followed, at the first
    one that has not come.
    """
    with servers(name) as (first, second):
        write(first, 0, 1, 2, 3, 4, 5)
        write(second, 0, 1, 2)
        options = FollowOptions.of(
            ServerUrl.parse(url_of(first)), backoff_s=0.5, longest_backoff_s=3
        )
        urls = [url_of(first), url_of(second)]
        said: list[str] = []
        with Refused(urls, Position("", "", 0), options, said.append) as follower:
            follower.then = lambda: write(second, 3, 4, 5, 6, 7)
            items = iter(follower)
            data = read_until(items, 5)
            first.kill()
            data = read_until(items, 7, data)
        assert follower.refused == 2
        assert rows_in(data) == dict.fromkeys(range(1, 8), 2)


@pytest.mark.parametrize(
    ("name", "strict"), [("mysql-9.7", "on"), ("mariadb-11.8", "on"), ("mariadb-11.8", "off")]
)
def test_a_server_that_stays_behind_is_an_error(name: str, strict: str) -> None:
    with servers(name) as (first, second):
        write(first, 0, 1, 2, 3)
        write(second, 0, 1)
        options = FollowOptions.of(
            ServerUrl.parse(url_of(first, gtid_strict=strict)), until_current=True, **QUICK
        )
        got = b""
        with Follower([url_of(first), url_of(second)], Position("", "", 0), options) as follower:
            for item in follower:
                got += item.data if isinstance(item, Block) else b""
            place = follower.position
        first.kill()
        lost = r"has never had .*:3-4|3-7-4, which is not in the master's binlog"
        with (
            pytest.raises(PositionLostError, match=lost) as raised,
            Follower([url_of(first), url_of(second)], place, options) as follower,
        ):
            assert [item for item in follower if isinstance(item, Block)] == []
        assert raised.value.is_passing  # it may catch up
        assert rows_in(got) == dict.fromkeys(range(1, 4), 2)


@BOTH
def test_by_gtid_across_cut_connections(name: str) -> None:
    """On another server, cut again and again before and behind its first transaction that counts:
    those that came from the server before never come again.
    """
    rng = random.Random(7)
    with running(name, options_of(name)) as second:
        write(second, *range(4))
        with connect(ServerUrl.parse(url_of(second))) as connection:
            known = connection.position().gtid_set
        write(second, *range(4, 100))
        user = "CREATE USER ada@'127.0.0.1' IDENTIFIED BY 'pw'"
        off = "SET sql_log_bin = 0"
        second.execute(off, user, "GRANT ALL ON *.* TO ada@'127.0.0.1'")
        proxy = FlakyProxy(second.port)
        try:
            text = tcp_url(second, "ada", "pw").replace(f":{second.port}", f":{proxy.port}")
            url = ServerUrl.parse(text)
            options = FollowOptions.of(url, until_current=True, block_bytes=200, **QUICK)
            start = Position("the-server-before", "binlog.000001", 5_000, known)
            cut_often(proxy, 9_000, rng)
            with Follower(url, start, options) as follower:
                blocks = [item for item in follower if isinstance(item, Block)]
        finally:
            proxy.close()
        assert proxy.cuts >= 5
        assert rows_in(b"".join(one.data for one in blocks)) == dict.fromkeys(range(4, 100), 2)
        assert all(a.end <= b.start for a, b in pairwise(blocks) if a.file == b.file)


class Lost(Follower):
    """Whenever a connection is lost `then` is done before the next one."""

    then: Callable[[], None]

    def _pause(self, error: ConnectionLostError) -> None:
        self.then()
        super()._pause(error)


@BOTH
def test_a_server_that_dies_inside_of_a_transaction(name: str) -> None:
    """The next one does not have the transaction yet. It is followed, lost and followed again, and
    gives all of the transaction when it has it.
    """
    own = ["SET gtid_domain_id = 4"] if name.startswith("mariadb") else []
    own += ["INSERT INTO mysql.rows_of_ours VALUES (CONCAT('row ', 90, '.'))", "COMMIT"]
    user = ("CREATE USER ada@'127.0.0.1' IDENTIFIED BY 'pw'", "GRANT ALL ON *.* TO ada@'127.0.0.1'")
    with servers(name) as pair:
        first, second = pair
        for server in pair:
            server.execute("SET sql_log_bin = 0", *user)
            write(server, 0, 1)
        second.execute(*own)
        proxies = [FlakyProxy(server.port) for server in pair]
        urls = [
            tcp_url(server, "ada", "pw", heartbeat="0.2").replace(f":{server.port}/", f":{p.port}/")
            for server, p in zip(pair, proxies, strict=True)
        ]
        options = FollowOptions.of(ServerUrl.parse(urls[0]), **QUICK)
        losses = list[bool]()
        try:
            with Lost(urls, Position("", "", 0), options) as follower:
                items = iter(follower)
                read_until(items, 1)
                follower.then = proxies[0].refuse  # it does not come back
                proxies[0].cut(100_000)
                write(first, 2, filler=1_000)
                came: dict[str, bytes] = {}
                while len(came) < 2 or not rows_in(came[list(came)[1]])[90]:
                    block = next_block(items)
                    came[block.source] = came.get(block.source, b"") + block.data
                half, data = came.values()
                assert rows_in(half) == {2: 1}
                idle = next(item for item in items if isinstance(item, Idle) and item.confirmed)
                follower.then = lambda: losses.append(True)
                proxies[1].cut()
                while not losses:
                    next(items)
                assert next(items).file == idle.file
                write(second, 2, filler=1_000)
                data = read_until(items, 2, data)
        finally:
            for proxy in proxies:
                proxy.close()
        assert rows_in(data) == {90: 1, 2: 2}


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_events_that_replicas_shall_skip(name: str) -> None:
    """Kept and marked, dropped here, or left out by the server; the rest is the file's."""
    with running(name) as server:
        write(server, 0, 1)
        with server.session() as session:
            session.execute(
                "SET skip_replication = 1",
                "INSERT INTO mysql.rows_of_ours VALUES (CONCAT('row ', 90, '.'))",
                "COMMIT",
                "SET skip_replication = 0",
            )
        write(server, 2)
        log = server.log_files()[-1]
        whole = bytearray(log.read_bytes())
        whole[21] &= 0xFE
        kept = files_of(to_the_end(url_of(server, skip_replication="keep")))
        assert kept == {log.name: bytes(whole)}
        assert rows_in(kept[log.name]) == {1: 2, 90: 1, 2: 2}
        for way in ("drop", "filter"):
            items = to_the_end(url_of(server, skip_replication=way))
            blocks = [item for item in items if isinstance(item, Block)]
            assert all(bytes(whole[one.start : one.end]) == one.data for one in blocks)
            got = b"".join(one.data for one in blocks)
            assert rows_in(got) == {1: 2, 2: 2}, way
            flags = [event[17:19] for event in events_of(got)]
            assert all(int.from_bytes(flag, "little") & 0x8000 == 0 for flag in flags)
            assert isinstance(items[-1], Idle)
            assert items[-1].offset == len(whole)
            # whatever was left out, its GTID has been passed
            url = ServerUrl.parse(url_of(server, skip_replication=way))
            with Follower(
                url, Position("", "", 0), FollowOptions.of(url, until_current=True)
            ) as it:
                list(it)
                assert it.position.offset == len(whole)


def events_of(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_until_a_gtid_across_cut_connections(name: str) -> None:
    """The stream ends at the GTID, in whatever pieces it comes, and nothing comes twice."""
    rng = random.Random(20261121)
    with running(name) as server:
        server.execute("CREATE USER ada@'127.0.0.1' IDENTIFIED BY 'pw'",
                       "GRANT ALL ON *.* TO ada@'127.0.0.1'")  # fmt: skip
        begin = server.rows("SELECT @@gtid_binlog_pos")[0][0] or ""
        server.execute("CREATE TABLE mysql.rows_of_ours (v LONGTEXT)")
        for number in range(1, 40):
            with server.session() as session:
                row = f"INSERT INTO mysql.rows_of_ours VALUES (CONCAT('row ', {number}, '.'))"
                more = "INSERT INTO mysql.rows_of_ours VALUES (REPEAT('x', 20000))"
                session.execute("BEGIN", row, more, more, row, "COMMIT")
                if number == 30:
                    until = session.rows("SELECT @@gtid_binlog_pos")[0][0] or ""
            if number % 13 == 0:
                server.execute("FLUSH BINARY LOGS")
        proxy = FlakyProxy(server.port)
        try:
            text = tcp_url(server, "ada", "pw", until_gtid=until)
            url = ServerUrl.parse(text.replace(f":{server.port}", f":{proxy.port}"))
            options = FollowOptions.of(url, block_bytes=1 << 14, **QUICK)
            start = Position("", "", 0, begin)
            cut_often(proxy, 90_000, rng)
            with Follower(url, start, options) as follower:
                blocks = [item for item in follower if isinstance(item, Block)]
                assert follower.position.gtid_set == until
        finally:
            proxy.close()
        assert proxy.cuts >= 4
        assert rows_in(b"".join(one.data for one in blocks)) == dict.fromkeys(range(1, 31), 2)
        for before, after in pairwise(blocks):
            assert (before.file, before.end) <= (after.file, after.start)
        for one in blocks:
            on_disk = (server.data / one.file).read_bytes()[one.start : one.end]
            assert one.start == 4 or on_disk == one.data


def sparse_log(path: Path, start: bytes, size: int) -> int:
    """A log without checksums whose beginning is `start`, then empty events of 32 MB up to `size`.

    They are holes of the file, so they take no disk. Returns where it ends.
    """
    length = 32 << 20
    with path.open("wb") as log:
        log.write(start)
        at = len(start)
        while at < size:
            log.seek(at)
            log.write(header(IGNORABLE, length, at + length, flags=0x80))
            at += length
        log.truncate(at)
    return at


def bytes_sent(server: Server) -> int:
    """The bytes that a server has sent to all its clients."""
    return int(server.rows("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1] or 0)


IGNORABLE = 28
BIG = (4 << 30) + (100 << 20)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_beyond_4_gb(name: str) -> None:
    """A place that COM_BINLOG_DUMP cannot name, and events whose own positions have wrapped.

    MySQL with GTIDs begins there; MariaDB sends the file again, from its start.
    """
    extra = [*options_of(name), "--binlog-checksum=NONE"]
    with running(name, extra) as server:
        server.execute("FLUSH BINARY LOGS")
        write(server, 0, 1, 2)
        server.execute("FLUSH BINARY LOGS")
        write(server, 3)
        server.stop()
        log = server.log_files()[1]
        whole = log.read_bytes()
        bounds = [4]
        for event in events_of(whole[4:]):
            bounds.append(bounds[-1] + len(event))
        types = [whole[at + 4] for at in bounds[:-1]]
        first = next(at for at, kind in zip(bounds, types, strict=False) if kind in (33, 162))
        far = sparse_log(log, whole[:first], BIG)
        with log.open("r+b") as grown:
            grown.seek(far)
            for event in events_of(whole[first:]):
                at = grown.tell()
                moved = bytearray(event)
                moved[13:17] = ((at + len(event)) & 0xFFFFFFFF).to_bytes(4, "little")
                grown.write(moved)
            size = grown.tell()
        server.start(extra)
        before = bytes_sent(server)
        items = to_the_end(url_of(server), Position("", log.name, far))
        sent = bytes_sent(server) - before
        blocks = [item for item in items if isinstance(item, Block)]
        assert (blocks[0].file, blocks[0].start) == (log.name, far)
        assert [b.end for b in blocks if b.file == log.name][-1] == size
        assert rows_in(b"".join(one.data for one in blocks)) == {1: 2, 2: 2, 3: 2}
        if name == "mysql-9.7":
            assert sent < 1 << 20, "the file came from its start"
        with connect(ServerUrl.parse(url_of(server))) as connection:
            assert {one.name: one.size_bytes for one in connection.logs()}[log.name] == size
