"""MariaDB's ALTER TABLE … CONVERT: a partition becomes a table, or a table becomes a partition, without row events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import resync
from dev.servers import Server, running
from support.servers.serving import eventually
from support.spark.mirrored import Lake, chunk_by_chunk, gone, quarantined, rows_of, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

PARTED = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))"
ADDED = "TO PARTITION p3 VALUES LESS THAN (40)"
MODES = ("log", "soft", "old")


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mariadb-11.8")) as started:
        yield started


def make(session: Any, *names: str) -> None:
    """Partitioned tables, and beside each a table `…_t` that can become a partition of it."""
    for name in names:
        session.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) {PARTED}",
            f"INSERT INTO {name} VALUES (1, 1), (2, 2), (11, 11), (12, 12), (21, 21)",
            f"CREATE TABLE {name}_t (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {name}_t VALUES (31, 31), (32, 32)",
        )


def test_converted_partitions_and_tables(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE parts")
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=("parts.*",),
        exclude_tables=("parts._*",),
        append_tables=("parts.log*",),
        soft_delete_tables=("parts.soft*",),
        history_tables=("parts.old*",),
    )
    with server.session("parts") as session:
        make(session, "gains", "loses", "turns", "_hides", "_gains", "takes", *MODES)
        session.execute("RENAME TABLE takes_t TO _takes_t")
        mirror = lake.mirror()
        try:
            mirror.run(once=True)
            session.execute("ALTER TABLE _hides CONVERT PARTITION p0 TO TABLE shown")
            mirror.reach()
            assert "parts.shown" in mirror.tables, "without another start"
        finally:
            mirror.close()
        session.execute(
            "INSERT INTO shown VALUES (5, 5)",
            "UPDATE gains_t SET v = 310 WHERE id = 31",
            f"ALTER TABLE gains CONVERT TABLE gains_t {ADDED}",
            "UPDATE gains SET v = 320 WHERE id = 32",
            "DELETE FROM loses WHERE id = 1",
            "ALTER TABLE loses CONVERT PARTITION p0 TO TABLE loses_p0",
            "INSERT INTO loses_p0 VALUES (3, 3)",
            "INSERT INTO loses VALUES (13, 13)",
            "ALTER TABLE turns CONVERT PARTITION p2 TO TABLE turns_p2",
            "UPDATE turns_p2 SET v = 9 WHERE id = 21",
            "ALTER TABLE turns CONVERT TABLE turns_p2 TO PARTITION p2 VALUES LESS THAN (30)",
            "INSERT INTO turns VALUES (4, 4)",
            f"ALTER TABLE _gains CONVERT TABLE _gains_t {ADDED}",
            f"ALTER TABLE takes CONVERT TABLE _takes_t {ADDED}",
            "UPDATE takes SET v = 33 WHERE id = 32",
            *(f"ALTER TABLE {name} CONVERT PARTITION p1 TO TABLE {name}_p1" for name in MODES),
            *(f"ALTER TABLE {name} CONVERT TABLE {name}_t {ADDED}" for name in MODES),
        )
        lake.catch_up()
        reasons = quarantined(lake)
        assert reasons.keys() == {f"parts.{name}" for name in MODES}
        for reason in reasons.values():
            assert "CONVERT PARTITION p1 TO TABLE" in reason
            assert reason.endswith(
                "rows come or go without row events; `binlake mirror resync` copies the table again"
            )
        left = gone(lake)
        assert left.keys() == {f"parts.{name}_t" for name in ("gains", *MODES)}
        assert left["parts.gains_t"].startswith("made a partition of parts.gains at GTID ")
        assert rows_of(lake.table("parts.gains_t")) == [
            '{"id": 31, "v": 310}',
            '{"id": 32, "v": 32}',
        ]
        there = ("gains", "loses", "loses_p0", "loses_t", "turns", "turns_t", "shown", "takes")
        compared = {name: state for name, state in states(lake).items() if name not in reasons}
        assert compared == {
            f"parts.{name}": "equal" for name in (*there, *(f"{name}_p1" for name in MODES))
        }

        # in rounds of their own, and the name is used again
        resync(tmp_path, sorted(reasons), spark=iceberg_spark, catalog=lake.catalog)
        lake.catch_up()
        for sql in (
            "ALTER TABLE turns CONVERT PARTITION p2 TO TABLE turns_p2",
            "INSERT INTO turns_p2 VALUES (26, 6)",
            "ALTER TABLE turns CONVERT TABLE turns_p2 TO PARTITION p2 VALUES LESS THAN (30)",
            "CREATE TABLE gains_t (id INT PRIMARY KEY, v INT)",
        ):
            session.execute(sql)
            lake.catch_up()
        assert quarantined(lake) == {}
        assert gone(lake).keys() == {"parts.turns_p2", *(f"parts.{name}_t" for name in MODES)}
        assert set(states(lake).values()) == {"equal"}
        refs = iceberg_spark.sql(f"SELECT name FROM {lake.catalog}.parts.gains_t.refs")
        assert [name for (name,) in refs.collect() if name.startswith("before-convert-")]
    server.execute("DROP DATABASE parts")


def test_a_partition_becomes_a_table_while_it_is_copied(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other table is so far behind that it reads the statement."""
    server.execute("CREATE DATABASE copied")
    with server.session("copied") as session:
        session.execute(
            f"CREATE TABLE parted (id INT PRIMARY KEY, v INT) {PARTED}",
            "INSERT INTO parted VALUES (1, 1), (2, 2), (11, 11), (12, 12), (21, 21)",
        )
        lake = Lake(iceberg_spark, tmp_path, server, tables=("copied.*",), chunk_rows=2)

        def convert(number: int) -> None:
            if number == 1 and not server.rows("SHOW TABLES IN copied LIKE 'fresh'"):
                session.execute("ALTER TABLE parted CONVERT PARTITION p0 TO TABLE fresh")

        with chunk_by_chunk(monkeypatch, convert):
            mirror = lake.mirror()
            follower = threading.Thread(target=lambda: mirror.run(once=False, interval_s=0.05))
            follower.start()
            try:
                eventually(lambda: len(mirror.tables) == 2, "a table that a statement makes")
            finally:
                mirror.stop()
                follower.join(300)
                mirror.close()
    assert quarantined(lake) == {}
    assert states(lake) == {"copied.fresh": "equal", "copied.parted": "equal"}
    server.execute("DROP DATABASE copied")
