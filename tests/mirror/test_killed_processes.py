"""Kills of what a mirror consists of and reads from: the command, its JVM, a worker, an executor, the server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import verify
from dev.servers import Server, running
from proof.mirror_load import OPTIONS, Load
from proof.mirror_victims import KINDS, Victims
from support.spark.mirrored import Lake, quarantined
from support.spark.spark_processes import Cluster

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(params=["mysql-9.7"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def test_kills_of_processes(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """One of each kind, one after the other, on one lake: equal after each."""
    rng = random.Random(5)
    folder = tmp_path / "lake"
    folder.mkdir()
    lake = Lake(iceberg_spark, folder, server, **OPTIONS)
    with ExitStack() as held:

        def cluster() -> Cluster:
            made = Cluster(tmp_path)
            held.callback(made.stop)
            return made

        victims = Victims(server, folder, tmp_path / "mirror.log", OPTIONS, cluster, rng)
        load = held.enter_context(Load(server, rng).prepared())
        for name, kill in KINDS.items():
            outcome = kill(victims)
            with load.no_ddl:
                found = verify(folder, spark=iceberg_spark, catalog=lake.catalog)
            assert quarantined(lake) == {}, (name, outcome)
            assert found.is_equal, (name, outcome, found.tables)
    assert lake.equals_source("shop.*")
