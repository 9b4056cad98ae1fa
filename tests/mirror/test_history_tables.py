"""Tables in the mode history: each change opens a version and closes one, whatever is killed."""

from __future__ import annotations

import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.main import main
from binlake.mirror import compact, status, verify
from dev.servers import Server, running
from mirror.killed_command import command, kill_once_committed
from mirror.killed_mirror import Kill, killed
from support.servers.live import url_of
from support.spark.lake_histories import check_history
from support.spark.lake_readers import by_duckdb, by_pyiceberg, by_spark
from support.spark.mirrored import Lake, Writer, gone, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

KILLS = [
    Kill("commit", 2, after=True),
    Kill("entry of the index", 2, after=False),
]
COLUMNS = "id, v, t, _valid_from, _valid_to, _op"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def states(lake: Lake) -> dict[str, str]:
    found = verify(lake.folder, spark=lake.spark, catalog=lake.catalog)
    return {table.table.partition(".")[2]: table.state for table in found.tables}


def test_each_change_is_a_version_through_kills(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    rng = random.Random(9)
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'a')" for i in range(2000)),
        )
    folder = tmp_path / "lake"
    folder.mkdir()
    options = {"tables": ("shop.keyed",), "history_tables": ("shop.*",)}
    lake = Lake(iceberg_spark, folder, server, **options, round_bytes=64 << 10)
    only = ("--history", "shop.*", "--exclude-table", "shop.keyless", "--round-bytes", "64k")
    with Writer(server, rng):
        kill_once_committed(command(server, lake, *only), lake, "shop/keyed")
        for kill in KILLS:
            assert killed(lake, kill) == -signal.SIGKILL, kill
    assert states(lake) == {"keyed": "equal"}
    assert lake.equals_source("shop.keyed")
    assert check_history(lake, "shop.keyed", ("id",))
    rows = lake.table("shop.keyed").to_pylist()
    versions = defaultdict(list)
    for row in sorted(rows, key=lambda row: tuple(row["_seq"].values())):
        versions[row["id"]].append((row["_valid_from"], row["_valid_to"]))
    for of in versions.values():
        assert all(to is not None and to <= begins for (_, to), (begins, _) in pairwise(of))
        assert all(to is None or begins <= to for begins, to in of)
    read = by_spark(iceberg_spark, "shop.keyed", COLUMNS, lake.catalog)
    assert by_pyiceberg(str(folder), "shop.keyed", "id, v, t, _op") == by_spark(
        iceberg_spark, "shop.keyed", "id, v, t, _op", lake.catalog
    )
    compact(folder, ["shop.keyed"], spark=iceberg_spark, catalog=lake.catalog)
    assert by_spark(iceberg_spark, "shop.keyed", COLUMNS, lake.catalog) == read
    assert [row[:3] for row in by_duckdb(str(folder), "shop.keyed", "id, v, t")] == [
        row[:3] for row in by_spark(iceberg_spark, "shop.keyed", "id, v, t", lake.catalog)
    ]
    server.execute("UPDATE shop.keyed SET v = v + 1 WHERE id < 100")
    assert states(lake) == {"keyed": "equal"}, "the index of a compacted table finds open versions"
    server.execute("DROP DATABASE shop")


def versions_of(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """Per key, in order: operation, values, whether the version is open."""
    rows = lake.table(f"past.{table}").to_pylist()
    rows.sort(key=lambda row: (row["id"], *row["_seq"].values()))
    return [
        (
            row["_op"],
            *(value for name, value in row.items() if not name.startswith("_")),
            row["_valid_to"] is None,
        )
        for row in rows
    ]


def test_rows_of_each_kind_of_change(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE past")
    with server.session("past") as session:
        session.execute(
            "CREATE TABLE rates (id INT PRIMARY KEY, v INT, t TEXT)",
            "INSERT INTO rates VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')",
            "CREATE TABLE gone (id INT PRIMARY KEY)",
            "INSERT INTO gone VALUES (1), (2)",
            "CREATE TABLE heap (v INT)",
            "CREATE TABLE named (id INT PRIMARY KEY, _Valid_To INT)",
        )
    options: dict[str, Any] = {"tables": ("past.*",), "history_tables": ("past.*",)}
    lake = Lake(iceberg_spark, tmp_path, server, **options)
    lake.catch_up()
    reasons = quarantined(lake)
    assert set(reasons) == {"past.heap", "past.named"}
    assert "a history needs a primary key" in reasons["past.heap"]
    assert "_Valid_To, and the mode 'history' adds one of that name" in reasons["past.named"]
    with server.session("past") as session:
        session.execute(
            "UPDATE rates SET v = 10 WHERE id = 1",
            "UPDATE rates SET v = 11 WHERE id = 1",
            "DELETE FROM rates WHERE id = 2",
            "BEGIN",
            "UPDATE rates SET id = 99 WHERE id = 3",
            "UPDATE rates SET id = 3 WHERE id = 4",
            "UPDATE rates SET id = 4 WHERE id = 99",
            "COMMIT",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE rates SET v = 12 WHERE id = 1",
            "SET SESSION binlog_row_image = 'FULL'",
        )
    lake.catch_up()
    expected = [
        *(("snapshot", 1, 1, "a", False), ("update", 1, 10, "a", False)),
        *(("update", 1, 11, "a", False), ("update", 1, 12, "a", True)),
        ("snapshot", 2, 2, "b", False),
        *(("snapshot", 3, 3, "c", False), ("update", 3, 4, "d", True)),
        *(("snapshot", 4, 4, "d", False), ("update", 4, 3, "c", True)),
        ("update", 99, 3, "c", False),
    ]
    assert versions_of(lake, "rates") == expected
    with server.session("past") as session:
        session.execute(
            "ALTER TABLE rates ADD n INT NULL, DROP t",
            "INSERT INTO rates VALUES (2, 20, 200)",  # comes back
            "UPDATE rates SET n = 7 WHERE id = 3",
        )
    lake.catch_up()
    later: list[tuple[Any, ...]] = [(*row[:3], None, row[4]) for row in expected]
    later[5:7] = [
        *(("insert", 2, 20, 200, True), ("snapshot", 3, 3, None, False)),
        *(("update", 3, 4, None, False), ("update", 3, 4, 7, True)),
    ]
    assert versions_of(lake, "rates") == later
    assert states(lake)["rates"] == "equal"
    [shown] = [
        table
        for table in status(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
        if table.table == "past.rates"
    ]
    assert (shown.mode, shown.rows) == ("history", len(later))
    with server.session("past") as session:
        session.execute("SET SESSION sql_log_bin = 0", "DELETE FROM rates WHERE id = 3")
    assert states(lake)["rates"] == "different"
    _check_rows_that_go(lake, Lake(iceberg_spark, tmp_path, server, **options, commit_bytes=1))


def _check_rows_that_go(lake: Lake, in_parts: Lake) -> None:
    """TRUNCATE and DROP close the versions that are open, also when a kill divides the commits."""
    server, before = lake.server, versions_of(lake, "rates")
    server.execute(
        "TRUNCATE past.rates", "INSERT INTO past.rates VALUES (1, 100, 1)", "DROP TABLE past.gone"
    )
    assert killed(in_parts, Kill("commit", 1, after=True)) == -signal.SIGKILL
    closed = versions_of(lake, "rates")
    assert sum(row[-1] for row in before) > sum(row[-1] for row in closed) > 0, "a part of them"
    in_parts.catch_up()
    after = [(*row[:-1], False) for row in before]
    after.insert(4, ("insert", 1, 100, 1, True))
    assert versions_of(lake, "rates") == after
    rows = lake.table("past.rates").to_pylist()
    assert all(row["_valid_from"] <= row["_valid_to"] for row in rows if row["_valid_to"])
    assert states(lake)["rates"] == "equal"
    assert gone(lake)["past.gone"].startswith("dropped at ")
    assert [row[-1] for row in versions_of(lake, "gone")] == [False, False]
    server.execute("CREATE DATABASE `past-2`", "DROP DATABASE `past-2`")
    lake.catch_up()
    assert "past.rates" not in gone(lake)
    server.execute("DROP DATABASE past")
    lake.catch_up()
    assert not any(row[-1] for row in versions_of(lake, "rates"))
    assert "past.rates" in gone(lake)


def test_doctor_finds_a_table_in_two_modes(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute("CREATE DATABASE checked", "CREATE TABLE checked.t (id INT PRIMARY KEY)")
    file = tmp_path / "mirror.toml"
    text = f'[mirror]\nurl = "{url_of(server)}"\nlake = "lake"\nappend_tables = "checked.*"\n'
    file.write_text(text)
    assert main(["doctor", "--config", str(file)]) in (0, 1)
    assert capfd.readouterr().out.startswith("mirror: ")
    file.write_text(f'{text}history_tables = ["*.t"]\n')
    assert main(["doctor", "--config", str(file)]) == 2
    assert (
        "append_tables: table checked.t also matches option history_tables"
        in capfd.readouterr().err
    )
    server.execute("DROP DATABASE checked")
