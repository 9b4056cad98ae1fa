"""Hints with names that resemble an unknown one."""

from __future__ import annotations

import pytest

from binlake.values.similar_names import did_you_mean, question_of, similar_names

TABLES = ("shop.orders", "shop.order_lines", "shop.customers")


def test_the_most_similar_name_comes_first() -> None:
    assert similar_names("shop.order", TABLES, most=2) == ["shop.orders", "shop.order_lines"]


@pytest.mark.parametrize("wanted", ["SHOP.ORDER", "Shop.Orders"])
def test_case_does_not_count_and_the_hint_has_the_known_spelling(wanted: str) -> None:
    assert similar_names(wanted, ["Shop.orderS"]) == ["Shop.orderS"]


def test_a_hint_has_one_name_by_default() -> None:
    assert did_you_mean("shop.orderz", TABLES) == "did you mean shop.orders?"


def test_a_hint_with_several_names() -> None:
    hint = did_you_mean("shop.order", TABLES, most=2)
    assert hint == "did you mean shop.orders or shop.order_lines?"


def test_an_unlike_name_has_no_hint() -> None:
    assert did_you_mean("zzz", TABLES) == question_of([]) == ""
    assert similar_names("zzz", []) == []
