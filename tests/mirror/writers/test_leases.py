"""A second process with another state directory, while a mirror runs or after one was killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import SourceError
from binlake.mirror import compact, verify
from binlake.mirror.apply import task_files
from binlake.mirror.commits import commit_range
from binlake.mirror.control import Control
from binlake.mirror.lakes import open_lake
from binlake.mirror.lease import LakeInUseError
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

PATIENCE_S = 300


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mysql-9.7")) as started:
        yield started


def lake_of(server: Server, spark: Any, folder: Path, database: str) -> Lake:
    """A table with deleted rows, which a compaction rewrites."""
    server.execute(
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {database}.t VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    )
    lake = Lake(spark, folder / "lake", server, tables=(f"{database}.t",), compact="off")
    lake.catch_up()
    server.execute(f"DELETE FROM {database}.t WHERE id = 1")
    lake.catch_up()
    return lake


def test_a_compaction_beside_a_mirror_with_another_state_directory(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror compacts the table; no table is quarantined for another program."""
    lake = lake_of(server, iceberg_spark, tmp_path, "beside")
    cleared: list[object] = []
    monkeypatch.setattr(task_files.TaskFiles, "clear", _counted(cleared))
    compacted = threading.Event()

    def note(sentence: str) -> None:
        lake.notes.append(sentence)
        if "compacted in" in sentence:
            compacted.set()

    mirror = lake.mirror(state=str(tmp_path / "first"), note=note)
    began = len(cleared)
    follows = threading.Thread(target=mirror.run, kwargs={"once": False, "interval_s": 0.1})
    other: dict[str, Any] = {
        "spark": iceberg_spark,
        "catalog": lake.catalog,
        "state": tmp_path / "other",
    }
    notes: list[str] = []
    try:
        with pytest.raises(SourceError, match=r"another process mirrors into .*: process \d+ on "):
            verify(lake.folder, **other)
        assert len(cleared) == began, "files of tasks that the mirror may be reading"
        compact(lake.folder, **other, note=notes.append)
        follows.start()
        assert compacted.wait(PATIENCE_S)
    finally:
        mirror.stop()
        if follows.ident is not None:
            follows.join(PATIENCE_S)
        mirror.close()
    [said] = notes
    assert "it compacts the tables after its next round (process" in said
    server.execute("UPDATE beside.t SET v = 7 WHERE id = 2")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {"beside.t": "equal"}


def _counted(calls: list[object]) -> Any:
    """`TaskFiles.clear`, whose calls are listed."""
    clear = task_files.TaskFiles.clear

    def cleared(files: task_files.TaskFiles) -> None:
        calls.append(files)
        clear(files)

    return cleared


def test_a_start_with_another_state_directory_after_a_kill(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "after_a_kill")
    server.execute("INSERT INTO after_a_kill.t VALUES (9, 9)")
    first, other = str(tmp_path / "first"), str(tmp_path / "other")
    exit_code = killed(lake, Kill("row of a round", 1, after=False), state=first)
    assert exit_code == -signal.SIGKILL
    lake.catch_up(state=other)
    [note] = [one for one in lake.notes if "lease" in one]
    assert f"with the state directory {first}" in note
    lake.catch_up(state=first)
    assert len([one for one in lake.notes if "lease" in one]) == 1, "the second one had ended it"
    assert states(lake) == {"after_a_kill.t": "equal"}


def test_a_mirror_that_cannot_be_made_leaves_the_lake_to_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A file is where the mirror wants a directory for the files of tasks. The process goes on, as a notebook does."""
    lake = lake_of(server, iceberg_spark, tmp_path, "not_made")
    first = tmp_path / "first"
    first.mkdir()
    (first / "mirror.staging").write_text("")
    with pytest.raises(SourceError, match=r"cannot write .*mirror\.staging: File exists"):
        lake.mirror(state=str(first))
    lake.catch_up(state=str(tmp_path / "other"))
    (first / "mirror.staging").unlink()
    lake.catch_up(state=str(first))
    assert states(lake) == {"not_made.t": "equal"}


@pytest.mark.parametrize("accepted", ["refuse", "reindex"])
def test_a_mirror_that_is_overtaken_in_a_round_applies_nothing_twice(
    server: Server,
    iceberg_spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    accepted: str,
) -> None:
    """The lease is renewed during a round. If another mirror could take it over nevertheless, its commits are noticed."""
    server.execute("DROP DATABASE IF EXISTS overtaken", "CREATE DATABASE overtaken")
    with server.session("overtaken") as session:
        session.execute("CREATE TABLE t (v INT)", "INSERT INTO t VALUES (1), (1)")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("overtaken.*",), on_other_writer=accepted)
    threads: list[str] = []

    def overtaken(*arguments: Any) -> int:
        monkeypatch.undo()
        threads.extend(thread.name for thread in threading.enumerate())
        control = Control(open_lake(iceberg_spark, lake.catalog, str(lake.folder)), None, None)
        control.renew_lease("")  # as if it had ended
        lake.catch_up(state=str(tmp_path / "other"))
        return commit_range(*arguments)

    first = lake.mirror(state=str(tmp_path / "first"))
    try:
        first.run(once=True)
        server.execute("INSERT INTO overtaken.t VALUES (1), (2)")
        monkeypatch.setattr("binlake.mirror.rounds.commit_range", overtaken)
        why = r"another (mirror has committed .*overtaken\.t|process has taken over)"
        with pytest.raises(LakeInUseError, match=why):
            first.run(once=True)
    finally:
        first.close()
    assert "binlake-lease" in threads
    assert quarantined(lake) == {}
    assert states(lake) == {"overtaken.t": "equal"}


def test_an_idle_mirror_writes_no_metadata(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "idle")
    control = Control(open_lake(iceberg_spark, lake.catalog, str(lake.folder)), None, None)
    mirror = lake.mirror()
    follows = threading.Thread(target=mirror.run, kwargs={"once": False, "interval_s": 0.05})
    try:
        follows.start()
        threading.Event().wait(5.0)  # its start: settings, expiry
        before = set(lake.folder.glob("*/*/metadata/*.metadata.json"))
        threading.Event().wait(5.0)
        assert set(lake.folder.glob("*/*/metadata/*.metadata.json")) == before
    finally:
        mirror.stop()
        follows.join(PATIENCE_S)
        mirror.close()
    control.refresh()
    assert control.lease == ""
