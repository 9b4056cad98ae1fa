"""`--once` ends although the server makes statements all the time; the next run copies what it has left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.source.refusals import AlteredError
from dev.servers import Server, busy, running
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

PATIENCE_S = 300


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


@contextmanager
def endless(
    server: Server, statements: Callable[[int], tuple[str, ...]], pause_s: float = 0.02
) -> Iterator[None]:
    """Execute the statements of one number after the other. Fails if the block does not end meanwhile."""
    begun, over = threading.Event(), threading.Event()

    def work(server: Server, stopped: threading.Event) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with server.session() as session:
            for number in count():
                if stopped.wait(pause_s):
                    return
                if time.monotonic() > deadline:
                    break
                session.execute(*statements(number))
                begun.set()
        over.set()

    with busy(server, work):
        assert begun.wait(PATIENCE_S)
        yield
        assert not over.is_set(), "it ended only when the statements did"


def new_lake(spark: Any, folder: Path, server: Server, database: str) -> Lake:
    """A lake of a database with the table `t`."""
    server.execute(
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)",
    )
    return Lake(spark, folder, server, tables=(f"{database}.*",))


def test_new_tables(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = new_lake(iceberg_spark, tmp_path, server, "growing")

    def statements(number: int) -> tuple[str, ...]:
        name = f"growing.n{number}"
        made = f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES ({number})"
        return made if number < 8 else (*made, f"DROP TABLE growing.n{number - 8}")

    with endless(server, statements, pause_s=0.4):
        lake.catch_up()
    [left] = [note for note in lake.notes if note.startswith("the next run copies")]
    assert "that were created on the server since this run began, for example growing.n" in left
    lake.catch_up()
    assert quarantined(lake) == {}
    assert len(lake.equals_source("growing.*")) == len(server.rows("SHOW TABLES FROM growing")) > 1


def test_a_table_that_is_altered_in_each_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = new_lake(iceberg_spark, tmp_path, server, "restless")
    server.execute("CREATE TABLE restless.calm (id INT PRIMARY KEY)")

    def statements(number: int) -> tuple[str, ...]:
        change = "DROP COLUMN x" if number % 2 else "ADD COLUMN x INT"
        return f"ALTER TABLE restless.t {change}", f"REPLACE INTO restless.calm VALUES ({number})"

    wanted = r"^restless\.t: each of 4 copies was outdated by an ALTER"
    with endless(server, statements), pytest.raises(AlteredError, match=wanted):
        lake.catch_up()
    assert lake.table("restless.calm").num_rows
    lake.catch_up()
    assert states(lake) == {"restless.calm": "equal", "restless.t": "equal"}


def test_changes_of_rows(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = new_lake(iceberg_spark, tmp_path, server, "written")
    with endless(server, lambda _number: ("UPDATE written.t SET v = v + 1",)):
        lake.catch_up()
        lake.catch_up()
    lake.catch_up()
    assert states(lake) == {"written.t": "equal"}
