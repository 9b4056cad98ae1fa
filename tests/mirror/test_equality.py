"""`verify`: a lake that equals its source while writes go on, and each difference that it has."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError, SourceError
from binlake.mirror import verify
from binlake.mirror.verification import compare_tables
from dev.servers import Server
from support.servers.live import url_of
from support.spark.mirrored import Lake, Writer, iceberg_jar
from support.spark.spark_processes import environment

pytestmark = [pytest.mark.server, pytest.mark.lakes]

UNLOGGED = "SET SESSION sql_log_bin = 0"
#: What happens to each table after the snapshot began, and before its definition is read.
DDL = {
    "added": "ALTER TABLE {0} ADD COLUMN n INT NULL",
    "widened": "ALTER TABLE {0} MODIFY v BIGINT",
    "renamed": "ALTER TABLE {0} CHANGE v number INT NOT NULL",
    "turned": "ALTER TABLE {0} CHANGE v w INT NOT NULL, CHANGE w v INT NOT NULL",
    "exchanged": "RENAME TABLE {0} TO beside.aside, beside.taken TO {0}, beside.aside TO beside.taken",
    "taken": "DO 1",
    "emptied": "TRUNCATE {0}",
    "dropped": "DROP TABLE {0}",
    "untouched": "DO 1",
}
#: Each attempt sees one of these, up to as many as there are: the last one is compared.
AGAIN_AND_AGAIN = 3


@pytest.fixture
def shop(server: Server) -> Any:
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20)) CHARACTER SET utf8mb4",
            "CREATE TABLE keyless (v INT, t VARCHAR(20)) CHARACTER SET utf8mb4",
        )
        rows = ", ".join(f"({i}, {i % 7}, 'row {i}')" for i in range(2000))
        session.execute(f"INSERT INTO keyed VALUES {rows}")
    yield server
    server.execute("DROP DATABASE shop")


def test_equal_during_writes_and_after_each_fault(
    shop: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    lake = Lake(iceberg_spark, tmp_path, shop, tables=("shop.*",))
    with Writer(shop, random.Random(3)):
        lake.catch_up()
        found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert [(t.table, t.state, t.differences) for t in found.tables] == [
        ("shop.keyed", "equal", ()),
        ("shop.keyless", "equal", ()),
    ]
    assert found.tables[0].source_rows == found.tables[0].lake_rows > 1000
    # the log does not have these changes, so the lake cannot
    with shop.session("shop") as session:
        session.execute(
            "REPLACE INTO keyed VALUES (5001, 1, 'a'), (5002, 2, 'b'), (5003, 3, 'c')",
            UNLOGGED,
            "UPDATE keyed SET t = 'B' WHERE id = 5002",
            "DELETE FROM keyed WHERE id = 5003",
            "INSERT INTO keyed VALUES (5004, 4, 'd')",
            "INSERT INTO keyless VALUES (77, 'only here')",
        )
    found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    keyed, keyless = found.tables
    assert sorted((one.kind, one.key, one.columns) for one in keyed.differences) == [
        ("changed", (("id", "5002"),), ("t",)),
        ("extra", (("id", "5003"),), ()),
        ("missing", (("id", "5004"),), ()),
    ]
    assert [one.kind for one in keyless.differences] == ["missing"]
    assert not found.is_equal
    with pytest.raises(OptionError, match=r"no table shop\.other"):
        verify(tmp_path, ["shop.other"], spark=iceberg_spark, catalog=lake.catalog)


def test_texts_of_other_character_sets_and_values_that_cannot_be_read(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Rows are read in the character sets of their columns, and an error for one table leaves the session to the others."""
    columns = "id INT PRIMARY KEY, v INT, d DATE, t VARCHAR(9) CHARACTER SET latin1"
    server.execute("CREATE DATABASE texts")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("texts.*",), zero_date="error")
    with server.session("texts") as session:
        session.execute("SET SESSION sql_mode = ''", "SET NAMES utf8mb4")
        for name in ("a", "b", "c"):
            session.execute(
                f"CREATE TABLE {name} ({columns}, h VARCHAR(9) CHARACTER SET hebrew)",
                f"INSERT INTO {name} VALUES (1, 1, '2026-01-01', 'é', 'א'), (2, 2, NULL, 'ü', 'ב')",
            )
        lake.catch_up()
        session.execute(
            UNLOGGED,
            "UPDATE a SET d = '0000-00-00' WHERE id = 1",
            "UPDATE b SET v = 3 WHERE id = 2",
        )
    a, b, c = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
    assert (a.state, "column texts.a.d" in a.reason) == ("not compared", True), a
    assert [(one.kind, one.columns) for one in b.differences] == [("changed", ("v",))]
    assert c.state == "equal", c
    server.execute("DROP DATABASE texts")


def test_names_and_keys_that_the_comparison_itself_could_use(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The server groups by a column rather than by a part of the same name. A key may come later, of columns that the lake lacks."""
    server.execute("CREATE DATABASE hidden")
    names = ("part", "slot", "digest", "1")
    with server.session("hidden") as session:
        for name in names:
            session.execute(
                f"CREATE TABLE `t_{name}` (id INT PRIMARY KEY, `{name}` INT NOT NULL)",
                f"INSERT INTO `t_{name}` VALUES (1, 7), (2, 7), (3, 7), (4, 7), (5, 7), (6, 7), (7, 7), (8, 7)",
            )
        session.execute(
            "CREATE TABLE keyed_later (a INT, secret INT NOT NULL)",
            "INSERT INTO keyed_later VALUES (1, 1), (2, 2)",
        )
        lake = Lake(
            iceberg_spark, tmp_path, server, tables=("hidden.*",), exclude_columns=("*.*.secret",)
        )
        lake.catch_up()
        session.execute("CREATE UNIQUE INDEX u ON keyed_later (secret)")
        lake.catch_up()
        found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        assert found.is_equal
        assert [t.source_rows for t in found.tables] == [2, *[8] * len(names)]
        session.execute(UNLOGGED, "UPDATE keyed_later SET a = 3 WHERE secret = 2")
        for name in names:
            session.execute(f"INSERT INTO `t_{name}` VALUES (9, 7)")
    later, *others = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
    assert sorted(one.kind for one in later.differences) == ["extra", "missing"]
    for table in others:
        assert [(one.kind, one.key) for one in table.differences] == [("missing", (("id", "9"),))]
    server.execute("DROP DATABASE hidden")


def test_one_mirror_at_a_time(shop: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    lake = Lake(iceberg_spark, tmp_path, shop, tables=("shop.*",))
    running = lake.mirror()
    try:
        with pytest.raises(SourceError, match="another process mirrors"):
            lake.catch_up()
    finally:
        running.close()
    lake.catch_up()


def test_the_command(shop: Server, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "binlake_program", "mirror", *words]
        command += ["--master", "local[1]", "--iceberg-jar", str(iceberg_jar())]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment()
        )

    nothing = run("verify", str(tmp_path))
    assert (nothing.returncode, "no mirror" in nothing.stderr) == (2, True)
    assert run(url_of(shop), str(tmp_path), "--table", "shop.keyed", "--once").returncode == 0
    done = run("verify", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["shop.keyed", "equal"]
    refused = run("resync", str(tmp_path), "shop.kyed")
    assert (refused.returncode, "did you mean shop.keyed?" in refused.stderr) == (2, True)
    with shop.session("shop") as session:
        session.execute(UNLOGGED, "UPDATE keyed SET v = 99 WHERE id = 7")
    done = run("verify", str(tmp_path), "shop.keyed", "--json")
    assert done.returncode == 1, done.stderr
    [table] = json.loads(done.stdout)["tables"]
    assert (table["state"], table["differing_parts"]) == ("different", 1)
    [difference] = table["differences"]
    assert difference["columns"] == ["v"]


def test_the_command_names_a_value_that_another_program_has_changed(
    shop: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """With `reindex`, so that the table is compared: by default the mirror quarantines it."""
    lake = Lake(iceberg_spark, tmp_path, shop, tables=("shop.keyed",), on_other_writer="reindex")
    lake.catch_up()
    iceberg_spark.sql(f"UPDATE {lake.catalog}.shop.keyed SET t = 'other' WHERE id = 4")
    done = subprocess.run(
        [sys.executable, "-m", "binlake_program", "mirror", "verify", str(tmp_path), "--master", "local[1]",
         "--iceberg-jar", str(iceberg_jar())],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    table, *differences = done.stdout.splitlines()
    assert table.split()[:2] == ["shop.keyed", "different"]
    assert [line.strip() for line in differences] == ["changed (id=4) t"]


def test_altered_tables_are_compared_later(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE beside")
    for name in (*DDL, "busy"):
        server.execute(
            f"CREATE TABLE beside.{name} (id INT NOT NULL PRIMARY KEY, v INT NOT NULL, w INT NOT NULL)",
            f"INSERT INTO beside.{name} VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)",
        )
    server.execute("DELETE FROM beside.taken WHERE id = 2")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("beside.*",))
    lake.catch_up()
    left = {f"comparing beside.{name}": ddl.format(f"beside.{name}") for name, ddl in DDL.items()}
    alters = [
        f"ALTER TABLE beside.busy ADD COLUMN n{number} INT NULL"
        for number in range(AGAIN_AND_AGAIN)
    ]

    def meanwhile(note: str) -> None:
        if note in left:
            server.execute(left.pop(note))
        if note == "comparing beside.busy" and alters:
            server.execute(alters.pop())

    found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog, note=meanwhile)
    assert (left, alters) == ({}, []), found.tables
    states = {table.table.partition(".")[2]: table.state for table in found.tables}
    assert states == dict.fromkeys(DDL.keys() - {"dropped"} | {"busy"}, "equal"), found.tables
    moments = {table.table: (table.log_file, table.log_pos) for table in found.tables}
    first = (found.log_file, found.log_pos)
    assert moments["beside.untouched"] == first
    for name in ("widened", "turned", "exchanged", "taken"):
        assert moments[f"beside.{name}"] > first
    assert moments["beside.busy"] > moments["beside.widened"]
    asked = verify(tmp_path, ["beside.dropped"], spark=iceberg_spark, catalog=lake.catalog)
    assert [table.state for table in asked.tables] == ["not compared"]
    server.execute("DROP DATABASE beside")


def test_a_table_can_be_altered_while_a_large_one_is_compared(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A session that had read both would hold up the ALTER, and all statements after it, for hours."""
    server.execute(
        "CREATE DATABASE held",
        "CREATE TABLE held.early (id INT PRIMARY KEY)",
        "CREATE TABLE held.large (id INT PRIMARY KEY)",
        "INSERT INTO held.early VALUES (1)",
        "INSERT INTO held.large VALUES (0)",
        *(f"INSERT INTO held.large SELECT id + {1 << bit} FROM held.large" for bit in range(16)),
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("held.*",))
    mirror = lake.mirror()
    mirror.run(once=True)
    compared: list[str] = []

    def alter(table: str) -> None:
        compared.append(table)
        if table == "held.large":
            with server.session("held") as session:
                session.execute(
                    "SET SESSION lock_wait_timeout = 5", "ALTER TABLE early ADD COLUMN n INT"
                )

    try:
        found = compare_tables(mirror, progress=alter, session_s=600)
    finally:
        mirror.close()
    assert compared == ["held.early", "held.large"]
    assert {table.table: table.state for table in found.tables} == {
        "held.early": "equal",
        "held.large": "equal",
    }
    server.execute("DROP DATABASE held")


def test_a_table_that_the_server_reads_too_slowly_leaves_the_others_to_be_compared(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The session with the snapshot is lost; the others are compared in a new one."""
    server.execute("CREATE DATABASE slow")
    for name in ("early", "locked", "other"):
        server.execute(
            f"CREATE TABLE slow.{name} (id INT PRIMARY KEY)", f"INSERT INTO slow.{name} VALUES (1)"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("slow.*",))
    lake.url = url_of(server, read_timeout="2")
    mirror = lake.mirror()
    mirror.run(once=True)
    with server.session("slow") as holder:
        holder.execute("LOCK TABLES locked WRITE")
        found = compare_tables(mirror)
    mirror.close()
    assert {table.table: table.state for table in found.tables} == {
        "slow.early": "equal",
        "slow.locked": "not compared",
        "slow.other": "equal",
    }
    server.execute("DROP DATABASE slow")
