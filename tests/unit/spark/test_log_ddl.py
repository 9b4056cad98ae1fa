"""The DDL of logs in reads of Spark: what batch reads use, and streams refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlake
from binlake.errors import SchemaError
from binlake.spark.batch import BinlogReader
from binlake.spark.partitions import LogPartition
from binlake.spark.source import BinlogDataSource
from binlake.stream.log_ddl import LogDdl
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.stream_log import STANDALONE, StreamLog

GOLDEN = Path(__file__).parents[2] / "golden"
NETWORK = str(GOLDEN / "mariadb-11.8" / "types-full")
MOVING = str(GOLDEN / "mysql-9.7" / "schema")


@pytest.mark.parametrize(
    ("path", "table"),
    [
        (NETWORK, "golden.network"),
        (NETWORK, "golden.vectors"),
        (MOVING, "golden.moving"),
        (MOVING, "golden.unkeyed"),
    ],
)
def test_a_typed_batch_has_the_columns_and_rows_of_the_api(path: str, table: str) -> None:
    source = BinlogDataSource({"path": path, "table": table, "max_partition_bytes": "4000"})
    made = source.reader(source.schema())
    assert isinstance(made, BinlogReader)
    partitions = made.partitions()
    assert len(partitions) > 2
    rows = []
    for partition in partitions:
        assert isinstance(partition, LogPartition)
        rows += [row for b in made.batches(partition, Ledger()) for row in b.to_pylist()]
    assert rows == binlake.open(path).to_arrow(table).to_pylist()


@pytest.mark.parametrize(("part_bytes", "parts"), [("9000000", 1), ("100", 8)])
def test_rows_of_old_temporals_are_counted(tmp_path: Path, part_bytes: str, parts: int) -> None:
    """Only DDL contains the width of MariaDB's old temporal values with fractions."""
    described = (7).to_bytes(6, "little") + b"\1\0\4shop\0\1t\0\1\x0b\0\1"
    rows = (7).to_bytes(6, "little") + b"\1\0\2\0\1\1\0"
    for folder, column, value in (("a", b"TIME", b"\0" * 3), ("b", b"TIME(3)", b"\0" * 5)):
        log = StreamLog(version="10.11.6-MariaDB", alg=0).maria(1, STANDALONE)
        log.query(b"CREATE TABLE t (a " + column + b")").maria(2)
        log.add(TABLE_MAP, described)
        log.add(ROWS, rows + value)
        (tmp_path / folder).mkdir()
        log.xid().write(tmp_path / folder)
    path = str(tmp_path / "*" / "binlog.000001")
    given = {"path": path, "view": "transactions", "max_partition_bytes": part_bytes}
    source = BinlogDataSource(given)
    made = source.reader(source.schema())
    assert isinstance(made, BinlogReader)
    partitions = made.partitions()
    assert len(partitions) == parts
    found = []
    for partition in partitions:
        assert isinstance(partition, LogPartition)
        found += [row for b in made.batches(partition, Ledger()) for row in b.to_pylist()]
    expected = [r for b in binlake.open(path).view("transactions") for r in b.to_pylist()]
    assert [row["inserts"] for row in expected] == [0, 1, 0, 1]
    assert [row["inserts"] for row in found] == [0, 1, 0, 1]


def test_a_stream_refuses_columns_defined_only_by_ddl() -> None:
    given = {"path": NETWORK, "table": "golden.network"}
    source = BinlogDataSource(given)
    schema = source.schema()
    assert schema["uuid"].dataType.simpleString() == "string"
    with pytest.raises(SchemaError, match=r"golden.network are known from DDL.*binlake schema"):
        source.streamReader(schema)
    plain = BinlogDataSource({**given, "ddl_scan_bytes": "0"})
    assert plain.schema()["uuid"].dataType.simpleString() == "binary"
    assert plain.streamReader(plain.schema()) is not None


def test_a_log_with_an_index_counts_less(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(Path(NETWORK, "binlog.000001").read_bytes())
    with log.open("ab") as file:
        file.truncate(8 << 20)  # as long as a large log
    assert not LogDdl.of([str(log)], ReadOptions(), 1 << 20).chains
    log.with_name("binlog.000001.index.parquet").touch()
    assert LogDdl.of([str(log)], ReadOptions(), 1 << 20).chains
