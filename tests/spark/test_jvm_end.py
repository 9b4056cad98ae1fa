"""What a command says when the JVM of its Spark is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

JOB = """
from pathlib import Path
from binlake.cli.common.spark_errors import spark_errors
from binlake.errors import BinlogError
from binlake.spark.sessions import local_context
log = Path("spark.log").absolute()
try:
    with spark_errors(log, "nothing is lost"):
        context = local_context("test", master="local[1]", config={}, log_file=log)
        try:
            context._gateway.proc.kill()
            context.parallelize([1]).collect()
        finally:
            context.stop()
except BinlogError as error:
    answer(str(error))
"""


def test_the_error_names_the_jvm_its_end_and_its_log(run_script: Any, tmp_path: Path) -> None:
    assert run_script(JOB) == (
        "the JVM of Spark has ended: SIGKILL (perhaps the system had no memory left); nothing is lost; "
        f"see Spark's log, {tmp_path / 'script' / 'spark.log'}"
    )
