"""Check that every machine that runs tasks can work, before any log byte is decoded there.

A reader travels to the executors behind a small function that is pickled *by value*
(`host_check`). The function needs only Python to run. So a host without the package, or with an
uncompiled core, reports that in one line that names the host, instead of a stack of
ModuleNotFoundErrors. `check_hosts` makes the same check of a cluster before a bulk job starts.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from binlake.errors import BinlogError, SourceError
from binlake.spark.memory import explainer, memory_error
from binlake.values.builds import installed_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

# One module stands for the core: they are compiled together or not at all.
_CORE_MODULE = "binlake.core.memory.cursor"

# The process in the driver that serves a stream's reader, and that ends with the reader's first
# error.
_STREAM_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"

_PROBES_PER_CORE = 3
_CORES_UNKNOWN = 16


def core_is_compiled() -> bool:
    """Whether this process runs the compiled core."""
    spec = importlib.util.find_spec(_CORE_MODULE)
    return bool(spec and spec.origin and spec.origin.endswith(tuple(EXTENSION_SUFFIXES)))


def host_check(compiled: bool, version: str | None = None) -> Callable[[], None]:
    """Return a self-contained function that raises RuntimeError if the package cannot work.

    `version`: that of the sender, if known. Another version may interpret the data differently.

    `compiled`: whether the sender's core is compiled. A pure core on an executor would be silently
    many times slower, so it is an error, unless the sender's core is pure too.
    """
    suffixes = tuple(EXTENSION_SUFFIXES)
    core_module = _CORE_MODULE

    def check() -> None:
        # Pickled by value: it may name only builtins and what it imports itself.
        import importlib.metadata
        import importlib.util
        import sys

        where = f"host {socket.gethostname()} ({sys.executable})"
        try:
            core = importlib.util.find_spec(core_module)
        except ModuleNotFoundError:
            core = None  # not installed, or another version, whose modules have other names
        try:
            here: str | None = importlib.metadata.version("binlake")
        except importlib.metadata.PackageNotFoundError:
            here = None
        if None not in (version, here) and here != version:
            raise RuntimeError(
                f"{where}: binlake {here} is installed, but the driver has {version}; install the "
                "same version on the driver and on every executor"
            )
        if core is None or core.origin is None:
            raise RuntimeError(
                f"{where}: the package binlake is not installed; install it on every executor, "
                "or ship a packed environment with spark.archives"
            ) from None
        if compiled and not core.origin.endswith(suffixes):
            raise RuntimeError(
                f"{where}: the core of binlake is not compiled ({core.origin}); "
                "install the built wheel on every executor"
            )

    return check


class Shipped:
    """Base of the objects that Spark sends to executors: arriving runs the host check first."""

    def __reduce__(self) -> tuple[Any, ...]:
        # the state as bytes: unpickling it imports the package, so it must wait for the check
        from pyspark import cloudpickle  # plain pickle refuses classes of one session

        state = cloudpickle.dumps((type(self), self.__getstate__()))
        return _opener(host_check(core_is_compiled(), installed_version())), (state,)


def _opener(check: Callable[[], None]) -> Callable[[bytes], Any]:
    explain = explainer()

    def open_shipped(state: bytes) -> Any:
        import pickle

        try:
            check()
            kind, attributes = pickle.loads(state)
        except Exception as error:
            # the memory may be too small to load the libraries
            told = explain(error)
            if told is None:
                raise
            raise RuntimeError("; ".join(told)) from None
        arrived = object.__new__(kind)
        arrived.__dict__.update(attributes or {})
        return arrived

    return open_shipped


def _probe(paths: tuple[str, ...]) -> Callable[[int], str]:
    check = host_check(core_is_compiled(), installed_version())

    def probe(_: int) -> str:
        try:
            check()
            from binlake.source.locations import check_visible

            for path in paths:
                check_visible(path)
        except Exception as error:  # noqa: BLE001 - any failure of a host is reported
            return str(error)
        return ""

    return probe


def check_hosts(spark: SparkSession, paths: Sequence[str]) -> None:
    """Run a probe on the executors: the package must be there and compiled, and the paths visible.

    Several probes per core are spread over the cluster, so that every host gets one. Raises
    SourceError with one clause per host that cannot work.
    """
    from pyspark.sql.functions import col, udf

    tasks = _PROBES_PER_CORE * cores(spark)
    # without useArrow, PySpark looks for the kind of function in type hints, and warns when it finds none
    probe = udf(_probe(tuple(paths)), "string", useArrow=False)
    answers = spark.range(0, tasks, 1, tasks).select(probe(col("id")).alias("problem"))
    problems = sorted({row.problem for row in answers.distinct().collect() if row.problem})
    if problems:
        raise SourceError("; ".join(problems))


def cores(spark: SparkSession) -> int:
    """Return how many tasks the session can run at the same time, as far as it is known."""
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:  # a Connect client cannot ask
        return _CORES_UNKNOWN
    config = context.getConf()
    if config.contains("spark.default.parallelism"):
        return context.defaultParallelism
    # executors that were requested may not have registered yet
    wanted = config.get("spark.executor.instances", "0"), config.get("spark.executor.cores", "1")
    expected = (
        int(wanted[0]) * int(wanted[1]) if not (context.master or "").startswith("local") else 0
    )
    return max(context.defaultParallelism, expected)


def without_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Drop the traceback of binlake's own errors: Spark prints every frame of it to the user.

    An error that results from too little memory becomes one of them, and one of the system, for example of a full disk.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BinlogError as error:
            raise error.with_traceback(None) from None
        except Exception as error:
            told: BinlogError | None = memory_error(error)
            if told is None and isinstance(error, OSError):
                told = BinlogError(f"the system refused a task: {error}")
            if told is None:
                raise
            raise told from None

    return call


def without_spark_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Drop the traceback of binlake's own errors, and Spark's frames, from the planning of a stream.

    Spark ignores its setting for that here, but not the corresponding variable.
    """
    brief = without_traceback(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return brief(*args, **kwargs)
        except BinlogError:
            spec = getattr(sys.modules["__main__"], "__spec__", None)
            if spec is not None and spec.name == _STREAM_RUNNER:
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return call
