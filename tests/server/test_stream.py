"""A stream straight from real servers, read as Spark reads it: every row once, and errors."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark import cloudpickle

from binlake.errors import AuthError, ConnectionLostError, OptionError, PositionLostError
from binlake.spark.source import BinlogDataSource
from dev.servers import Server, running
from support.oracles.reading import row_lines
from support.servers.archiving import await_another_second
from support.servers.live import tcp_url, url_of
from support.spark.stream_query import OPENED, Checkpoint, Query41, Query42

pytestmark = pytest.mark.server

Key = tuple[str, int, int]


def keys(rows: list[dict[str, Any]]) -> list[Key]:
    return [(row["file"], row["pos"], row["row"]) for row in rows]


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    OPENED.clear()
    yield
    for query in OPENED:
        query.close()


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    server.execute(
        "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(100))"
    )
    with server.session() as session:
        for number in range(40):
            session.execute(f"INSERT INTO shop.t VALUES ({number}, REPEAT('x', {number}))")
            if number in (15, 30):
                session.execute("FLUSH BINARY LOGS")
    server.execute("UPDATE shop.t SET v = 'y' WHERE id < 20", "DELETE FROM shop.t WHERE id = 3")
    server.settle()
    return server


@pytest.mark.parametrize("query", [Query41, Query42])
@pytest.mark.parametrize(
    "limits", [{}, {"max_transactions_per_batch": 7}, {"max_bytes_per_batch": 3000}]
)
def test_everything_once(filled: Server, query: type[Query41], limits: dict[str, int]) -> None:
    run = query(Checkpoint(), server=url_of(filled), **limits)
    run.start()
    run.drain()
    assert keys(run.checkpoint.all_rows) == keys(list(row_lines(*filled.log_files())))
    assert len(run.checkpoint.ends) > 3 or not limits


def test_latest_starts_with_transactions_committed_later(filled: Server) -> None:
    checkpoint = Checkpoint()
    Query42(checkpoint, server=url_of(filled), starting_offsets="latest").batch()
    for step in range(3):
        filled.execute(f"INSERT INTO shop.t VALUES ({1000 + step}, 'new')", "FLUSH BINARY LOGS")
        run = Query42(checkpoint, server=url_of(filled))
        run.start()
        run.drain()
    assert len(checkpoint.all_rows) == 3


def test_the_end_that_is_reported(filled: Server) -> None:
    run = Query42(Checkpoint(), server=url_of(filled))
    filled.settle()
    file, offset = filled.position()
    told = run.reader.reportLatestOffset()
    assert (told["file"], told["offset"]) == (file, offset)


def test_names_that_the_log_lacks(server: Server) -> None:
    """Names, signs, members and character sets come from the server, in batches and streams."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    server.execute(
        "CREATE DATABASE hints",
        "CREATE TABLE hints.t (id INT UNSIGNED PRIMARY KEY, kind ENUM('a', 'b'),"
        " note VARCHAR(20) CHARACTER SET latin1)",
        "INSERT INTO hints.t VALUES (4000000000, 'b', 'grün')",
    )
    row = {"id": 4000000000, "kind": "b", "note": "grün"}

    def streamed(**options: str) -> list[dict[str, Any]]:
        run = Query42(Checkpoint(), server=url_of(server), table="hints.t", **options)
        run.start()
        run.drain()
        return run.checkpoint.all_rows

    (typed,) = streamed()
    assert {name: typed[name] for name in row} == row
    (change,) = streamed(view="changes")
    assert json.loads(change["after"]) == row
    source = BinlogDataSource({"server": url_of(server), "table": "hints.t"})
    reader: Any = source.reader(source.schema())
    (batch,) = [b for part in reader.partitions() for b in reader.read(part)]
    assert {name: batch.to_pylist()[0][name] for name in row} == row


@pytest.fixture
def mysql() -> Iterator[Server]:
    with running("mysql-9.7") as made:
        made.execute(
            "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(100))"
        )
        yield made


def stopped(server: Server) -> Checkpoint:
    """A stream that came to the end of its server's first two rows."""
    server.execute("INSERT INTO shop.t VALUES (1, 'a')", "INSERT INTO shop.t VALUES (2, 'b')")
    run = Query42(Checkpoint(), server=url_of(server))
    run.start()
    run.drain()
    return run.checkpoint


def test_purged(mysql: Server) -> None:
    checkpoint = stopped(mysql)
    mysql.execute("INSERT INTO shop.t VALUES (3, 'c')", "FLUSH BINARY LOGS")
    mysql.purge_before("binlog.000002")
    run = Query42(checkpoint, server=url_of(mysql))
    with pytest.raises(PositionLostError, match=r"binlog\.000001.*purged.*: [0-9a-f-]+:5;"):
        run.batch()


def test_reset(mysql: Server) -> None:
    checkpoint = stopped(mysql)
    await_another_second(mysql)
    mysql.execute("RESET BINARY LOGS AND GTIDS")
    with mysql.session() as session:
        for number in range(3, 20):
            session.execute(f"INSERT INTO shop.t VALUES ({number}, REPEAT('c', 90))")
    run = Query42(checkpoint, server=url_of(mysql))
    with pytest.raises(PositionLostError, match="another log now"):
        run.batch()


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-9.7", "mariadb-11.8"])
def test_reset_in_the_second_in_which_the_log_began(
    name: str, provisioned: Callable[[str], str]
) -> None:
    """Two logs of one name and one time, with transactions of one size at the same places."""
    with running(provisioned(name)) as server:
        newer = server.flavour == "mysql" and name != "mysql-5.6.24"
        reset = "RESET BINARY LOGS AND GTIDS" if newer else "RESET MASTER"
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT, v VARCHAR(100))")

        def begun_again(value: str, rows: int) -> bytes:
            inserts = [f"INSERT INTO shop.t VALUES ({n}, '{value}')" for n in range(rows)]
            # a log begins, for those who read it, at the time of the session that makes it
            server.execute("SET timestamp = 1700000000", reset, *inserts)
            (log,) = server.log_files()
            return log.read_bytes()[4:8]

        began = begun_again("a", 2)
        checkpoint = Checkpoint()
        run = Query42(checkpoint, server=url_of(server))
        run.batch()
        assert begun_again("b", 6) == began
        assert len(checkpoint.all_rows) == 2
        for again in (run, Query42(checkpoint, server=url_of(server))):
            with pytest.raises(PositionLostError, match="another log now"):
                again.batch()
        # nor is a batch repeated that was planned before
        checkpoint.committed = 0
        with pytest.raises(PositionLostError, match="another log now"):
            Query42(checkpoint, server=url_of(server)).start()


# sockets that PyMySQL opened for a server that is not there are closed by the garbage collector
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_server_that_goes_for_good(mysql: Server) -> None:
    checkpoint = stopped(mysql)
    run = Query42(checkpoint, server=url_of(mysql))
    run.reader.patience_s = 1.0
    assert not run.batch()
    mysql.kill()
    with pytest.raises(ConnectionLostError, match="start the query again to continue"):
        run.batch()
    gc.collect()


def test_a_server_that_is_restarted(mysql: Server) -> None:
    checkpoint = stopped(mysql)
    run = Query42(checkpoint, server=url_of(mysql))
    assert not run.batch()
    mysql.stop()
    mysql.start()
    mysql.execute("INSERT INTO shop.t VALUES (3, 'c')")
    run.drain()
    assert len(checkpoint.all_rows) == 3


def test_passwords_travel_nowhere(
    mysql: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mysql.execute(
        "CREATE USER reader@localhost IDENTIFIED BY 'hush-hush'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@localhost",
        "INSERT INTO shop.t VALUES (1, 'a')",
    )
    url = url_of(mysql).replace("root@", "reader@")
    monkeypatch.setenv("BINLAKE_PASSWORD", "hush-hush")
    run = Query42(Checkpoint(), server=url)
    run.start()
    run.drain()
    assert len(run.checkpoint.all_rows) == 1
    planned = run._partitions(run.initial(), run.checkpoint.ends[0])
    travels = cloudpickle.dumps((run.reader, planned))
    assert b"hush-hush" not in travels
    assert not any("hush-hush" in end for end in run.checkpoint.ends)
    monkeypatch.setenv("BINLAKE_PASSWORD", "wrong-one")
    with pytest.raises(AuthError) as caught:
        Query42(Checkpoint(), server=url).batch()
    assert "wrong-one" not in str(caught.value)
    with pytest.raises(OptionError, match="contains a password") as refused:
        Query42(Checkpoint(), server=tcp_url(mysql, "reader", "hush-hush"))
    assert "hush-hush" not in str(refused.value)
