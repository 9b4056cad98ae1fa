"""Patterns of columns."""

from __future__ import annotations

import pytest

from binlake.values.column_patterns import matches_column, parse_column_pattern


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("shop.users.email", True),
        ("SHOP.users.EMail", True),
        ("*.*.e*", True),
        ("shop.user?.email", True),
        ("shop.*", True),
        ("shop.users.mail", False),
        ("shop.users.emai", False),
        ("shopXusers.email", False),
    ],
)
def test_matches(pattern: str, matches: bool) -> None:
    assert matches_column((pattern,), "shop", "users", "Email") == matches


@pytest.mark.parametrize("text", ["email", "users.email", "shop..email", ""])
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected DATABASE\.TABLE\.COLUMN"):
        parse_column_pattern(text)
