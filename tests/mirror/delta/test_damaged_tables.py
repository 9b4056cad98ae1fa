"""Delta tables with missing and damaged files: the mirror quarantines them, follows the others, and `resync` brings them back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import resync, status
from dev.servers import Server
from support.spark.mirrored import Lake, quarantined

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11"),
]


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def _without_checksum(file: Path, content: bytes) -> None:
    """Give a file of a lake other content, as a fault of a disk does where no checksums are beside the files."""
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _damage(folder: Path) -> None:
    """Damage a file of each table except `good`."""
    for file in (folder / "lost_rows").glob("**/part-*.parquet"):
        file.unlink()
    for file in (folder / "cut_rows").glob("**/part-*.parquet"):
        _without_checksum(file, file.read_bytes()[: file.stat().st_size // 2])
    for file in (folder / "page").glob("**/part-*.parquet"):
        content = file.read_bytes()
        _without_checksum(file, content[:4] + bytes(40) + content[44:])
    for file in (folder / "flipped").glob("**/part-*.parquet"):  # the file system has checksums
        content = file.read_bytes()
        file.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    _newest(folder, "lost_marks/**/deletion_vector_*.bin").unlink()
    marks = _newest(folder, "bad_marks/**/deletion_vector_*.bin")
    content = marks.read_bytes()
    _without_checksum(marks, content[:20] + bytes([content[20] ^ 1]) + content[21:])
    _newest(folder, "lost_log/_delta_log/*.json").with_name(f"{1:020}.json").unlink()
    log = _newest(folder, "bad_log/_delta_log/*.json")
    _without_checksum(log, bytes(log.stat().st_size))


def test_a_table_with_a_missing_or_damaged_file_does_not_stop_the_others(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Data files, deletion vectors and files of the log."""
    bad = ("bad_log", "bad_marks", "cut_rows", "flipped", "lost_log", "lost_marks", "lost_rows", "page")  # fmt: skip
    tables = sorted((*bad, "good"))
    server.execute("CREATE DATABASE damage")
    with server.session("damage") as session:
        for table in tables:
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 1)" for n in range(50)),
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("damage.*",), format="delta")
    lake.catch_up()
    with server.session("damage") as session:
        session.execute(*(f"UPDATE {table} SET v = 5 WHERE id = 2" for table in tables))
    lake.catch_up()
    _damage(tmp_path / "damage")
    with server.session("damage") as session:
        session.execute(*(f"UPDATE {table} SET v = v + 9 WHERE id < 4" for table in tables))
    lake.catch_up()
    reasons = quarantined(lake)
    assert reasons.keys() == {f"damage.{table}" for table in bad}
    for name, reason in reasons.items():
        assert reason.startswith("a file of its lake table is missing or damaged: ")
        assert "part-" in reason or "deletion_vector_" in reason or "_delta_log" in reason
        assert reason.endswith("; `binlake mirror resync` copies the table again")
        has_log = not name.endswith("_log")
        assert has_log or "; restore the file, or delete the directory " in reason
    assert lake.equals_source("damage.*", *reasons) == ["damage.good"]
    shown = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert set(shown.quarantined) == reasons.keys()

    resync(tmp_path, list(reasons), spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    left = quarantined(lake)
    assert left.keys() == {"damage.bad_log", "damage.lost_log"}
    for name in left:
        shutil.rmtree(tmp_path / "damage" / name.removeprefix("damage."))
    resync(tmp_path, list(left), spark=iceberg_spark, catalog=lake.catalog)
    server.execute("INSERT INTO damage.bad_log VALUES (100, 1)")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("damage.*") == [f"damage.{table}" for table in tables]


def test_a_file_that_goes_while_the_mirror_runs(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The rounds that need it, with images that lack columns or with all of them, and an ALTER."""
    tables = ("altered", "good", "merged", "searched")
    server.execute("CREATE DATABASE going")
    with server.session("going") as session:
        for table in tables:
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, w INT)",
                f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)",
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("going.*",), format="delta")
    mirror = lake.mirror()
    mirror.run(once=True)
    for table in ("merged", "searched"):
        for file in (tmp_path / "going" / table).glob("**/part-*.parquet"):
            file.unlink()
    _newest(tmp_path, "going/altered/_delta_log/*.json").unlink()
    with server.session("going") as session:
        session.execute(
            "ALTER TABLE altered ADD x INT",
            "UPDATE good SET v = 9 WHERE id = 1",
            "UPDATE merged SET v = 9 WHERE id = 1",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE searched SET v = 9 WHERE id = 1",
        )
    mirror.reach()
    mirror.close()
    reasons = quarantined(lake)
    assert reasons.keys() == {"going.altered", "going.merged", "going.searched"}
    for reason in reasons.values():
        assert "a file of its lake table is missing or damaged: " in reason
    assert "ALTER TABLE altered ADD x INT: a file" in reasons["going.altered"]
    assert lake.equals_source("going.*", *reasons) == ["going.good"]
