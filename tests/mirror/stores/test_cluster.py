"""A cluster of two workers with a lake in S3: the proofs of `make mirror-cluster`, with few random statements."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.spark.mirrored import iceberg_jar
from support.spark.spark_processes import SOURCE, environment

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SECONDS = 15
PATIENCE_S = 2400


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_proofs_in_short_form(server: str, tmp_path: Path) -> None:
    """BINLAKE_SEED sets the seed. In a process of its own: this one has another session of Spark."""
    iceberg_jar()  # skips without it
    seed = int(os.environ.get("BINLAKE_SEED") or time.time() % 100_000)
    tests = SOURCE.parent / "tests"
    words = ["--server", server, "--seed", str(seed), "--seconds", str(SECONDS)]
    done = subprocess.run(
        [sys.executable, "-m", "proof.mirror_cluster", *words, "--state", str(tmp_path)],
        env=environment(PYTHONPATH=f"{SOURCE}{os.pathsep}{tests}", BINLAKE_REQUIRE="1"),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert done.stdout.endswith(f"all equal; seed {seed}\n")
