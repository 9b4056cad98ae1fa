"""Tables that another session has locked while they should be copied: the others are followed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import ServerError
from binlake.mirror import resync
from dev.servers import Server, running
from support.spark.mirrored import Lake, chunk_by_chunk, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute("CREATE DATABASE locks")
        yield started


@pytest.mark.parametrize("key", ["PRIMARY KEY", "NOT NULL"], ids=["bounds", "rows"])
def test_a_locked_table_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """With a key, the query of the bounds waits; without one, that of the rows. Once the lock is released, the copy continues."""
    monkeypatch.setattr("binlake.snapshot.read_session.LOCK_WAIT_S", 1)
    names = ("locks.held", "locks.other")
    for name in names:
        server.execute(
            f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id INT {key})", f"INSERT INTO {name} VALUES (1)"
        )  # fmt: skip
    lake = Lake(iceberg_spark, tmp_path, server, tables=names)
    with chunk_by_chunk(monkeypatch, lambda _number: None):
        lake.catch_up()
        resync(tmp_path, ["locks.held"], spark=iceberg_spark, catalog=lake.catalog)
        with server.session("locks") as holder:
            holder.execute(
                *(f"INSERT INTO {name} VALUES (2)" for name in names), "LOCK TABLES held WRITE"
            )
            with pytest.raises(ServerError, match=r"Lock wait timeout exceeded.*another session"):
                lake.catch_up(patience_s=3.0)
        assert sorted(lake.table("locks.other")["id"].to_pylist()) == [1, 2]
        assert lake.table("locks.held")["id"].to_pylist() == [1]
        lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("locks.*") == list(names)
