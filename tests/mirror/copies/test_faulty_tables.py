"""Tables that cannot be followed: the mirror quarantines them, follows the others, and `resync` brings them back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import ServerError
from binlake.mirror import resync, status
from dev.servers import Server, running
from support.servers.live import tcp_url
from support.spark.mirrored import Lake, gone, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mariadb-11.8")) as started:
        yield started


def test_a_lake_table_with_a_missing_file_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Data files of `rows` and `emptied` are missing, which an UPDATE of one column and a TRUNCATE need, and a manifest
    of `listed`.
    """
    server.execute("CREATE DATABASE files")
    with server.session("files") as session:
        for table in ("emptied", "good", "listed", "rows"):
            session.execute(
                f"CREATE TABLE `{table}` (id INT PRIMARY KEY, v INT, w INT)",
                f"INSERT INTO `{table}` VALUES (1, 1, 1), (2, 2, 2)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("files.*",),
        soft_delete_tables=("files.emptied",),
    )  # fmt: skip
    lake.catch_up()
    missing = [
        *tmp_path.glob("files/emptied/data/*.parquet"),
        *tmp_path.glob("files/rows/data/*.parquet"),
        *tmp_path.glob("files/listed/metadata/*-m*.avro"),
    ]
    assert len(missing) >= 3
    for file in missing:
        file.unlink()
    with server.session("files") as session:
        session.execute(
            "TRUNCATE emptied",
            "UPDATE good SET v = 9 WHERE id = 1",
            "UPDATE listed SET v = 9 WHERE id = 1",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE `rows` SET v = 9 WHERE id = 1",
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {"files.emptied", "files.listed", "files.rows"}
    for reason in reasons.values():
        assert "a file of its lake table is missing or damaged: " in reason
        assert reason.endswith("; `binlake mirror resync` copies the table again")
    assert "TRUNCATE emptied: a file" in reasons["files.emptied"]
    assert lake.equals_source("files.*", *reasons) == ["files.good"]
    shown = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert set(shown.quarantined) == reasons.keys()

    resync(tmp_path, list(reasons), spark=iceberg_spark, catalog=lake.catalog)
    server.execute("INSERT INTO files.listed VALUES (3, 3, 3)")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("files.*", "files.emptied") == [
        "files.good",
        "files.listed",
        "files.rows",
    ]
    assert lake.table("files.emptied").num_rows == 0


def _rewritten(file: Path, content: bytes) -> None:
    """Give a file of a lake other content, as a fault of a disk or a store does: there, no checksums are beside it."""
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _damage(folder: Path) -> None:
    """Damage a file of each lake table except `good`."""
    [*cut] = folder.glob("cut/metadata/*-m*.avro")
    [*zeros] = folder.glob("zeros/metadata/*-m*.avro")
    [*flipped] = folder.glob("flipped/metadata/*-m*.avro")
    [*listed] = folder.glob("listed/metadata/snap-*.avro")
    [marks] = folder.glob("marks/data/*.puffin")
    versions = folder.glob("described/metadata/v*.metadata.json")
    newest = max(versions, key=lambda file: int(file.name[1:].partition(".")[0]))
    assert cut and zeros and flipped and listed  # noqa: PT018
    for file in cut:
        _rewritten(file, file.read_bytes()[: file.stat().st_size * 2 // 3])
    for file in (*zeros, *listed, newest):
        _rewritten(file, bytes(file.stat().st_size))
    for file in flipped:  # the file system has checksums
        content = file.read_bytes()
        file.write_bytes(content[:-30] + bytes([content[-30] ^ 1]) + content[-29:])
    content = marks.read_bytes()
    _rewritten(marks, content[:30] + bytes([content[30] ^ 1]) + content[31:])


def test_a_lake_table_with_a_damaged_file_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Manifests of `cut`, `zeros` and `flipped`, the manifest list of `listed`, a deletion vector of `marks`, and the
    metadata file of `described`.
    """
    tables = ("cut", "described", "flipped", "good", "listed", "marks", "zeros")
    server.execute("CREATE DATABASE damage")
    with server.session("damage") as session:
        for table in tables:
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {table} VALUES (1, 1), (2, 2)",
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("damage.*",))
    lake.catch_up()
    with server.session("damage") as session:
        session.execute(*(f"UPDATE {table} SET v = 5 WHERE id = 2" for table in tables))
    lake.catch_up()
    _damage(tmp_path / "damage")
    with server.session("damage") as session:
        session.execute(*(f"UPDATE {table} SET v = 9 WHERE id = 1" for table in tables))
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {f"damage.{table}" for table in tables} - {"damage.good"}
    for reason in reasons.values():
        assert "a file of its lake table is missing or damaged: " in reason
        assert reason.endswith("; `binlake mirror resync` copies the table again")
    assert "remove the table from the catalog" in reasons["damage.described"]
    assert lake.equals_source("damage.*", *reasons) == ["damage.good"]
    shown = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert set(shown.quarantined) == reasons.keys()

    resync(tmp_path, ["damage.described"], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake).keys() == reasons.keys()
    shutil.rmtree(tmp_path / "damage" / "described")
    resync(tmp_path, list(reasons), spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("damage.*") == [f"damage.{table}" for table in tables]


def test_a_table_that_the_server_cannot_read_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The user may not read `closed`, and may read one column of `partly`; the index of `crashed` is damaged."""
    server.execute(
        "CREATE DATABASE refused",
        "CREATE USER reader@'127.0.0.1' IDENTIFIED BY ''",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@'127.0.0.1'",
    )
    with server.session("refused") as session:
        for table in ("closed", "crashed", "good", "partly"):
            engine = "MyISAM" if table == "crashed" else "InnoDB"
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT) ENGINE={engine}",
                f"INSERT INTO {table} VALUES (1, 1), (2, 2)",
            )
        session.execute(
            "GRANT INSERT ON closed TO reader@'127.0.0.1'",
            "GRANT SELECT (id) ON partly TO reader@'127.0.0.1'",
            "GRANT SELECT ON good TO reader@'127.0.0.1'",
            "GRANT SELECT ON crashed TO reader@'127.0.0.1'",
            "FLUSH TABLES",
        )
    (server.data / "refused" / "crashed.MYI").write_bytes(b"x" * 2048)
    lake = Lake(iceberg_spark, tmp_path, server)  # all tables that the user sees
    lake.url = tcp_url(server, "reader")
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {"refused.closed", "refused.crashed", "refused.partly"}
    assert "denied" in reasons["refused.closed"]
    assert "denied" in reasons["refused.partly"]
    for reason in reasons.values():
        assert reason.endswith("; `binlake mirror resync` copies the table again")
    server.execute("UPDATE refused.good SET v = 9 WHERE id = 1")
    lake.catch_up()
    assert quarantined(lake) == reasons
    assert lake.equals_source("refused.good") == ["refused.good"]

    server.execute(
        "GRANT SELECT ON refused.* TO reader@'127.0.0.1'",
        "REPAIR TABLE refused.crashed USE_FRM",
    )
    resync(tmp_path, list(reasons), spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("refused.*") == [
        "refused.closed",
        "refused.crashed",
        "refused.good",
        "refused.partly",
    ]


def test_a_quarantined_table_that_the_options_leave_out_is_compared_no_longer(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The reason of the quarantine recommends to leave it out."""
    server.execute("CREATE DATABASE advised")
    with server.session("advised") as session:
        session.execute(
            "CREATE TABLE good (id INT PRIMARY KEY)", "CREATE TABLE `we/ird` (id INT PRIMARY KEY)"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("advised.*",))
    lake.catch_up()
    assert quarantined(lake).keys() == {"advised.we/ird"}
    assert not lake.verify().is_equal
    lake.options = replace(lake.options, exclude_tables=("advised.we/ird",))
    assert states(lake) == {"advised.good": "equal"}
    assert lake.catch_up().quarantined == {}
    # it is not forgotten: with the option gone, the reason is there again
    lake.options = replace(lake.options, exclude_tables=())
    assert states(lake).keys() == {"advised.good", "advised.we/ird"}


def test_a_key_that_the_lake_cannot_have(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """A copy into a Delta table made such keys NULL, and the rows of two of them one row."""
    with server.session() as session:
        session.execute(
            "CREATE DATABASE zero_keys",
            "SET SESSION sql_mode = ''",
            "CREATE TABLE zero_keys.t (d DATE, t VARCHAR(9), n INT, PRIMARY KEY (d, t))",
            "INSERT INTO zero_keys.t VALUES ('0000-00-00', 'a', 1), ('2026-00-00', 'a', 2), ('2026-01-01', 'a', 3)",
        )
    for table_format in ("iceberg", "delta"):
        folder = tmp_path / table_format
        lake = Lake(iceberg_spark, folder, server, tables=("zero_keys.*",), format=table_format)
        lake.catch_up()
        assert quarantined(lake) == {
            "zero_keys.t": "key column d has a value that its type in the lake cannot represent; zero dates in a key need "
            "--zero-date text: start the mirror with it, then run `binlake mirror resync`"
        }
        assert lake.table("zero_keys.t").num_rows == 0
        lake.options = replace(lake.options, zero_date="text")
        resync(folder, ["zero_keys.t"], spark=iceberg_spark, catalog=lake.catalog)
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("zero_keys.t") == ["zero_keys.t"]
    # a row for each change needs no key
    lake = Lake(
        iceberg_spark, tmp_path / "log", server, tables=("zero_keys.*",), append_tables=("*.*",)
    )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.table("zero_keys.t").num_rows == 3


def test_a_privilege_of_the_whole_server_ends_the_first_copy(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Another attempt changes nothing, nor does another table."""
    server.execute(
        "CREATE DATABASE unfollowed",
        "CREATE TABLE unfollowed.a (id INT PRIMARY KEY)",
        "CREATE TABLE unfollowed.b (id INT PRIMARY KEY)",
        "CREATE USER unfollowing@'127.0.0.1' IDENTIFIED BY ''",
        "GRANT SELECT, BINLOG MONITOR ON *.* TO unfollowing@'127.0.0.1'",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("unfollowed.*",))
    lake.url = tcp_url(server, "unfollowing")
    with pytest.raises(ServerError, match="denied"):
        lake.catch_up()
    assert not [note for note in lake.notes if "begins again" in note]


def test_a_table_that_the_user_may_no_longer_read_is_not_gone(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The server no longer lists it, as if it were dropped; its changes are still in the log."""
    server.execute(
        "CREATE DATABASE revoked",
        "CREATE USER narrow@'127.0.0.1' IDENTIFIED BY ''",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO narrow@'127.0.0.1'",
        "GRANT SELECT ON revoked.* TO narrow@'127.0.0.1'",
    )
    with server.session("revoked") as session:
        for table in ("orders", "prices"):
            session.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("revoked.*",), on_alter="resync")
        lake.url = tcp_url(server, "narrow")
        lake.catch_up()
        session.execute(
            "REVOKE SELECT ON revoked.* FROM narrow@'127.0.0.1'",
            "GRANT SELECT ON orders TO narrow@'127.0.0.1'",
            "ALTER TABLE prices MODIFY v VARCHAR(9)",
        )
    lake.catch_up()
    assert gone(lake) == {}
    assert quarantined(lake).keys() == {"revoked.prices"}
    assert "SELECT command denied" in quarantined(lake)["revoked.prices"]


def test_a_new_table_that_does_not_fit_the_options_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its name in the lake is that of another table, or of another program's, or its patterns give it two modes."""
    with server.session() as session:
        session.execute(
            "CREATE DATABASE early",
            "CREATE DATABASE late",
            "CREATE TABLE early.orders (id INT PRIMARY KEY, v INT)",
            "INSERT INTO early.orders VALUES (1, 1)",
        )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("early.*", "late.*"), rename_tables=("*.*=bronze.{table}",),
        append_tables=("late.log_*",), history_tables=("late.*_log",),
    )  # fmt: skip
    mirror = lake.mirror()
    mirror.run(once=True)
    iceberg_spark.sql(f"CREATE TABLE {lake.catalog}.bronze.theirs (id INT) USING iceberg")
    for name in ("log_log", "orders", "theirs", "welcome"):
        server.execute(
            f"CREATE TABLE late.{name} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO late.{name} VALUES (5, 5)",
            "UPDATE early.orders SET v = v + 1",
        )
        mirror.reach()
    mirror.close()
    reasons = quarantined(lake)
    assert reasons.keys() == {"late.log_log", "late.orders", "late.theirs"}
    assert "late.log_log also matches option history_tables;" in reasons["late.log_log"]
    assert "the lake table bronze.orders belongs to early.orders" in reasons["late.orders"]
    assert "the lake has a table bronze.theirs that no mirror created" in reasons["late.theirs"]
    server.execute("UPDATE early.orders SET v = v + 1")
    lake.catch_up()
    assert quarantined(lake) == reasons
    assert lake.table("bronze.orders").to_pylist() == [{"id": 1, "v": 6}]
    assert lake.table("bronze.welcome").to_pylist() == [{"id": 5, "v": 5}]

    lake.options = replace(lake.options, rename_tables=("late.orders=silver.orders", "*.*=bronze.{table}"))  # fmt: skip
    resync(tmp_path, ["late.orders"], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake).keys() == {"late.log_log", "late.theirs"}
    assert lake.table("silver.orders").to_pylist() == [{"id": 5, "v": 5}]
