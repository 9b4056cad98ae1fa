"""The statements after which the server no longer has a mirrored table."""

from __future__ import annotations

from typing import cast

import pytest

from binlake.mirror.ddl.effects import Effect, departure_of
from binlake.mirror.followed.table import Followed
from binlake.stream.runs import ChainPosition
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import DROPPED
from binlake.table.schema.ddl_effects import concerns


class _Shop:
    """The name of a followed table, which is all that these statements are compared with."""

    id = ("shop", "t")


@pytest.mark.parametrize("sql", [
    "DROP TABLE t", "DROP DATABASE shop", "CREATE OR REPLACE TABLE t (id INT)",
    "CREATE OR REPLACE DATABASE shop", "create or replace schema `shop` collate utf8mb4_bin",
])  # fmt: skip
def test_a_table_that_is_gone(sql: str) -> None:
    ddl = DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)
    assert concerns(ddl, *_Shop.id)
    assert departure_of(ddl, cast(Followed, _Shop())) == Effect(gone=DROPPED, dropped=True)
