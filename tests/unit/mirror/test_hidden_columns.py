"""Columns that the options hide, in tables with other names."""

from __future__ import annotations

import pytest

from binlake.errors import UnsupportedError
from binlake.mirror.columns.rules import ColumnRules

RULES = ColumnRules(exclude=("shop.customers.phone",), hash=("shop.customers.email",), key_id="x")


@pytest.mark.parametrize(
    "table",
    [
        "_customers_gho",
        "_customers_ghc",
        "_customers_20261129101500_del",
        "_customers_new",
        "___customers_new",
        "_customers_old",
        "_customers_old_20261129_101500",
    ],
)
@pytest.mark.parametrize("column", ["phone", "EMAIL"])
def test_the_table_of_an_online_schema_change_does_not_show_more(table: str, column: str) -> None:
    with pytest.raises(
        UnsupportedError, match=rf"of shop\.customers, whose column {column} is (hashed|left out)"
    ):
        RULES.check("shop", table, ("id", column), ("id",))
    RULES.check("shop", table, ("id", "name"), ("id",))
    both = ColumnRules(exclude=("*.*.phone",), hash=("shop.*.email",), key_id="x")
    both.check("shop", table, ("id", column), ("id",))


@pytest.mark.parametrize("table", ["customers", "customers_new", "_customers", "_orders_new"])
def test_other_tables_show_these_columns(table: str) -> None:
    RULES.check("shop", table, ("id", "phone", "email"), ("id",))
