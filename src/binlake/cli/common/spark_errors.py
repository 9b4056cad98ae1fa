"""The messages of a command when Spark fails, or its JVM ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from binlake.errors import BinlogError

# A process that is killed closes its connections a moment before it has ended.
_ENDS_WITHIN_S = 5


@contextmanager
def spark_errors(log_file: Path, lost: str) -> Iterator[None]:
    """Report what Spark reports, at its start, later and at its stop, as one line. Raises BinlogError.

    `lost`: the effect of the JVM's end on the work, and the remedy.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    logging.getLogger().addFilter(_not_of_py4j)
    _silence_accumulators()
    try:
        yield
    except Exception as error:
        is_of_connection = isinstance(error, OSError | Py4JError) and not isinstance(
            error, Py4JJavaError
        )
        how = _end_of_jvm(_ENDS_WITHIN_S if is_of_connection else 0)
        if how:
            raise BinlogError(
                f"the JVM of Spark has ended: {how}", hint=f"{lost}; see Spark's log, {log_file}"
            ) from None
        if isinstance(error, PySparkException):
            first = str(error).partition("\n")[0]
            raise BinlogError(f"Spark failed: {first}", hint=f"see its log, {log_file}") from None
        raise


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Drop the tracebacks that py4j logs, on the root logger, when its connection is lost: the command's own error already reports this."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def _silence_accumulators() -> None:
    """Drop the tracebacks of the server that receives accumulators, for the same reason."""
    from pyspark import accumulators

    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        server: type[BaseServer] | None = getattr(accumulators, name, None)
        if server is not None:
            server.handle_error = _report_all_but_lost_connections  # type: ignore[assignment,method-assign]


def _report_all_but_lost_connections(server: BaseServer, request: Any, client: Any) -> None:
    if not isinstance(sys.exception(), EOFError | ConnectionError):
        BaseServer.handle_error(server, request, client)


def _end_of_jvm(wait_s: float) -> str:
    """How the JVM that PySpark has started ended; "" while it runs, and if it is not a child of this process."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return ""
    try:
        code = process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return ""
    if code >= 0:
        return f"exit code {code}"
    killed = " (perhaps the system had no memory left)" if code == -signal.SIGKILL else ""
    return f"{signal.Signals(-code).name}{killed}"
