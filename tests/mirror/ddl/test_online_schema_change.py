"""A followed table is changed while other sessions write to it: by pt-online-schema-change, by gh-ost, by MariaDB itself."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from dev.servers import RefusedError, Server, Session, running
from dev.servers.packages import SetupError
from dev.servers.percona_toolkit import ToolRun, online_schema_change
from support.servers.archiving import until
from support.spark.mirrored import Lake, gone, quarantined

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


def change_of(server: Server, table: str, pause: Path) -> ToolRun:
    """The change of a table, which takes several seconds. It copies no rows as long as the file `pause` exists."""
    alter = (
        "ADD COLUMN w INT NOT NULL DEFAULT 7, MODIFY v BIGINT, ADD COLUMN note VARCHAR(20) FIRST"
    )
    slowly = ("--chunk-size", "50", "--sleep", "0.1", "--no-check-plan", "--pause-file", str(pause))
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


@pytest.mark.parametrize(("name", "pattern"), [("t", f"{DATABASE}.t"), ("u", f"{DATABASE}.*")])
def test_a_table_is_changed_while_it_is_written_to(
    server: Server, iceberg_spark: Any, tmp_path: Path, name: str, pattern: str
) -> None:
    """With the pattern, the mirror also follows the table into which the tool copies the rows."""
    with server.session(DATABASE) as session:
        rows = ", ".join(f"({number}, {number % 7})" for number in range(ROWS))
        session.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES {rows}"
        )
    pause = tmp_path / "pause"
    tool = change_of(server, name, pause)
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=(pattern,))
    full_name, new = f"{DATABASE}.{name}", f"{DATABASE}._{name}_new"
    follows_new = pattern != full_name
    pause.touch()
    with running_mirror(lake), RandomWriter(server, name), ThreadPoolExecutor(1) as pool:
        until(lambda: copies_of(lake, full_name) == 1)
        changed = pool.submit(
            subprocess.run, tool.command,
            env=tool.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        try:
            until(lambda: changed.done() or not follows_new or copies_of(lake, new) == 1)
        finally:
            pause.unlink()
        change = changed.result(300)
        assert change.returncode == 0, change.stderr
        assert f"Successfully altered `{DATABASE}`.`{name}`" in change.stdout
    lake.catch_up()
    assert copies_of(lake, full_name) >= 2, "the new table was copied, too"
    assert quarantined(lake) == {}
    assert set(lake.table(full_name).column_names) == {"note", "id", "v", "w"}
    assert full_name in lake.equals_source(pattern)
    if follows_new:
        assert gone(lake)[new].startswith(f"renamed away to {full_name} at ")
    assert gone(lake).keys() <= {new, f"{DATABASE}._{name}_old"}


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


class GhostTool:
    """The statements of gh-ost, which writes the rows of a table and their later changes into another one, and exchanges both."""

    def __init__(self, server: Server, table: str, alter: str) -> None:
        self._server, self._table, self._alter = server, table, alter
        self._ghost, self._log, self._old = (f"_{table}_{end}" for end in ("gho", "ghc", "del"))

    def run(self, begun: Callable[[], None]) -> None:
        """Change the table; calls `begun` when the tool has created its tables."""
        with (
            self._server.session(DATABASE) as applier,
            self._server.session(DATABASE) as reader,
        ):
            self._begin(applier)
            begun()
            for first in range(0, 4000, 500):
                applier.execute(
                    f"insert /* gh-ost `{DATABASE}`.`{self._table}` */ ignore into `{DATABASE}`.`{self._ghost}` (`id`, `v`) "
                    f"(select `id`, `v` from `{DATABASE}`.`{self._table}` force index (`PRIMARY`) "
                    f"where `id` >= {first} and `id` < {first + 500} lock in share mode)"
                )
                self._apply_changes(reader, applier)
                self._report(applier, f"copy iteration {first}")
                time.sleep(0.2)
            self._exchange(reader, applier)
            applier.execute(
                *(
                    f"drop /* gh-ost */ table if exists `{DATABASE}`.`{name}`"
                    for name in (self._log, self._old)
                )
            )

    def _begin(self, applier: Session) -> None:
        applier.execute(
            f"create /* gh-ost */ table `{DATABASE}`.`{self._log}` (\n"
            "id bigint unsigned auto_increment,\n"
            "last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n"
            "hint varchar(64) charset ascii not null,\nvalue varchar(4096) charset ascii not null,\n"
            "primary key(id),\nunique key hint_uidx(hint)\n) auto_increment=256",
            f"create /* gh-ost */ table `{DATABASE}`.`{self._ghost}` like `{DATABASE}`.`{self._table}`",
            f"alter /* gh-ost */ table `{DATABASE}`.`{self._ghost}` {self._alter}",
        )
        self._report(applier, "GhostTableMigrated")

    def _report(self, applier: Session, value: str) -> None:
        applier.execute(
            f"insert /* gh-ost */ into `{DATABASE}`.`{self._log}` (id, hint, value) values (NULLIF(2, 0), 'state', '{value}') "
            "on duplicate key update last_update=NOW(), value=VALUES(value)"
        )

    def _apply_changes(self, reader: Session, applier: Session) -> None:
        """Write what gh-ost finds in the log: all changes since the copy of a row."""
        there = {row[0]: row[1] for row in reader.rows(f"SELECT id, v FROM {self._table}")}
        here = {row[0]: row[1] for row in applier.rows(f"SELECT id, v FROM {self._ghost}")}
        name = f"`{DATABASE}`.`{self._ghost}`"
        for number, value in there.items() - here.items():
            values = f"({number}, {value})"
            applier.execute(f"replace /* gh-ost {name} */ into {name} (`id`, `v`) values {values}")
        for number in here.keys() - there.keys():
            applier.execute(f"delete /* gh-ost {name} */ from {name} where ((`id` = {number}))")

    def _exchange(self, locker: Session, applier: Session) -> None:
        """Lock the table, apply the last changes, and let a RENAME wait for the end of the lock."""
        applier.execute(
            f"create /* gh-ost */ table `{DATABASE}`.`{self._old}` (\nid int auto_increment primary key\n) "
            "engine=InnoDB comment='ghost-cut-over-sentry'"
        )
        locker.execute(
            f"lock /* gh-ost */ tables `{DATABASE}`.`{self._table}` write, `{DATABASE}`.`{self._old}` write"
        )
        self._apply_changes(locker, applier)
        rename = (
            f"rename /* gh-ost */ table `{DATABASE}`.`{self._table}` to `{DATABASE}`.`{self._old}`, "
            f"`{DATABASE}`.`{self._ghost}` to `{DATABASE}`.`{self._table}`"
        )
        with ThreadPoolExecutor(1) as pool:
            renamed = pool.submit(self._server.execute, rename)
            try:
                until(lambda: self._waits_for_lock(applier))
                locker.execute(f"drop /* gh-ost */ table if exists `{DATABASE}`.`{self._old}`")
            finally:
                locker.execute("unlock tables")
            renamed.result(300)

    def _waits_for_lock(self, session: Session) -> bool:
        return any(
            (sql or "").startswith("rename ") and "metadata lock" in (state or "")
            for *_, state, sql in session.rows("SHOW FULL PROCESSLIST")
        )


class GhostProgram:
    """gh-ost itself, which no package registry has: the program that BINLAKE_GH_OST names."""

    def __init__(self, program: str, server: Server, table: str, alter: str) -> None:
        self._server, self._table = server, table
        self._postponed = server.run / "postponed"
        self._command = [
            program, "--host=127.0.0.1", f"--port={server.port}", "--user=root", f"--database={DATABASE}",
            f"--table={table}", f"--alter={alter}", "--allow-on-master", "--assume-rbr", "--execute", "--chunk-size=50",
            "--nice-ratio=9", "--ok-to-drop-table", "--skip-metadata-lock-check", f"--postpone-cut-over-flag-file={self._postponed}",
            f"--serve-socket-file={server.run / 'gh-ost.sock'}",
        ]  # fmt: skip

    def run(self, begun: Callable[[], None]) -> None:
        """Change the table as `GhostTool` does. The tables are exchanged after `begun`."""
        self._postponed.touch()
        with ThreadPoolExecutor(1) as pool:
            changed = pool.submit(
                subprocess.run, self._command, capture_output=True, text=True, check=False
            )
            try:
                until(lambda: changed.done() or self._copies())
                begun()
            finally:
                self._postponed.unlink()
            change = changed.result(300)
        assert change.returncode == 0, change.stderr[-2000:]

    def _copies(self) -> bool:
        """Whether it copies rows. Before, it creates its tables, and the flag file, which it makes again if it is not there."""
        with self._server.session(DATABASE) as session:
            name = f"_{self._table}_gho"
            is_there = [name] in session.rows(f"SHOW TABLES LIKE '{name}'")
            return is_there and bool(session.rows(f"SELECT 1 FROM {name} LIMIT 1"))


def ghost_tool(server: Server, table: str, alter: str) -> GhostTool | GhostProgram:
    """A change of a table, by gh-ost where it is there, and by its statements where it is not."""
    program = os.environ.get("BINLAKE_GH_OST")
    return (
        GhostProgram(program, server, table, alter) if program else GhostTool(server, table, alter)
    )


def copies_of(lake: Lake, full_name: str) -> int:
    """How often a table has been copied."""
    return sum(f"{full_name}: " in note and "rows copied" in note for note in lake.notes)


GHOSTS = ("*._*_gho", "*._*_ghc", "*._*_del")


@pytest.mark.not_on("mariadb-11.8")
@pytest.mark.parametrize("excluded", [(), GHOSTS], ids=["all", "excluded"])
def test_gh_ost_changes_a_table_while_it_is_written_to(
    server: Server, iceberg_spark: Any, tmp_path: Path, excluded: tuple[str, ...]
) -> None:
    name = "without" if excluded else "beside"
    with server.session(DATABASE) as session:
        rows = ", ".join(f"({number}, {number % 7})" for number in range(ROWS))
        session.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES {rows}"
        )
    alter = (
        "ADD COLUMN w INT NOT NULL DEFAULT 7, MODIFY v BIGINT, ADD COLUMN note VARCHAR(20) FIRST"
    )
    tables = (f"{DATABASE}.*{name}*",)
    lake = Lake(iceberg_spark, tmp_path, server, tables=tables, exclude_tables=excluded)
    lake.catch_up()
    ghost = f"{DATABASE}._{name}_gho"

    def begun() -> None:
        until(lambda: bool(excluded) or copies_of(lake, ghost) >= 1)

    with running_mirror(lake), RandomWriter(server, name):
        ghost_tool(server, name, alter).run(begun)
    lake.catch_up()
    assert quarantined(lake) == {}
    full_name = f"{DATABASE}.{name}"
    assert copies_of(lake, full_name) == 2
    assert lake.table(full_name).column_names == ["note", "id", "v", "w"]
    assert lake.equals_source(*tables) == [full_name]
    if excluded:
        assert [path.name for path in (tmp_path / DATABASE).iterdir()] == [name]
    else:
        assert gone(lake)[ghost].startswith(f"renamed away to {full_name} at ")
        left = {f"{DATABASE}._{name}_{end}" for end in ("ghc", "del")}
        assert all(gone(lake)[one].startswith("dropped at ") for one in gone(lake).keys() & left)
        assert gone(lake).keys() <= {ghost, *left}
