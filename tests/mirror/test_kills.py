"""A mirror that is killed with -9 at any moment, while the server is written to: equal after each."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import verify
from dev.servers import Server, running
from proof.mirror_load import OPTIONS, Load
from proof.mirror_victims import DURABLE, KINDS, Victims
from support.servers.live import url_of
from support.spark.lake_histories import check_history
from support.spark.mirrored import Lake, Writer, iceberg_jar, quarantined
from support.spark.spark_processes import Cluster, environment

pytestmark = [pytest.mark.server, pytest.mark.lakes]

KILLS = int(os.environ.get("BINLAKE_KILLS", "4"))
SEED = int(os.environ.get("BINLAKE_SEED", "11"))
PATIENCE_S = 300


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def started(server: Server, folder: Path, jar: str) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own."""
    command = [
        *(sys.executable, "-m", "binlake_program", "mirror", url_of(server), str(folder)),
        *("--table", "shop.*", "--interval", "0.05", "--round-bytes", "64k"),
        *("--master", "local[2]", "--iceberg-jar", jar),
    ]
    with (folder.parent / "mirror.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(), start_new_session=True
        )


def committed(folder: Path) -> int:
    """How many versions the tables' metadata has."""
    return sum(
        int(hint.read_text()) for hint in folder.glob("*/*/metadata/version-hint.text")
        if hint.exists()
    )  # fmt: skip


def test_kills(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    folder = tmp_path / "lake"
    folder.mkdir()
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'a')" for i in range(2000)),
        )
    lake = Lake(iceberg_spark, folder, server, tables=("shop.*",))
    with Writer(server, rng):
        for _ in range(KILLS):
            before = committed(folder)
            process = started(server, folder, str(iceberg_jar()))
            deadline = time.monotonic() + PATIENCE_S
            target = before + rng.randrange(1, 12)
            while committed(folder) < target and process.poll() is None:
                assert time.monotonic() < deadline, (folder.parent / "mirror.log").read_text()
            assert process.poll() is None, (folder.parent / "mirror.log").read_text()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for _ in range(2):
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]
    server.execute("DROP DATABASE shop")


@pytest.fixture
def server_that_is_killed(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mysql-9.7"), DURABLE) as started:
        yield started


def test_kills_of_processes(
    server_that_is_killed: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """One of each kind, one after the other, on one lake: equal after each."""
    server = server_that_is_killed
    rng = random.Random(5)
    folder = tmp_path / "lake"
    folder.mkdir()
    lake = Lake(iceberg_spark, folder, server, **OPTIONS)
    with ExitStack() as held:

        def cluster() -> Cluster:
            made = Cluster(tmp_path)
            held.callback(made.stop)
            return made

        load = Load(server, rng).prepared()
        victims = Victims(lake, load, tmp_path / "mirror.log", OPTIONS, cluster, rng)
        held.enter_context(load)
        for name, kill in KINDS.items():
            outcome = kill(victims)
            with load.no_ddl:
                found = verify(folder, spark=iceberg_spark, catalog=lake.catalog)
            assert quarantined(lake) == {}, (name, outcome)
            assert found.is_equal, (name, outcome, found.tables)
    lake.catch_up()  # writes came after the last comparison
    assert lake.equals_source("shop.*")
    assert check_history(lake, "shop.versions", ("id",))
