"""Tables in the mode append: each change is a row, once, whatever is killed."""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.errors import OptionError
from binlake.mirror import resync, status, verify
from dev.servers import Server, running
from mirror.killed_command import command, kill_once_committed
from mirror.killed_mirror import Kill, killed
from support.spark.lake_readers import by_duckdb, by_pyiceberg
from support.spark.mirrored import Lake, Writer, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

PLACE = "_op, _log_file, _log_pos, _row"
KILLS = [
    Kill("data file", 2, after=True),
    Kill("commit", 3, after=True),
    Kill("row of a round", 1, after=False),
]


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def verified(lake: Lake) -> dict[str, str]:
    found = verify(lake.folder, spark=lake.spark, catalog=lake.catalog)
    states = {table.table.partition(".")[2]: table.state for table in found.tables}
    return {name: state for name, state in states.items() if state != "not compared"}


def places(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    names = [name.strip() for name in PLACE.split(",")]
    return Counter(tuple(row.values()) for row in rows.select(names).to_pylist())


def logged(server: Server, table: str) -> Counter[tuple[Any, ...]]:
    """The place of each change of a table in the server's logs."""
    log = binlake.open(server.log_files())
    return places(log.to_arrow(table))


def test_each_change_once_through_kills(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    rng = random.Random(7)
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'a')" for i in range(2000)),
            "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y')",
        )
    folder = tmp_path / "lake"
    folder.mkdir()
    options: dict[str, Any] = {"tables": ("shop.*",), "append_tables": ("shop.*",)}
    lake = Lake(iceberg_spark, folder, server, **options, round_bytes=64 << 10)
    with Writer(server, rng):
        process = command(server, lake, "--append", "shop.*", "--round-bytes", "64k")
        kill_once_committed(process, lake, "shop/keyed")
        for kill in KILLS:
            assert killed(lake, kill) == -signal.SIGKILL, kill
    assert verified(lake) == {"keyed": "equal", "keyless": "equal"}
    for name in ("keyed", "keyless"):
        rows = lake.table(f"shop.{name}")
        found = places(rows)
        assert by_pyiceberg(str(folder), f"shop.{name}", PLACE) == sorted(
            found.elements(), key=repr
        )
        assert by_duckdb(str(folder), f"shop.{name}", PLACE) == sorted(found.elements(), key=repr)
        mine = {
            place: n for place, n in found.items() if place[0] in ("insert", "update", "delete")
        }
        first = min((file, pos) for op, file, pos, _ in found if op == "snapshot")
        theirs = {
            place: n for place, n in logged(server, f"shop.{name}").items() if place[1:3] > first
        }
        assert mine == theirs
        assert set(theirs.values()) == {1}
    server.execute("DROP DATABASE shop")


def seen(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """The changes of a table in commit order: operation, columns of the server, those that lack."""
    rows = lake.table(f"ops.{table}").to_pylist()
    rows.sort(key=lambda row: (*row["_seq"].values(), row["_op"] == "update"))
    return [
        (
            row["_op"],
            *(value for name, value in row.items() if not name.startswith("_")),
            row["_absent"],
        )
        for row in rows
    ]


def test_rows_of_each_kind_of_change(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    server.execute("CREATE DATABASE ops")
    with server.session("ops") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t TEXT)",
            "INSERT INTO keyed VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
            "CREATE TABLE heap (v INT, t TEXT)",
            "INSERT INTO heap VALUES (1, 'a'), (1, 'a')",
            "CREATE TABLE named (id INT PRIMARY KEY, _OP INT)",
            "CREATE TABLE reserved (id INT PRIMARY KEY, _pos INT)",
            "CREATE TABLE plain (id INT PRIMARY KEY, v INT)",
        )
    options: dict[str, Any] = {
        "tables": ("ops.*",),
        "append_tables": ("ops.keyed", "ops.heap", "ops.named"),
    }
    lake = Lake(iceberg_spark, tmp_path, server, **options)
    lake.catch_up()
    reasons = quarantined(lake)
    assert "_OP, and the mode 'append' adds one of that name" in reasons.pop("ops.named")
    assert "_pos, a name that Iceberg reserves" in reasons.pop("ops.reserved")
    assert reasons == {}
    server.execute("DROP TABLE ops.named", "DROP TABLE ops.reserved")
    with server.session("ops") as session:
        session.execute(
            "UPDATE keyed SET v = 10 WHERE id = 1",
            "BEGIN",
            "UPDATE keyed SET id = 20 WHERE id = 2",
            "DELETE FROM keyed WHERE id = 3",
            "COMMIT",
            "XA START 'x'",
            "INSERT INTO keyed VALUES (4, 4, 'd')",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
            "UPDATE heap SET v = 2 WHERE v = 1 LIMIT 1",
            "DELETE FROM heap WHERE v = 1",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE keyed SET v = 40 WHERE id = 4",
            "SET SESSION binlog_row_image = 'FULL'",
            "UPDATE keyed SET v = 41 WHERE id = 4",
        )
    lake.catch_up()
    before = [
        *(("snapshot", 1, 1, "a", None), ("snapshot", 2, 2, "b", None)),
        *(("snapshot", 3, 3, "c", None), ("update", 1, 10, "a", None)),
        *(("update_before", 2, None, None, ["v", "t"]), ("update", 20, 2, "b", None)),
        *(("delete", 3, 3, "c", None), ("insert", 4, 4, "d", None)),
        *(("update", 4, 40, None, ["t"]), ("update", 4, 41, "d", None)),
    ]
    assert seen(lake, "keyed") == before
    heap = [
        *(("snapshot", 1, "a", None), ("snapshot", 1, "a", None)),
        *(("update_before", 1, "a", None), ("update", 2, "a", None), ("delete", 1, "a", None)),
    ]
    assert seen(lake, "heap") == heap
    assert verified(lake) == {"keyed": "equal", "heap": "equal", "plain": "equal"}
    rows = lake.table("ops.keyed").to_pylist()
    times = {row["_op"]: row["_ts"] for row in rows}
    assert times.pop("snapshot") is None
    assert all(times.values())
    with server.session("ops") as session:
        session.execute(
            "TRUNCATE keyed",
            "ALTER TABLE keyed ADD n INT NOT NULL DEFAULT 7, DROP t",
            "INSERT INTO keyed (id, v) VALUES (5, 5)",
            "ALTER TABLE heap CHANGE v w BIGINT, ADD n INT NOT NULL DEFAULT 7",
            "INSERT INTO heap VALUES (9, 'z', 8)",
            "ALTER TABLE plain ADD _file INT",
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert "_file, a name that Iceberg reserves" in reasons["ops.plain"]
    assert set(reasons) == {"ops.plain", "ops.named", "ops.reserved"}
    after = [(*row[:3], None, row[4]) for row in before]
    truncated = ("truncate", None, None, None, None)
    assert seen(lake, "keyed") == [*after, truncated, ("insert", 5, 5, 7, None)]
    assert seen(lake, "heap") == [
        *((*row[:3], None, row[3]) for row in heap),
        ("insert", 9, "z", 8, None),
    ]
    assert verified(lake)["keyed"] == "equal"
    modes = {
        table.table: table.mode
        for table in status(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
    }
    assert (modes["ops.keyed"], modes["ops.plain"]) == ("append", "mirror")
    finds_what_differs(server, lake)
    both = {**options, "soft_delete_tables": ("ops.keyed",)}
    with pytest.raises(OptionError, match=r"ops\.keyed also matches .*; a table has only one mode"):
        Lake(iceberg_spark, tmp_path, server, **both).catch_up()
    resync(tmp_path, ["ops.keyed"], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert seen(lake, "keyed") == [("snapshot", 5, 6, 7, None)]
    tags = lake.spark.sql(f"SELECT name FROM {lake.catalog}.ops.keyed.refs").toArrow()
    assert any(name.startswith("before-copy-") for name in tags["name"].to_pylist())
    server.execute("DROP DATABASE ops")


def finds_what_differs(server: Server, lake: Lake) -> None:
    with server.session("ops") as session:
        session.execute("SET SESSION sql_log_bin = 0", "UPDATE keyed SET v = 6 WHERE id = 5")
    assert verified(lake)["keyed"] == "different"


def test_the_current_rows_by_the_query_of_the_page(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    page = Path(__file__).parents[2] / "docs" / "mirror-modes.md"
    [query] = re.findall(r"```sql\n(WITH changes AS .+?);\n```", page.read_text("utf-8"), re.DOTALL)
    server.execute("CREATE DATABASE page")
    lake = Lake(
        iceberg_spark, tmp_path / "lake", server, tables=("page.*",), append_tables=("page.orders",)
    )
    with server.session("page") as session:
        session.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT)",
            "INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)",
        )
        lake.catch_up()
        for statement in (
            "UPDATE orders SET v = 9 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "UPDATE orders SET id = 30 WHERE id = 3",
            "TRUNCATE TABLE orders",
            "INSERT INTO orders VALUES (3, 4), (5, 5), (6, 6)",
            "UPDATE orders SET id = 60 WHERE id = 6",
            "DELETE FROM orders WHERE id = 5",
        ):
            session.execute(statement)
            lake.catch_up()
            found = lake.spark.sql(query.replace("lake.shop.", f"{lake.catalog}.page."))
            rows = [[str(row["id"]), str(row["v"])] for row in found.orderBy("id").collect()]
            assert rows == server.rows("SELECT id, v FROM page.orders ORDER BY id"), statement
