"""The behaviour of a mirror where the user has a choice: --on-alter, --on-other-writer, --on-statement, --on-cascade, --logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pyarrow.compute as pc
import pytest

from binlake.errors import ChecksumError, IncompleteError, OptionError, PositionLostError
from binlake.mirror import add, remove, resync, status
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.loop import Mirror
from dev.servers import Server, running
from support.servers.archiving import archive
from support.servers.live import url_of
from support.spark.mirrored import Lake, gone, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "choices"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def lake_of(server: Server, spark: Any, folder: Path, table: str, **options: Any) -> Lake:
    with server.session(DATABASE) as session:
        session.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, v BIGINT)",
            f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)",
        )
    return Lake(spark, folder, server, tables=(f"{DATABASE}.{table}",), **options)


def states(lake: Lake) -> dict[str, str]:
    found = status(lake.folder, spark=lake.spark, catalog=lake.catalog)
    return {table.table: table.state for table in found.tables}


def test_tables_that_are_added_and_removed(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "chosen")
    name, other = f"{DATABASE}.chosen", f"{DATABASE}.more"
    in_lake: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    server.execute(f"CREATE TABLE {other} (id INT PRIMARY KEY, v BIGINT)")
    server.execute(f"INSERT INTO {other} VALUES (1, 1)")
    lake.catch_up()
    assert states(lake) == {name: "mirrored"}

    add(tmp_path, [other], **in_lake)
    running_one = lake.mirror()
    try:
        running_one.run(once=True)
        assert lake.equals_source(other) == [other]
        remove(tmp_path, [f"{DATABASE}.ch*"], **in_lake)
        server.execute(f"UPDATE {name} SET v = 7")
        server.execute(f"UPDATE {other} SET v = 8")
        running_one.run(once=True)
        assert lake.notes[-1] == f"{name} is no longer followed; its lake table stays as it is"
    finally:
        running_one.close()
    assert states(lake) == {name: "removed", other: "mirrored"}
    lake.catch_up()  # the requests outlive the mirror
    assert lake.equals_source(other) == [other]
    assert sorted(lake.table(name)["v"].to_pylist()) == [1, 2, 3]

    with pytest.raises(OptionError, match="is removed, and matches it"):
        add(tmp_path, [name], **in_lake)
    with pytest.raises(OptionError, match="is removed, and matches it"):
        resync(tmp_path, [name], **in_lake)
    add(tmp_path, [f"{DATABASE}.ch*"], **in_lake)
    assert states(lake)[name] == "resync"
    lake.catch_up()
    assert states(lake) == {name: "mirrored", other: "mirrored"}
    assert lake.equals_source(name) == [name]

    remove(tmp_path, [name], **in_lake)
    lake.catch_up()
    notes: list[str] = []
    add(tmp_path, [f"{DATABASE}.chos*"], note=notes.append, **in_lake)
    assert notes == [f"{name} stays removed; to follow it again, add {name!r}"]
    lake.catch_up()
    assert states(lake) == {name: "removed", other: "mirrored"}
    assert quarantined(lake) == {}

    # the server drops one table while it is removed, and another one before
    server.execute(f"DROP TABLE {name}, {other}")
    lake.catch_up()
    remove(tmp_path, [other], **in_lake)
    add(tmp_path, [name, other], **in_lake)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {name: "gone", other: "gone"}
    server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    lake.catch_up()
    assert lake.equals_source(name) == [name]


def test_on_alter_resync(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path, "altered", on_alter="resync")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "UPDATE altered SET v = 5 WHERE id = 1",
            "ALTER TABLE altered MODIFY v VARCHAR(20), ADD more INT NOT NULL DEFAULT 7",
            "UPDATE altered SET v = 'text' WHERE id = 2",
        )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert any("the table is copied again" in note for note in lake.notes)
    assert lake.equals_source(f"{DATABASE}.altered")
    server.execute(f"ALTER TABLE {DATABASE}.altered MODIFY more BIGINT UNSIGNED NOT NULL")
    stopped: Mirror = lake.mirror(watch=lambda _progress: stopped.stop())
    try:  # the copy ends before its first chunk is read
        stopped.run(once=False)
    finally:
        stopped.close()
    lake.catch_up()
    assert lake.equals_source(f"{DATABASE}.altered")


def test_a_table_that_the_server_drops_or_renames_after_a_refused_alter(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """It cannot be copied again; the later statement has the effect that it has on other tables."""
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.left_*",), on_alter="resync",
        soft_delete_tables=("*.left_dropped",),
    )  # fmt: skip
    names = ("left_dropped", "left_moved")
    with server.session(DATABASE) as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v BIGINT)",
                f"INSERT INTO {name} VALUES (1, 1), (2, 2)",
            )
        lake.catch_up()
        for name in names:
            session.execute(
                f"UPDATE {name} SET v = 5 WHERE id = 1",
                f"ALTER TABLE {name} MODIFY v VARCHAR(20)",
                f"UPDATE {name} SET v = 'text' WHERE id = 2",
            )
        session.execute("DROP TABLE left_dropped", "RENAME TABLE left_moved TO moved_away")
    lake.catch_up()
    assert quarantined(lake) == {}
    reasons = {name.partition("_")[2]: reason for name, reason in gone(lake).items()}
    assert reasons["dropped"].startswith("dropped at ")
    assert reasons["moved"].startswith(f"renamed away to {DATABASE}.moved_away at ")
    rows = lake.table(f"{DATABASE}.left_dropped").sort_by("id")
    assert rows["v"].to_pylist() == [5, 2]
    assert rows["_deleted_at"].null_count == 0
    assert sorted(lake.table(f"{DATABASE}.left_moved")["v"].to_pylist()) == [2, 5]


def test_a_table_that_the_server_drops_before_the_archive_has_the_statement(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The mirror reads the refused ALTER in an archive, and asks the server, which no longer has the table."""
    lake = lake_of(
        server, iceberg_spark, tmp_path / "lake", "archived_late",
        on_alter="resync", soft_delete_tables=("*.archived_late",),
    )  # fmt: skip
    name, kept = f"{DATABASE}.archived_late", tmp_path / "archive"

    def archived() -> str:
        done = archive(url_of(server), kept)
        assert done.returncode == 0, done.stderr
        [folder] = (path for path in kept.iterdir() if path.is_dir())
        return str(folder)

    lake.catch_up(archived())
    server.execute(f"ALTER TABLE {name} MODIFY v VARCHAR(20)")
    logs = archived()
    server.execute(f"DROP TABLE {name}")
    notes: list[str] = []

    def note(sentence: str) -> None:
        notes.append(sentence)
        if "its copy waits: the archive reaches" in sentence:
            archived()

    lake.catch_up(logs, note=note)
    assert any("its copy waits: the archive reaches" in sentence for sentence in notes), notes
    assert quarantined(lake) == {}
    assert gone(lake)[name].startswith("dropped at ")
    assert lake.table(name)["_deleted_at"].null_count == 0


def test_a_start_with_other_types_than_those_of_the_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A forgotten --zero-date quarantined the table at its next change, and the right option did not help any more."""
    name = f"{DATABASE}.dates"
    server.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, d DATE, at TIMESTAMP(3) NULL)",
        f"INSERT INTO {name} VALUES (1, '2026-11-28', NULL)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=(name,), zero_date="text")
    lake.catch_up()
    server.execute(f"INSERT INTO {name} VALUES (2, '2026-11-29', '2026-11-29 12:00:00.5')")
    right = lake.options
    lake.options = replace(right, zero_date="null")
    with pytest.raises(OptionError, match="start with the same options, or run") as refused:
        lake.catch_up()
    assert refused.value.name == "zero_date"
    assert quarantined(lake) == {}
    lake.options = replace(right, deletes="position")
    lake.catch_up()
    assert any("keep the deletes of their first copy" in note for note in lake.notes)
    assert lake.table(name).sort_by("id")["d"].to_pylist() == ["2026-11-28", "2026-11-29"]

    resync(tmp_path, [name], spark=iceberg_spark, catalog=lake.catalog)
    lake.options = replace(right, zero_date="null", deletes="position")
    lake.catch_up()
    assert lake.equals_source(name) == [name]


def test_on_other_writer_reindex(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The other program rewrites the rows, as a compaction does, before a start and during a run."""
    lake = lake_of(server, iceberg_spark, tmp_path, "shared", on_other_writer="reindex")
    lake.catch_up()
    table = f"{lake.catalog}.{DATABASE}.shared"
    iceberg_spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    server.execute(f"UPDATE {DATABASE}.shared SET v = 9 WHERE id = 1")
    lake.catch_up()
    assert lake.equals_source(f"{DATABASE}.shared")
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        iceberg_spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
        server.execute(
            f"UPDATE {DATABASE}.shared SET v = 10 WHERE id < 3",
            f"DELETE FROM {DATABASE}.shared WHERE id = 3",
        )
        mirror.run(once=True)
    finally:
        mirror.close()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.shared")


def test_on_other_writer_reindex_before_statements(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The next event of each table is DDL: the commit of the statement finds the other program's."""
    names = [f"beside_{what}" for what in ("altered", "emptied", "softened", "past")]
    for name in names:
        lake = lake_of(
            server, iceberg_spark, tmp_path, name,
            soft_delete_tables=(f"{DATABASE}.beside_softened",),
            history_tables=(f"{DATABASE}.beside_past",), on_other_writer="reindex",
        )  # fmt: skip
    lake.options = replace(lake.options, tables=(f"{DATABASE}.beside_*",))
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        for name in names:
            table = f"{lake.catalog}.{DATABASE}.{name}"
            iceberg_spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
        emptied = f"{lake.catalog}.{DATABASE}.beside_emptied"
        newest = f"SELECT snapshot_id FROM {emptied}.refs WHERE name = 'main'"
        [[overwritten]] = iceberg_spark.sql(newest).collect()
        with server.session(DATABASE) as session:
            session.execute(
                "ALTER TABLE beside_altered ADD w INT FIRST",
                "INSERT INTO beside_altered VALUES (4, 4, 4)",
                "TRUNCATE TABLE beside_emptied",
                "INSERT INTO beside_emptied VALUES (5, 5)",
                "DROP TABLE beside_softened, beside_past",
            )
        mirror.reach()  # `run` would open the tables again
    finally:
        mirror.close()
    assert quarantined(lake) == {}
    assert gone(lake).keys() == {f"{DATABASE}.beside_softened", f"{DATABASE}.beside_past"}
    for name in ("beside_altered", "beside_emptied"):
        assert lake.equals_source(f"{DATABASE}.{name}")
    assert lake.table(f"{DATABASE}.beside_softened")["_deleted_at"].null_count == 0
    assert lake.table(f"{DATABASE}.beside_past")["_valid_to"].null_count == 0
    tags = f"SELECT snapshot_id FROM {emptied}.refs WHERE name LIKE 'before-truncate-%'"
    assert [tuple(row) for row in iceberg_spark.sql(tags).collect()] == [(overwritten,)]


def test_on_other_writer_reindex_after_many_commits_and_an_expiry(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The metadata and the data files that the mirror knows are gone; a history reads rows of the lake before it commits."""
    names = ("often_same", "often_past")
    for name in names:
        lake = lake_of(
            server, iceberg_spark, tmp_path, name,
            history_tables=(f"{DATABASE}.often_past",), on_other_writer="reindex",
        )  # fmt: skip
    lake.options = replace(lake.options, tables=(f"{DATABASE}.often_*",))
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        for name in names:
            table = f"{lake.catalog}.{DATABASE}.{name}"
            theirs = IcebergLake(iceberg_spark, lake.catalog).load(DATABASE, name)
            for number in range(25):  # versions of the metadata
                theirs.set_properties({"theirs": str(number)})
            for _ in range(2):  # the files of a snapshot go with the one that has replaced them
                iceberg_spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
            theirs.refresh()
            theirs.expire(int(time.time() * 1000) + 60_000, 1, 1)
            server.execute(f"UPDATE {DATABASE}.{name} SET v = v + 10 WHERE id < 3")
        mirror.reach()  # `run` would open the tables again
    finally:
        mirror.close()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.often_same")
    past = lake.table(f"{DATABASE}.often_past").sort_by([("id", "ascending"), ("v", "ascending")])
    found = zip(past["v"].to_pylist(), past["_valid_to"].is_null().to_pylist(), strict=True)
    assert list(found) == [(1, False), (11, True), (2, False), (12, True), (3, True)]


def test_on_statement(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = lake_of(server, iceberg_spark, tmp_path / "strict", "said")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "UPDATE said SET v = 4 WHERE id = 1",
            "SET SESSION binlog_format = 'STATEMENT'",
            "UPDATE said AS s SET v = 5 WHERE id = 2",  # binlake is not certain about an alias
            "SET SESSION binlog_format = 'ROW'",
            "UPDATE said SET v = 6 WHERE id = 3",
        )
    for _ in range(2):  # it does not get past it
        with pytest.raises(IncompleteError, match="changes that are not in row events"):
            lake.catch_up()
    assert values(lake, "said") == [1, 2, 3]
    ignoring = Lake(
        iceberg_spark,
        tmp_path / "strict",
        server,
        tables=(f"{DATABASE}.said",),
        on_statement="ignore",
    )
    ignoring.catch_up()
    assert values(ignoring, "said") == [4, 2, 6]


def values(lake: Lake, table: str) -> Any:
    return lake.table(f"{DATABASE}.{table}").sort_by("id")["v"].to_pylist()


def test_on_cascade(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (10, 1), (20, 2)",
            "CREATE TABLE late (id INT PRIMARY KEY, p INT)",
            "INSERT INTO late VALUES (10, 1), (20, 2)",
        )
    tables = tuple(f"{DATABASE}.{name}" for name in ("parent", "child", "late"))
    strict = Lake(iceberg_spark, tmp_path / "strict", server, tables=tables)
    strict.catch_up()
    ignoring = Lake(iceberg_spark, tmp_path / "ignore", server, tables=tables, on_cascade="ignore")
    ignoring.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "ALTER TABLE late ADD w INT NULL, ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE",
            "DELETE FROM parent WHERE id = 1",
            "INSERT INTO child VALUES (21, 2)",
            "INSERT INTO late VALUES (21, 2, 3)",
        )
    strict.catch_up()
    ignoring.catch_up()
    assert quarantined(ignoring) == {}
    child, late = (
        sorted(ignoring.table(f"{DATABASE}.{name}")["id"].to_pylist()) for name in ("child", "late")
    )
    assert child == late
    if server.name == "mysql-9.7":  # the only server here that logs what a foreign key deletes
        assert quarantined(strict) == {}
        for name in tables:
            assert strict.equals_source(name) == [name]
        assert child == [20, 21]
    else:
        reasons = quarantined(strict)
        assert "does not log the rows that foreign key" in reasons[f"{DATABASE}.child"]
        assert "a foreign key is added that changes rows" in reasons[f"{DATABASE}.late"]
        assert child == [10, 20, 21]


def test_logs_of_an_archive(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The changes come from the archive, although the server has purged them."""
    lake = lake_of(server, iceberg_spark, tmp_path / "lake", "archived")
    url, kept = url_of(server), tmp_path / "archive"

    def archived() -> str:
        done = archive(url, kept)
        assert done.returncode == 0, done.stderr
        [folder] = (path for path in kept.iterdir() if path.is_dir())
        return str(folder)

    lake.catch_up(archived())
    server.execute(f"UPDATE {DATABASE}.archived SET v = 7 WHERE id = 1", "FLUSH BINARY LOGS")
    server.execute(f"INSERT INTO {DATABASE}.archived VALUES (4, 4)")
    logs = archived()
    server.execute("FLUSH BINARY LOGS")
    server.execute(f"PURGE BINARY LOGS TO '{server.position()[0]}'")
    lake.catch_up(logs)
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.archived")
    assert pc.sum(lake.table(f"{DATABASE}.archived")["v"]).as_py() == 7 + 2 + 3 + 4

    newer = tmp_path / "newer"
    newer.mkdir()
    server.execute(f"UPDATE {DATABASE}.archived SET v = 8", "FLUSH BINARY LOGS")
    copy(server.log_files()[-1], newer)
    with pytest.raises(PositionLostError) as lost:
        lake.catch_up(str(newer))
    assert "read an archive that has the log from the mirror's position on (--logs)" in str(
        lost.value
    )
    assert "checkpoint" not in str(lost.value)


def test_a_new_table_does_not_hide_that_the_log_was_purged(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The mirror ends before it copies the new table: with another log, it could go on with the tables that it has."""
    with server.session(DATABASE) as session:
        for table in ("known_a", "known_b"):
            session.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=(f"{DATABASE}.known_*",))
    lake.catch_up()
    kept = tmp_path / "archive"
    archive(url_of(server), kept)
    server.execute(f"INSERT INTO {DATABASE}.known_a VALUES (1)")
    server.execute(f"CREATE TABLE {DATABASE}.known_new (id INT PRIMARY KEY)")
    server.execute("FLUSH BINARY LOGS")
    archive(url_of(server), kept)
    server.purge_before(server.position()[0])
    with pytest.raises(PositionLostError):
        lake.catch_up()
    assert quarantined(lake) == {}
    shown = status(lake.folder, spark=lake.spark, catalog=lake.catalog)
    assert [table.table for table in shown.tables] == [f"{DATABASE}.known_{x}" for x in "ab"]
    [logs] = (path for path in kept.iterdir() if path.is_dir())
    lake.catch_up(str(logs))
    lake.catch_up()
    assert quarantined(lake) == {}
    names = [f"{DATABASE}.known_{name}" for name in ("a", "b", "new")]
    assert lake.equals_source(f"{DATABASE}.known_*") == names


def test_a_damaged_log_stops_the_mirror(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """No table is quarantined for an error that is not its own: an intact copy of the log is enough to continue."""
    with server.session(DATABASE) as session:
        for table in ("damaged_a", "damaged_b"):
            session.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20))")
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=(f"{DATABASE}.damaged_*",))
    kept = tmp_path / "archive"

    def archived() -> Path:
        archive(url_of(server), kept)
        [folder] = (path for path in kept.iterdir() if path.is_dir())
        return folder

    lake.catch_up(str(archived()))
    server.execute(
        f"INSERT INTO {DATABASE}.damaged_a VALUES (1, 'before')",
        f"INSERT INTO {DATABASE}.damaged_b VALUES (1, 'an intact text')",
        "FLUSH BINARY LOGS",
    )
    logs = archived()
    [log] = [file for file in logs.iterdir() if b"an intact text" in file.read_bytes()]
    intact = log.read_bytes()
    log.write_bytes(intact.replace(b"an intact text", b"a damaged text"))
    with pytest.raises(ChecksumError) as raised:
        lake.catch_up(str(logs))
    assert "resync LAKE '*.*'" in str(raised.value)
    assert "on_error" not in str(raised.value)
    assert quarantined(lake) == {}
    log.write_bytes(intact)
    lake.catch_up(str(logs))
    assert lake.equals_source(f"{DATABASE}.damaged_*") == [
        f"{DATABASE}.damaged_a",
        f"{DATABASE}.damaged_b",
    ]


def test_a_table_that_a_user_sets_back(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The changes after the older snapshot are not in the part of the log that the mirror still has to read."""
    lake = lake_of(server, iceberg_spark, tmp_path, "set_back", on_other_writer="reindex")
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        server.execute(f"UPDATE {DATABASE}.set_back SET v = v + 1")
        mirror.reach()
        table = f"{DATABASE}.set_back"
        snapshots = (
            f"SELECT snapshot_id FROM {lake.catalog}.{table}.snapshots ORDER BY committed_at"
        )
        first = iceberg_spark.sql(snapshots).first()[0]
        iceberg_spark.sql(f"CALL {lake.catalog}.system.rollback_to_snapshot('{table}', {first})")
        server.execute(f"INSERT INTO {table} VALUES (99, 99)")
        mirror.reach()
    finally:
        mirror.close()
    [why] = quarantined(lake).values()
    assert "another program has set the table back to" in why
    resync(lake.folder, [table], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert lake.equals_source(table)
