"""--exclude-column and --hash-column for names with periods and commas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
from support.spark.mirrored import Lake, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def test_patterns_with_parts_in_backticks(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A part in backticks is one whole name; without backticks a pattern matches all names that it may stand for."""
    key_file = tmp_path / "hash.key"
    key_file.write_text("a key of the test")
    server.execute("CREATE DATABASE parts")
    tables = {
        "parts.t": ["u.a", "a", "b.c", "bare.c"],
        "parts.`t.u`": ["a", "c", "bare.c"],
        "parts.`t,u`": ["a", "d,e", "d", "e"],
    }
    with server.session("parts") as session:
        for name, columns in tables.items():
            made = ", ".join(f"`{column}` VARCHAR(9)" for column in columns)
            values = ", ".join("'secret'" for _ in columns)
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, {made}) CHARSET utf8mb4",
                f"INSERT INTO {name} VALUES (1, {values})",
            )
        lake = Lake(
            iceberg_spark,
            tmp_path / "lake",
            server,
            tables=("parts.*",),
            exclude_columns=("parts.`t.u`.A, parts.t.`b.c`", "parts.*.bare.c"),
            hash_columns=("parts.`t,u`.`d,e`",),
            hash_key_file=str(key_file),
        )
        lake.catch_up()
        for name, columns in tables.items():
            session.execute(
                f"UPDATE {name} SET `{columns[0]}` = 'new'",
                f"INSERT INTO {name} (id, `{columns[1]}`) VALUES (2, 'new')",
            )
    lake.catch_up()
    assert not [note for note in lake.notes if "matches no column" in note]
    in_lake = {name: lake.table(name.replace("`", "")) for name in tables}
    assert {name: found.column_names for name, found in in_lake.items()} == {
        "parts.t": ["id", "u.a", "a"],
        "parts.`t.u`": ["id", "c"],
        "parts.`t,u`": ["id", "a", "d,e", "d", "e"],
    }
    hashed = in_lake["parts.`t,u`"].to_pydict()
    assert {len(value) for value in hashed["d,e"]} == {64}
    assert hashed["d"] == ["secret", None]
    assert states(lake) == {name.replace("`", ""): "equal" for name in tables}
    server.execute("DROP DATABASE parts")
