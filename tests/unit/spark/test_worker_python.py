"""The Python of Spark's workers: what is in its path, and what the environment says before and after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from binlake.spark import worker_python as module
from binlake.spark.worker_python import worker_python

SCRIPT = Path(module.__file__).with_name("worker-python.sh")
SHOW = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "BINLAKE_WORKER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_HOME"):
        monkeypatch.setenv(name, "")  # what is set below goes again
        monkeypatch.delenv(name)
    monkeypatch.setattr(SparkContext, "_gateway", None)  # as before the first session


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (
            "/s/python/lib/pyspark.zip:/s/py4j-0.10.9.9-src.zip:/s/jars/spark-core_2.13-4.1.0.jar",
            "",
        ),
        ("/s/pyspark.zip:/my lib:/x/packed.zip:/s/py4j-1-src.zip:/b*", "/my lib:/x/packed.zip:/b*"),
        ("", ""),
    ],
)
def test_the_script_leaves_out_the_archives_of_spark_only(path: str, left: str) -> None:
    done = subprocess.run(
        [SCRIPT, "-S", "-c", SHOW, "a b", "*"],
        env={"PYTHONPATH": path, "BINLAKE_WORKER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{left}\n['a b', '*']\n"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_session_on_this_machine_starts_workers_by_the_script(master: str) -> None:
    for _ in range(2):  # a second session in the same process, too
        with worker_python(master):
            assert os.environ["PYSPARK_PYTHON"] == str(SCRIPT)
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("master", ["spark://db1:7077", "local-cluster[2,1,1024]", "yarn", None])
def test_workers_elsewhere_have_the_running_python(master: str | None) -> None:
    with worker_python(master):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_python_that_the_user_names_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    with worker_python("local[2]"):
        assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.parametrize("started_by", ["another part", "spark-submit"])
def test_a_jvm_that_runs_already_may_not_have_the_variable(
    monkeypatch: pytest.MonkeyPatch, started_by: str
) -> None:
    if started_by == "spark-submit":
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "40000")
    else:
        monkeypatch.setattr(SparkContext, "_gateway", object())
    with worker_python("local[2]"):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_another_spark_than_that_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with worker_python("local[2]"):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_script_that_cannot_be_run_is_not_used(tmp_path: Path) -> None:
    """Some programs that install packages drop the permission to run the script."""
    script = tmp_path / "worker-python.sh"
    script.write_bytes(SCRIPT.read_bytes())
    with worker_python("local[2]", script):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_the_package_contains_the_script_and_it_runs(tmp_path: Path) -> None:
    """A wheel keeps the permission to run its files."""
    root = Path(__file__).resolve().parents[3]
    build = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    done = subprocess.run(
        [tmp_path / "binlake" / "spark" / SCRIPT.name, "-S", "-c", SHOW, "a b"],
        env={"PYTHONPATH": "/s/pyspark.zip:/mine", "BINLAKE_WORKER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "/mine\n['a b']\n"
