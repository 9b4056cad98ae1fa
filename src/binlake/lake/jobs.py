"""Bulk work as a Spark read: tasks do their work and yield what they found.

A job is a one-off data source with one partition per task. `read` runs the task on an
executor and yields its result as a row; one `collect` brings all results to the user's
process, which commits. This works alike in classic Spark and Spark Connect. Spark may run a
task more than once, so a task must write under names of its own and only what a collected
result names counts.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from binlake import errors
from binlake.errors import BinlogError, SourceError
from binlake.spark.hosts import Shipped, in_few_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "Task", "run_tasks"]

# called with (finished tasks, all tasks)
Progress = Callable[[int, int], None]

_POLL_SECONDS = 0.2
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class Task(ABC):
    """A piece of work; pickled to an executor and `run` there, perhaps more than once."""

    @abstractmethod
    def run(self) -> str:
        """Do the work and return what the driver needs to know, as JSON."""


class _TaskReader(Shipped, DataSourceReader):
    """Holds the tasks pickled: the helper processes that plan the job need not import them."""

    def __init__(self, tasks: Sequence[bytes]) -> None:
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        task: Task = pickle.loads(partition.value)
        return iter([(in_few_lines(task.run)(),)])

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


def run_tasks(
    spark: SparkSession, tasks: Sequence[Task], what: str, progress: Progress
) -> list[str]:
    """Run the tasks on Spark and return their results, in the order of `tasks`.

    `what` describes the job in Spark's UI. Raises BinlogError with the sentence of the task
    that failed, PySparkException when it is Spark that failed.
    """
    if not tasks:
        return []
    name = f"binlake_{uuid.uuid4().hex}"
    pickled = [cloudpickle.dumps(task) for task in tasks]  # type: ignore[no-untyped-call]
    spark.dataSource.register(_source(name, pickled))
    progress(0, len(tasks))
    try:
        with _watching(spark, name, what, progress):
            rows = spark.read.format(name).load().collect()
    except PySparkException as error:
        told = _told(error)
        if told is None:
            raise
        raise told from None
    progress(len(tasks), len(tasks))
    return [row.result for row in rows]


def _told(error: PySparkException) -> BinlogError | None:
    """What the failed task said, out of the stacks that Spark wraps it in; None if not ours."""
    for line in reversed(str(error).splitlines()):
        kind, _, sentence = line.strip().partition(": ")
        module, _, name = kind.rpartition(".")
        if module == errors.__name__:
            kind_of_error: type[BinlogError] = getattr(errors, name, BinlogError)
            return kind_of_error(sentence)
        if kind == "RuntimeError" and sentence.startswith("host "):  # of hosts.host_check
            return SourceError(sentence)
    return None


@contextmanager
def _watching(spark: SparkSession, group: str, what: str, progress: Progress) -> Iterator[None]:
    """Report finished tasks while the block runs. (A Connect server keeps its counts.)"""
    try:
        context = spark.sparkContext
    except PySparkException:
        yield
        return
    done = threading.Event()
    tracker = context.statusTracker()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                stages = [tracker.getStageInfo(s) for s in info.stageIds] if info else []
                for stage in stages:
                    if stage is not None:
                        progress(stage.numCompletedTasks, stage.numTasks)

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
