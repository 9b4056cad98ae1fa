"""The replication client against real servers: bytes, places, and what happens on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from threading import Event

import pytest

import binlake
from binlake.core.events.frames import FrameBlock, scan
from binlake.errors import OptionError, PositionLostError
from binlake.format.event_types import ANNOTATE_ROWS_EVENT
from binlake.source.replica import handshake as replica_session
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block, Follower, FollowOptions, Idle
from binlake.source.replica.url import ServerUrl
from binlake.values.gtid import GtidSet
from binlake.values.position import Position
from dev.servers import RefusedError, Server, busy, running
from support.servers.archiving import until
from support.servers.live import files_of, next_block, to_the_end, url_of

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def logs(server: Server) -> list[str]:
    """The names of finished logs and of the one in use, with something in each."""
    server.execute(
        "CREATE DATABASE live",
        "CREATE TABLE live.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)",
        "INSERT INTO live.t (v) VALUES ('one'), ('two')",
        "FLUSH BINARY LOGS",
        "UPDATE live.t SET v = 'three' WHERE id = 1",
        # one event of more than one packet, and one of exactly as much as a packet holds
        "INSERT INTO live.t (v) VALUES (REPEAT('x', 20000000))",
        "INSERT INTO live.t (v) VALUES (REPEAT('y', 16777215))",
        "FLUSH BINARY LOGS",
        "DELETE FROM live.t WHERE id = 2",
    )
    server.settle()
    return [path.name for path in server.log_files()]


def _file(server: Server, name: str) -> bytes:
    """A log on the server's disk, without the flag that says that it is in use."""
    data = bytearray((server.data / name).read_bytes())
    data[21] &= 0xFE
    return bytes(data)


def test_logs_arrive_unchanged(server: Server, logs: list[str]) -> None:
    items = to_the_end(url_of(server))
    files = files_of(items)
    assert list(files) == logs
    for name in logs[:-1]:
        assert files[name] == _file(server, name), name
    assert files[logs[-1]] == _file(server, logs[-1])
    assert isinstance(items[-1], Idle)
    assert items[-1].confirmed
    assert (items[-1].file, items[-1].offset) == (logs[-1], len(files[logs[-1]]))


def test_the_bytes_are_those_of_mysqlbinlog_raw(
    server: Server, logs: list[str], tmp_path: Path
) -> None:
    run = server.read_log(
        "--read-from-remote-server", "--raw", "--to-last-log", f"--result-file={tmp_path}/",
        f"--socket={server.run / 'server.sock'}", "--user=root", logs[0],
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    files = files_of(to_the_end(url_of(server)))
    for name in logs[:-1]:
        assert files[name] == (tmp_path / name).read_bytes(), name


def test_following_begins_at_any_event(server: Server, logs: list[str]) -> None:
    whole = _file(server, logs[0])
    frames = FrameBlock()
    at = 4
    while at < len(whole):
        at, _ = scan(whole, 0, at, len(whole), 19, frames)
    for index in range(1, len(frames)):
        offset = frames.frame(index).offset
        files = files_of(to_the_end(url_of(server), Position("", logs[0], offset)))
        assert files[logs[0]] == whole[offset:]


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_a_compressed_connection_brings_the_same(
    server: Server, logs: list[str], algorithm: str
) -> None:
    url = url_of(server, compress=algorithm)
    assert files_of(to_the_end(url)) == files_of(to_the_end(url_of(server)))
    with connect(ServerUrl.parse(url)) as connection:
        knows_zstd = server.name == "mysql-9.7"  # the others fall back
        assert connection.driver.compression == (algorithm if knows_zstd else "zlib")


def test_we_are_among_the_replicas(server: Server, logs: list[str]) -> None:
    options = {"server_id": "4711", "report_host": "reader.test", "report_port": "3999"}
    url = ServerUrl.parse(url_of(server, **options, report_user="ada"))
    with Follower(url, Position("", "", 0)) as follower:
        items = iter(follower)
        next_block(items)
        newer = server.name == "mysql-9.7"
        listing = "SHOW REPLICAS" if newer else "SHOW SLAVE HOSTS"
        # a server sees only later that replicas of before have gone
        until(
            lambda: [row[:3] for row in server.rows(listing)] == [["4711", "reader.test", "3999"]]
        )
        if server.name == "mysql-5.6.24":
            return  # is not asked for its replicas: that may crash it
        with pytest.raises(OptionError, match="number 4711"):
            list(Follower(url, Position("", "", 0)))


def test_a_killed_dump_continues_at_its_position(server: Server, logs: list[str]) -> None:
    """Its thread is killed again and again; the bytes join, and nothing comes twice."""
    url = ServerUrl.parse(url_of(server))
    options = FollowOptions.of(url, block_bytes=1 << 16, backoff_s=0.01)
    name, offset = server.position()
    with Follower(url, Position("", name, offset), options) as follower:
        items = iter(follower)
        got = b""
        for number in range(4):
            next(item for item in items if isinstance(item, Idle))
            dumps = server.rows(
                "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
            )
            for (thread,) in dumps:
                with suppress(RefusedError):  # of one that has just ended: no such thread
                    server.execute(f"KILL {thread}")
            server.execute(f"INSERT INTO live.t (v) VALUES ('killed {number}')")
            wanted = server.position()[1]
            while offset + len(got) < wanted:
                item = next(items)
                if isinstance(item, Block):
                    assert item.start == offset + len(got)
                    got += item.data
        assert got == _file(server, name)[offset:]


def test_missing_logs_and_positions_raise_position_lost(server: Server, logs: list[str]) -> None:
    with pytest.raises(
        PositionLostError, match=r"no longer has binlog\.000099; it has binlog\.\d+ to binlog"
    ):
        to_the_end(url_of(server), Position("", "binlog.000099", 4))
    name, offset = server.position()
    with pytest.raises(PositionLostError, match=f"ends at {offset}"):
        to_the_end(url_of(server), Position("", name, offset + 1000))
    with pytest.raises(PositionLostError, match="valid on one server only"):
        to_the_end(url_of(server), Position("another", name, offset))


def test_logs_that_were_reset_are_not_taken_for_the_old_ones(tmp_path: Path) -> None:
    with running("mysql-9.7") as server:
        server.execute("CREATE DATABASE a", "CREATE TABLE a.t (i INT PRIMARY KEY)")
        url = ServerUrl.parse(url_of(server))
        with Follower(url, Position("", "", 0), FollowOptions.of(url, until_current=True)) as first:
            assert list(first)
            position, created = first.position, first.created
        server.execute(server.kind.reset_statement, "CREATE TABLE a.u (i INT PRIMARY KEY)")
        server.execute(*(f"INSERT INTO a.u VALUES ({i})" for i in range(9)))
        again = FollowOptions.of(url, until_current=True, created=created and created - 1)
        with pytest.raises(PositionLostError, match="were reset"):
            list(Follower(url, Position("", position.file, position.offset), again))


def test_a_server_that_restarts_is_followed_on(tmp_path: Path) -> None:
    with running("mariadb-11.8") as server:
        server.execute("CREATE DATABASE a", "CREATE TABLE a.t (i INT PRIMARY KEY)")
        url = ServerUrl.parse(url_of(server))
        options = FollowOptions.of(url, backoff_s=0.05, longest_backoff_s=0.2)
        with Follower(url, Position("", "", 0), options) as follower:
            items = iter(follower)
            seen = [next_block(items)]
            server.stop()
            server.start()
            server.settle()
            server.execute("INSERT INTO a.t VALUES (1)")
            end = server.position()
            while (seen[-1].file, seen[-1].end) != end:
                seen.append(next_block(items))
        files = files_of(list(seen))
        assert files == {path.name: _file(server, path.name) for path in server.log_files()}


@pytest.mark.not_on("mysql-5.6.24")  # runs without GTIDs
def test_a_position_among_gtids(server: Server, logs: list[str]) -> None:
    # MariaDB notes checkpoints behind the last transaction: the position has to be that of one
    server.settle()
    server.execute("INSERT INTO live.t (v) VALUES ('before')")
    with connect(ServerUrl.parse(url_of(server))) as connection:
        before = connection.position()
    server.execute("INSERT INTO live.t (v) VALUES ('by gtid')")
    items = to_the_end(url_of(server), Position("", "", 0, before.gtid_set))
    blocks = [item for item in items if isinstance(item, Block) and item.end > before.offset]
    assert blocks[0].start == before.offset or blocks[0].start == 4
    assert b"by gtid" in b"".join(block.data for block in blocks)
    with connect(ServerUrl.parse(url_of(server))) as connection:
        after = connection.position()
    url = ServerUrl.parse(url_of(server))
    again = FollowOptions.of(url, until_current=True)
    with Follower(url, Position("", "", 0, before.gtid_set), again) as follower:
        list(follower)
        assert follower.position == after


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
@pytest.mark.parametrize("asked", [True, False])
def test_annotations_are_sent_on_request(
    server: Server, logs: list[str], monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """MariaDB sends ANNOTATE_ROWS for the dump flag, which we set, and leaves them out without."""
    if not asked:
        monkeypatch.setattr(replica_session, "BINLOG_SEND_ANNOTATE_ROWS", 0)
    # `filter` lets a server leave out events
    items = to_the_end(url_of(server, skip_replication="filter"), Position("", logs[0], 4))
    got = b"".join(item.data for item in items if isinstance(item, Block) and item.file == logs[0])
    whole = _file(server, logs[0])[4:]
    assert ANNOTATE_ROWS_EVENT in types_of(whole)
    wanted = [kind for kind in types_of(whole) if asked or kind != ANNOTATE_ROWS_EVENT]
    assert types_of(got) == wanted


def types_of(events: bytes) -> list[int]:
    """The types of events back to back."""
    frames, found, at = FrameBlock(), list[int](), 0
    while at < len(events):
        frames.truncate(0)
        at, _ = scan(events, 0, at, len(events), 19, frames)
        found += frames.type_code[: len(frames)]
    return found


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
def test_duplicates_are_ignored_where_wanted(server: Server, logs: list[str]) -> None:
    """A MariaDB that is behind the position of a domain refuses it; with gtid-ignore-duplicates it
    is followed, and leaves out what it gets up to there: that came from another server.
    """

    def write(number: int) -> None:
        named = f"SET gtid_domain_id = 5, server_id = 7, gtid_seq_no = {number}"
        row = f"INSERT INTO live.t (v) VALUES (CONCAT('from elsewhere ', {number}))"
        with server.session() as session:
            session.execute(named, row, "COMMIT")

    with connect(ServerUrl.parse(url_of(server))) as connection:
        others = connection.position().gtid_set
    for number in (1, 2):
        write(number)
    start = Position("", "", 0, f"{others},5-7-4")
    with pytest.raises(PositionLostError, match="5-7-4, which is not in the master's binlog"):
        to_the_end(url_of(server), start)
    url = ServerUrl.parse(url_of(server, gtid_ignore_duplicates="on"))
    with Follower(url, start) as follower:
        items = iter(follower)
        next(item for item in items if isinstance(item, Idle) and item.confirmed)
        for number in (3, 4, 5, 6):
            write(number)
        got = b""
        while b"elsewhere 6" not in got:
            got += next_block(items).data
        assert "5-7-6" in follower.position.gtid_set.split(",")
    assert [number for number in range(1, 7) if b"elsewhere %d" % number in got] == [5, 6]


@pytest.mark.not_on("mysql-5.6.24")  # comes without its plugins
def test_acknowledgements_release_the_source(server: Server, logs: list[str]) -> None:
    """A semi-synchronous source waits for a replica only if that acknowledges durable events."""
    newer = server.name == "mysql-9.7"
    kind = "source" if newer else "master"
    if newer:
        server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    server.execute(
        f"SET GLOBAL rpl_semi_sync_{kind}_timeout=600000",  # ms; never while this runs
        f"SET GLOBAL rpl_semi_sync_{kind}_enabled=1",
    )
    url = ServerUrl.parse(url_of(server, semi_sync="on"))
    try:
        name, offset = server.position()
        with Follower(url, Position("", name, offset)) as follower, ThreadPoolExecutor(1) as pool:
            items = iter(follower)
            next(item for item in items if isinstance(item, Idle))
            waiting = pool.submit(server.execute, "INSERT INTO live.t (v) VALUES ('acked')")
            texts = b""
            while b"acked" not in texts:
                texts += next_block(items).data
            idle = next(item for item in items if isinstance(item, Idle))
            assert not waiting.done()
            follower.acknowledge(idle.file, idle.offset)
            waiting.result(timeout=120)
        shown = server.rows(f"SHOW STATUS LIKE 'Rpl_semi_sync_{kind}_yes_tx'")
        assert [value for _, value in shown] == ["1"]
    finally:
        server.execute(f"SET GLOBAL rpl_semi_sync_{kind}_enabled=0")


def test_another_server_continues_by_gtid(pair: tuple[Server, Server]) -> None:
    """The first server ends inside of the stream; what follows comes from the second, once."""
    first, second = pair
    urls = [url_of(first), url_of(second)]
    options = FollowOptions.of(ServerUrl.parse(urls[0]), backoff_s=0.05, longest_backoff_s=0.2)
    with Follower(urls, Position("", "", 0), options) as follower:
        items = iter(follower)
        texts = b""
        while b"row 2" not in texts:
            texts += next_block(items).data
        identity = follower.position.server_uuid
        first.kill()
        while b"row 5" not in texts:
            texts += next_block(items).data
        assert follower.position.server_uuid != identity
    assert [texts.count(b"row %d" % number) for number in range(6)] == [1] * 6


def test_gtids_that_a_server_never_had_are_reported(pair: tuple[Server, Server]) -> None:
    _, second = pair
    with connect(ServerUrl.parse(url_of(second))) as connection:
        gtids = connection.position().gtid_set
    if second.flavour == "mysql":
        errant = f"{gtids},11111111-2222-3333-4444-555555555555:1-7"
        match = "has never had 11111111-2222-3333-4444-555555555555:1-7"
    else:
        errant = gtids.rpartition("-")[0] + "-999999"
        match = "999999, which is not in the master's binlog"
    with pytest.raises(PositionLostError, match=match):
        to_the_end(url_of(second), Position("", "", 0, errant))


@pytest.mark.parametrize("pair", ["mysql-9.7"], indirect=True)
def test_tagged_gtids_are_left_out_one_by_one(pair: tuple[Server, Server]) -> None:
    """COM_BINLOG_DUMP_GTID with each subset of transactions with and without a tag."""
    _, server = pair
    with connect(ServerUrl.parse(url_of(server))) as connection:
        before, uuid = connection.position().gtid_set, connection.identity
    gtids = ["north:1", "1", "south:1", "north:2"]
    with server.session() as session:
        for number, gtid in enumerate(gtids):
            tag = ":" + gtid.partition(":")[0] if ":" in gtid else ""
            row = f"INSERT INTO a.t VALUES (CONCAT('tagged ', {number}))"
            session.execute(f"SET gtid_next = 'AUTOMATIC{tag}'", row, "COMMIT")
    with connect(ServerUrl.parse(url_of(server))) as connection:
        after = connection.position().gtid_set
    assert GtidSet.parse(after) == GtidSet.parse(f"{before},{uuid}:1:north:1-2:south:1")
    url = ServerUrl.parse(url_of(server))
    options = FollowOptions.of(url, until_current=True, attempts=3)
    for size in range(len(gtids) + 1):
        for left_out in combinations(range(len(gtids)), size):
            known = ",".join([before, *(f"{uuid}:{gtids[number]}" for number in left_out)])
            with Follower(url, Position("", "", 0, known), options) as follower:
                got = b"".join(item.data for item in follower if isinstance(item, Block))
                assert follower.position.gtid_set == after
            came = [number for number in range(len(gtids)) if b"tagged %d" % number in got]
            assert came == [number for number in range(len(gtids)) if number not in left_out]
            assert b"row 5" not in got


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_the_gtids_of_a_position_lie_before_it(
    name: str, provisioned: Callable[[str], str]
) -> None:
    """While transactions commit. A reader that goes on elsewhere by the GTIDs of its start would lose the others."""
    options = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"] if name == "mysql-9.7" else []

    def work(server: Server, stop: Event) -> None:
        with server.session() as session:
            while not stop.is_set():
                session.execute("INSERT INTO busy.t VALUES ()")

    with running(provisioned(name), options) as server:
        server.execute(
            "CREATE DATABASE busy", "CREATE TABLE busy.t (id INT AUTO_INCREMENT PRIMARY KEY)"
        )
        with busy(server, work), connect(ServerUrl.parse(url_of(server))) as connection:
            positions = [connection.position()]
            while len(positions) < 400 or len({position.offset for position in positions}) <= 20:
                positions.append(connection.position())
        log = server.log_files()[-1]
        starts = [
            (t.start.offset, int(re.findall(r"\d+", t.gtid or "")[-1]))
            for t in binlake.open(str(log)).transactions()
        ]
    for position in positions:
        assert position.file == log.name
        reached = int(re.findall(r"\d+", position.gtid_set)[-1])
        behind = [number for offset, number in starts if offset >= position.offset]
        assert reached < min(behind, default=reached + 1)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Server]]:
    """Two servers with the same transactions under the same GTIDs; the second has two more."""
    options = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    if request.param.startswith("mariadb"):
        options = []
    with (
        running(request.param, options) as first,
        running(request.param, [*options, "--server-id=2"]) as second,
    ):
        for server, most in ((first, 3), (second, 6)):
            with server.session() as session:
                for number in range(-2, most):
                    session.execute(_named(server, number + 3), _row(number), "COMMIT")
        yield first, second


def _row(number: int) -> str:
    if number < 0:
        return ("CREATE DATABASE a", "CREATE TABLE a.t (v VARCHAR(99))")[number + 2]
    return f"INSERT INTO a.t VALUES (CONCAT('row ', {number}))"  # its text has no such word


def _named(server: Server, number: int) -> str:
    if server.flavour == "mysql":
        return f"SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}'"
    return f"SET gtid_domain_id = 3, server_id = 7, gtid_seq_no = {number}"
