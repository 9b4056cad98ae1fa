"""A cluster of two workers with a lake in S3: the proofs of `make mirror-cluster`, with few random statements."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.spark.spark_processes import SOURCE, environment
from support.spark.store_lakes import need_store

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SECONDS = 15
PATIENCE_S = 2400  # `make test-lakes` allows as much
ENDS_IN_S = 120


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_proofs_in_short_form(server: str, provisioned: Any, tmp_path: Path) -> None:
    """BINLAKE_SEED sets the seed. In a process of its own: this one has another session of Spark."""
    need_store()
    provisioned(server)
    seed = int(os.environ.get("BINLAKE_SEED") or time.time() % 100_000)
    tests = SOURCE.parent / "tests"
    words = ["--server", server, "--seed", str(seed), "--seconds", str(SECONDS)]
    log = tmp_path / "proof.log"
    with log.open("wb") as out:
        proof = subprocess.Popen(
            [sys.executable, "-m", "proof.mirror_cluster", *words, "--state", str(tmp_path)],
            env=environment(PYTHONPATH=f"{SOURCE}{os.pathsep}{tests}", BINLAKE_REQUIRE="1"),
            stdout=out,
            stderr=out,
        )
        try:
            code = proof.wait(PATIENCE_S)
        finally:
            proof.terminate()  # ends all that it has started
            proof.wait(ENDS_IN_S)
    said = log.read_text(errors="replace")
    assert code == 0, said
    assert f"all equal; seed {seed}\n" in said
