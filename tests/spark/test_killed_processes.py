"""The errors after the JVM of Spark is killed, or a worker that runs tasks."""

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


TASK = """
import os, signal
from pathlib import Path
from binlake.cli.common.spark_errors import spark_errors
from binlake.errors import BinlogError
from binlake.lake.engine import Task
from binlake.lake.jobs import ContextEngine
from binlake.spark.sessions import local_context
class KillsTheJvm(Task):
    def __init__(self, pid):
        self.pid = pid
    def run(self):
        os.kill(self.pid, signal.SIGKILL)
        signal.pause()
errors = os.open("stderr", os.O_WRONLY | os.O_CREAT)
log = Path("spark.log").absolute()
try:
    with spark_errors(log, "nothing is lost"):
        context = local_context("test", master="local[1]", config={}, log_file=log)
        os.dup2(errors, 2)
        try:
            ContextEngine(context).run([KillsTheJvm(context._gateway.proc.pid)], "dies", lambda done, of: None)
        finally:
            context.stop()
except BinlogError as error:
    answer([str(error), Path("stderr").read_text()])
"""


def test_no_thread_prints_that_the_jvm_has_gone(run_script: Any) -> None:
    """Not the one that watches the job, either."""
    error, printed = run_script(TASK)
    assert error.startswith("the JVM of Spark has ended: SIGKILL")
    assert printed == ""


WORKER = """
import os
from pathlib import Path
from binlake.errors import BinlogError
from binlake.lake.engine import Task
from binlake.lake.jobs import ContextEngine
from binlake.spark.sessions import local_context
class Dies(Task):
    def run(self):
        os.kill(os.getpid(), 9)
context = local_context("test", master="local[1]", config={}, log_file=Path("spark.log"))
try:
    ContextEngine(context).run([Dies()], "dies", lambda done, of: None)
except BinlogError as error:
    answer(str(error))
context.stop()
"""


def test_the_error_names_a_worker_that_was_killed(run_script: Any) -> None:
    said = run_script(WORKER)
    assert said.startswith("Spark failed: ")
    assert "Python worker exited unexpectedly" in said
    assert said.endswith("perhaps its machine had no memory left")


LOST_CONNECTIONS = """
import os, socket, struct
from pathlib import Path
from pyspark.accumulators import _start_update_server
from binlake.cli.common.spark_errors import spark_errors
with spark_errors(Path("spark.log"), "nothing is lost"):
    server = _start_update_server("token", False)
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT), 2)
    connected = lambda: socket.create_connection(server.server_address)
    with connected() as lost:
        lost.sendall(b"token")
    with connected() as refused:
        refused.sendall(b"knock" + bytes(4))
    with connected() as served:  # one after the other
        served.sendall(b"token" + struct.pack("!i", 0))
        assert served.recv(1) == bytes([1])
answer(Path("stderr").read_text())
"""


def test_a_lost_connection_for_accumulators_is_no_traceback(run_script: Any) -> None:
    """A JVM that is killed loses it. The error of a client with a wrong token is shown, as it was."""
    shown = run_script(LOST_CONNECTIONS)
    assert shown.count("Traceback") == 1
    assert "EOFError" not in shown
    assert "ValueError: The value of the provided token" in shown
