"""The errors of tasks: Spark transfers their text, and the driver makes the same error of it."""

from __future__ import annotations

import traceback

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from pyspark.errors import PySparkException

from binlake.errors import ConnectionLostError, ServerError
from binlake.lake.engine import Task
from binlake.lake.jobs import _run, _Runner


class Refused(Task):
    """Reads a table of a server, which answers with an error."""

    def __init__(self, error: ServerError) -> None:
        self.error = error

    def run(self) -> str:
        raise self.error


def by_spark(tasks: list[bytes]) -> list[str]:
    """Run tasks as Spark's worker does, and raise the error of a task as Spark does in the driver."""
    try:
        return [_Runner()(task) for task in tasks]
    except ServerError:
        text = f"Job aborted\n{traceback.format_exc()}\n\tat org.apache.spark.Task.run(Task.scala)"
    raise PySparkException(text)


@pytest.mark.parametrize(
    "error",
    [
        ServerError("db1: SELECT command denied", code=1142, sqlstate="42000"),
        ServerError("db1 commits all the time", hint="read from a replica", waited_s=60.0),
        ServerError("db1 has many open transactions", waited_s=60.0, is_passing=True),
        ConnectionLostError("db1: the connection was lost", code=2013),
        ServerError("db1 writes no binary log"),
    ],
)
def test_the_error_of_a_task_keeps_the_code_of_the_server(error: ServerError) -> None:
    with pytest.raises(ServerError) as caught:
        _run([Refused(error)], lambda tasks: by_spark(list(tasks)), lambda _done, _all: None)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert caught.value.context == error.context
