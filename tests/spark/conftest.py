"""One small Spark session per module, scripts in a fresh process, and a real cluster.

A JVM holds one classic session at a time, and discovery runs once per JVM: what needs a
session of another kind (Connect, a cluster, a plain session) runs as a script of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from support.spark.spark_processes import PATIENCE, PATIENT, Cluster
from support.spark.spark_processes import run_script as run_script_in


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # warnings of PySpark (about pandas, sockets left open) are not ours to mend
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session as `binlake.spark.session` makes it, on two cores."""
    from binlake.spark import session

    os.environ.update(PATIENCE)
    config = {
        **PATIENT,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    made = session("binlake tests", master="local[2]", config=config)
    yield made
    made.stop()


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., Any]:
    """Run Python text in a fresh process; what it gives to `answer(…)` comes back."""
    folder = tmp_path / "script"
    folder.mkdir()
    return lambda text, *arguments, **variables: run_script_in(
        folder, text, *arguments, **variables
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
