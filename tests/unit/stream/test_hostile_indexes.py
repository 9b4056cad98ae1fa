"""Indexes beside a log that somebody else made: they take no more memory than the log justifies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.cli.main import main
from support.logs.costly_logs import many_tables
from support.logs.table_log import write_keyed_log

ROWS = ("rows", "--table", "shop.t1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(many_tables(3))
    assert main(["index", str(path)]) == 0
    return path


def printed(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[str, str]:
    capfd.readouterr()
    assert main(list(argv)) == 0
    return capfd.readouterr()


def replaced(log: Path, columns: dict[str, pa.Array], count: int) -> None:
    """Make the index one of so many copies of its transaction, with some other columns."""
    path = log.with_name(f"{log.name}.index.parquet")
    found = pq.read_table(path)
    nowhere = pa.repeat(pa.scalar(0, pa.int64()), count)
    made = {
        name: columns[name] if name in columns else found[name].combine_chunks().take(nowhere)
        for name in found.column_names
    }
    table = pa.table(list(made.values()), schema=found.schema)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def is_ignored(capfd: pytest.CaptureFixture[str], log: Path, why: str) -> None:
    path = log.with_name(f"{log.name}.index.parquet")
    out, err = printed(capfd, *ROWS, str(log))
    assert f"ignored the index {path}: {why}" in err
    path.unlink()
    assert out
    assert printed(capfd, *ROWS, str(log))[0] == out


def test_an_honest_one_is_used(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    replaced(log, {}, 1)
    assert "ignored" not in printed(capfd, *ROWS, str(log))[1]


def test_more_transactions_than_the_log_can_have(
    capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    replaced(log, {}, log.stat().st_size)
    is_ignored(capfd, log, "it claims more than its log can contain")


def test_more_names_than_the_log_can_have(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    many = pa.array([["shop.t1"] * 20 * log.stat().st_size], pa.list_(pa.string()))
    replaced(log, {"tables": many}, 1)
    is_ignored(capfd, log, "it claims more than its log can contain")


@pytest.mark.parametrize("column", ["gtid", "tables"])
def test_a_name_that_no_server_allows(
    capfd: pytest.CaptureFixture[str], log: Path, column: str
) -> None:
    """It would be as long in each of the rows, of which the file has but one copy."""
    long = "x" * 100_000
    values = pa.array([long] * 4) if column == "gtid" else pa.array([[f"shop.{long}"] * 4] * 4)
    replaced(log, {column: values}, 4)
    is_ignored(capfd, log, "it contains a name that is too long")


def test_an_index_of_another_log_is_not_read(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    """What it claims does not matter then."""
    replaced(log, {}, log.stat().st_size)
    log.write_bytes(many_tables(4))
    is_ignored(capfd, log, f"{log.name} has changed since it was indexed")


def test_a_compressed_key_index(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    write_keyed_log(path, range(1, 1001))
    assert main(["index", "--keys", str(path)]) == 0
    keys = path.with_name(f"{path.name}.keys.arrow")
    where = ("rows", "--where", "id = 1", str(path))
    good = printed(capfd, *where)
    assert "ignored" not in good[1]
    with pa.ipc.open_file(keys) as file:
        batch = file.get_batch(0)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(keys), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as to,
    ):
        to.write_batch(batch)
    out, err = printed(capfd, *where)
    assert f"ignored the key index {keys}: it is compressed" in err
    assert out == good[0]
