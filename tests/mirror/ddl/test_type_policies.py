"""The outcomes for a column whose type changes: --on-alter text, --on-alter new-column."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import status
from binlake.mirror.verification import verify_tables
from dev.alterations import RETYPED
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "retyped"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def report(lake: Lake, name: str) -> Any:
    found = status(lake.folder, spark=lake.spark, catalog=lake.catalog)
    return next(table for table in found.tables if table.table == name)


#: Where the text is not that of CAST(… AS CHAR).
SHOWN = {
    "raw": "LOWER(HEX(raw))",
    # a FLOAT whose value needs more than the six digits of CAST
    "twice": "IF(twice > 1000, '123456.79', CAST(twice AS CHAR))",
}


def test_text(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Columns whose types change are text from then on, through kills and more changes."""
    name, names = f"{DATABASE}.texts", list(RETYPED)
    columns = ", ".join(f"{column} {one.before}" for column, one in RETYPED.items())
    first = ", ".join(one.value for one in RETYPED.values())
    later = ", ".join(one.later for one in RETYPED.values())
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
        session.execute(
            f"CREATE TABLE texts (id INT PRIMARY KEY, same BIGINT, {columns})",
            f"INSERT INTO texts VALUES (1, 1, {first}), (2, 2, {first})",
            "INSERT INTO texts (id) VALUES (3)",
            "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
            "INSERT INTO other VALUES (1, 1)",
        )
        lake = Lake(
            iceberg_spark,
            tmp_path,
            server,
            tables=(f"{DATABASE}.*",),
            on_alter_tables=(f"{DATABASE}.t*=text",),
        )
        lake.catch_up()
        modified = ", ".join(f"MODIFY {column} {one.after}" for column, one in RETYPED.items())
        session.execute(
            "UPDATE texts SET same = 20 WHERE id = 2",
            f"ALTER TABLE texts {modified}",
            f"INSERT INTO texts VALUES (4, 4, {later})",
            "UPDATE texts SET whole = '007' WHERE id = 1",
            "ALTER TABLE other MODIFY v VARCHAR(9)",
        )
        for kill in (Kill("tasks of a copy", 1, after=True), Kill("commit", 1, after=True)):
            assert killed(lake, kill) == -signal.SIGKILL, kill
        lake.catch_up()
        check_texts(lake, name, names)
        assert set(quarantined(lake)) == {f"{DATABASE}.other"}  # the rule is about the other table
        session.execute(
            "UPDATE texts SET exact = 8.125, single = 0.25 WHERE id = 2",
            "DELETE FROM texts WHERE id = 4",
            # a change of a column that is text needs no more, unless it changes values
            "ALTER TABLE texts MODIFY word BIGINT UNSIGNED DEFAULT 1, CHANGE exact precise DECIMAL(20,3),"
            " MODIFY bits BIGINT, DROP year, ADD year INT DEFAULT 3",
            "INSERT INTO texts (id, word, precise) VALUES (5, 5, 123456789.125)",
            "ALTER TABLE texts MODIFY whole VARCHAR(300), MODIFY day DATE",
            "INSERT INTO texts (id, day) VALUES (6, '2027-01-01')",
        )
    lake.catch_up()
    del names[names.index("year")]
    names[names.index("exact")] = "precise"
    check_texts(lake, name, names)
    assert lake.table(name).schema.field("year").type == "int32"
    server.execute(f"DROP TABLE {DATABASE}.texts", f"DROP TABLE {DATABASE}.other")


def check_texts(lake: Lake, name: str, names: list[str]) -> None:
    """Verify the table, and compare its texts with those of the server."""
    mirror = lake.mirror()
    try:
        [found] = verify_tables(mirror, [name]).tables
    finally:
        mirror.close()
    assert (found.state, found.differences) == ("equal", ())
    assert sorted(report(lake, name).as_text) == sorted(names)
    rows = lake.table(name)
    assert {str(rows.schema.field(column).type) for column in names} == {"string"}
    here = {row["id"]: tuple(row[column] for column in names) for row in rows.to_pylist()}
    shown = ", ".join(SHOWN.get(column, f"CAST({column} AS CHAR)") for column in names)
    with lake.server.session(DATABASE) as session:
        session.execute("SET SESSION time_zone = '+00:00'")
        there = session.rows(f"SELECT id, {shown} FROM texts")
    assert here == {int(row[0] or 0): tuple(row[1:]) for row in there}


#: Ends of a process, one after the other, until a column has its earlier values beside it.
KILLS = (
    Kill("commit", 1, after=True),
    Kill("commit", 1, after=True),  # the column has its place, and no values yet
    Kill("tasks of a copy", 1, after=True),
    Kill("data file", 1, after=True),  # with the earlier values
)


@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_new_column(server: Server, iceberg_spark: Any, tmp_path: Path, deletes: str) -> None:
    """A column whose type changes is a new column, beside one with the earlier values, through kills and more changes."""
    name = f"{DATABASE}.columns"
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION sql_mode = ''",
            "CREATE TABLE columns (id INT, part VARCHAR(9) CHARACTER SET utf8mb4, c INT, d INT, PRIMARY KEY (id, part))",
            "INSERT INTO columns VALUES (1, 'a', 10, 1), (2, 'b', 20, 2), (3, 'c', NULL, 3), (4, 'd', 40, 4)",
        )
        lake = Lake(
            iceberg_spark,
            tmp_path,
            server,
            tables=(f"{DATABASE}.*",),
            on_alter="new-column",
            deletes=deletes,
        )
        lake.catch_up()
        session.execute(
            "UPDATE columns SET c = 21 WHERE id = 2",
            "ALTER TABLE columns MODIFY c VARCHAR(20) CHARACTER SET utf8mb4 FIRST, CHANGE d e INT",
            "UPDATE columns SET c = 'new' WHERE id = 1",
            "DELETE FROM columns WHERE id = 4",
            "INSERT INTO columns VALUES ('five', 5, 'e', 5)",
            "ALTER TABLE columns ADD more DATE DEFAULT '2020-01-01'",
        )
        for kill in KILLS:
            assert killed(lake, kill) == -signal.SIGKILL, kill
        lake.catch_up()
        check_kept(lake, name, {"c_before_1": {1: 10, 2: 21, 3: None, 5: None}})
        before = len(lake.notes)
        session.execute(
            "SET SESSION binlog_row_image = minimal",
            "UPDATE columns SET e = 50 WHERE id = 2",
            "UPDATE columns SET part = 'z' WHERE id = 3",
            "SET SESSION binlog_row_image = full",
            "DELETE FROM columns WHERE id = 1",
            "INSERT INTO columns VALUES ('one', 1, 'again', 1, NULL)",
            "ALTER TABLE columns ADD last INT AFTER id",
        )
        lake.catch_up()
        assert not [note for note in lake.notes[before:] if "copied again" in note]
        check_kept(lake, name, {"c_before_1": {1: None, 2: 21, 3: None, 5: None}})
        session.execute(
            "UPDATE columns SET c = '7'",
            "ALTER TABLE columns MODIFY c BIGINT",
            "INSERT INTO columns (id, part, c) VALUES (6, 'f', 6)",
            # copied again, although no type changes
            "ALTER TABLE columns ADD made DATETIME DEFAULT CURRENT_TIMESTAMP, MODIFY e BIGINT",
        )
        lake.catch_up()
        check_kept(
            lake,
            name,
            {
                "c_before_1": {1: None, 2: 21, 3: None, 5: None, 6: None},
                "c_before_2": {1: "7", 2: "7", 3: "7", 5: "7", 6: None},
            },
        )
        session.execute(
            "ALTER TABLE columns ADD C_BEFORE_1 INT",  # its name is taken: the mirror creates the lake table again
            "INSERT INTO columns (id, part, c) VALUES (7, 'g', 7)",
        )
    lake.catch_up()
    check_kept(lake, name, {})
    server.execute(f"DROP TABLE {name}")


def check_kept(lake: Lake, name: str, kept: dict[str, dict[int, Any]]) -> None:
    """Verify the table, and compare the earlier values, by the first column of the key."""
    assert quarantined(lake) == {}
    assert states(lake) == {name: "equal"}
    assert report(lake, name).kept == tuple(kept)
    rows = lake.table(name).to_pylist()
    for column, expected in kept.items():
        assert {row["id"]: row[column] for row in rows} == expected


def test_a_new_column_after_changes_that_the_copy_alone_can_make(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The lake's new type fits the statement when it is read again, the key changes, and another table takes the name."""
    name = f"{DATABASE}.wide"
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE wide (id INT, v INT UNSIGNED, PRIMARY KEY (id))",
            "INSERT INTO wide VALUES (1, 10), (2, 20)",
        )
        lake = Lake(
            iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), on_alter="new-column"
        )
        lake.catch_up()
        session.execute(
            "INSERT INTO wide VALUES (3, 30)",
            "ALTER TABLE wide MODIFY v BIGINT UNSIGNED",
            "INSERT INTO wide VALUES (4, 40)",
        )
        for kill in KILLS[:2]:
            assert killed(lake, kill) == -signal.SIGKILL, kill
        lake.catch_up()
        check_kept(lake, name, {"v_before_1": {1: 10, 2: 20, 3: 30, 4: None}})
        session.execute("DROP TABLE wide", "CREATE TABLE wide (id INT PRIMARY KEY, v INT)")
        session.execute("INSERT INTO wide VALUES (1, 5), (2, 6)")
        lake.catch_up()
        check_kept(lake, name, {})
        session.execute(
            "ALTER TABLE wide MODIFY v VARCHAR(9)",
            "ALTER TABLE wide DROP PRIMARY KEY",
            "INSERT INTO wide VALUES (1, 'x')",
        )
        lake.catch_up()
        check_kept(lake, name, {})
    server.execute(f"DROP TABLE {DATABASE}.wide")


def test_kept_values_of_a_key_that_gets_another_hash(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """They are found by the key, and the key of a FLOAT is another one than that of the DOUBLE: the mirror says that they go."""
    name = f"{DATABASE}.floats"
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE floats (f FLOAT PRIMARY KEY, id INT, v INT)",
            "INSERT INTO floats VALUES (1.5, 1, 10), (2.5, 2, 20)",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=(name,), on_alter="new-column")
        lake.catch_up()
        session.execute("ALTER TABLE floats MODIFY v VARCHAR(9)")
        lake.catch_up()
        check_kept(lake, name, {"v_before_1": {1: 10, 2: 20}})
        session.execute("ALTER TABLE floats MODIFY f DOUBLE")
        lake.catch_up()
        check_kept(lake, name, {})
        assert any("v_before_1" in note for note in lake.notes)
    server.execute(f"DROP TABLE {DATABASE}.floats")


def stop_at(lake: Lake, text: str) -> None:
    """Run a mirror, and stop it when it has printed a text; it must print nothing after that."""

    def note(printed: str) -> None:
        lake.notes.append(printed)
        if text in printed:
            mirror.stop()

    mirror = lake.mirror(note=note)
    try:
        mirror.run(once=True)
    finally:
        mirror.close()
    assert text in lake.notes[-1]


def test_a_stop_while_earlier_values_are_added_and_a_second_change(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The mirror says what it does, stops before it is done, and continues. A type that changes again meanwhile loses nothing."""
    name = f"{DATABASE}.again"
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION sql_mode = ''",
            "CREATE TABLE again (id INT PRIMARY KEY, c INT, d VARCHAR(9) CHARACTER SET utf8mb4)",
            "INSERT INTO again VALUES (1, 10, '1'), (2, 20, '2'), (3, NULL, NULL)",
        )
        lake = Lake(
            iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), on_alter="new-column"
        )
        lake.catch_up()
        session.execute(
            "ALTER TABLE again MODIFY c VARCHAR(20) CHARACTER SET utf8mb4, MODIFY d DATE",
            "INSERT INTO again VALUES (4, 'four', NULL)",
        )
        stop_at(lake, "adding c_before_1, d_before_1 to 4 rows")
        assert set(lake.table(name)["c"].to_pylist()) == {None}
        # c: a type that the column from before could also have been widened to; d: the type from before
        session.execute(
            "ALTER TABLE again MODIFY c BIGINT, MODIFY d VARCHAR(9) CHARACTER SET utf8mb4",
            "INSERT INTO again VALUES (5, 5, 'five')",
        )
    lake.catch_up()
    kept: dict[str, dict[int, Any]] = {
        "c_before_1": {1: 10, 2: 20, 3: None, 4: None, 5: None},
        "d_before_1": {1: "1", 2: "2", 3: None, 4: None, 5: None},
    }
    check_kept(lake, name, kept)
    assert [(one.chunks, one.rows) for one in lake.progress[-1:]] == [(1, 5)]
    server.execute(f"DROP TABLE {name}")


def test_a_change_of_type_after_a_stop_of_a_copy_that_adds_no_column(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """All columns have values while such a copy is not complete, so the next change of a type keeps them."""
    name = f"{DATABASE}.marked"
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION sql_mode = ''",
            "CREATE TABLE marked (id INT PRIMARY KEY, c INT, w BIGINT)",
            "INSERT INTO marked VALUES (1, 10, 100), (2, 20, NULL)",
        )
        lake = Lake(
            iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",), on_alter="new-column"
        )
        lake.catch_up()
        session.execute("ALTER TABLE marked MODIFY c VARCHAR(20) CHARACTER SET utf8mb4")
        lake.catch_up()
        session.execute(
            # copied again, because the server replaces NULL by 0
            "ALTER TABLE marked MODIFY w BIGINT NOT NULL",
            "INSERT INTO marked VALUES (3, 'three', 300)",
        )
        stop_at(lake, "adding c_before_1 to 3 rows")
        session.execute("ALTER TABLE marked MODIFY w VARCHAR(20) CHARACTER SET utf8mb4")
        lake.catch_up()
        kept: dict[str, dict[int, Any]] = {
            "c_before_1": {1: 10, 2: 20, 3: None},
            "w_before_1": {1: 100, 2: None, 3: None},
        }
        check_kept(lake, name, kept)
    server.execute(f"DROP TABLE {name}")
