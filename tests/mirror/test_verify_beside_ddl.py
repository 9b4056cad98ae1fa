"""`verify` of tables that are altered, emptied or dropped after the server's snapshot began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import verify
from dev.servers import Server, running
from support.spark.mirrored import Lake

pytestmark = [pytest.mark.server, pytest.mark.lakes]

#: What happens to each table after the snapshot began, and before its definition is read.
DDL = {
    "added": "ALTER TABLE {} ADD COLUMN n INT NULL",
    "widened": "ALTER TABLE {} MODIFY v BIGINT",
    "renamed_key": "ALTER TABLE {} CHANGE id number INT NOT NULL",
    "emptied": "TRUNCATE {}",
    "rekeyed": "ALTER TABLE {} DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)",
    "dropped": "DROP TABLE {}",
    "untouched": "DO 1",
}
#: Each attempt sees one of these, up to as many as there are: the last one is compared.
AGAIN_AND_AGAIN = 3


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def test_altered_tables_are_compared_later(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE beside")
    for name in (*DDL, "busy"):
        server.execute(
            f"CREATE TABLE beside.{name} (id INT NOT NULL PRIMARY KEY, v INT NOT NULL)",
            f"INSERT INTO beside.{name} VALUES (1, 1), (2, 2), (3, 3)",
        )
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
    assert moments["beside.widened"] > first
    assert moments["beside.busy"] > moments["beside.widened"]
    asked = verify(tmp_path, ["beside.dropped"], spark=iceberg_spark, catalog=lake.catalog)
    assert [table.state for table in asked.tables] == ["not compared"]
    server.execute("DROP DATABASE beside")
