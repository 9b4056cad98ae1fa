"""Exactly once, shown by killing: whatever dies, the sink ends up equal to the source.

A seeded load changes rows on a real server. Between it and a Spark sink, something is killed
with -9, over and over, and the network fails or the server restarts beside that; after each kill
the load rests and the sink must hold what the server's SELECT says, every change having fitted
the rows before it (live_sink).

    BINLAKE_KILLS    how many kills in all (50; `make soak`: 200), those of failovers included
    BINLAKE_SEED     which ones
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from dev.servers import Server, running
from proof.live_load import DATABASE, TABLES, Load, contents
from proof.live_processes import Supervised, archiver, await_until, stream_job
from proof.live_sink import Sink
from support.servers.flaky_proxy import FlakyProxy
from support.servers.live import trusting
from support.spark.spark_processes import Cluster

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]

KILLS = int(os.environ.get("BINLAKE_KILLS", "50"))
SEED = int(os.environ.get("BINLAKE_SEED", "1"))
PASSWORD = "s3cret-of-the-replica"
SECONDS = 300  # a deadline only: on a busy machine a new driver alone takes 90 s
FAILOVERS = 2  # each with a kill of the server and two of the driver
#: The other kills: two thirds through an archive and a cluster, one third straight from a server.
FROM_A_SERVER = (KILLS - 3 * FAILOVERS) // 3
TO_A_CLUSTER = KILLS - 3 * FAILOVERS - FROM_A_SERVER

# What has been acknowledged survives a crash of the server; without it there is nothing to equal.
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--max-binlog-size=1M")

OWN = {
    "mysql-9.7": ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
    # without metadata its logs do not tell the character set of a column
    "mariadb-11.8": ("--binlog-row-metadata=FULL",),
}

FOLLOW = {
    "mysql": (
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='repl',"
            " SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
        ),
        "START REPLICA",
    ),
    "mariadb": (
        (
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl',"
            " MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL_VERIFY_SERVER_CERT=0"
        ),
        "START SLAVE",
    ),
}
PROMOTE = {
    "mysql": ("STOP REPLICA", "RESET REPLICA ALL"),
    "mariadb": ("STOP SLAVE", "RESET SLAVE ALL"),
}


class Pipeline:
    """A server under load, what carries its changes, and the sink."""

    def __init__(self, server: Server, folder: Path, seed: int, options: tuple[str, ...]) -> None:
        self.server = server
        self.options = options
        self.rng = random.Random(seed)
        self.folder = folder
        self.proxy = FlakyProxy(server.port)
        with server.session() as session:
            Load.prepare(session)
            session.execute(
                f"CREATE USER load_user IDENTIFIED BY '{PASSWORD}'",
                f"GRANT ALL ON {DATABASE}.* TO load_user",
                f"CREATE USER repl IDENTIFIED BY '{PASSWORD}'",
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl",
            )
        self.load = Load(server.port, seed, user="load_user", password=PASSWORD)
        self.sink = Sink(folder, DATABASE, TABLES)
        self.kept: list[Supervised] = []

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.load.stop()
        for process in self.kept:
            process.kill()
        self.proxy.close()

    @property
    def url(self) -> str:
        """The server as seen through the proxy."""
        trust = trusting(self.folder, self.server)
        return f"{self.server.flavour}://repl@127.0.0.1:{self.proxy.port}/{trust}"

    def take_over(self, server: Server) -> None:
        """`server`, a replica that has everything, is now the one that is changed."""
        with server.session() as session:
            session.execute(*PROMOTE[server.flavour])
        self.server, self.load.port = server, server.port

    def archive(self) -> tuple[Supervised, Path]:
        """Start `binlake archive` of the server."""
        logs = self.folder / "archive"
        process = archiver(self.url, logs, self.folder / "archive.log", PASSWORD)
        return self._keep(process), logs

    def stream(self, master: str, load: Path | None, **options: str) -> Supervised:
        """Start a Spark driver that streams into the sink."""
        job = {
            "master": master,
            "load": None if load is None else str(load),
            "options": {"view": "changes", "startingOffsets": "earliest", **options},
            "sink": str(self.sink.rows),
            "checkpoint": str(self.sink.checkpoint),
        }
        return self._keep(stream_job(job, self.folder / "driver.log", PASSWORD))

    def _keep(self, process: Supervised) -> Supervised:
        process.start()
        self.kept.append(process)
        return process

    def sleep(self, seconds: float) -> None:
        """Let everything work; how long is part of the experiment, nothing is awaited."""
        time.sleep(seconds)

    def crash_server(self) -> None:
        """kill -9 of the server, and start it again."""
        self.server.kill()
        self.server.start(self.options)

    def restart_server(self) -> None:
        """An orderly restart."""
        self.server.stop()
        self.server.start(self.options)

    def compare(self, after: str) -> None:
        """The load rests, what it did arrives, and nothing else."""
        self.load.pause()
        with self.server.session() as session:
            expected = contents(session)

        def equal() -> bool:
            for process in self.kept:
                process.keep()
            self.sink.advance()
            return self.sink.tables == expected

        try:
            await_until(equal, SECONDS, f"the sink does not equal the source after {after}")
        except AssertionError as error:
            said = "\n".join(f"--- {p.log.name}\n{p.said()}" for p in self.kept)
            raise AssertionError(f"{error}\n{self.difference(expected)}\n{said}") from None
        self.load.start()

    def difference(self, expected: dict[str, dict[str, list[str | None]]]) -> str:
        """How far sink and source are apart, in a line per table."""
        lines = []
        for table, rows in expected.items():
            found = self.sink.tables.get(table, {})
            wrong = [key for key in rows.keys() & found.keys() if rows[key] != found[key]]
            lines.append(
                f"{table}: {len(rows)} rows, {len(rows.keys() - found.keys())} missing,"
                f" {len(found.keys() - rows.keys())} too many, {len(wrong)} different {wrong[:3]}"
            )
        return "\n".join(lines)

    def suffer(self, kills: dict[str, tuple[int, Callable[[], Any]]], count: int) -> None:
        """`count` kills, first of each kind and then by weight, other trouble beside them, and a comparison after each."""
        self.load.start()
        await_until(lambda: self.load.committed > 20, SECONDS, "the load to begin")
        self.compare("the start")
        names = list(kills)
        weights = [kills[name][0] for name in names]
        first = self.rng.sample(names, len(names))
        for number in range(1, count + 1):
            trouble = self._trouble()
            name = first.pop() if first else self.rng.choices(names, weights)[0]
            self.sleep(self.rng.uniform(0, 0.7))
            kills[name][1]()
            self.sleep(self.rng.uniform(0, 0.3))
            began = time.monotonic()
            self.compare(f"kill {number} of {count}: {name} ({trouble} before it)")
            print(f"{number} {trouble}, {name}: equal after {time.monotonic() - began:.1f} s")
        assert self.sink.changes > count
        for process in self.kept:
            assert PASSWORD not in process.log.read_text(errors="replace")

    def _trouble(self) -> str:
        """Faults without a kill: the network fails, rarely the server restarts, often nothing."""
        chance = self.rng.random()
        if chance < 0.05:
            self.restart_server()
            return "restart"
        if chance < 0.6:
            return self.proxy.disturb(self.rng, self.sleep)
        return "nothing"


@pytest.fixture
def pipeline(
    request: pytest.FixtureRequest, tmp_path: Path, provisioned: Callable[[str], str]
) -> Iterator[Pipeline]:
    """A pipeline of the server that the test names."""
    name = provisioned(request.param)
    options = (*DURABLE, *OWN[name])
    with running(name, options) as server, Pipeline(server, tmp_path, SEED, options) as made:
        yield made


@pytest.mark.parametrize("pipeline", ["mysql-9.7"], indirect=True)
def test_archive_to_a_cluster(pipeline: Pipeline) -> None:
    """Server, proxy, archive, Spark's workers and driver: each of them dies."""
    with ExitStack() as stack:
        cluster = Cluster(pipeline.folder / "cluster")
        stack.callback(cluster.stop)
        archive, logs = pipeline.archive()
        await_until(lambda: any(logs.rglob("*.000001")), SECONDS, "the first log in the archive")
        driver = pipeline.stream(cluster.url, logs)

        def kill_executor() -> None:
            there: list[int] = []

            def found() -> bool:
                there[:] = cluster.executors()
                return bool(there)

            await_until(found, SECONDS, "an executor to kill")
            with suppress(ProcessLookupError):
                os.kill(there[pipeline.rng.randrange(2) % len(there)], signal.SIGKILL)

        pipeline.suffer(
            {
                "archive": (8, archive.kill),
                "executor": (4, kill_executor),
                "server": (4, pipeline.crash_server),
                "driver": (2, driver.kill),
            },
            TO_A_CLUSTER,
        )
        pipeline.load.pause()
        await_until(
            lambda: all(_has_copy(logs, log) for log in pipeline.server.log_files()),
            SECONDS,
            "the archive to equal the logs",
        )


@pytest.mark.parametrize("pipeline", ["mariadb-11.8"], indirect=True)
def test_straight_from_the_server(pipeline: Pipeline) -> None:
    """Without an archive between: the driver asks the server, tasks read from it."""
    driver = pipeline.stream("local[2]", None, server=pipeline.url)
    pipeline.suffer(
        {
            "server": (4, pipeline.crash_server),
            "driver": (1, driver.kill),
        },
        FROM_A_SERVER,
    )


@pytest.mark.parametrize("pipeline", ["mysql-9.7", "mariadb-11.8"], indirect=True)
def test_failover(pipeline: Pipeline) -> None:
    """The server dies for good while the stream is behind, and its replica takes over."""
    first, kind = pipeline.server, pipeline.server.name
    options = (*pipeline.options, "--server-id=2", "--log-slave-updates=ON")
    with running(kind, options) as second:
        second.execute(
            *(line.format(port=first.port, password=PASSWORD) for line in FOLLOW[first.flavour])
        )
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        trust = trusting(pipeline.folder, first, second)
        url = f"{first.flavour}://repl@{hosts}/{trust}"
        driver = pipeline.stream("local[2]", None, server=url)
        pipeline.load.start()
        await_until(lambda: pipeline.load.committed > 20, SECONDS, "the load to begin")
        pipeline.compare("the start")
        driver.kill()
        before = pipeline.load.committed
        await_until(
            lambda: pipeline.load.committed > before + 50, SECONDS, "changes that nobody reads"
        )
        pipeline.load.pause()
        with first.session() as session:
            expected = contents(session)
        await_until(lambda: _holds(second, expected), SECONDS, "the replica to have all")
        first.kill()
        pipeline.take_over(second)
        pipeline.load.start()
        pipeline.compare("the failover")
        driver.kill()
        pipeline.compare("a restart of the driver")


def _has_copy(logs: Path, log: Path) -> bool:
    copies = list(logs.rglob(log.name))
    return len(copies) == 1 and _bytes(copies[0]) == _bytes(log)


def _bytes(log: Path) -> bytes:
    """A log without the flag that shows whether the server still writes it."""
    data = log.read_bytes()
    return data[:21] + b"\0" + data[22:]


def _holds(server: Server, expected: dict[str, dict[str, list[str | None]]]) -> bool:
    with server.session() as session:
        present = session.rows(
            f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{DATABASE}'"
        )
        return present == [["2"]] and contents(session) == expected
