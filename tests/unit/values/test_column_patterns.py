"""Patterns of columns."""

from __future__ import annotations

import pytest

from binlake.values.column_patterns import (
    divided_patterns,
    has_comma,
    matches_column,
    parse_column_pattern,
)


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


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("shop.a.b.c", ("shop", "a.b", "c")),
        ("shop.a.b.c", ("shop", "a", "b.c")),
        ("shop.a.b.c", ("shop.a", "b", "c")),
        ("shop.`a.b`.c", ("shop", "a.b", "c")),
        ("`shop`.`A.b`.`C`", ("shop", "a.b", "c")),
        ("shop.a.`b.c`", ("shop", "a", "b.c")),
        ("*.*.`b.c`", ("shop", "a", "b.c")),
        ("*.*.`b.*`", ("shop", "a", "b.c")),
        ("`shop.a`.*.*", ("shop.a", "b", "c")),
        ("shop.`a,b`.`c, d`", ("shop", "a,b", "c, d")),
        ("shop.`a``b`.c", ("shop", "a`b", "c")),
        ("shop.a`b.c", ("shop", "a`b", "c")),
        ("`shop`.t.c", ("`shop`", "t", "c")),
    ],
)
def test_names_with_periods_and_commas(pattern: str, name: tuple[str, str, str]) -> None:
    assert parse_column_pattern(pattern) == pattern
    assert matches_column((pattern,), *name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("shop.`a.b`.c", ("shop", "a", "b.c")),
        ("shop.`a.b`.c", ("shop.a", "b", "c")),
        ("shop.a.`b.c`", ("shop", "a.b", "c")),
        ("shop.a.`c`", ("shop", "a", "b.c")),
        ("*.*.`*b.c`", ("shop", "a.b", "c")),
        ("`shop?a`.b.c", ("shop", "a.b", "c")),
        ("shop.`a``b`.c", ("shop", "a``b", "c")),
    ],
)
def test_a_part_in_backticks_is_one_name(pattern: str, name: tuple[str, str, str]) -> None:
    assert not matches_column((pattern,), *name)


@pytest.mark.parametrize("text", ["a.`b`.c.`d`", "`a`.`b`.`c`.`d`", "`a`.b.`c`.d.e"])
def test_more_than_three_names(text: str) -> None:
    with pytest.raises(ValueError, match="more than three names"):
        parse_column_pattern(text)


@pytest.mark.parametrize("text", ["`a.b.c`", "`a.b`.c", "email", "users.email", "shop..email", ""])
def test_invalid_column_patterns_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected DATABASE\.TABLE\.COLUMN"):
        parse_column_pattern(text)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("shop.users.email", ["shop.users.email"]),
        ("shop.users.email,shop.users.phone", ["shop.users.email", "shop.users.phone"]),
        ("*.*.email , shop.users.phone", ["*.*.email", "shop.users.phone"]),
        ("shop.users.a,b", ["shop.users.a,b"]),
        ("shop.users.a,b,shop.users.c", ["shop.users.a,b", "shop.users.c"]),
        ("shop.users.a,users.b", ["shop.users.a,users.b"]),
        ("shop.a,b.c.d", ["shop.a,b.c.d"]),
        ("shop.users.`a,x.y.z`", ["shop.users.`a,x.y.z`"]),
        ("shop.`a,b`.`c`,`shop`.`d,e.f.g`.h", ["shop.`a,b`.`c`", "`shop`.`d,e.f.g`.h"]),
        ("shop.t.`a``,b.c.d`", ["shop.t.`a``,b.c.d`"]),
        ("shop.t.a`,shop.t.b", ["shop.t.a`", "shop.t.b"]),
        ("shop.users.a,", ["shop.users.a,"]),
    ],
)
def test_several_patterns_in_one_text(text: str, patterns: list[str]) -> None:
    assert divided_patterns(text) == patterns


def test_commas_outside_of_backticks() -> None:
    assert has_comma("shop.users.a,b")
    assert not has_comma("shop.`a,b`.`c,d`")
