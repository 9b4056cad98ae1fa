"""`make mirror-cluster`: the proofs of a mirror in short form, on a cluster of two workers that share no directory, with a
lake in an object store that speaks S3.

    python -m proof.mirror_cluster --server mariadb-11.8 --seed 1 --seconds 60

A kill of each process and at each place of the code, the first in the copy, with a comparison after each; the rows that
PyIceberg and DuckDB read; random DML and DDL on tables of every type. It ends with exit code 1 at the first difference, and
leaves the files of the server and the row indexes in the folder `--state`. What was in the store is lost with it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq

from binlake.mirror import compact
from binlake.mirror.sessions import mirror_session
from dev.servers import Server, installation
from dev.servers.lake_readers import duckdb_copies
from mirror.killed_mirror import OF_A_COPY, OF_ICEBERG, RARE, Kill
from proof.mirror_kills import Kills
from proof.mirror_load import OPTIONS, Load
from proof.mirror_random import OPTIONS as RANDOM_OPTIONS
from proof.mirror_random import RandomProof, say
from proof.mirror_victims import DURABLE, KINDS, Victims
from support.spark.lake_histories import check_history
from support.spark.mirrored import rows_of
from support.spark.spark_processes import PATIENT, Cluster
from support.spark.store_lakes import (
    EXECUTOR_MEMORY,
    StoreLake,
    duckdb_settings,
    newest_metadata,
    pyiceberg_properties,
    running_store,
    store_settings,
)

__all__: list[str] = []

_KILLED, _RANDOM = "killed", "random"  # catalogs
_IN_THE_COPY: tuple[Kill | str, ...] = (
    Kill(
        "tasks of a copy", 2, after=False
    ),  # the first tasks of a mirror on a cluster only log in to the server
    Kill("commit", 1, after=False),
    Kill("commit", 1, after=True),
    Kill("tasks of a copy", 3, after=True),
    "executor",
)
_TABLES, _PAUSE_S = 10, 0.2  # of the random statements
# a round commits eight tables, and each commit is some dozens of requests to the store
_LOAD_PAUSE_S = 1.0
_OPTIONS = OPTIONS | {"round_bytes": 128 << 10}


def plan(rng: random.Random) -> Iterator[Kill | str]:
    """The kills: in the copy, then one of each other process and place."""
    yield from _IN_THE_COPY
    later: list[Kill | str] = [name for name in KINDS if name != "executor"]
    later += [
        Kill(place, 1 if place in RARE else rng.randrange(1, 6), rng.random() < 0.5)
        for place in OF_ICEBERG
        if place not in OF_A_COPY
    ]
    yield from rng.sample(later, len(later))


class ClusterProof:
    """A server, a cluster, and two lakes in a store: one of a load with kills, one of random statements."""

    def __init__(self, server: Server, folder: Path, seed: int, held: ExitStack) -> None:
        self.server, self.folder, self.seed = server, folder, seed
        self.rng = random.Random(seed)
        self.store = held.enter_context(running_store())
        os.environ.update(self.store)
        # an application of this process and one of the command that is killed
        cluster = Cluster(folder, 2, "2g", **self.store)
        held.callback(cluster.stop)
        for name in (_KILLED, _RANDOM):
            (folder / name).mkdir()
        settings = store_settings(self.store, folder / _KILLED, _KILLED)
        jars = settings["spark.driver.extraClassPath"].replace(":", ",")
        self.spark = mirror_session(
            f"s3://lake/{_KILLED}", master=cluster.url, catalog=_KILLED,
            config={
                **PATIENT, **settings, "spark.executor.memory": EXECUTOR_MEMORY, "spark.log.level": "OFF",
                "spark.sql.shuffle.partitions": "1",
                "spark.jars": jars,  # executors read tables for the comparison, which is not the mirror's work
            },
        )  # fmt: skip
        held.callback(self.spark.stop)
        self.lake = StoreLake(self.spark, folder / _KILLED, server, self.store, _KILLED, **_OPTIONS)
        self.load = Load(server, self.rng, _LOAD_PAUSE_S)
        victims = Victims(
            self.lake,
            self.load,
            folder / "mirror.log",
            _OPTIONS,
            lambda: cluster,
            self.rng,
            cluster.url,
        )
        self.kills = Kills(self.lake, self.load, victims, self.rng)

    def kill_all(self) -> None:
        """All kills, with a comparison after each, and one row by row at the end."""
        self.load.prepared()
        with self.load:
            for number, what in enumerate(plan(self.rng), 1):
                outcome = self.kills.make(what)
                name = what if isinstance(what, str) else what.place
                if number < len(_IN_THE_COPY):  # a comparison would end the copy
                    assert not self.kills.round(), f"{what}: the tables are copied"
                    say(f"{name}, {outcome}: in the copy")
                else:
                    self.kills.compare(f"after {what}")
                    say(f"{name}, {outcome}: equal")
        self.lake.catch_up()
        names = self.lake.equals_source("shop.*")
        say(f"row by row, as Spark reads them: {', '.join(names)} equal")
        versions = check_history(self.lake, "shop.versions", ("id",))
        say(f"shop.versions: {versions} versions that changes began, each as the log tells")
        self._read_by_others(names)
        compact(self.lake.location, spark=self.spark, catalog=_KILLED, state=self.lake.state)
        say("compacted")
        self._read_by_others(names)
        self.kills.compare("after the compaction of all")

    def _read_by_others(self, names: list[str]) -> None:
        """Check that PyIceberg and DuckDB read the same rows as Spark."""
        from pyiceberg.table import StaticTable

        files = newest_metadata(self.folder / _KILLED)
        properties = pyiceberg_properties(self.store)
        targets = {name: self.folder / f"{name}.parquet" for name in names}
        duckdb_copies(
            {f"SELECT * FROM iceberg_scan('{files[name]}')": targets[name] for name in names},
            duckdb_settings(self.store),
        )
        for name in names:
            expected = rows_of(self.lake.table(name))
            scan = StaticTable.from_metadata(files[name], properties).scan()
            assert rows_of(scan.to_arrow()) == expected, f"{name}: PyIceberg"
            assert rows_of(pq.read_table(targets[name])) == expected, f"{name}: DuckDB"
        say(f"PyIceberg and DuckDB read the same rows of {len(names)} tables")

    def random_statements(self, seconds: float) -> None:
        """Follow random DML and DDL for a while."""
        lake = StoreLake(
            self.spark, self.folder / _RANDOM, self.server, self.store, _RANDOM, **RANDOM_OPTIONS
        )
        proof = RandomProof(lake, self.folder, self.seed, _TABLES, say)
        proof.run(seconds, _PAUSE_S)
        proof.say_statements()


def main() -> None:
    """Run it in a new folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="of random statements")
    parser.add_argument("--seed", type=int, help="by default one that the clock gives")
    parser.add_argument("--server", default="mysql-9.7", help="a name of `python -m dev.servers`")
    parser.add_argument("--state", default="build/mirror-cluster", help="a folder for everything")
    arguments = parser.parse_args()
    seed = int(time.time()) % 100_000 if arguments.seed is None else arguments.seed
    folder = Path(arguments.state).absolute() / f"{arguments.server}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with ExitStack() as held:
        server = Server(installation(arguments.server), folder / "server")
        held.callback(server.stop)
        server.start(DURABLE)
        say(f"{server.name}, seed {seed}, {folder}")
        try:
            proof = ClusterProof(server, folder, seed, held)
            proof.kill_all()
            proof.random_statements(arguments.seconds)
        except AssertionError as error:
            say(f"seed {seed}: {error}")
            sys.exit(1)
        say(f"all equal; seed {seed}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
