"""CREATE TABLE statements out of whatever people have: dumps, SHOW CREATE TABLE, notes."""

from __future__ import annotations

import gzip
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlake.errors import SchemaError
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.schema_file import parse_schema, read_schema_file


def _only(sql: str) -> DeclaredTable:
    (table,) = parse_schema(sql.encode()).tables
    return table


MYSQLDUMP = """-- MySQL dump 10.13  Distrib 5.6.24, for linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
/*!40101 SET NAMES utf8 */;

--
-- Current Database: `shop`
--

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 */;

USE `shop`;

DROP TABLE IF EXISTS `orders`;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `orders` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `state` enum('new','it''s; (paid)','a,b') CHARACTER SET utf8 COLLATE utf8_bin DEFAULT NULL COMMENT 'x, y) unsigned',
  `price` decimal(10,2) NOT NULL DEFAULT '0.00',
  `note` varchar(20) DEFAULT NULL,
  `body` text CHARACTER SET utf8mb4,
  PRIMARY KEY (`id`,`note`(3)),
  KEY `state` (`state`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COMMENT='CREATE TABLE `no` (`x` int)';

LOCK TABLES `orders` WRITE;
INSERT INTO `orders` VALUES (1,'new',1.00,'a\\';CREATE TABLE `fake` (id int);','--'),(2,'new',1.00,'it''s','#');
UNLOCK TABLES;

CREATE TABLE `plain` (`name` varchar(5) DEFAULT NULL);

-- Current Database: `other`
CREATE TABLE `orders` (`t` tinyint(1) DEFAULT NULL) ENGINE=MyISAM DEFAULT CHARSET=latin1
/*!50100 PARTITION BY HASH (t) PARTITIONS 4 */;
"""


def test_a_dump_with_two_databases() -> None:
    orders, plain, other = parse_schema(MYSQLDUMP.encode()).tables
    assert (orders.database, orders.table, orders.primary_key) == ("shop", "orders", ("id", "note"))
    assert [c.name for c in orders.columns] == ["id", "state", "price", "note", "body"]
    identity, state, price, note, body = orders.columns
    assert identity.unsigned
    assert not state.unsigned  # the word stands in its comment only
    assert state.members == ("new", "it's; (paid)", "a,b")
    assert (price.length, price.decimals) == (10, 2)
    assert (note.charset, body.charset) == ("utf8mb4", "utf8mb4")
    assert plain.columns[0].charset == "latin1"  # the database's default
    assert (other.database, other.table) == ("other", "orders")


@pytest.mark.parametrize(
    ("sql", "code", "expected"),
    [
        ("float unsigned", 4, {"unsigned": True}),
        ("float(40)", 5, {}),
        ("float(7,3)", 4, {}),
        ("double precision", 5, {}),
        ("serial", 8, {"unsigned": True}),
        ("int(9) unsigned zerofill", 3, {"unsigned": True}),
        ("boolean", 1, {"unsigned": False}),
        ("bit(64)", 16, {"length": 64}),
        ("bit", 16, {"length": 1}),
        ("decimal", 246, {"length": 10, "decimals": 0}),
        (
            "datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
            18,
            {"decimals": 6},
        ),
        ("timestamp NULL", 17, {"decimals": 0}),
        ("multilinestring /*!80003 SRID 4326 */", 255, {}),
        ("point NOT NULL SRID 4326", 255, {}),
        ("varchar(10) /*M!100301 COMPRESSED*/ DEFAULT NULL", 141, {"charset": "koi8r"}),
        ("varchar(9) COLLATE utf8mb4_uca1400_ai_ci", 15, {"charset": "utf8mb4"}),
        ("char(3) CHARACTER SET utf8 COLLATE utf8_bin", 254, {"charset": "utf8mb3"}),
        ("national varchar(9)", 15, {"charset": "utf8mb3"}),
        ("char(3) byte", 254, {"charset": "binary"}),
        ("varbinary(9)", 15, {"charset": "binary"}),
        ("longblob", 252, {"charset": "binary"}),
        ("longtext INVISIBLE", 252, {"charset": "koi8r"}),
        ("uuid DEFAULT uuid()", 254, {"special": "uuid"}),
        ("inet6", 254, {"special": "inet6"}),
        ("vector(3) NOT NULL", 242, {"special": "vector"}),
        ("json DEFAULT (json_array(1, ')'))", 245, {"special": "json"}),
        ("int GENERATED ALWAYS AS (`a` * (2 + 1)) VIRTUAL", 3, {"unsigned": False}),
        ("int CHECK (`x` in (1,2) and `y` <> ',')", 3, {}),
        ("int WITHOUT SYSTEM VERSIONING", 3, {}),
        ("set('a','b\\'c','d\\ne')", 248, {"members": ("a", "b'c", "d\ne")}),
        ("enum('²','x') CHARSET latin1", 247, {"members": ("²", "x")}),
    ],
)
def test_column_types(sql: str, code: int, expected: dict[str, object]) -> None:
    table = _only(f"CREATE TABLE t (a int, x {sql}, z int) DEFAULT CHARSET=koi8r")
    assert [c.name for c in table.columns] == ["a", "x", "z"]
    column = table.columns[1]
    assert code in column.type_codes
    for name, value in expected.items():
        assert getattr(column, name) == value, name


def test_keys_checks_and_periods_are_no_columns() -> None:
    table = _only(
        """CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS `a``b`.`c.d` (
          `a` int UNIQUE KEY, b int KEY, `key` int, period int,
          UNIQUE KEY `u` (`a`), FULLTEXT KEY (`b`), SPATIAL INDEX (`key`), VECTOR INDEX (`b`),
          CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `x` (`y`) ON DELETE CASCADE,
          CHECK (`a` > 0), PERIOD FOR p(a, b)
        ) WITH SYSTEM VERSIONING"""
    )
    assert (table.database, table.table) == ("a`b", "c.d")
    assert [c.name for c in table.columns] == ["a", "b", "key", "period"]
    assert table.primary_key == ("b",)
    assert table.system_versioned


@pytest.mark.parametrize(
    ("sql", "is_versioned"),
    [
        ("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", True),
        ("CREATE TABLE t (a INT, x INT WITH SYSTEM VERSIONING)", True),
        ("CREATE TABLE t (a INT, x INT WITHOUT SYSTEM VERSIONING)", False),
        ("CREATE TABLE t (a INT) SELECT versioning FROM u", False),
        ("CREATE TABLE t (a INT) COMMENT 'WITH SYSTEM VERSIONING'", False),
    ],
)
def test_system_versioning(sql: str, is_versioned: bool) -> None:
    assert _only(sql).system_versioned == is_versioned


def test_output_of_the_mysql_client() -> None:
    vertical = """*************************** 1. row ***************************
       Table: a
Create Table: CREATE TABLE `a` (
  `id` int NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci
*************************** 2. row ***************************
       Table: b
Create Table: CREATE TABLE `b` (
  `v` text
) ENGINE=InnoDB DEFAULT CHARSET=latin1
"""
    first, second = parse_schema(vertical.encode()).tables
    assert (first.table, first.primary_key) == ("a", ("id",))
    assert (second.table, second.columns[0].charset) == ("b", "latin1")
    batch = (
        "Table\tCreate Table\n"
        "a\tCREATE TABLE `a` (\\n  `id` int NOT NULL,\\n  `e` enum('x','y') DEFAULT NULL\\n)"
        " ENGINE=InnoDB\n"
        "b\tCREATE TABLE `b` (\\n  `v` text\\n) DEFAULT CHARSET=latin1\n"
    )
    first, second = parse_schema(batch.encode()).tables
    assert [c.name for c in first.columns] == ["id", "e"]
    assert first.columns[1].members == ("x", "y")
    assert second.columns[0].charset == "latin1"


def test_statements_without_columns_declare_nothing() -> None:
    schema = parse_schema(
        b"CREATE TABLE a LIKE b; CREATE TABLE c AS SELECT 1; CREATE TABLE d (id int)"
    )
    assert [t.table for t in schema.tables] == ["d"]


def test_a_schema_error_contains_table_and_line() -> None:
    with pytest.raises(SchemaError, match=r"line 2: .*t: type wibble of column b is not known"):
        parse_schema(b"\nCREATE TABLE t (a int, b wibble(3));")
    with pytest.raises(SchemaError, match=r"line 1: .*t: a parenthesis is not closed"):
        parse_schema(b"CREATE TABLE t (a int, b int")
    with pytest.raises(SchemaError, match=r"line 1: .*no word TABLE"):
        parse_schema(b"CREATE TABLE$x (a int);")
    with pytest.raises(SchemaError, match="contains no CREATE TABLE"):
        parse_schema(b"SELECT 1;")


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "dump.sql"
    file.write_text(MYSQLDUMP)
    assert len(read_schema_file(str(file)).tables) == 3
    file.write_text("")
    with pytest.raises(SchemaError, match="is empty"):
        read_schema_file(str(file))
    missing = str(tmp_path / "missing.sql")
    with pytest.raises(SchemaError, match="cannot read schema file") as caught:
        read_schema_file(missing)
    assert str(caught.value).count(missing) == 1


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """The shell makes a pipe for --schema <(mysqldump --no-data shop)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(pipe.write_text, MYSQLDUMP)
        assert len(read_schema_file(str(pipe)).tables) == 3
        written.result()


def test_a_pipe_without_end_is_refused() -> None:
    with pytest.raises(SchemaError, match="more than the 65,536 bytes that option max_memory"):
        read_schema_file("/dev/zero", 1 << 16)


def test_a_compressed_schema_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schema.sql.gz"
    path.write_bytes(gzip.compress(MYSQLDUMP.encode()))
    with pytest.raises(SchemaError, match="is compressed"):
        read_schema_file(str(path))


def test_every_table_of_the_corpus(corpus: Path) -> None:
    scenarios = sorted(corpus.glob("generated/mysql-5.6.24/*/workload.sql.gz"))
    assert scenarios
    for scenario in scenarios:
        data = gzip.decompress(scenario.read_bytes())
        created = set(re.findall(rb"(?m)^CREATE TABLE `?([\w$-]+)`? \((?!LIKE)", data))
        declared = {table.table.encode() for table in parse_schema(data).tables}
        assert created <= declared, scenario
