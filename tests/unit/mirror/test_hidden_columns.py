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


@pytest.mark.parametrize("characters", [58, 59, 60, 62, 64])
@pytest.mark.parametrize("quoted", ["{}", "`{}`"])
def test_gh_ost_cuts_a_long_name(characters: int, quoted: str) -> None:
    original = "Customers_".ljust(characters, "x")
    ghost = f"_{original[: 64 - len('__gho')]}_gho"
    rules = ColumnRules(exclude=(f"shop.{quoted.format(original)}.email",))
    with pytest.raises(UnsupportedError, match=r"whose column email is left out"):
        rules.check("shop", ghost, ("id", "email"), ("id",))
    rules.check("shop", ghost, ("id", "name"), ("id",))


@pytest.mark.parametrize("table", ["customers", "customers_new", "_customers", "_orders_new"])
def test_other_tables_show_these_columns(table: str) -> None:
    RULES.check("shop", table, ("id", "phone", "email"), ("id",))
