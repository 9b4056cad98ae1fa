"""Tables are copied from a server that is ahead of the archive from which the mirror reads the changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import OptionError, PositionLostError, SourceError
from binlake.mirror import resync, status, verify
from binlake.mirror.apply.decode import decode_range
from binlake.mirror.followed.first_copy import CopyProgress, LogLagsError
from binlake.mirror.stopped import StoppedError
from binlake.mirror.verification import verify_tables
from binlake.stream.positions.splits import Split
from dev.servers import Server, running
from support.servers.archiving import archive, archiving
from support.servers.live import url_of
from support.spark.lake_histories import check_history
from support.spark.mirrored import Lake, chunk_by_chunk, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

TABLES = ("keyed", "bare", "log", "soft", "old")
OPTIONS: dict[str, Any] = {
    "append_tables": ("*.log",),
    "soft_delete_tables": ("*.soft",),
    "history_tables": ("*.old",),
    "chunk_rows": 3,
}


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


class Lags(Lake):
    """A lake of tables of ten rows, in a database of their own."""

    def __init__(self, spark: Any, folder: Path, server: Server, database: str) -> None:
        super().__init__(spark, folder, server, tables=(f"{database}.*",), **OPTIONS)
        self.database = database
        self.at_the_end = "FLUSH BINARY LOGS"
        self._changes = 0
        server.execute(f"CREATE DATABASE {database}")
        rows = ", ".join(f"({number}, {number})" for number in range(10))
        for name in TABLES:
            key = "INT" if name == "bare" else "INT PRIMARY KEY"
            server.execute(f"CREATE TABLE {database}.{name} (id {key}, v INT)")
            server.execute(f"INSERT INTO {database}.{name} VALUES {rows}")

    def change(self) -> None:
        """Change rows at both ends of each table: a chunk has seen some of them."""
        self._changes += 1
        number = self._changes
        with self.server.session(self.database) as session:
            for name in TABLES:
                session.execute(
                    f"INSERT INTO {name} VALUES ({100 + number}, 0), ({-100 - number}, 0)",
                    f"UPDATE {name} SET v = v + 100 WHERE id IN ({number % 10}, {100 + number}, 9)",
                    f"UPDATE {name} SET id = id + 1000 WHERE id = {-100 - number}",
                    f"DELETE FROM {name} WHERE id IN ({number % 7}, {99 + number})",
                )
            session.execute(self.at_the_end)

    def check(self) -> None:
        """No change is missing, and none is applied twice."""
        assert quarantined(self) == {}
        assert states(self) == {f"{self.database}.{name}": "equal" for name in TABLES}
        assert check_history(self, f"{self.database}.old", ("id",)) > 0


class Archive:
    """The archive of a server in a folder."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder

    def catch_up(self) -> str:
        """Archive what the server has written so far; return the directory of its logs."""
        self.catch_up_all()
        return self.logs

    def catch_up_all(self) -> None:
        """Archive what the server has written so far, of its present history."""
        done = archive(url_of(self.server), self.folder)
        assert done.returncode == 0, done.stderr

    @property
    def logs(self) -> str:
        [found] = (path for path in self.folder.iterdir() if path.is_dir())
        return str(found)


@pytest.mark.parametrize(
    ("database", "at_the_end"), [("later_log", "FLUSH BINARY LOGS"), ("same_log", "DO 1")]
)
def test_an_archive_that_lags_behind_a_copy(
    server: Server,
    iceberg_spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    at_the_end: str,
) -> None:
    """The copy ends when the archive has what the rows may contain; no chunk is read twice."""
    lake = Lags(iceberg_spark, tmp_path / "lake", server, database)
    lake.at_the_end = at_the_end
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    with chunk_by_chunk(monkeypatch, lambda _chunk: lake.change()):
        with pytest.raises(LogLagsError, match="the archive reaches"):
            lake.catch_up(logs, patience_s=0.1)
        assert len([note for note in lake.notes if "its copy waits" in note]) == len(TABLES)
        read = len(lake.progress)
        kept.catch_up()
        lake.catch_up(logs)
    assert not [seen for seen in lake.progress[read:] if seen.chunks < seen.all_chunks]
    lake.change()
    kept.catch_up()
    lake.catch_up(logs)
    lake.check()


def test_an_archive_that_grows_while_a_copy_waits(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "waits")
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    lake.change()

    def note(sentence: str) -> None:
        lake.notes.append(sentence)
        if "waits.soft: its copy waits" in sentence:
            lake.change()
            kept.catch_up()

    lake.catch_up(logs, note=note)
    assert any("waits.soft: its copy waits" in note for note in lake.notes)
    lake.change()
    kept.catch_up()
    lake.catch_up(logs)
    lake.check()


def test_a_shard_waits_for_the_archive_within_its_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of another shard commit to the lake table, so the copy would have to begin again after them."""
    names = ["merged_1.t", "merged_2.t"]
    for name in names:
        server.execute(
            f"CREATE DATABASE {name.partition('.')[0]}",
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)",
            f"ANALYZE TABLE {name}",
        )
    lake = Lake(
        iceberg_spark,
        tmp_path / "lake",
        server,
        tables=("merged_*.t",),
        shard_tables=("merged_*.*=merged.{table}",),
        chunk_rows=2,
    )
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    all_are_read = threading.Event()

    def before(_chunk: int) -> None:
        server.execute(*(f"UPDATE {name} SET v = v + 1 WHERE id IN (1, 7)" for name in names))

    def watch(progress: CopyProgress) -> None:
        lake.progress.append(progress)
        if progress.chunks == progress.all_chunks:
            all_are_read.set()

    def catch_up() -> None:
        for _ in names:
            assert all_are_read.wait(300)
            all_are_read.clear()
            kept.catch_up()

    thread = threading.Thread(target=catch_up)
    thread.start()
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up(logs, watch=watch)
    thread.join(300)
    assert not [note for note in lake.notes if "waits" in note or "again" in note], lake.notes
    assert quarantined(lake) == {}
    assert states(lake) == dict.fromkeys(names, "equal")


def test_a_comparison_waits_for_the_archive(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "compared")
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    lake.catch_up(logs)
    lake.change()
    mirror = lake.mirror(logs, patience_s=0.1)
    try:
        with pytest.raises(LogLagsError, match="the archive reaches"):
            verify_tables(mirror)
    finally:
        mirror.close()
    mirror = lake.mirror(logs)
    try:
        with archiving(url_of(server), kept.folder):
            found = verify_tables(mirror)
    finally:
        mirror.close()
    assert {table.state for table in found.tables} == {"equal"}


def test_a_mirror_is_behind_while_the_archiver_is_stopped(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The lake has the whole archive, and the archive does not have the whole log of the server."""
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "stopped")
    logs = Archive(server, tmp_path / "archive").catch_up()

    def behind() -> int | None:
        lake.catch_up(logs)
        return status(lake.folder, spark=iceberg_spark, catalog=lake.catalog).behind_bytes

    assert behind() == 0
    lake.change()
    assert (behind() or 0) > 1000


RENAMES = {
    "renamed": ("UPDATE renamed.soft SET v = v + 1", "RENAME TABLE renamed.keyed TO renamed.other"),
    "circled": (
        "UPDATE circled.soft SET v = v + 1",
        "RENAME TABLE circled.keyed TO circled.x, circled.soft TO circled.keyed, circled.x TO circled.soft",
    ),
    "exchanged": (
        "ALTER TABLE exchanged.keyed ADD COLUMN w INT DEFAULT 7",
        "ALTER TABLE exchanged.keyed RENAME COLUMN v TO w, RENAME COLUMN w TO v",
    ),
}


@pytest.mark.parametrize("database", RENAMES)
def test_a_rename_while_tables_are_compared_is_later_in_the_archive(
    server: Server, iceberg_spark: Any, tmp_path: Path, database: str
) -> None:
    """The server has other rows or columns under a name, and the archive does not have the statement yet."""
    before, rename = RENAMES[database]
    lake = Lags(iceberg_spark, tmp_path / "lake", server, database)
    server.execute(before)
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    lake.catch_up(logs)
    later = threading.Timer(3.0, kept.catch_up)
    statements = iter([rename])

    def before_a_table(_name: str) -> None:
        for statement in statements:  # the snapshot has begun, and no table has been read
            server.execute(statement)
            later.start()

    mirror = lake.mirror(logs)
    try:
        found = verify_tables(mirror, progress=before_a_table).tables
    finally:
        mirror.close()
        later.join()
    gone = {f"{database}.keyed"} if database == "renamed" else set()
    assert {t.table: (t.state, t.reason) for t in found} == {
        f"{database}.{name}": ("equal", "") for name in TABLES if f"{database}.{name}" not in gone
    }
    assert quarantined(lake) == {}
    assert set(states(lake).values()) == {"equal"}


def test_a_difference_that_the_archive_cannot_explain_yet(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "unexplained")
    server.execute("UPDATE unexplained.soft SET v = v + 1")
    logs = Archive(server, tmp_path / "archive").catch_up()
    lake.catch_up(logs)
    circle = "RENAME TABLE {t}.bare TO {t}.x, {t}.soft TO {t}.bare, {t}.x TO {t}.soft"
    statements = iter([circle.format(t="unexplained")])

    def before_a_table(_name: str) -> None:
        for statement in statements:
            server.execute(statement)

    mirror = lake.mirror(logs, patience_s=0.1)
    try:
        with pytest.raises(LogLagsError, match=r"the archive reaches .*`binlake archive` runs"):
            verify_tables(mirror, progress=before_a_table)
    finally:
        mirror.close()


def test_a_stop_while_a_difference_waits_for_the_archive(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Nothing is known then: a table is not reported as different."""
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "interrupted")
    server.execute("UPDATE interrupted.soft SET v = v + 1")
    logs = Archive(server, tmp_path / "archive").catch_up()
    lake.catch_up(logs)
    circle = "RENAME TABLE {t}.keyed TO {t}.x, {t}.soft TO {t}.keyed, {t}.x TO {t}.soft"
    statements = iter([circle.format(t="interrupted")])
    mirror = lake.mirror(logs)
    stops = threading.Timer(3.0, mirror.stop)

    def before_a_table(_name: str) -> None:
        for statement in statements:
            server.execute(statement)
            stops.start()

    try:
        with pytest.raises(StoppedError, match="stopped before its tables were compared"):
            verify_tables(mirror, progress=before_a_table)
    finally:
        mirror.close()
        stops.join()


def test_verify_reads_an_archive_where_the_server_has_purged_its_log(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "purged")
    kept = Archive(server, tmp_path / "archive")
    lake.catch_up(kept.catch_up())
    lake.change()
    logs = kept.catch_up()
    server.purge_before(server.position()[0])
    session: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    with pytest.raises(PositionLostError):
        verify(lake.folder, **session)
    found = verify(lake.folder, logs=logs, **session)
    assert found.is_equal, found
    assert len(found.tables) == len(TABLES)


def test_an_archive_of_another_server(
    server: Server, iceberg_spark: Any, tmp_path: Path, provisioned: Any
) -> None:
    """Positions in its log do not fit."""
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "strange")
    with running(provisioned(server.name), ["--server-id=77"]) as other:
        logs = Archive(other, tmp_path / "archive").catch_up()
        with pytest.raises(SourceError, match="the archive has the logs of server"):
            lake.catch_up(logs)


def test_an_archive_compresses_a_log_that_a_round_reads_in_parts(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round is planned again, with the compressed log."""
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "compressed")
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    lake.catch_up(logs)
    for _ in range(20):
        lake.at_the_end = "DO 1"
        lake.change()
    newest = server.position()[0]
    server.execute("FLUSH BINARY LOGS")
    kept.catch_up()
    decoded, in_parts, compressed = decode_range, Split.ranges, []

    def late(*planned: Any, **options: Any) -> Any:
        log = Path(logs, newest)
        if log.exists():
            with pa.output_stream(f"{log}.zst", compression="zstd") as sink:
                sink.write(log.read_bytes())
            log.unlink()
            compressed.append(newest)
        return decoded(*planned, **options)

    monkeypatch.setattr(Split, "ranges", lambda split, _bytes: in_parts(split, 4096))
    monkeypatch.setattr("binlake.mirror.apply.decode_tables.decode_range", late)
    lake.catch_up(logs)
    assert compressed == [newest]
    lake.check()


def test_the_logs_of_the_server_were_reset(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The server has the same identity, and positions of the old logs mean nothing in the new ones. (This test is the last one
    with the server.)
    """
    lake = Lags(iceberg_spark, tmp_path / "lake", server, "reset")
    kept = Archive(server, tmp_path / "archive")
    logs = kept.catch_up()
    lake.catch_up(logs)
    newest = server.position()[0]
    is_mysql = server.name.startswith("mysql")
    server.execute("RESET BINARY LOGS AND GTIDS" if is_mysql else "RESET MASTER")
    session: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    mirror = lake.mirror(logs)
    try:
        # the logs are others also when they have got as far as the archive
        for _ in range(2):
            with pytest.raises(SourceError, match=f"{newest} of the archive .* is not a log of"):
                verify_tables(mirror)  # the lake gets what the archive has
            assert status(lake.folder, **session).behind_bytes is None
            while server.position()[0] < newest:
                lake.at_the_end = "FLUSH BINARY LOGS"
                lake.change()
    finally:
        mirror.close()
    assert [note for note in lake.notes if "is not a log of" in note]
    resync(lake.folder, ["reset.keyed"], **session)
    with pytest.raises(SourceError, match="is not a log of"):
        lake.catch_up(logs)
    # the archive goes on in another directory, and its root has two now
    kept.catch_up_all()
    with pytest.raises(OptionError, match="has the logs of 2 servers or histories"):
        lake.catch_up(str(kept.folder))
    resync(lake.folder, ["*.*"], **session)
    lake.catch_up(f"{logs}.2")
    assert quarantined(lake) == {}
    assert set(states(lake).values()) == {"equal"}
