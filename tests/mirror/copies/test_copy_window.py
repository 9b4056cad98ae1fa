"""Changes while a table is copied: those between the position of one chunk and the reading of another are applied again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import history, resync, tables_at
from dev.servers import Server, running
from support.spark.mirrored import Lake, chunk_by_chunk, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

ROWS = 40
DATABASE = "windows"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def lake_of(server: Server, spark: Any, folder: Path, table: str, **options: Any) -> Lake:
    options = {"chunk_rows": 10, "round_bytes": 1, **options}  # a round per transaction
    return Lake(spark, folder, server, tables=(f"{DATABASE}.{table}",), **options)


def filled(
    server: Server, table: str, more: str = "t TEXT, b BLOB", value: str = "'a', 'b'"
) -> None:
    with server.session(DATABASE) as session:
        session.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT NOT NULL, {more})")
        rows = ", ".join(f"({i}, {i}, {value})" for i in range(ROWS))
        session.execute(f"INSERT INTO {table} VALUES {rows}", f"ANALYZE TABLE {table}")


# statements before the second chunk is read, and before the last
EARLY = (
    "UPDATE {t} SET v = v + 1 WHERE id IN (0, 15, 25)",
    "UPDATE {t} SET t = CONCAT(t, 'x') WHERE id IN (1, 16, 26)",
    "UPDATE {t} SET v = v + 1 WHERE id IN (2, 17, 38)",
    "DELETE FROM {t} WHERE id IN (2, 17, 38)",
    "UPDATE {t} SET id = 51 WHERE id = 3",
    "UPDATE {t} SET id = -1 WHERE id = 18",
    "UPDATE {t} SET v = v + 1 WHERE id = -1",
    "UPDATE {t} SET id = -2 WHERE id = 4",
    "UPDATE {t} SET id = -3 WHERE id = 13",
    "UPDATE {t} SET id = 13 WHERE id = 12",
    "INSERT INTO {t} VALUES (52, 1, 't', NULL)",
    "UPDATE {t} SET v = 7 WHERE id = 52",
    "DELETE FROM {t} WHERE id = 52",
)
LATE = (
    "UPDATE {t} SET v = v + 1, b = NULL WHERE id IN (0, 16, 36)",
    "UPDATE {t} SET id = 53 WHERE id = 51",
    "UPDATE {t} SET id = 18 WHERE id = 39",
)


@pytest.mark.parametrize("image", ["FULL", "NOBLOB", "MINIMAL"])
def test_images_of_changes_that_a_copy_has_seen(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any, image: str
) -> None:
    table = f"image_{image.lower()}"
    filled(server, table)
    lake = lake_of(server, iceberg_spark, tmp_path, table)
    left = {1: EARLY, 3: LATE}

    def before(number: int) -> None:
        with server.session(DATABASE) as session:
            session.execute(f"SET SESSION binlog_row_image = '{image}'")
            session.execute(*(one.format(t=table) for one in left.pop(number, ())))

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert left == {}
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.{table}") == [f"{DATABASE}.{table}"]


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_soft_deletes_of_rows_that_the_copy_has_not_read(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any, image: str
) -> None:
    """The table is copied once. The rows 37 and 38 are of a later chunk, which no longer has them."""
    table = f"soft_{image.lower()}"
    filled(server, table)
    lake = lake_of(server, iceberg_spark, tmp_path, table, soft_delete_tables=("*.soft_*",))
    statements = [f"DELETE FROM {table} WHERE id IN (2, 38)"]
    if image == "FULL":
        statements += [f"UPDATE {table} SET id = id + 50 WHERE id IN (3, 37)"]
    left = {2: statements}

    def before(number: int) -> None:
        with server.session(DATABASE) as session:
            session.execute(f"SET SESSION binlog_row_image = '{image}'")
            session.execute(*left.pop(number, ()))

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert left == {}
    assert [note for note in lake.notes if "again" in note or "quarantined" in note] == []
    rows = lake.table(f"{DATABASE}.{table}").to_pylist()
    marked = {row["id"] for row in rows if row["_deleted_at"] is not None}
    assert marked == ({2, 3, 38} if image == "FULL" else {2})
    assert states(lake) == {f"{DATABASE}.{table}": "equal"}


def test_differences_of_documents(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """PARTIAL_UPDATE_ROWS with full images: the difference is of the document in the event, not of the lake's."""
    if server.flavour == "mariadb":
        return
    table = "documents"
    filled(server, table, "d JSON, n INT", '\'{"a": [1, 2, 3], "text": "%s"}\', 1' % ("x" * 200))
    changes = (
        "UPDATE {t} SET d = JSON_SET(d, '$.a[0]', 9) WHERE id IN (1, 15, 35)",
        "UPDATE {t} SET d = JSON_REMOVE(d, '$.a[0]') WHERE id IN (1, 15, 35)",
        "UPDATE {t} SET d = JSON_REMOVE(d, '$.a[0]'), n = 2 WHERE id IN (1, 15, 35)",
        "UPDATE {t} SET d = JSON_ARRAY_INSERT(d, '$.a[0]', 5) WHERE id IN (2, 16, 36)",
    )

    left = {3: changes}

    def before(number: int) -> None:
        with server.session(DATABASE) as session:
            session.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
            session.execute(*(one.format(t=table) for one in left.pop(number, ())))

    lake = lake_of(server, iceberg_spark, tmp_path, table)
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert left == {}
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.{table}")
    with server.session(DATABASE) as session:
        session.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        session.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        session.execute(changes[0].format(t=table))
    lake.catch_up()
    assert "differences of JSON documents" in quarantined(lake)[f"{DATABASE}.{table}"]


def test_recorded_moments_are_moments_of_the_server(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """No round is recorded while chunks of a copy are of different moments."""
    table = "moments"
    filled(server, table)
    transactions = iter(range(1, 4))

    def before(_number: int) -> None:
        number = next(transactions, None)
        if number is not None:  # the first chunk has v of the row 0, the last one the new row
            with server.session(DATABASE) as session:
                session.execute(
                    "BEGIN",
                    f"UPDATE {table} SET v = v + 1 WHERE id = 0",
                    f"INSERT INTO {table} VALUES ({100 + number}, 0, 't', NULL)",
                    "COMMIT",
                )

    lake = lake_of(server, iceberg_spark, tmp_path, table)
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert lake.equals_source(f"{DATABASE}.{table}")
    here: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    moments = history(tmp_path, **here)
    assert moments
    for moment in moments:
        found = tables_at(tmp_path, moment.round, **here)[f"{DATABASE}.{table}"]
        [first] = found.where("id = 0").toArrow()["v"].to_pylist()
        assert first == found.where("id > 100").count()


def test_once_reaches_the_end_of_a_copy_that_it_makes(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    table = "again"
    filled(server, table)
    lake = lake_of(server, iceberg_spark, tmp_path, table)
    lake.catch_up()
    resync(tmp_path, [f"{DATABASE}.{table}"], spark=iceberg_spark, catalog=lake.catalog)
    chunks = iter(range(3))

    def before(_number: int) -> None:
        if next(chunks, 0):  # after the first chunk, which has the row 0
            server.execute(f"UPDATE {DATABASE}.{table} SET v = v + 1 WHERE id = 0")

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.{table}")


@pytest.mark.parametrize("rotated", [False, True])
def test_xa_prepared_before_the_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any, rotated: bool
) -> None:
    """Prepared before the first chunk, committed after the last, in the same log or a later one."""
    table = f"prepared_{rotated}".lower()
    filled(server, table)
    with server.session(DATABASE) as session:
        session.execute("XA START 'far'", f"UPDATE {table} SET v = 100 WHERE id IN (5, 35)")
        session.execute(f"INSERT INTO {table} VALUES (70, 1, 'xa', NULL)", "XA END 'far'")
        session.execute("XA PREPARE 'far'")
    if rotated:
        server.execute(
            "FLUSH LOGS", f"UPDATE {DATABASE}.{table} SET v = 3 WHERE id = 1", "FLUSH LOGS"
        )

    left = {2: f"UPDATE {DATABASE}.{table} SET v = 4 WHERE id IN (2, 30)"}

    def before(number: int) -> None:
        server.execute(left.pop(number, "DO 1"))

    lake = lake_of(server, iceberg_spark, tmp_path, table)
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert left == {}
    assert lake.equals_source(f"{DATABASE}.{table}")
    server.execute("XA COMMIT 'far'")
    server.settle()
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.{table}")
    assert lake.table(f"{DATABASE}.{table}").filter(_is(70)).num_rows == 1


def _is(number: int) -> Any:
    import pyarrow.compute as pc

    return pc.field("id") == number


def test_hidden_columns_of_unique_texts(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """MariaDB keeps a hidden column with a hash of a long unique value."""
    if server.flavour == "mysql":
        return
    with server.session(DATABASE) as session:
        for table, key in (("hashed", "PRIMARY KEY"), ("hashed_keyless", "NULL")):
            session.execute(
                f"CREATE TABLE {table} (id INT {key}, t TEXT UNIQUE, v INT, u VARCHAR(3000), UNIQUE (u) USING HASH)",
                f"INSERT INTO {table} VALUES (1, 'a', 1, 'u'), (2, 'b', 2, NULL), (3, NULL, 3, 'w')",
            )
    lake = lake_of(server, iceberg_spark, tmp_path, "hashed*")
    lake.catch_up()
    with server.session(DATABASE) as session:
        for table in ("hashed", "hashed_keyless"):
            session.execute(
                f"UPDATE {table} SET t = 'c' WHERE id = 1",
                f"INSERT INTO {table} VALUES (4, 'd', 4, 'x'), (5, NULL, 5, NULL)",
                f"DELETE FROM {table} WHERE id = 2",
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.hashed*") == [
        f"{DATABASE}.hashed",
        f"{DATABASE}.hashed_keyless",
    ]


def test_a_unique_key_that_changes_before_the_first_chunk_is_read(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The statement is before the position of the copy, so the mirror does not find it in the log."""
    with server.session(DATABASE) as session:
        session.execute(
            "CREATE TABLE rekeyed (u INT NOT NULL, n INT NOT NULL, v INT, UNIQUE KEY uk (u))",
            f"INSERT INTO rekeyed VALUES {', '.join(f'({i}, 1, {i})' for i in range(ROWS))}",
        )
    lake = lake_of(server, iceberg_spark, tmp_path, "rekeyed")
    read: list[int] = []

    def before(number: int) -> None:
        if not read:
            server.execute(
                f"ALTER TABLE {DATABASE}.rekeyed DROP INDEX uk, ADD UNIQUE KEY (u, n)",
                f"INSERT INTO {DATABASE}.rekeyed VALUES (1, 2, 0), (2, 2, 0)",
            )
        read.append(number)

    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert any("was altered while it was copied" in note for note in lake.notes)
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.rekeyed") == [f"{DATABASE}.rekeyed"]
    assert lake.table(f"{DATABASE}.rekeyed").num_rows == ROWS + 2


def test_a_log_that_is_purged_during_a_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The copy ends when it notices, not when it has read all rows. It is not tried again by itself, and other tables go on."""
    filled(server, "purged")
    server.execute(
        f"CREATE TABLE {DATABASE}.purged_not (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {DATABASE}.purged_not VALUES (1, 1)",
    )
    lake = lake_of(server, iceberg_spark, tmp_path, "purged*", chunk_rows=1)
    read: list[int] = []

    def before(number: int) -> None:
        read.append(number)
        if number == 1:
            server.execute(f"UPDATE {DATABASE}.purged_not SET v = v + 1", "FLUSH BINARY LOGS")
            server.settle()
            server.purge_before(server.position()[0])

    setting = {"mysql": "binlog_expire_logs_seconds", "mariadb": "expire_logs_days"}[server.flavour]
    with chunk_by_chunk(monkeypatch, before):
        lake.catch_up()
    assert len(read) < ROWS / 2
    [(name, why)] = quarantined(lake).items()
    assert name == f"{DATABASE}.purged"
    assert re.search(rf"was purged.*{setting}.*resync", why)
    assert lake.equals_source(f"{DATABASE}.purged_not") == [f"{DATABASE}.purged_not"]
    read.clear()
    lake.catch_up()
    assert read == []
    resync(lake.folder, [f"{DATABASE}.purged"], spark=lake.spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.purged") == [f"{DATABASE}.purged"]
