"""The rows of Parquet files that others wrote."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.errors import SourceError
from binlake.state.parquet_rows import CREATE_TABLE, ParquetRows, is_parquet
from binlake.values.options import ReadOptions

TABLE = (
    "CREATE TABLE db.t (id BIGINT UNSIGNED PRIMARY KEY, price DECIMAL(20,10), d DATE, at DATETIME(3),"
    " plain DATETIME, took TIME(1), raw BLOB, name VARCHAR(9)) CHARSET utf8mb4;"
)
VALUES = {
    "ID": pa.array([Decimal(2**64 - 1), None], pa.decimal128(20, 0)),
    "price": pa.array([Decimal("0.0000000001"), Decimal(-3)], pa.decimal128(20, 10)),
    "d": pa.array([date(2026, 11, 21), None]),
    "at": pa.array([datetime(2026, 11, 21, 10, 0, 0, 500_000), None], pa.timestamp("us")),
    "plain": pa.array([datetime(2026, 11, 21, 10), None], pa.timestamp("ns")),
    "took": pa.array([timedelta(hours=-100, seconds=-0.5), None], pa.duration("us")),
    "raw": pa.array([b"\0", b""]),
    "name": pa.array(["é", None], pa.large_string()),
    "more": pa.array([1, 2]),
}


def rows_in(folder: Path, table: pa.Table, schema: str | None = TABLE) -> ParquetRows:
    path = folder / "rows.parquet"
    pq.write_table(table, path)
    options = ReadOptions()
    if schema is not None:
        (folder / "schema.sql").write_text(schema)
        options = ReadOptions(schema=str(folder / "schema.sql"))
    assert is_parquet(str(path))
    return ParquetRows(str(path), "db", "t", "mysql", options)


def test_typed_values_become_the_texts_of_the_server(tmp_path: Path) -> None:
    with rows_in(tmp_path, pa.table(VALUES)) as rows:
        assert rows.shape.key == ("id",)
        assert not rows.origin.is_known
        [batch] = rows.batches()
    assert batch.to_pylist() == [
        {
            "id": 2**64 - 1,
            "price": "0.0000000001",
            "d": "2026-11-21",
            "at": "2026-11-21 10:00:00.500",
            "plain": "2026-11-21 10:00:00",
            "took": "-100:00:00.5",
            "raw": b"\0",
            "name": "é",
        },
        {
            "id": None,
            "price": "-3.0000000000",
            "d": None,
            "at": None,
            "plain": None,
            "took": None,
            "raw": b"",
            "name": None,
        },
    ]


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"does not contain the definition of db\.t"):
        rows_in(tmp_path, pa.table(VALUES), None)
    with pytest.raises(SourceError, match=r"has no column name of db\.t"):
        rows_in(tmp_path, pa.table(VALUES).drop_columns(["name"]))
    text = pa.table({**VALUES, "ID": pa.array(["x", "y"])})
    with pytest.raises(SourceError, match="column id of type string does not fit"):
        list(rows_in(tmp_path, text).batches())
    other = pa.table(VALUES).replace_schema_metadata(
        {"binlake.create_table": "CREATE TABLE u (id INT)"}
    )
    with pytest.raises(SourceError, match=r"has the rows of another table than db\.t"):
        rows_in(tmp_path, other)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"cannot read .*broken\.parquet"):
        ParquetRows(str(broken), "db", "t", "mysql", ReadOptions())


def test_damaged_files_are_errors_that_name_them(tmp_path: Path) -> None:
    table = pa.table(VALUES)
    rows_in(tmp_path, table).close()
    path = tmp_path / "rows.parquet"
    options = ReadOptions(schema=str(tmp_path / "schema.sql"))
    data = path.read_bytes()
    failed = 0
    for at in range(4, len(data) - 8, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            with ParquetRows(str(path), "db", "t", "mysql", options) as rows:
                list(rows.batches())
        except SourceError as error:
            failed += str(path) in str(error)
    assert failed > 10
    with pytest.raises(SourceError, match=r"cannot read .*rows\.parquet"):
        rows_in(tmp_path, table.replace_schema_metadata({CREATE_TABLE: b"\xff"}))


LONG = "CREATE TABLE t (id BIGINT, v LONGTEXT) CHARSET=utf8mb4"


def test_a_value_that_is_repeated_takes_little_memory(tmp_path: Path) -> None:
    """A file of 50 kB with 100 MB of rows: they come in parts."""
    table = pa.table({"id": pa.array(range(100), pa.int64()), "v": ["x" * (1 << 20)] * 100})
    with rows_in(tmp_path, table, LONG) as rows:
        batches = list(rows.batches())
    assert max(batch.nbytes for batch in batches) <= 18 << 20
    assert pa.Table.from_batches(batches).to_pydict() == table.to_pydict()
    assert (tmp_path / "rows.parquet").stat().st_size < 1 << 16
