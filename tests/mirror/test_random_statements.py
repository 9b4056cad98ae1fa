"""Random DML and DDL on tables of every type while a mirror follows them: the short form of `make mirror-random`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
from proof.mirror_random import OPTIONS, RandomProof
from support.spark.mirrored import Lake

pytestmark = [pytest.mark.server, pytest.mark.lakes]

#: The files of a failure stay here. Folders of pytest are removed by other runs.
FOLDER = Path(__file__).resolve().parents[2] / "build" / "mirror-random"
TABLES = 10
SECONDS = 15
PAUSE_S = 0.05


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def test_random_statements(server: Server, iceberg_spark: Any) -> None:
    """BINLAKE_SEED sets the statements. Those of a failure are in a file that the error names."""
    seed = int(os.environ.get("BINLAKE_SEED") or time.time() % 100_000)
    folder = FOLDER / f"test-{server.name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lake").mkdir(parents=True)
    lake = Lake(iceberg_spark, folder / "lake", server, **OPTIONS)
    proof = RandomProof(lake, folder, seed, TABLES)
    proof.run(SECONDS, PAUSE_S)
    shutil.rmtree(folder)
