"""Tables that come and go in the log after a dump was made."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError, SourceError, UnsupportedError
from support.logs.log_builder import GTID, QUERY, TABLE_MAP, query_body
from support.logs.table_log import INSERT, Log, image, rows_body, table_map

CREATE = b"CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), day DATE) CHARSET utf8mb4"
DUMP = """-- MySQL dump 10.13  Distrib 9.7.0
-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS={position};
SET NAMES utf8mb4;
CREATE DATABASE `shop`;
USE `shop`;
CREATE TABLE `other` (
  `id` int unsigned NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `other` WRITE;
INSERT INTO `other` VALUES (1);
UNLOCK TABLES;
-- Dump completed
"""


class _Story:
    """A log, and a dump of its beginning. `then` returns the position after a statement or a row of shop.t."""

    def __init__(self) -> None:
        self.log = Log()
        self.log.insert((9, "before the dump", None), table="x", gno=1)
        self.start = len(self.log.data)
        self.gno = 100

    def then(self, what: bytes | int) -> str:
        if isinstance(what, int):
            rows = rows_body(image((what, f"row {what}", None)))
            self.log.commit((TABLE_MAP, table_map()), (INSERT, rows), gno=what + 10)
        else:
            self.gno += 1
            self.log.add(GTID, b"\0" + bytes(range(16)) + struct.pack("<q", self.gno))
            self.log.add(QUERY, query_body(what))
        return f"binlog.000001:{len(self.log.data)}"

    def ids(self, folder: Path, table: str, moment: str) -> list[Any]:
        dump = folder / "dump.sql"
        dump.write_text(DUMP.format(position=self.start))
        self.log.save(folder)
        found = binlake.open(folder / "binlog.000001").state(table, moment, str(dump))
        return sorted(found["id"].to_pylist())


def why_missing(story: _Story, folder: Path, table: str, moment: str) -> str:
    with pytest.raises(BinlogError) as caught:
        story.ids(folder, table, moment)
    assert isinstance(caught.value, SourceError | UnsupportedError)
    return str(caught.value)


def test_a_table_that_the_log_creates(tmp_path: Path) -> None:
    story = _Story()
    early = story.then(b"CREATE TABLE unrelated (id INT)")
    created = story.then(CREATE)
    filled = [story.then(1), story.then(2)][-1]
    dropped = story.then(b"DROP TABLE t")
    again = story.then(CREATE)
    last = story.then(3)

    assert story.ids(tmp_path, "shop.t", created) == []
    assert story.ids(tmp_path, "shop.t", filled) == [1, 2]
    assert story.ids(tmp_path, "shop.t", again) == []
    assert story.ids(tmp_path, "shop.t", last) == [3]
    assert story.ids(tmp_path, "shop.other", last) == [1]
    for before in (f"binlog.000001:{story.start}", early):
        assert "creates it later" in why_missing(story, tmp_path, "shop.t", before)
    assert "dropped it" in why_missing(story, tmp_path, "shop.t", dropped)
    assert "the dump has no table shop.never" in why_missing(story, tmp_path, "shop.never", last)


@pytest.mark.parametrize(
    "sql", [b"DROP DATABASE shop", b"CREATE OR REPLACE DATABASE shop CHARSET latin1"]
)
def test_a_database_that_is_dropped_takes_its_tables_along(tmp_path: Path, sql: bytes) -> None:
    story = _Story()
    story.then(CREATE)
    story.then(1)
    dropped = story.then(sql)
    for table in ("shop.t", "shop.other"):
        assert "dropped it" in why_missing(story, tmp_path, table, dropped)


def test_tables_that_are_renamed(tmp_path: Path) -> None:
    story = _Story()
    story.then(CREATE)
    filled = story.then(1)
    renamed = story.then(b"RENAME TABLE t TO gone, other TO t")
    last = story.then(b"FLUSH TABLES")
    assert story.ids(tmp_path, "shop.t", filled) == [1]
    assert story.ids(tmp_path, "shop.t", renamed) == [1]  # the row of the other table
    assert story.ids(tmp_path, "shop.gone", renamed) == [1]
    assert story.ids(tmp_path, "shop.t", last) == [1]
    assert story.ids(tmp_path, "shop.gone", last) == [1]
    assert "renamed it to shop.t" in why_missing(story, tmp_path, "shop.other", last)


def test_a_name_that_rows_spell_otherwise(tmp_path: Path) -> None:
    story = _Story()
    story.then(b"RENAME TABLE other TO T")
    last = story.then(2)
    assert "cannot know whether they are the same table" in why_missing(
        story, tmp_path, "shop.T", last
    )


@pytest.mark.parametrize(
    ("sql", "uncertain"),
    [
        (b"RENAME TABLE other TO x, X TO other", ("other", "x")),
        (b"RENAME TABLE other TO x, X TO y, x TO other", ("other", "y")),
        (b"RENAME /* by hand */ TABLE other TO tmp, TMP TO away", ("other", "away", "tmp")),
    ],
)
def test_names_of_one_statement_that_differ_only_in_case(
    tmp_path: Path, sql: bytes, uncertain: tuple[str, ...]
) -> None:
    """With lower_case_table_names=1 they are one name: the first statement then moves nothing."""
    story = _Story()
    story.then(CREATE)
    before = story.then(1)
    story.then(sql)
    last = story.then(2)
    assert story.ids(tmp_path, "shop.other", before) == [1]
    assert story.ids(tmp_path, "shop.t", last) == [1, 2]
    for name in uncertain:
        message = why_missing(story, tmp_path, f"shop.{name}", last)
        assert "cannot know whether they are the same table" in message
        assert re.search(r"binlog\.000001(?::|, event at )\d+", message), (
            "the position of the statement"
        )


def test_another_spelling_of_a_name(tmp_path: Path) -> None:
    story = _Story()
    story.then(b"ALTER TABLE other RENAME TO Other")
    last = story.then(b"FLUSH TABLES")
    assert story.ids(tmp_path, "shop.Other", last) == [1]
    assert story.ids(tmp_path, "shop.other", last) == [1]


def test_statements_about_accounts_change_no_table_of_others(tmp_path: Path) -> None:
    story = _Story()
    story.then(CREATE)
    story.then(1)
    story.then(b"CREATE USER 'app'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'x'")
    story.then(b"GRANT SELECT ON shop.* TO 'app'@'%'")
    last = story.then(2)
    assert story.ids(tmp_path, "shop.t", last) == [1, 2]


def test_a_creation_that_is_not_understood(tmp_path: Path) -> None:
    story = _Story()
    story.then(b"CREATE TABLE t LIKE other")
    last = story.then(b"FLUSH TABLES")
    assert "cannot follow CREATE TABLE" in why_missing(story, tmp_path, "shop.t", last)
