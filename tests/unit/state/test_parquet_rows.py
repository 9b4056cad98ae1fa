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
from binlake.stream.index.compact_protocol import Struct, StructReader, encoded, number, structs
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
    with pytest.raises(SourceError, match=r"contains the rows of a different table, not of db\.t"):
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


@pytest.mark.parametrize("counts", [[], [0], [10, 0, 10]])
def test_row_groups_without_rows(counts: list[int], tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(10), pa.int64()), "v": ["abc"] * 10})
    rows_in(tmp_path, table, LONG).close()
    with pq.ParquetWriter(tmp_path / "rows.parquet", table.schema) as writer:
        for count in counts:
            writer.write_table(table.slice(0, count))
    options = ReadOptions(schema=str(tmp_path / "schema.sql"))
    with ParquetRows(str(tmp_path / "rows.parquet"), "db", "t", "mysql", options) as rows:
        assert sum(batch.num_rows for batch in rows.batches()) == sum(counts)


def joined(first: bytes, second: bytes) -> bytes:
    """Return a file with the row groups of two files of the same columns."""
    (footer, end), (other, other_end) = map(_footer_of, (first, second))
    for group in structs(other, 4):
        for chunk in structs(group, 1):
            column = chunk[3][1]
            for key in (9, 11):
                if key in column:
                    column[key] = (column[key][0], column[key][1] + end - len(b"PAR1"))
    for group in (*structs(footer, 4), *structs(other, 4)):
        group.pop(5, None)
        for chunk in structs(group, 1):
            for key in (4, 5, 6, 7):
                chunk.pop(key, None)
    kind, (of, groups) = footer[4]
    footer[4] = (kind, (of, groups + structs(other, 4)))
    footer[3] = (footer[3][0], number(footer, 3) + number(other, 3))
    text = encoded(footer)
    return first[:end] + second[4:other_end] + text + len(text).to_bytes(4, "little") + b"PAR1"


def _footer_of(data: bytes) -> tuple[Struct, int]:
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return StructReader(data[start:-8]).struct(), start


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("is_first", [False, True])
def test_row_groups_with_and_without_a_dictionary(
    encoding: str, is_first: bool, tmp_path: Path
) -> None:
    """Arrow cannot read the values of these encodings as those of a dictionary."""
    table = pa.table({"id": pa.array(range(100), pa.int64()), "v": [f"{n:05}" for n in range(100)]})
    rows_in(tmp_path, table, LONG).close()
    path = tmp_path / "rows.parquet"
    whole = path.read_bytes()
    pq.write_table(table, path, use_dictionary=False, column_encoding={"v": encoding})
    groups = (path.read_bytes(), whole) if is_first else (whole, path.read_bytes())
    path.write_bytes(joined(*groups))
    options = ReadOptions(schema=str(tmp_path / "schema.sql"))
    with ParquetRows(str(path), "db", "t", "mysql", options) as rows:
        found = pa.Table.from_batches(rows.batches())
    assert found.to_pylist() == table.to_pylist() * 2


COUNT = 200_000
INTEGERS = pa.array(range(COUNT), pa.int64())
TEXTS = [f"value {number}" for number in range(COUNT)]


@pytest.mark.parametrize("limit", [1 << 20, 1 << 30])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DECIMAL(20,0)", INTEGERS.cast(pa.decimal128(20, 0))),
        ("LONGTEXT", pa.array(TEXTS)),
        ("LONGTEXT", pa.array(TEXTS, pa.large_string())),
        ("LONGTEXT", pa.array(TEXTS).dictionary_encode()),
        ("LONGTEXT", pa.array(TEXTS, pa.large_string()).dictionary_encode()),
        ("BIGINT", INTEGERS.dictionary_encode()),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_many_distinct_values_come_in_large_batches(
    kind: str, values: pa.Array, limit: int, tmp_path: Path
) -> None:
    """Before, they came one to five at a time."""
    table = pa.table({"id": INTEGERS, "v": values})
    create = f"CREATE TABLE t (id BIGINT, v {kind}) CHARSET=utf8mb4"
    rows_in(tmp_path, table.slice(0, 1), create).close()
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, dictionary_pagesize_limit=limit)
    options = ReadOptions(schema=str(tmp_path / "schema.sql"))
    with ParquetRows(str(path), "db", "t", "mysql", options) as rows:
        batches = list(rows.batches())
    assert min(batch.num_rows for batch in batches[:-1]) >= 1000
    found = pa.Table.from_batches(batches).column("v")
    assert found.cast(pa.string()).to_pylist() == table["v"].cast(pa.string()).to_pylist()


def test_decimals_by_their_differences_come_in_large_batches(tmp_path: Path) -> None:
    table = pa.table({"id": INTEGERS, "v": INTEGERS.cast(pa.decimal128(20, 0))})
    create = "CREATE TABLE t (id BIGINT, v DECIMAL(20,0)) CHARSET=utf8mb4"
    rows_in(tmp_path, table.slice(0, 1), create).close()
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding={"v": "DELTA_BYTE_ARRAY"})
    options = ReadOptions(schema=str(tmp_path / "schema.sql"))
    with ParquetRows(str(path), "db", "t", "mysql", options) as rows:
        assert next(rows.batches()).num_rows >= 1000
