"""The options table and exclude_table, for tables and for whole databases."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

PATTERNS = st.lists(st.text("aAb.*?", min_size=1, max_size=5), max_size=2).map(tuple)


@pytest.mark.parametrize(("options", "wanted"), [
    ({}, True),
    ({"table": ("shop.orders",)}, True),
    ({"table": ("SHOP.*",)}, True),
    ({"table": ("*.orders",)}, True),
    ({"table": ("sh?p*",)}, True),
    ({"table": ("other.*", "s*.orders")}, True),
    ({"table": ("other.orders", "shops.orders", "sho.p", "shop", "shop.")}, False),
    ({"exclude_table": ("shop.orders", "shop.o*")}, True),
    ({"exclude_table": ("shop.*",)}, True),  # on some servers another database
    ({"exclude_table": ("Shop.*",)}, False),
    ({"exclude_table": ("*",)}, False),
    ({"table": ("shop.orders",), "exclude_table": ("S*.*",)}, False),
])  # fmt: skip
def test_tables_of_a_database(options: dict[str, Any], wanted: bool) -> None:
    assert TableFilter(ReadOptions(**options)).may_want_any_of("Shop") == wanted


@given(PATTERNS, PATTERNS)
def test_a_database_is_wanted_if_one_of_its_tables_is(
    wanted: tuple[str, ...], excluded: tuple[str, ...]
) -> None:
    tables = TableFilter(ReadOptions(table=wanted, exclude_table=excluded))
    ends = {pattern[at:] for pattern in wanted for at in range(len(pattern))}
    names = {"a", *(end.replace("*", "").replace("?", "a") or "a" for end in ends)}
    for database in ("a", "ab", "B", "a.b"):
        is_wanted = any(tables.may_want(database, name) for name in names)
        if excluded:  # several excluded patterns may exclude all tables together
            assert tables.may_want_any_of(database) or not is_wanted
        else:
            assert tables.may_want_any_of(database) == is_wanted


def test_thousands_of_names_are_no_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror makes several filters with the names of all its tables in each round."""
    names = tuple(f"tenant_{n}.orders" for n in range(1000))
    compiled: list[str] = []
    compile_ = re.compile

    def counted(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compile_(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    tables = TableFilter(ReadOptions(table=(*names, "s?op.*"), exclude_table=("shop.a", "x.*")))
    assert len(compiled) == 4  # the two patterns, also in lower case
    assert tables.wants("tenant_7", "orders")
    assert tables.wants("shop", "orders")
    assert not tables.wants("tenant_7", "Orders")
    assert not tables.wants("shop", "a")
    assert tables.may_want("Tenant_7", "ORDERS")
    assert not tables.may_want("tenant_7", "order")
    assert tables.may_want_any_of("TENANT_7")
    assert not tables.may_want_any_of("tenant")
    assert tables.spelled_otherwise("shop", "A") == ["shop.a"]
    assert tables.spelled_otherwise("shop", "a") == []
