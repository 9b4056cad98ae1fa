"""A followed table is changed while other sessions write to it: by pt-online-schema-change, or by MariaDB itself."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from dev.servers import RefusedError, Server, running
from dev.servers.packages import SetupError
from dev.servers.percona_toolkit import ToolRun, online_schema_change
from support.servers.archiving import until
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "online"
ROWS = 2000


class RandomWriter:
    """Inserts, updates and deletes rows of a table, keys too, until it is stopped. Columns stay as they are."""

    def __init__(self, server: Server, table: str) -> None:
        self._server, self._table = server, table
        self.written = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        rng = random.Random(7)
        with self._server.session(DATABASE) as session:
            while not self._over.is_set():
                one, other = rng.randrange(4000), rng.randrange(4000)
                session.execute(
                    rng.choice(
                        (
                            f"INSERT IGNORE INTO {self._table} (id, v) VALUES ({one}, {other})",
                            f"UPDATE {self._table} SET v = v + 1 WHERE id BETWEEN {one} AND {one + 9}",
                            f"UPDATE IGNORE {self._table} SET id = {other} WHERE id = {one}",
                            f"DELETE FROM {self._table} WHERE id = {one}",
                        )
                    )
                )
                self.written += 1
                self._over.wait(0.005)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def change_of(server: Server, table: str) -> ToolRun:
    """The change of a table, which takes several seconds."""
    alter = (
        "ADD COLUMN w INT NOT NULL DEFAULT 7, MODIFY v BIGINT, ADD COLUMN note VARCHAR(20) FIRST"
    )
    slowly = ("--chunk-size", "50", "--sleep", "0.1", "--no-check-plan")
    try:
        return online_schema_change(server.run / "server.sock", DATABASE, table, alter, *slowly)
    except SetupError as error:
        if os.environ.get("BINLAKE_REQUIRE"):
            raise
        pytest.skip(f"Percona Toolkit cannot be had: {error}")


@contextmanager
def running_mirror(lake: Lake) -> Iterator[None]:
    """A mirror that follows the server in a thread; an error of it is raised here."""
    mirror = lake.mirror()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(mirror.run, once=False, interval_s=0.1)
        try:
            yield
        finally:
            mirror.stop()
            run.result(300)
            mirror.close()


def test_a_table_is_changed_while_it_is_written_to(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    with server.session(DATABASE) as session:
        rows = ", ".join(f"({number}, {number % 7})" for number in range(ROWS))
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {rows}"
        )
    tool = change_of(server, "t")
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.t",))
    with running_mirror(lake), RandomWriter(server, "t"):
        until(lambda: any("rows copied" in note for note in lake.notes))
        change = subprocess.run(
            tool.command, env=tool.environment, capture_output=True, text=True, check=False
        )
        assert change.returncode == 0, change.stderr
        assert f"Successfully altered `{DATABASE}`.`t`" in change.stdout
    lake.catch_up()
    assert sum("rows copied" in note for note in lake.notes) >= 2, "the new table was copied, too"
    assert quarantined(lake) == {}
    assert set(lake.table(f"{DATABASE}.t").column_names) == {"note", "id", "v", "w"}
    assert lake.equals_source(f"{DATABASE}.t") == [f"{DATABASE}.t"]


#: Long enough for the server to copy that other sessions write meanwhile.
COPIED_ROWS = 100_000


def while_it_altered(server: Server, place: tuple[str, int]) -> list[str]:
    """The kinds of the events in the log between the two phases of the first ALTER after a place."""
    file, offset = place
    events = server.rows(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}")
    texts = [event[5] or "" for event in events]
    [begun, *_] = [number for number, text in enumerate(texts) if "START ALTER" in text]
    [done] = [number for number, text in enumerate(texts) if "COMMIT ALTER" in text]
    return [event[2] or "" for event in events[begun:done]]


@pytest.mark.not_on("mysql-9.7")
@pytest.mark.parametrize("two_phase", ["OFF", "ON"])
def test_mariadb_alters_a_table_while_it_is_written_to(
    server: Server, iceberg_spark: Any, tmp_path: Path, two_phase: str
) -> None:
    """The log has the changes of other sessions before the statement; or between its start and its end, with two phases."""
    name = f"altered_{two_phase.lower()}"
    online = "ALGORITHM=COPY, LOCK=NONE"
    with server.session(DATABASE) as session:
        session.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, t CHAR(100) NOT NULL DEFAULT 'x')",
            f"INSERT INTO {name} (id, v) SELECT seq, seq % 7 FROM seq_1_to_{COPIED_ROWS}",
            f"SET SESSION binlog_alter_two_phase = {two_phase}",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.{name}",))
        lake.catch_up()
        with running_mirror(lake), RandomWriter(server, name) as writer:
            place, written = server.position(), writer.written
            session.execute(
                f"ALTER TABLE {name} ADD COLUMN w INT NOT NULL DEFAULT 7, MODIFY v BIGINT,"
                f" ADD COLUMN note VARCHAR(20) FIRST, {online}"
            )
            assert writer.written > written
            session.execute(f"UPDATE {name} SET w = 8, note = 'é' WHERE id % 1000 = 0")
            with pytest.raises(RefusedError, match="Duplicate entry"):
                session.execute(
                    f"ALTER TABLE {name} ADD COLUMN z INT, ADD UNIQUE KEY (v), {online}"
                )
    if two_phase == "ON":
        assert "Xid" in while_it_altered(server, place)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert sum("rows copied" in note for note in lake.notes) == 1, "it is altered, not copied again"
    assert lake.table(f"{DATABASE}.{name}").column_names == ["note", "id", "v", "t", "w"]
    assert lake.equals_source(f"{DATABASE}.{name}") == [f"{DATABASE}.{name}"]
