"""The rows of a dump, from hostile and odd texts."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import BinlogError, SourceError
from binlake.state.dump import Dump
from binlake.values.options import ReadOptions

TABLE = "CREATE TABLE `t` (`id` int NOT NULL, `name` varchar(20), `raw` blob, `b` bit(9), PRIMARY KEY (`id`)) DEFAULT CHARSET=utf8mb4;\n"
PLACE = "-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000003', SOURCE_LOG_POS=157;\n"


def opened(folder: Path, text: str | bytes, table: str = "t") -> Dump:
    path = folder / "dump.sql"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Dump(str(path), "db", table, "mysql", ReadOptions())


def rows(dump: Dump) -> list[tuple[Any, ...]]:
    with dump:
        return [tuple(row.values()) for batch in dump.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("inserts", "expected"),
    [
        ("INSERT INTO `t` VALUES (1,'a',NULL,b'101');", [(1, "a", None, 5)]),
        ("INSERT INTO t VALUES\n(1, 'a', 0x00FF, 3),\n(2,NULL,x'27',NULL);", [(1, "a", b"\0\xff", 3), (2, None, b"'", None)]),
        ("INSERT INTO `t` (`raw`,`b`,`id`,`name`) VALUES (_binary 'x\\0\\'',_binary '\x01\x02',-7,'');", [(-7, "", b"x\0'", 258)]),
        ("INSERT INTO `t` (`id`, `price (EUR)`,name,`b`,`raw`) VALUES (1,2,'a',1,'');", [(1, "a", b"", 1)]),
        ("INSERT IGNORE INTO `db`.`t` VALUES (1,'),(2,\\'x\\n;','/*',1);", [(1, "),(2,'x\n;", b"/*", 1)]),
        ("REPLACE INTO `t` VALUES (1,'it''s \\\\','--',0);", [(1, "it's \\", b"--", 0)]),
        ("INSERT INTO `other` VALUES (9,'INSERT INTO `t` VALUES (9,9,9,9);');\nINSERT INTO `t` VALUES (1,'a','',1);", [(1, "a", b"", 1)]),
        ("INSERT INTO `t` VALUES (1,'a','',1);\nINSERT INTO `t` VALUES (2,'b','',1);", [(1, "a", b"", 1), (2, "b", b"", 1)]),
        ("INSERT INTO `x`.`t` VALUES (9,'a','',1);\nLOCK TABLES `t` WRITE;", []),
        ("DELIMITER ;;\nCREATE TRIGGER g BEFORE INSERT ON o FOR EACH ROW BEGIN INSERT INTO t VALUES (8,'g','',1); END ;;\nDELIMITER ;\nLOCK TABLES `t` WRITE;", []),
        ("INSERT INTO `t` VALUES (1,'☃ 😀','\\%\\_\\a\\Z',511);", [(1, "☃ 😀", b"\\%\\_a\x1a", 511)]),
    ],
)  # fmt: skip
def test_rows_are_read(tmp_path: Path, inserts: str, expected: list[Any]) -> None:
    assert rows(opened(tmp_path, TABLE + inserts)) == expected


@pytest.mark.parametrize(
    ("inserts", "words"),
    [
        ("INSERT INTO `t` VALUES (1,NOW(),'',1);", 'line 2: expected a literal, found "NOW()'),
        ("INSERT INTO `t` VALUES (1,'a','');", "a row has 3 values for 4 columns"),
        ("INSERT INTO `t` VALUES (1,'a','',1) ON DUPLICATE KEY UPDATE id=2;", "found ' ON DUPLICATE"),
        ("INSERT INTO `t` VALUES (1,'a','',1),;", "expected a row of values"),
        ("INSERT INTO `t` (`id`) VALUES (1);", "INSERT without column b"),
        ("INSERT INTO `t` SELECT * FROM x;", "INSERT without VALUES"),
        ("INSERT INTO `t` VALUES (1.5,'a','',1);", "a value of column id cannot be read"),
        ("INSERT INTO `t` VALUES (99999999999,'a','',1);", "a value does not fit into its column"),
    ],
)  # fmt: skip
def test_a_malformed_dump_error_contains_the_line_number(
    tmp_path: Path, inserts: str, words: str
) -> None:
    with pytest.raises(SourceError) as error:
        rows(opened(tmp_path, TABLE + inserts))
    assert words in str(error.value)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    text = TABLE.encode() + b"INSERT INTO `t` VALUES (1,'\xff','',1);"
    with pytest.raises(SourceError, match="a value of column name cannot be read"):
        rows(opened(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLE, "contains only the definition of db.t, not its rows"),
        ("CREATE TABLE `u` (id int);\nINSERT INTO u VALUES (1);", "no table db.t; it has ?.u"),
        ("-- MySQL dump 10.13\n" + TABLE + "INSERT INTO `t` VALUES (1,'a','',1);", "not complete"),
        (TABLE + "-- Dumping data for table `t`\n-- WHERE:  id < 3\nINSERT INTO `t` VALUES (1,'a','',1);", "made with --where"),
        ("-- Host: localhost    Database: shop\n" + TABLE + "INSERT INTO `t` VALUES (1,'a','',1);", "no table db.t"),
        ("", "is empty"),
        (TABLE + "INSERT INTO `t` VALUES (1,'a", "unterminated"),
    ],
)  # fmt: skip
def test_dumps_without_all_rows_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BinlogError) as error:
        rows(opened(tmp_path, text))
    assert words in str(error.value)


def test_other_character_sets_and_time_zones_are_refused(tmp_path: Path) -> None:
    insert = "INSERT INTO `t` VALUES (1,'a','',1);"
    with pytest.raises(SourceError, match="character set latin1"):
        rows(opened(tmp_path, "/*!40101 SET NAMES latin1 */;\n" + TABLE + insert))
    for name in ("utf8", "utf8mb3"):
        with pytest.raises(
            SourceError, match=f"in character set {name}, which lacks characters that column name"
        ):
            rows(opened(tmp_path, f"/*!40101 SET NAMES {name} */;\n" + TABLE + insert))
        narrow = TABLE.replace("utf8mb4", "latin1")
        assert (
            len(rows(opened(tmp_path, f"/*!40101 SET NAMES {name} */;\n" + narrow + insert))) == 1
        )
    stamped = "CREATE TABLE `t` (`id` int PRIMARY KEY, `ts` timestamp NULL);\nINSERT INTO `t` VALUES (1,'2026-11-21 10:00:00');"
    with pytest.raises(SourceError, match="time zone of TIMESTAMP column ts"):
        rows(opened(tmp_path, stamped))
    found = rows(opened(tmp_path, "/*!40103 SET TIME_ZONE='+00:00' */;\n" + stamped))
    assert found == [(1, "2026-11-21 10:00:00")]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (PLACE, "binlog.000003:157"),
        ("CHANGE MASTER TO MASTER_LOG_FILE='b.1', MASTER_LOG_POS=4;\n", "b.1:4"),
        ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,\n4e11fa47-71ca-11e1-9e33-c80aa9429562:1';\n",
         "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,4e11fa47-71ca-11e1-9e33-c80aa9429562:1"),
        ("/* SET @@GLOBAL.GTID_PURGED='+3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';*/\n", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
        ("-- SET GLOBAL gtid_slave_pos='0-1-5';\n", "0-1-5"),
    ],
)  # fmt: skip
def test_the_place_in_the_log_is_found(tmp_path: Path, place: str, shown: str) -> None:
    insert = "INSERT INTO `t` VALUES (1,'a','',1);\n"
    for text in (place + TABLE + insert, TABLE + insert + place):
        with opened(tmp_path, text) as dump:
            places = (dump.origin.position, dump.origin.mysql, dump.origin.mariadb)
            assert [str(one) for one in places if one is not None] == [shown]


def test_a_position_inside_a_value_is_ignored(tmp_path: Path) -> None:
    with opened(
        tmp_path,
        TABLE + f"INSERT INTO `t` VALUES (1,'\n{PLACE.strip()[:-1].replace(chr(39), '')}','',1);",
    ) as dump:
        assert not dump.origin.is_known


def test_a_compressed_dump_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql.gz"
    path.write_bytes(gzip.compress((TABLE + "INSERT INTO `t` VALUES (1,'a','',1);").encode()))
    assert rows(Dump(str(path), "db", "t", "mysql", ReadOptions())) == [(1, "a", b"", 1)]


def test_a_key_is_the_primary_key_or_a_unique_one_without_nulls(tmp_path: Path) -> None:
    for keys, expected in (
        ("PRIMARY KEY (`a`,`b`)", ("a", "b")),
        ("UNIQUE KEY `u` (`b`), UNIQUE KEY `v` (`a`)", ("a",)),
        ("UNIQUE KEY `u` (`a`(3))", ()),
        ("KEY `u` (`a`)", ()),
    ):
        text = f"CREATE TABLE `t` (`a` varchar(9) NOT NULL, `b` int, {keys}) CHARSET=utf8mb4;\nINSERT INTO t VALUES ('a',1);"
        with opened(tmp_path, text) as dump:
            assert dump.shape.key == expected
