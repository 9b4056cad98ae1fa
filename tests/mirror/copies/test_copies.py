"""Copies that are killed, stopped or paused continue with the chunks that they have not read.

One module, although it is long: all tests copy tables of one shape from the servers that it starts once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import BinlogError
from binlake.mirror import compact, pause, resume, resync, status
from binlake.mirror.control import Control
from binlake.mirror.followed.first_copy import CopyProgress
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.lake_state import index_directory
from binlake.mirror.loop import Mirror
from binlake.mirror.reporting.pulse import Beats, Pulse, last_beat
from binlake.mirror.reporting.report import MirrorStatus
from binlake.values.position import Position
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.servers.archiving import until
from support.spark.mirrored import Lake, chunk_by_chunk, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

ROWS = 1000
DATABASE = "copies"
WAVE = 2  # chunks that two cores read before the state is written down


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def lake_of(server: Server, spark: Any, folder: Path, table: str, **options: Any) -> Lake:
    """A lake of a new table of 1,000 rows, in 20 chunks."""
    with server.session(DATABASE) as session:
        session.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, t VARCHAR(20))")
        rows = ", ".join(f"({i}, {i}, 'row {i}')" for i in range(ROWS))
        session.execute(f"INSERT INTO {table} VALUES {rows}", f"ANALYZE TABLE {table}")
    given = {"chunk_rows": 50, **options}
    return Lake(spark, folder, server, tables=(f"{DATABASE}.{table}",), **given)


def changed(server: Server, table: str) -> None:
    with server.session(DATABASE) as session:
        session.execute(
            f"UPDATE {table} SET v = -1 WHERE id % 10 = 0",
            f"UPDATE {table} SET id = id + 5000 WHERE id % 10 = 1",
            f"DELETE FROM {table} WHERE id % 10 = 2",
            f"INSERT INTO {table} VALUES (-5, 1, 'new'), (2000, 1, 'new')",
        )


def of_copies(lake: Lake) -> list[str]:
    return [note.partition(": ")[2] for note in lake.notes if "chunks" in note]


def test_a_killed_copy_continues(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "killed")
    for call in (3, 2):  # the third wave is read, but not written down
        kill = Kill("tasks of a copy", call, after=True)
        assert killed(lake, kill) == -signal.SIGKILL
        changed(server, "killed")
        server.execute(f"DELETE FROM {DATABASE}.killed WHERE id IN (-5, 2000)")
    lake.catch_up()
    parts = lake.progress[0].all_chunks
    assert of_copies(lake) == [f"its copy continues: {3 * WAVE} of {parts} chunks are read"]
    assert (lake.progress[0].chunks, lake.progress[-1].chunks) == (3 * WAVE, parts)
    assert lake.equals_source(f"{DATABASE}.killed")
    assert quarantined(lake) == {}
    assert list(tmp_path.rglob("*.copy.jsonl")) == []


def test_a_resync_does_not_continue_an_interrupted_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The log lacks changes of rows that the copy has read."""
    lake = lake_of(server, iceberg_spark, tmp_path, "unlogged")
    for _ in range(2):  # the first copy, and a resync
        assert killed(lake, Kill("tasks of a copy", 3, after=False)) == -signal.SIGKILL
        with server.session(DATABASE) as session:
            session.execute("SET sql_log_bin = 0", "UPDATE unlogged SET v = v + 1")
        server.execute(f"UPDATE {DATABASE}.unlogged SET t = 'logged' WHERE id % 7 = 0")
        resync(tmp_path, [f"{DATABASE}.unlogged"], spark=iceberg_spark, catalog=lake.catalog)
        lake.catch_up()
        assert lake.equals_source(f"{DATABASE}.unlogged")
        resync(tmp_path, [f"{DATABASE}.unlogged"], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert Control(IcebergLake(iceberg_spark, lake.catalog)).to_resync == set()


def test_an_interrupted_copy_does_not_continue_in_another_log(
    iceberg_spark: Any, tmp_path: Path, provisioned: Any
) -> None:
    """The logs of the server were reset, and the new one has reached the place of the copy."""
    with running(provisioned("mysql-9.7")) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        lake = lake_of(server, iceberg_spark, tmp_path, "reset")
        assert killed(lake, Kill("tasks of a copy", 3, after=False)) == -signal.SIGKILL
        _, end = server.position()
        server.execute(f"UPDATE {DATABASE}.reset SET v = v + 1", server.kind.reset_statement)
        while server.position()[1] <= end:
            server.execute(
                f"UPDATE {DATABASE}.reset SET t = CONCAT('{'x' * 9}', v) WHERE id % 7 = 0"
            )
            server.execute(f"UPDATE {DATABASE}.reset SET t = v WHERE id % 7 = 0")
        lake.catch_up()
        assert any("its copy begins again: " in note for note in lake.notes), lake.notes
        assert lake.equals_source(f"{DATABASE}.reset")


@pytest.mark.parametrize("chunk", [0, 6])
def test_the_log_is_reset_during_a_copy(
    iceberg_spark: Any,
    tmp_path: Path,
    provisioned: Any,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
) -> None:
    """The new log soon has more files than the one before: the positions of the chunks are there, with other changes."""
    with running(provisioned("mysql-9.7")) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        lake = lake_of(server, iceberg_spark, tmp_path, "reset")
        changed: list[int] = []

        def change(number: int) -> None:
            if number == chunk and not changed:
                changed.append(number)
                server.execute(
                    f"UPDATE {DATABASE}.reset SET v = v + 1",
                    server.kind.reset_statement,
                    *["FLUSH BINARY LOGS"] * 2,
                )

        with chunk_by_chunk(monkeypatch, change):
            lake.catch_up()
        assert changed
        assert any("its copy begins again: " in note for note in lake.notes), lake.notes
        assert lake.equals_source(f"{DATABASE}.reset")


def test_a_copy_of_an_altered_table_starts_again(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "altered")
    assert killed(lake, Kill("tasks of a copy", 3, after=False)) == -signal.SIGKILL
    [state] = tmp_path.rglob("*.copy.jsonl")
    server.execute(f"ALTER TABLE {DATABASE}.altered ADD COLUMN more INT NULL")
    assert killed(lake, Kill("tasks of a copy", 2, after=False)) == -signal.SIGKILL
    lines = state.read_text().splitlines(keepends=True)
    state.write_text(
        "".join(lines[:-1]) + lines[-1][:30]
    )  # as a kill while it was written leaves it
    lake.catch_up()
    [continued] = of_copies(lake)
    assert continued.startswith(f"its copy continues: {WAVE - 1} of")
    assert lake.equals_source(f"{DATABASE}.altered")


def test_a_column_is_renamed_while_chunks_are_read(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows no column of the old name: the copy begins again, and the mirror goes on."""
    lake = lake_of(server, iceberg_spark, tmp_path, "renamed_column")
    renamed: list[int] = []

    def before(number: int) -> None:
        if number == 1 and not renamed:
            renamed.append(number)
            server.execute(f"ALTER TABLE {DATABASE}.renamed_column RENAME COLUMN t TO u")
            changed(server, "renamed_column")

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert [note for note in lake.notes if "begins again" in note and "Unknown column" in note]
    assert lake.equals_source(f"{DATABASE}.renamed_column")
    assert quarantined(lake) == {}


def begin_again(lake: Lake, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a table that a statement changes after its chunks are known, and before the first one is read."""
    statements = [statement]

    def before(_number: int) -> None:
        if statements:
            lake.server.execute(statements.pop())

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert [note for note in lake.notes if "begins again" in note]
    assert quarantined(lake) == {}


def test_columns_exchange_their_names_before_the_first_chunk_is_read(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is not valid in the character set that the column of this name had."""
    table = f"{DATABASE}.exchanged"
    one, other = ("VARCHAR(9) CHARACTER SET ujis", "VARCHAR(9) CHARACTER SET cp1251")
    with server.session(DATABASE) as session:
        session.execute(
            "SET NAMES utf8mb4", f"CREATE TABLE exchanged (id INT PRIMARY KEY, a {one}, b {other})"
        )
        session.execute("INSERT INTO exchanged VALUES (1, '東', 'цъ'), (2, NULL, 'ши')")
    lake = Lake(iceberg_spark, tmp_path, server, tables=(table,))
    begin_again(lake, f"ALTER TABLE {table} CHANGE a b {one}, CHANGE b a {other}", monkeypatch)
    assert lake.equals_source(table) == [table]


def test_a_collation_changes_before_the_first_chunk_is_read(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds of the chunks are in another order then, and two chunks have the same row."""
    table = f"{DATABASE}.collated"
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE collated (k VARCHAR(9) NOT NULL PRIMARY KEY, v INT)"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )
        names = [letter + digit for letter in "aBcDeFgHiJkL" for digit in "123456"]
        session.execute(f"INSERT INTO collated VALUES {', '.join(f'({n!r}, 1)' for n in names)}")
    lake = Lake(iceberg_spark, tmp_path, server, tables=(table,), chunk_rows=10)
    statement = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    begin_again(lake, statement, monkeypatch)
    assert lake.table(table).num_rows == len(names)
    assert lake.equals_source(table) == [table]


def test_a_value_that_the_lake_cannot_have_stops_one_table(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, day in (("day_a", "0000-00-00"), ("day_b", "2026-01-01")):
            session.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, d DATE)")
            session.execute(f"INSERT INTO {name} VALUES (1, '{day}')")
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.day_*",), zero_date="error")
    shown: list[MirrorStatus] = []
    waiting: list[set[str]] = []

    def watch(_progress: CopyProgress) -> None:
        beat = last_beat(index_directory(str(tmp_path), None))
        assert beat is not None
        waiting.append({*beat.waiting})

    lake.catch_up(show=shown.append, watch=watch, beats=Beats(0.0, 0.0))
    days = [f"{DATABASE}.day_a", f"{DATABASE}.day_b"]
    assert shown[0].to_copy == days, "before the first copy"
    assert (waiting[0], waiting[-1]) == ({*days}, {days[1]}), "during the copies"
    [(name, reason)] = quarantined(lake).items()
    assert (name, f"column {name}.d" in reason) == (f"{DATABASE}.day_a", True)
    assert lake.equals_source(f"{DATABASE}.day_b") == [f"{DATABASE}.day_b"]


def test_dates_that_become_null_are_counted_in_copies_and_rounds(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    table = f"{DATABASE}.null_days"
    lake = Lake(iceberg_spark, tmp_path, server, tables=(table,))

    def written(*statements: str) -> dict[str, int]:
        """The counts after these statements."""
        with server.session(DATABASE) as session:
            session.execute("SET SESSION sql_mode = ''", *statements)
        lake.catch_up()
        found = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        return dict(found.zero_dates)

    name = f"{table}.d"
    assert written(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, d DATE, v INT)",
        f"INSERT INTO {table} VALUES (1, '0000-00-00', 1), (2, '2026-01-01', 1), (3, '2026-00-00', 1)",
    ) == {name: 2}
    assert written(f"INSERT INTO {table} VALUES (4, '0000-00-00', 1)") == {name: 3}
    assert written(f"UPDATE {table} SET v = 2 WHERE id = 1") == {name: 5}, "before and after"
    assert written(f"INSERT INTO {table} VALUES (5, '2026-01-01', 1)") == {name: 5}
    assert [note.partition("; ")[0] for note in lake.notes if "read as null" in note] == [
        f"{name}: 2 zero or partial dates read as null",
        *(
            f"{name}: {n} read as null"
            for n in ("1 zero or partial date", "2 zero or partial dates")
        ),
    ]


@pytest.mark.parametrize(
    "statement", ["ADD COLUMN w INT NULL AFTER id", "MODIFY v INT NULL FIRST", "DROP COLUMN t"]
)
def test_a_table_is_altered_before_its_first_chunk_is_read(
    server: Server,
    iceberg_spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
) -> None:
    """The log from the position of the copy on does not contain the statement, but rows of other columns."""
    table = f"early_{statement[:3].lower()}"
    lake = lake_of(server, iceberg_spark, tmp_path, table)
    altered: list[int] = []

    def before(number: int) -> None:
        if not altered:
            altered.append(number)
            server.execute(f"ALTER TABLE {DATABASE}.{table} {statement}")

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert [note for note in lake.notes if "begins again" in note]
    server.execute(
        f"UPDATE {DATABASE}.{table} SET v = -1 WHERE id % 10 = 0",
        f"DELETE FROM {DATABASE}.{table} WHERE id % 10 = 2",
    )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.{table}")


def test_a_pause_and_a_stop(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "paused")
    running_now: list[Mirror] = []

    def before(number: int) -> None:
        if not lake.notes[-1].startswith(f"{DATABASE}.paused: its copy continues"):
            pause(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        elif running_now:
            running_now[0].stop()

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
        [shown] = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
        so_far = f"1 of {lake.progress[-1].all_chunks} chunks"
        assert (shown.state, shown.reason) == ("copying", f"its copy is not complete: {so_far}")
        lake.catch_up()  # still paused
        assert len(of_copies(lake)) == 2
        resume(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        mirror = lake.mirror()
        running_now.append(mirror)
        mirror.run(once=False)
        mirror.close()
        changed(server, "paused")
        running_now.clear()
        lake.catch_up()
    done = [note.split()[3] for note in of_copies(lake)[1:]]
    assert done == ["1", "1", "2"]  # a chunk at a time with one core
    assert lake.equals_source(f"{DATABASE}.paused")


def test_progress_and_rate(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "slow", max_rows_per_s=500)
    began = time.monotonic()
    with chunk_by_chunk(monkeypatch, lambda _number: None):
        lake.catch_up()
    assert time.monotonic() - began > ROWS / 500
    seen = lake.progress
    assert [one.rows for one in seen] == sorted(one.rows for one in seen)
    assert (seen[0].rows, seen[-1].rows, seen[-1].chunks) == (0, ROWS, seen[-1].all_chunks)
    assert seen[-1].bytes > 10 * ROWS
    assert lake.equals_source(f"{DATABASE}.slow")


def test_rounds_of_other_tables_between_the_chunks_of_a_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A table is copied again, for hours if it is large; the others stay fresh, and so does the copied one."""
    lake = lake_of(server, iceberg_spark, tmp_path, "large")
    with server.session(DATABASE) as session:
        session.execute("CREATE TABLE small (id INT PRIMARY KEY)")
    tables = (f"{DATABASE}.large", f"{DATABASE}.small")
    lake = Lake(iceberg_spark, tmp_path, server, tables=tables, chunk_rows=50)
    lake.catch_up()
    resync(tmp_path, [f"{DATABASE}.large"], spark=lake.spark, catalog=lake.catalog)
    changed(server, "large")
    server.execute(f"INSERT INTO {DATABASE}.small VALUES (1)")
    rows_of_small: list[int] = []

    def watch(progress: CopyProgress) -> None:
        if progress.chunks == 3 * WAVE:
            changed_again(server)
        rows_of_small.append(lake.table(f"{DATABASE}.small").num_rows)

    made = lake.mirror(watch=watch, copy_s=0)
    try:
        made.run(once=True)
        assert made.reach()
    finally:
        made.close()
    assert rows_of_small[0] == 0
    assert 1 in rows_of_small, "the row was committed before the copy was complete"
    assert [note.partition(" ")[0] for note in of_copies(lake)] == ["copying"] * 2, "not continues"
    for table in tables:
        assert lake.equals_source(table) == [table]
    assert quarantined(lake) == {}


def changed_again(server: Server) -> None:
    """Change rows of chunks that are read, and of chunks that are not."""
    server.execute(f"UPDATE {DATABASE}.large SET v = v + 7 WHERE id % 3 = 0")


def test_a_copy_that_gave_way_continues_after_a_kill(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A statement made it necessary, and the rounds of other tables go past the statement: the lake keeps the request."""
    table = f"{DATABASE}.gave_way"
    lake_of(server, iceberg_spark, tmp_path, "gave_way")
    server.execute(f"CREATE TABLE {DATABASE}.beside (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {DATABASE}.beside VALUES (0)")
    tables = (table, f"{DATABASE}.beside")
    options = {"tables": tables, "chunk_rows": 50, "on_alter": "resync"}
    lake = Lake(iceberg_spark, tmp_path, server, **options)
    lake.catch_up()
    server.execute(
        f"ALTER TABLE {table} MODIFY v VARCHAR(20)", f"INSERT INTO {DATABASE}.beside VALUES (1)"
    )
    # the first round that is recorded has only the other table
    kill = Kill("row of a round", 1, after=True)
    assert killed(lake, kill, copy_s=0) == -signal.SIGKILL
    control = Control(IcebergLake(iceberg_spark, lake.catalog), None, None)
    assert control.to_resync == {table}
    assert control.snapshots.keys() == {f"{DATABASE}.beside"}
    lake.notes.clear()
    lake.catch_up()
    [continued] = of_copies(lake)
    assert continued.startswith(f"its copy continues: {WAVE} of"), "and is not requested twice"
    control.refresh()
    assert control.to_resync == set()
    assert quarantined(lake) == {}
    for one in tables:
        assert lake.equals_source(one) == [one]


def test_a_resync_that_is_asked_for_during_the_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log lacks a change of a chunk that the copy has read already: the table is copied once more."""
    table = f"{DATABASE}.asked"
    lake = lake_of(server, iceberg_spark, tmp_path, "asked")
    lake.catch_up()
    asked: list[int] = []

    def before(number: int) -> None:
        if number < 10 or asked:
            return
        asked.append(number)
        with server.session(DATABASE) as session:
            session.execute("SET SESSION sql_log_bin = 0", "UPDATE asked SET v = -1 WHERE id = 0")
        resync(tmp_path, [table], spark=iceberg_spark, catalog=lake.catalog)

    resync(tmp_path, [table], spark=iceberg_spark, catalog=lake.catalog)
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert asked
    lake.catch_up()
    assert lake.equals_source(table) == [table]
    assert Control(IcebergLake(iceberg_spark, lake.catalog), None, None).to_resync == set()


def test_requests_at_the_end_of_a_run_are_done_in_it(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after the last round: the log lacks the change that the requested copy reads."""
    table = f"{DATABASE}.late"
    lake = lake_of(server, iceberg_spark, tmp_path, "late")
    lake.catch_up()
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    asked: list[str] = []

    class Asking(Pulse):
        """Asks at its second beat, after the last round: the first one comes before all rounds."""

        beats = 0

        def beat(self, position: Position | None, commit_us: int | None = None) -> None:
            super().beat(position, commit_us)
            self.beats += 1
            if self.beats == 2:
                asked.append(table)
                resync(tmp_path, asked, **here)
                compact(tmp_path, asked, **here)

    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_log_bin = 0", "UPDATE late SET v = -1 WHERE id = 0")
    monkeypatch.setattr("binlake.mirror.loop.Pulse", Asking)
    lake.catch_up()
    assert asked == [table]
    assert lake.equals_source(table) == [table]
    control = Control(IcebergLake(iceberg_spark, lake.catalog), None, None)
    assert (control.to_resync, control.to_compact) == (set(), set())


def test_copies_and_rounds_share_the_time(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """While a copy of many seconds and the rounds of another table both have work, each gets `copy_s` seconds."""
    lake_of(server, iceberg_spark, tmp_path, "shares")
    server.execute(f"CREATE TABLE {DATABASE}.waits (id INT PRIMARY KEY)")
    tables = (f"{DATABASE}.shares", f"{DATABASE}.waits")
    lake = Lake(iceberg_spark, tmp_path, server, tables=tables)
    lake.catch_up()
    resync(tmp_path, [tables[0]], spark=lake.spark, catalog=lake.catalog)
    with server.session(DATABASE) as session:
        session.execute(*(f"INSERT INTO waits VALUES ({number})" for number in range(60)))
    # a round per transaction; the copy takes eight seconds or more
    options = {"chunk_rows": 25, "max_rows_per_s": 120, "round_bytes": 1}
    lake = Lake(iceberg_spark, tmp_path, server, tables=tables, **options)
    seen: list[int] = []

    def watch(_progress: CopyProgress) -> None:
        seen.append(lake.table(tables[1]).num_rows)

    lake.catch_up(watch=watch, copy_s=3)
    rounds = [later - before for before, later in pairwise(seen) if later > before]
    assert len(rounds) > 1, "the copy continued while rounds were left"
    assert max(rounds) > 1, "several rounds came between two parts of the copy"
    for table in tables:
        assert lake.equals_source(table) == [table]


def test_the_server_restarts_during_a_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror waits for it, as rounds do, and continues with the chunks that it has not read."""
    lake = lake_of(server, iceberg_spark, tmp_path, "restarted")
    restart = threading.Timer(1.0, server.start)

    def before(number: int) -> None:
        if number == 9 and not restart.is_alive() and not restart.finished.is_set():
            server.stop()
            restart.start()

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    restart.join()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.restarted")
    [begins] = of_copies(lake)  # the chunks of before stay
    assert begins.startswith("copying about")


def test_a_stop_ends_the_wait_for_a_server(
    server: Server, iceberg_spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mirror would wait for half a minute, and then end with an error."""
    lake = lake_of(server, iceberg_spark, tmp_path, "stopped_server")
    mirror = lake.mirror()
    said: list[str] = []
    errors: list[BinlogError] = []

    def run() -> None:
        try:
            mirror.run(once=False, interval_s=0.05)
        except BinlogError as error:
            errors.append(error)

    def waits() -> bool:
        said.append(capsys.readouterr().err)
        return "trying again for 30 seconds" in "".join(said)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: any("rows copied" in note for note in lake.notes))
    server.stop()
    try:
        until(waits)
        began = time.monotonic()
        mirror.stop()
        thread.join(60)
        assert time.monotonic() - began < 15
    finally:
        server.start()
        thread.join(60)
        mirror.close()
    assert errors == []
    lake.catch_up()
    assert lake.equals_source(f"{DATABASE}.stopped_server")
