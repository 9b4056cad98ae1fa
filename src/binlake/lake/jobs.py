"""Bulk work on Spark: a job with one partition per task, whose results are collected.

In a classic session the job is an RDD: it starts nothing but the workers that run the tasks, while
a Python data source first starts processes for its discovery, its load and its plan, each of which
imports PySpark. A Connect client has no RDDs: there the job is the read of a one-off data source,
whose `read` runs the task and yields its result as a row. One `collect` brings all results to
the user's process, which commits.
"""

from __future__ import annotations

import json
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import binlake.errors
from binlake.errors import BinlogError, ServerError, SourceError
from binlake.lake.engine import Engine, Progress, Task
from binlake.spark.hosts import Shipped, check_hosts, cores, without_traceback

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2
# the line of a task's error that has what its message does not contain: Spark transfers errors as text
_FACTS = "binlake facts"
_NAMES_OF_FACTS = ("code", "sqlstate", "waited_s", "is_passing", "is_of_rows")
_DEAD_WORKER = "Python worker exited unexpectedly"
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class SparkEngine(Engine):
    """Runs tasks on the executors of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cores(self) -> int:
        """How many tasks run at the same time, if the session reports it."""
        return cores(self._spark)

    @property
    def is_here(self) -> bool:
        context = _context(self._spark)
        return context is not None and (context.master or "").startswith("local")

    def check_paths(self, paths: Sequence[str]) -> None:
        """Check that the hosts of a cluster can work, and see the paths."""
        if not self.is_here:
            check_hosts(self._spark, paths)

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        context = _context(self._spark)
        if context is not None:
            return ContextEngine(context).run(tasks, what, progress)
        return _run(tasks, partial(_as_read, self._spark), progress)


class ContextEngine(Engine):
    """Runs tasks with a Spark context of this machine (`local[…]`).

    A context is enough for RDDs. A session would load Spark's SQL engine first, which takes longer
    than a small export.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        return self._context.defaultParallelism

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        def collect(pickled: list[bytes]) -> list[str]:
            with _watching(self._context, what, progress):
                rdd = self._context.parallelize(pickled, len(pickled))
                return rdd.map(_Runner()).collect()

        return _run(tasks, collect, progress)


class _TaskReader(Shipped, DataSourceReader):
    """Holds the tasks pickled, so that the helper processes that plan the job need not import
    them.
    """

    def __init__(self, tasks: Sequence[bytes]) -> None:
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        return iter([(_Runner()(partition.value),)])

    def __getstate__(self) -> dict[str, Any]:
        return {"tasks": ()}  # an executor is given its own task; it needs no other


def _source(name: str, tasks: Sequence[bytes]) -> type[DataSource]:
    """A data source class that carries its tasks: Spark pickles a local class by value."""

    class TaskSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return "result string"

        def reader(self, schema: Any) -> DataSourceReader:
            return _TaskReader(tasks)

    return TaskSource


def _run(
    tasks: Sequence[Task], collect: Callable[[list[bytes]], list[str]], progress: Progress
) -> list[str]:
    """The results of the tasks, in their order; `collect` runs pickled tasks on Spark.

    Raises BinlogError with the sentence of the task that failed, or with Spark's where a worker
    died; PySparkException for other failures of Spark.
    """
    if not tasks:
        return []
    pickled: list[bytes] = [cloudpickle.dumps(task) for task in tasks]
    progress(0, len(tasks))
    try:
        results = collect(pickled)
    except (PySparkException, Py4JJavaError) as error:
        found = _task_error(error)
        if found is None and isinstance(error, Py4JJavaError):
            found = _of_java(error)
        if found is None:
            raise
        raise found from None
    progress(len(tasks), len(tasks))
    return results


class _Runner(Shipped):
    """Runs a pickled task on an executor."""

    @without_traceback
    def __call__(self, task: bytes) -> str:
        # imports the core, which may need more memory than there is
        arrived: Task = pickle.loads(task)
        try:
            return arrived.run()
        except ServerError as error:
            error.add_note(f"{_FACTS}: {json.dumps(_facts(error))}")
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {}  # it has no attributes; this is Python's own result then


def _as_read(spark: SparkSession, pickled: Sequence[bytes]) -> list[str]:
    name = f"binlake_{uuid.uuid4().hex}"
    spark.dataSource.register(_source(name, pickled))
    return [row.result for row in spark.read.format(name).load().collect()]


def _context(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None of a Connect client."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def _task_error(error: Exception) -> BinlogError | None:
    """Return the error of the failed task, without Spark's stacks; None if it is not binlake's."""
    facts: dict[str, Any] = {}
    for line in reversed(str(error).splitlines()):
        kind, _, sentence = line.strip().partition(": ")
        module, _, name = kind.rpartition(".")
        if module == binlake.errors.__name__:
            kind_of_error: type[BinlogError] = getattr(binlake.errors, name, BinlogError)
            return kind_of_error(sentence, **facts)
        if kind == _FACTS:
            facts = json.loads(sentence)
        if kind == "RuntimeError" and sentence.startswith("host "):  # of hosts.host_check
            return SourceError(sentence)
    return None


def _facts(error: ServerError) -> dict[str, Any]:
    """The context of a server's error that its text does not contain."""
    return {name: error.context[name] for name in _NAMES_OF_FACTS if name in error.context}


def _of_java(error: Py4JJavaError) -> BinlogError:
    """Return the message of Java's exception: the first line of PySpark's only names the call."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    first = next((line for line in lines[1:] if line), lines[0])
    hint = "perhaps its machine had no memory left" if _DEAD_WORKER in first else None
    return BinlogError(f"Spark failed: {first}", hint=hint)


@contextmanager
def _watching(context: SparkContext, what: str, progress: Progress) -> Iterator[None]:
    """Describe the job in Spark's UI, and report finished tasks, while the block runs."""
    done = threading.Event()
    group = f"binlake_{uuid.uuid4().hex}"
    tracker = context.statusTracker()

    def report() -> None:
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(s) for s in info.stageIds] if info else []
            for stage in stages:
                if stage is not None:
                    progress(stage.numCompletedTasks, stage.numTasks)

    def watch() -> None:
        # When the JVM has ended, the job itself raises an error.
        with suppress(Py4JError, OSError):
            while not done.wait(_POLL_SECONDS):
                report()

    before = {name: context.getLocalProperty(name) for name in _GROUP_PROPERTIES}
    context.setJobGroup(group, what, interruptOnCancel=True)
    watcher = threading.Thread(target=watch, name="binlake-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        for name, value in before.items():  # the caller's own, None if there was none
            context.setLocalProperty(name, value)  # type: ignore[arg-type]
