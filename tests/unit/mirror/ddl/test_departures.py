"""The statements after which the server no longer has a mirrored table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl.effects import Effect, departure_of, effect_of
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import DROPPED
from binlake.table.schema.ddl_effects import concerns
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition


class _Shop:
    """The name of a followed table, which is all that most of these statements are compared with."""

    id = ("shop", "t")
    key = ()
    mode = mode_named(MIRROR)


def statement(sql: str) -> DdlStatement:
    return DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)


@pytest.mark.parametrize("sql", [
    "DROP TABLE t", "DROP DATABASE shop", "CREATE OR REPLACE TABLE t (id INT)",
    "CREATE OR REPLACE DATABASE shop", "create or replace schema `shop` collate utf8mb4_bin",
])  # fmt: skip
def test_a_table_that_is_gone(sql: str) -> None:
    ddl = statement(sql)
    assert concerns(ddl, *_Shop.id)
    assert departure_of(ddl, cast(Followed, _Shop())) == Effect(
        gone=DROPPED, dropped=True, departure="drop"
    )


@pytest.mark.parametrize("sql", [
    "ALTER TABLE `p` CONVERT TABLE t TO PARTITION p3 VALUES LESS THAN (9)",
    "alter online table if exists shop.p convert table `shop`.`t` to partition p3 values in ('x') without validation",
])  # fmt: skip
def test_a_table_that_becomes_a_partition(sql: str) -> None:
    ddl = statement(sql)
    assert concerns(ddl, *_Shop.id)
    gone = Effect(gone="made a partition of shop.p", departure="convert")
    assert departure_of(ddl, cast(Followed, _Shop())) == gone
    for other in ("p", "p3"):
        table = cast(Followed, SimpleNamespace(id=("shop", other)))
        assert departure_of(ddl, table) is None


@pytest.mark.parametrize(("sql", "expected"), [
    ("CREATE TABLE shop.t (id INT)", True), ("RENAME TABLE hidden.x TO shop.t", True),
    ("ALTER TABLE hidden.x CONVERT PARTITION p0 TO TABLE shop.t", True),
    ("ALTER TABLE shop.x ADD COLUMN n INT", False), ("CREATE TABLE hidden.t (id INT)", False),
])  # fmt: skip
def test_a_table_that_may_be_new(sql: str, expected: bool) -> None:
    tables = WantedTables(SourceHost("mysql://db1/"), MirrorOptions(tables=("shop.*",)))
    assert tables.may_be_new(statement(sql)) == expected


@pytest.mark.parametrize("sql", [
    "RENAME TABLE t TO x, x TO t", "RENAME TABLE a TO x, t TO y, y TO t, x TO a", "ALTER TABLE t RENAME TO t",
])  # fmt: skip
def test_a_table_that_has_its_name_again(sql: str) -> None:
    table = cast(Followed, _Shop())
    assert effect_of(statement(sql), table, ReadOptions(), ColumnRules()).is_none


@pytest.mark.parametrize("sql", [
    "RENAME TABLE IF EXISTS x TO t", "RENAME TABLE t TO x, T TO t", "RENAME TABLE t TO x, x TO T",
])  # fmt: skip
def test_a_table_that_may_have_another_name(sql: str) -> None:
    table = cast(Followed, _Shop())
    assert not effect_of(statement(sql), table, ReadOptions(), ColumnRules()).is_none
