"""All tables of a lake as of one moment of the server: by round, by name, after later changes and expiry."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError, SourceError
from binlake.mirror import (
    absent_tables,
    drop_moment,
    history,
    name_moment,
    resync,
    status,
    tables_at,
    views_at,
)
from binlake.mirror.control import Control
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.lakes import open_lake
from binlake.mirror.moments import Moment
from dev.servers import Server
from support.spark.mirrored import Lake, current_position, quarantined, recorded_position, rows_of

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11"),
]


def rows_at(lake: Lake, moment: str | int | None) -> dict[str, list[str]]:
    found = tables_at(lake.folder, moment, spark=lake.spark, catalog=lake.catalog)
    return {name: rows_of(frame.toArrow()) for name, frame in found.items()}


def of_now(lake: Lake, *names: str) -> dict[str, list[str]]:
    return {name: rows_of(lake.table(name)) for name in names}


def expired(lake: Lake, *names: str) -> None:
    """All snapshots are gone that have no tag and are not the newest."""
    tables = open_lake(lake.spark, lake.catalog, str(lake.folder))
    for name in names:
        namespace, _, table = name.partition(".")
        tables.load(namespace, table).expire(int(time.time() * 1000) + 60_000, 1, 1)


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_named_moments(
    server: Server, iceberg_spark: Any, tmp_path: Path, table_format: str
) -> None:
    server.execute(
        "CREATE DATABASE moments",
        "CREATE TABLE moments.a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE moments.b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO moments.a VALUES (1, 1), (2, 2)",
        "INSERT INTO moments.b VALUES (1, 1)",
    )
    names = ("moments.a", "moments.b")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("moments.*",), format=table_format)
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    lake.catch_up()
    first = of_now(lake, *names)
    [newest, *_] = history(tmp_path, **here)
    assert (newest.log_file, newest.log_pos) == server.position()
    assert set(newest.snapshots) == set(names)
    made = name_moment(tmp_path, "first", **here)
    assert (made.round, made.names) == (newest.round, ("first",))
    server.execute("UPDATE moments.a SET v = 10", "DELETE FROM moments.b")
    lake.catch_up()
    assert recorded_position(lake, names[0]) == current_position(server)
    assert recorded_position(lake, names[1]) == current_position(server)
    second = of_now(lake, *names)
    assert second != first
    assert rows_at(lake, "first") == first
    assert rows_at(lake, newest.round) == first
    assert rows_at(lake, None) == second
    with pytest.raises(OptionError, match=f"first is the name of round {newest.round}"):
        name_moment(tmp_path, "first", history(tmp_path, newest=1, **here)[0].round, **here)
    views = views_at(tmp_path, "first", **here)
    assert views == {"moments.a": "moments_a", "moments.b": "moments_b"}
    found = iceberg_spark.sql("SELECT sum(moments_a.v) FROM moments_a JOIN moments_b USING (id)")
    assert found.collect()[0][0] == 1
    server.execute("INSERT INTO moments.b VALUES (5, 5)", "INSERT INTO moments.a VALUES (5, 5)")
    lake.catch_up()
    if table_format == "iceberg":
        check_expiry(lake, newest, second, names)
    else:
        check_a_table_that_was_created_again(lake)
    assert [one.names for one in history(tmp_path, newest=1, **here)] == [(), ("first",)]
    drop_moment(tmp_path, "first", **here)
    with pytest.raises(OptionError, match="no moment is named first; names: none"):
        drop_moment(tmp_path, "first", **here)
    assert lake.equals_source("moments.*") == list(names)
    server.execute("DROP DATABASE moments")


def check_expiry(
    lake: Lake, named: Moment, unnamed: dict[str, list[str]], names: tuple[str, ...]
) -> None:
    """A round with a name outlives its age; one without has an error that says so."""
    [before] = [
        one.round
        for one in history(lake.folder, spark=lake.spark, catalog=lake.catalog)
        if rows_at(lake, one.round) == unnamed
    ][:1]
    first = rows_at(lake, "first")
    expired(lake, *names)
    assert rows_at(lake, "first") == first
    assert rows_at(lake, named.round) == first
    with pytest.raises(SourceError, match=f"round {before}: its snapshot of moments.a has expired"):
        tables_at(lake.folder, before, spark=lake.spark, catalog=lake.catalog)
    tables = IcebergLake(lake.spark, lake.catalog)
    tables.load("moments", "b").tag("others")
    with pytest.raises(OptionError, match="has a tag or branch main that the mirror did not"):
        name_moment(lake.folder, "main", spark=lake.spark, catalog=lake.catalog)
    with pytest.raises(OptionError, match="b has a tag or branch others"):
        name_moment(lake.folder, "others", spark=lake.spark, catalog=lake.catalog)
    # a name that a part of the tables have, as after a kill
    made = name_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    tables.load("moments", "b").drop_tag("part")
    again = name_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    assert again == made
    assert "part" in tables.load("moments", "b").tags()
    drop_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    assert "part" not in tables.load("moments", "b").tags()


def check_a_table_that_was_created_again(lake: Lake) -> None:
    """Its versions begin at 0 again: they are of other moments."""
    shutil.rmtree(lake.folder / "moments" / "b")
    lake.catch_up()
    with pytest.raises(SourceError, match=r"moments\.b has expired, or the lake table was created"):
        rows_at(lake, "first")
    assert rows_at(lake, None) == of_now(lake, "moments.a", "moments.b")


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")
def test_a_table_whose_name_in_the_lake_changes(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its versions, and the moments that have names, stay."""
    server.execute(
        "CREATE DATABASE former",
        "CREATE TABLE former.a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE former.b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO former.a VALUES (1, 1)",
        "INSERT INTO former.b VALUES (1, 1)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("former.*",), history_tables=("former.a",))
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    lake.catch_up()
    server.execute("UPDATE former.a SET v = 2")
    lake.catch_up()
    name_moment(tmp_path, "then", **here)
    then = rows_at(lake, "then")
    versions = rows_of(lake.table("former.a"))
    resync(tmp_path, ["former.*"], **here)
    lake.options = replace(lake.options, rename_tables=("former.*=bronze.{table}",))
    lake.catch_up()
    assert rows_of(lake.table("former.a")) == versions
    assert rows_at(lake, "then") == then
    [newest, *_] = history(tmp_path, newest=1, **here)
    assert newest.snapshots.keys() == {"bronze.a", "bronze.b"}
    assert absent_tables(tmp_path, newest, **here) == []
    found = {one.table: one.lake_table for one in status(tmp_path, **here).tables}
    assert found == {"former.a": "bronze.a", "former.b": "bronze.b"}

    server.execute("UPDATE former.a SET v = 3")
    lake.catch_up()
    assert rows_of(lake.table("former.a")) == versions, "the mirror does not change it any more"
    resync(tmp_path, ["former.*"], **here)
    lake.options = replace(lake.options, rename_tables=())
    lake.catch_up()
    assert rows_at(lake, "then") == then
    assert {one.lake_table for one in status(tmp_path, **here).tables} == {"former.a", "former.b"}
    drop_moment(tmp_path, "then", **here)
    server.execute("DROP DATABASE former")


# Delta's commits take seconds, whatever the server
DELTA = pytest.param(
    "delta", marks=pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")
)


@pytest.mark.parametrize("table_format", ["iceberg", DELTA])
def test_names_beside_a_running_mirror(
    server: Server, iceberg_spark: Any, tmp_path: Path, table_format: str
) -> None:
    """A name is no change of the tables: the mirror goes on, and quiet tables stay at the newest position."""
    server.execute(
        "CREATE DATABASE named",
        "CREATE TABLE named.busy (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE named.quiet (id INT PRIMARY KEY, v INT)",
        "INSERT INTO named.busy VALUES (1, 1)",
        "INSERT INTO named.quiet VALUES (1, 1)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("named.*",), format=table_format)
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    mirror = lake.mirror()
    try:
        mirror.run(once=True)
        server.execute("UPDATE named.busy SET v = 2")
        mirror.run(once=True)
        then = of_now(lake, "named.busy", "named.quiet")
        name_moment(tmp_path, "then", **here)
        places = {t.table: (t.log_file, t.log_pos) for t in status(tmp_path, **here).tables}
        assert set(places.values()) == {server.position()}
        server.execute("UPDATE named.busy SET v = 3", "UPDATE named.quiet SET v = 3")
        mirror.run(once=True)
        assert quarantined(lake) == {}
        assert rows_at(lake, "then") == then
        drop_moment(tmp_path, "then", **here)
        server.execute("UPDATE named.busy SET v = 4", "UPDATE named.quiet SET v = 4")
        mirror.run(once=True)
        assert quarantined(lake) == {}
    finally:
        mirror.close()
    assert lake.equals_source("named.*") == ["named.busy", "named.quiet"]
    server.execute("DROP DATABASE named")


def test_rounds_and_their_tables(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The time of a round does not depend on the session, names of two processes stay, absent tables have names."""
    server.execute(
        "CREATE DATABASE parted",
        "CREATE TABLE parted.a (id INT PRIMARY KEY)",
        "CREATE TABLE parted.b (id INT PRIMARY KEY)",
        "INSERT INTO parted.a VALUES (1)",
        "INSERT INTO parted.b VALUES (1)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("parted.*",))
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    lake.catch_up()
    server.execute("INSERT INTO parted.a VALUES (2)")
    lake.catch_up()
    zone = iceberg_spark.conf.get("spark.sql.session.timeZone")
    iceberg_spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        [whole] = history(tmp_path, newest=1, **here)
    finally:
        iceberg_spark.conf.set("spark.sql.session.timeZone", zone)
    assert whole.commit_time == status(tmp_path, **here).commit_time != ""
    assert absent_tables(tmp_path, whole, **here) == []
    with pytest.raises(SourceError, match="the lake has no round 0"):
        tables_at(tmp_path, 0, **here)
    one, other = (Control(IcebergLake(iceberg_spark, lake.catalog), None, None) for _ in range(2))
    one.name_moment("x", whole.round)
    other.name_moment("y", whole.round)
    assert set(other.moments) == {"x", "y"}
    one.forget_moment("x")
    one.refresh()
    assert set(one.moments) == {"y"}
    one.quarantine("parted.b", "for the test")
    one.quarantine("parted.never", "for the test")
    server.execute(
        "CREATE TABLE parted.never (id INT PRIMARY KEY)",
        "CREATE TABLE parted.late (id INT PRIMARY KEY)",
        "INSERT INTO parted.a VALUES (3)",
    )
    lake.catch_up()
    [part] = history(tmp_path, newest=1, **here)[:1]
    assert set(part.snapshots) == {"parted.a", "parted.late"}
    assert absent_tables(tmp_path, part, **here) == ["parted.b", "parted.never"]
    assert absent_tables(tmp_path, whole, **here) == ["parted.late", "parted.never"]
    server.execute("DROP DATABASE parted")


def test_a_lake_table_that_a_user_has_dropped(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The documentation recommends that for a table that is gone. The other tables of the moment stay."""
    server.execute(
        "CREATE DATABASE dropped",
        "CREATE TABLE dropped.kept (id INT PRIMARY KEY)",
        "CREATE TABLE dropped.old (id INT PRIMARY KEY)",
        "INSERT INTO dropped.kept VALUES (1)",
        "INSERT INTO dropped.old VALUES (1)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("dropped.*",))
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    lake.catch_up()
    made = name_moment(tmp_path, "then", **here)
    then = rows_at(lake, "then")
    assert list(then) == ["dropped.kept", "dropped.old"]
    server.execute("DROP TABLE dropped.old", "INSERT INTO dropped.kept VALUES (2)")
    lake.catch_up()
    assert rows_at(lake, "then") == then
    iceberg_spark.sql(f"DROP TABLE {lake.catalog}.dropped.old")
    assert rows_at(lake, "then") == {"dropped.kept": then["dropped.kept"]}
    assert views_at(tmp_path, "then", **here) == {"dropped.kept": "dropped_kept"}
    assert absent_tables(tmp_path, made, **here) == ["dropped.old"]
    assert name_moment(tmp_path, "then", **here) == made
    again = name_moment(tmp_path, "again", made.round, **here)
    assert again.names == ("again", "then")
    kept = IcebergLake(iceberg_spark, lake.catalog).load("dropped", "kept")
    assert {"again", "then"} <= set(kept.tags())
    drop_moment(tmp_path, "then", **here)
    server.execute("DROP DATABASE dropped")
