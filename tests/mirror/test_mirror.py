"""A mirror equals its source: every type, random changes, restarts, schema changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError
from binlake.mirror import add, pause, remove, resume, resync, status
from dev.servers import Server
from support.notebooks import run_notebook
from support.servers.live import tcp_url
from support.servers.sql_workload import DATABASE, SESSION, Workload
from support.spark.lake_readers import by_pyiceberg, by_spark
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


def test_every_type_and_random_changes(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    work = Workload(server, seed=5)
    server.execute(f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.tables(), *work.first_rows())
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    # the only server that logs what foreign keys change
    unlogged = [] if server.name == "mysql-9.7" else [f"{DATABASE}.child"]
    assert sorted(quarantined(lake)) == unlogged, quarantined(lake)
    assert len(lake.equals_source(f"{DATABASE}.*", *unlogged)) > 20
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.changes())
    if _leaves_out_generated_columns(server):
        unlogged.append(f"{DATABASE}.made")
    lake.catch_up()
    assert sorted(quarantined(lake)) == unlogged, quarantined(lake)
    lake.equals_source(f"{DATABASE}.*", *unlogged)
    server.execute(f"DROP DATABASE {DATABASE}")


def _leaves_out_generated_columns(server: Server) -> bool:
    """Whether updates of the server have no values of generated columns."""
    version = str(server.rows("SELECT VERSION()")[0][0]).partition("-")[0]
    return server.flavour == "mariadb" and tuple(map(int, version.split("."))) >= (11, 8, 9)


IMAGES = {
    "MINIMAL": ("BEGIN", "COMMIT"),
    "NOBLOB": ("BEGIN", "COMMIT"),
    "FULL": ("XA START 'one'", "XA END 'one'", "XA PREPARE 'one'", "XA COMMIT 'one'"),
}
#: Only the changed columns in after-images, all columns in before-images.
NODUP = {"FULL_NODUP": ("BEGIN", "COMMIT")}


@pytest.mark.not_on("mysql-5.6.24")
def test_images_without_some_columns_and_xa(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """With a key and without; and two engines read the same."""
    images = {**IMAGES, **(NODUP if server.name == "mariadb-11.8" else {})}
    tables = {f"{image.lower()}{kind}": image for kind in ("", "_heap") for image in images}
    names = list(tables)
    server.execute("CREATE DATABASE images")
    with server.session("images") as session:
        for name in names:
            columns = "id INT, part VARCHAR(9), v INT, t TEXT, b BLOB"
            key = "" if name.endswith("_heap") else ", PRIMARY KEY (part, id)"
            rows = ", ".join(f"({i}, 'p', {i}, 'text {i}', x'00{i:02}')" for i in range(50))
            session.execute(
                f"CREATE TABLE {name} ({columns}{key})", f"INSERT INTO {name} VALUES {rows}"
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("images.*",), deletes="position")
    lake.catch_up()
    with server.session("images") as session:
        for name, image in tables.items():
            begin, *end = images[image]
            session.execute(f"SET SESSION binlog_row_image = '{image}'")
            session.execute(
                begin,
                f"UPDATE {name} SET v = v + 1 WHERE id < 20",
                f"UPDATE {name} SET t = 'new' WHERE id BETWEEN 10 AND 30",
                f"UPDATE {name} SET part = 'q', b = NULL WHERE id = 12",
                f"UPDATE {name} SET v = NULL WHERE id = 12",
                f"INSERT INTO {name} VALUES (90, 'p', 1, NULL, x'ff'), (91, 'p', 1, 'x', NULL)",
                f"UPDATE {name} SET id = 92 WHERE id = 90",
                f"DELETE FROM {name} WHERE id IN (3, 91)",
                *end,
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("images.*") == sorted(f"images.{name}" for name in names)
    for name in names:
        found = by_pyiceberg(str(tmp_path), f"images.{name}", "id, part, v, t, b")
        assert found == by_spark(iceberg_spark, f"images.{name}", "id, part, v, t, b", lake.catalog)
    server.execute("DROP DATABASE images")


def test_steering(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """A pause, a writer of its own, and what the status tells."""
    server.execute("CREATE DATABASE steered", "CREATE TABLE steered.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO steered.t VALUES (1), (2)")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("steered.*",))
    lake.catch_up()
    pause(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    server.execute("INSERT INTO steered.t VALUES (3)")
    lake.catch_up()
    assert lake.table("steered.t").num_rows == 2
    resume(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert lake.equals_source("steered.t")
    found = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert [(table.table, table.state, table.rows) for table in found.tables] == [
        ("steered.t", "mirrored", 3)
    ]
    assert (found.log_file, found.log_pos) == server.position()
    iceberg_spark.sql(f"DELETE FROM {lake.catalog}.steered.t WHERE id = 1")
    server.execute("INSERT INTO steered.t VALUES (4)")
    lake.catch_up()
    assert "another program" in quarantined(lake)["steered.t"]
    with pytest.raises(OptionError, match=r"stirred\.\* matches no table of the mirror"):
        resync(tmp_path, ["stirred.*"], spark=iceberg_spark, catalog=lake.catalog)
    in_lake: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    with pytest.raises(OptionError, match=r"the mirror has no table steered\.tt") as refused:
        resync(tmp_path, ["steered.*", "steered.tt"], **in_lake)
    assert "did you mean steered.t?" in str(refused.value)
    lake.catch_up()
    assert quarantined(lake).keys() == {"steered.t"}, "nothing was recorded"
    resync(tmp_path, ["steered.t"], **in_lake)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("steered.t")
    told: list[str] = []
    remove(tmp_path, ["steered.tt", "steered.tmp_*"], **in_lake, note=told.append)
    assert told == ["the lake has no table steered.tt yet; did you mean steered.t?"]
    add(tmp_path, ["steered.x"], **in_lake)
    lake.catch_up()
    assert lake.notes[-1] == "steered.x was added, but matches no table of the server"
    assert lake.equals_source("steered.t")
    server.execute("DROP DATABASE steered")


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")
def test_the_notebook_about_mirrors(
    server: Server, iceberg_spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its last cell leaves nothing behind on the server."""
    server.execute("CREATE USER guest@'127.0.0.1'", "GRANT ALL ON *.* TO guest@'127.0.0.1'")
    monkeypatch.setenv("MIRROR_EXAMPLE_URL", tcp_url(server, "guest"))
    snapshots = run_notebook("mirror.ipynb")["snapshots"]
    assert isinstance(snapshots, list)
    assert len(snapshots) == 2
    assert server.rows("SHOW DATABASES LIKE 'mirror_example'") == []
    server.execute("DROP USER guest@'127.0.0.1'")
