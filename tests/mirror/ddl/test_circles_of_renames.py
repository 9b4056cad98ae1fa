"""Tables that take each other's names, while a mirror follows all of them or only some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.alterations import RENAMED
from dev.servers import Server, running
from support.spark.mirrored import Lake, gone, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SWAP = RENAMED["two"].statements
#: Statements that rename tables in a circle, by the beginning of the names of their tables.
CIRCLES = {name: one.statements for name, one in RENAMED.items()} | {
    "odd": SWAP,  # with different columns
    "log": SWAP,
    "soft": SWAP,
    "old": SWAP,
    "shard": SWAP,
}
OPTIONS = {
    "tables": ("circles.*",),
    "exclude_tables": ("circles._*",),
    "append_tables": ("circles.log_*",),
    "soft_delete_tables": ("circles.soft_*",),
    "history_tables": ("circles.old_*",),
    "shard_tables": ("circles.shard_*=circles.shards",),
}


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def named(prefix: str, text: str) -> str:
    """A text with the names of the test's tables; those that are not followed begin with an underscore."""
    shown = re.sub(r"\b(a|b|c|spare)\b", rf"{prefix}_\1", text)
    return re.sub(r"\b(x|tmp)\b", rf"_{prefix}_\1", shown)


def tables_of(prefix: str) -> list[str]:
    """The tables whose names change."""
    words = set(re.findall(r"\w+", " ".join(CIRCLES[prefix])))
    return [named(prefix, name) for name in ("a", "b", "c", "x") if name in words]


def changes(number: int) -> list[str]:
    """An insert, an update of the key and a delete in each table; the rows that they need are there."""
    found = []
    for prefix in CIRCLES:
        for at, name in enumerate(tables_of(prefix)):
            found += [
                f"INSERT INTO {name} (id) VALUES ({10 * number + at})",
                f"UPDATE {name} SET id = {10 * number + 5} WHERE id = {10 * number - 5}",
                f"DELETE FROM {name} WHERE id = {number}",
            ]
    return found


def check(lake: Lake) -> None:
    followed = {name for prefix in CIRCLES for name in tables_of(prefix) if name[0] != "_"}
    assert quarantined(lake) == {}
    assert states(lake) == dict.fromkeys((f"circles.{name}" for name in followed), "equal")
    assert not [note for note in lake.notes if note.startswith("circles.own_a")]
    lake.notes.clear()


def test_circles_of_renames(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """All in one round, and each statement and the changes around it in rounds of their own."""
    server.execute("CREATE DATABASE circles")
    statements = [named(prefix, sql) for prefix in CIRCLES for sql in CIRCLES[prefix]]
    with server.session("circles") as session:
        for prefix in CIRCLES:
            for name in tables_of(prefix):
                column = "v VARCHAR(9) CHARACTER SET ascii" if name == "odd_b" else "v INT"
                session.execute(
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, {column})",
                    f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, {ord(name[-1])})",
                )
        lake = Lake(iceberg_spark, tmp_path, server, **OPTIONS)
        lake.catch_up()
        lake.notes.clear()
        session.execute(*changes(1), *statements, *changes(2))
        lake.catch_up()
        assert gone(lake) == {}
        check(lake)
        session.execute(*changes(3))
        lake.catch_up()
        for sql in statements:
            session.execute(sql)
            if "seen" in sql or "steps" in sql:
                lake.catch_up()
        lake.catch_up()
        session.execute(*changes(4))
        lake.catch_up()
        assert gone(lake).keys() == {"circles.seen_spare"}
        check(lake)
    server.execute("DROP DATABASE circles")
