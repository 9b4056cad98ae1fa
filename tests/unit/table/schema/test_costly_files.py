"""Schema files and dumps of 1 MB that are made to take much time: each has a limit of processor time."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlake.errors import SchemaError
from binlake.state.dump import Dump
from binlake.table.schema.schema_file import read_schema_file
from binlake.values.options import ReadOptions

TABLE = b"CREATE TABLE `t` (`a` int NOT NULL, PRIMARY KEY (`a`)) DEFAULT CHARSET=utf8mb4;\n"
DUMP = b"-- MySQL dump 10.13\nUSE shop;\n" + TABLE
COMPLETE = b"\n-- Dump completed on 2026-01-01\n"
MOST_S = 12  # the files take 0.1 to 3 seconds; before, the first ones took up to 8, and some minutes with more bytes


def seconds(read: Callable[[], object]) -> float:
    begun = time.process_time()
    read()
    return time.process_time() - begun


def rows(path: Path) -> int:
    with Dump(str(path), "shop", "t", "mysql", ReadOptions()) as dump:
        return sum(batch.num_rows for batch in dump.batches())


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        (b"".join(b"CREATE TABLE t%d(a INT);\n" % n for n in range(30_000)), 30_000),
        (TABLE + b"#\n" * 450_000, 1),
        (TABLE + b"(" * 900_000, 1),
        (TABLE + b";" * 900_000, 1),
        (TABLE + b"''" * 450_000, 1),
        (TABLE + b"/**/" * 220_000, 1),
        (TABLE + b"USE x;\n" * 120_000, 1),
        (
            TABLE
            + b"".join(b"CREATE TABLE t%d LIKE abcdefghijklmno;\n" % n for n in range(20_000)),
            1,
        ),
    ],
    ids=["tables", "notes", "brackets", "ends", "quotes", "comments", "use", "like"],
)
def test_a_schema_file_takes_little_time(text: bytes, tables: int, tmp_path: Path) -> None:
    path = tmp_path / "schema.sql"
    path.write_bytes(text)
    read: list[int] = []
    assert seconds(lambda: read.append(len(read_schema_file(str(path)).tables))) < MOST_S
    assert read == [tables]


def test_a_table_of_brackets_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "schema.sql"
    path.write_bytes(b"CREATE TABLE t (a INT DEFAULT " + b"(" * 900_000)

    def read() -> None:
        with pytest.raises(SchemaError, match="more than 262,144 words and signs"):
            read_schema_file(str(path))

    assert seconds(read) < MOST_S


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"".join(b"INSERT INTO `t` VALUES (%d);\n" % n for n in range(25_000)), 25_000),
        (b"INSERT INTO `t` VALUES (1);\n" + b"USE shop;\n" * 100_000, 1),
        (b"INSERT INTO `t` VALUES (1);\n" + b"DELIMITER ;\n" * 80_000, 1),
        (
            b"INSERT INTO `t` VALUES (1);\n"
            + b"".join(b"CREATE TABLE t%d(a INT);\n" % n for n in range(30_000)),
            1,
        ),
    ],
    ids=["inserts", "use", "delimiters", "tables"],
)
def test_a_dump_takes_little_time(text: bytes, count: int, tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(DUMP + text + COMPLETE)
    read: list[int] = []
    assert seconds(lambda: read.append(rows(path))) < MOST_S
    assert read == [count]


@pytest.mark.parametrize("filler", [b" ", b" \n", b"\n", b"ab,"])
def test_a_packed_dump_of_little_else_than_spaces_takes_linear_time(
    filler: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "dump.sql.gz"
    more = filler * ((9 << 20) // len(filler))  # of windows of 4 MB
    path.write_bytes(gzip.compress(DUMP + b"INSERT INTO `t` VALUES (1);\n" + more + COMPLETE))
    read: list[int] = []
    assert seconds(lambda: read.append(rows(path))) < MOST_S / 2
    assert read == [1]
