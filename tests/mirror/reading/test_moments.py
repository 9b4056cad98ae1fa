"""All tables of a lake as of one moment of the server: by round, by name, after later changes and expiry."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError, SourceError
from binlake.mirror import drop_moment, history, name_moment, tables_at, views_at
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.lakes import open_lake
from binlake.mirror.moments import Moment
from dev.servers import Server
from support.spark.mirrored import Lake, rows_of

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
    with pytest.raises(OptionError, match="b has a tag others"):
        name_moment(lake.folder, "others", spark=lake.spark, catalog=lake.catalog)
    # a name that a part of the tables have, as after a kill
    made = name_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    tables.load("moments", "b").drop_tag("part")
    again = name_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    assert again == made
    assert "part" in tables.load("moments", "b").tags()
    drop_moment(lake.folder, "part", spark=lake.spark, catalog=lake.catalog)
    assert "part" not in tables.load("moments", "b").tags()
