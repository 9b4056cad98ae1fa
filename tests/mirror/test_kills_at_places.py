"""A mirror that is killed with -9 at places of its code, one after the other: equal after the last one in the first copy, and after each later one. Runs in CI."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import resync, verify
from dev.servers import Server, running
from mirror.killed_mirror import (
    OF_A_COPY,
    OF_A_REQUEST,
    OF_ICEBERG,
    OF_LARGE_RANGES,
    RARE,
    Kill,
    killed,
)
from support.spark.mirrored import Lake, Writer, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

PLACES = [name for name in OF_ICEBERG if name not in OF_A_COPY]
SEED = int(os.environ.get("BINLAKE_SEED", "11"))
PAUSE_S = 0.1  # of the writer; with 0.01 s, it and the server take one of two cores, and a lake gets a thousand commits
IN_THE_COPY = [
    Kill("tasks of a copy", 1, after=False),
    Kill("tasks of a copy", 2, after=True),
    Kill("commit", 1, after=True),
    Kill("commit", 1, after=False),  # the files are written, and no snapshot has them
]
#: More changes at once than a mirror applies without tasks.
LARGE_RANGE = (
    "INSERT INTO shop.keyed (id, v, t) VALUES "
    + ", ".join(f"({10**6 + number}, 0, 'large')" for number in range(1000))
    + " ON DUPLICATE KEY UPDATE v = v + 1"
)
#: On all servers together.
KILLS = int(os.environ.get("BINLAKE_KILLS", "20"))
SERVERS = ["mysql-9.7", "mariadb-11.8"]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def planned(server: str) -> tuple[list[Kill], list[Kill]]:
    """The kills in the first copy, and those after it: places in turn, in their first calls or later ones.

    If there are few kills, each server has its own half of the places.
    """
    rng = random.Random(SEED)
    in_the_copy, places = IN_THE_COPY, rng.sample(PLACES, len(PLACES))
    if KILLS // len(SERVERS) < len(in_the_copy) + len(places):
        share = slice(SERVERS.index(server), None, len(SERVERS))
        in_the_copy, places = in_the_copy[share], places[share]
    later = []
    for number in range(KILLS // len(SERVERS) - len(in_the_copy)):
        place = places[number % len(places)]
        call = 1 if place in RARE else rng.randrange(1, 6)
        later.append(Kill(place, call, after=rng.random() < 0.5))
    return in_the_copy, later


def test_kills_at_places(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'a')" for i in range(2000)),
            "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y')",
        )
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=("shop.*",),
        round_bytes=64 << 10,
        commit_bytes=16 << 10,  # tasks write ranges of more than 4 KB
        compact_files=4,
    )
    with Writer(server, rng, PAUSE_S):
        in_the_copy, later = planned(server.name)
        all_kills = [*in_the_copy, *later]
        for number, kill in enumerate(all_kills):
            if number == len(all_kills) // 2:
                server.execute("ALTER TABLE shop.keyed ADD COLUMN note INT NULL AFTER v")
                server.execute("UPDATE shop.keyed SET note = v WHERE id % 3 = 0")
            if kill.place in OF_LARGE_RANGES:
                server.execute(LARGE_RANGE)
            if kill.place in OF_A_REQUEST:
                resync(tmp_path, ["shop.keyed"], spark=iceberg_spark, catalog=lake.catalog)
            assert killed(lake, kill) == -signal.SIGKILL, kill
            if number + 1 < len(in_the_copy):  # a comparison ends with the copy
                continue
            found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
            assert found.is_equal, (kill, found.tables)
            assert quarantined(lake) == {}, kill
            print(f"{server.name}: {number + 1} kills, equal", flush=True)
    found = verify(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert quarantined(lake) == {}
    assert found.is_equal, found.tables
    assert [table.source_rows > 0 for table in found.tables] == [True, True]
    assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]
    assert "note" in lake.table("shop.keyed").schema.names
    server.execute("DROP DATABASE shop")
