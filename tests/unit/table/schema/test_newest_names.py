"""Which names the columns of older definitions have in the end."""

from __future__ import annotations

import pytest

from binlake.table.schema.newest_names import newest_names, unnamed_renames

SWAP = [("a", "b"), ("B", "A")]


@pytest.mark.parametrize(("versions", "statements", "expected"), [
    pytest.param(["id a", "id b"], [[("a", "b")]], ["id b", "id b"], id="one column"),
    pytest.param(["id a"], [[("A", "b")]], ["id b"], id="no row since"),
    pytest.param(["id b"], [[("a", "b")]], ["id b"], id="no row before"),
    pytest.param(["id a b", "id b a"], [SWAP], ["id b a", "id b a"], id="swapped by one statement"),
    pytest.param(["id b a", "id a b"], [SWAP, SWAP], ["id a b", "id a b"], id="and swapped again"),
    pytest.param(["id a b", "id b a"], [[("a", "t")], [("b", "a")], [("t", "b")]], ["id b a"] * 2, id="swapped by three"),
    pytest.param(["id a b", "id t a", "id b a"], [[("a", "t"), ("b", "a")], [("t", "b")]], ["id b a"] * 3, id="rows between"),
    pytest.param(["id a n", "id o a"], [[("a", "o"), ("n", "a")]], ["id o a", "id o a"], id="one takes the name of another"),
    pytest.param(["id a n x", "id o a"], [[("a", "o")], [("n", "a")]], ["id o a x", "id o a"], id="by two, one dropped"),
    pytest.param(["id a b c", "id b c a"], [[("a", "b"), ("b", "c"), ("c", "a")]], ["id b c a"] * 2, id="three in a ring"),
    pytest.param(["id a b", "id b a", "id new b a x"], [SWAP], ["id b a", "id b a", "id new b a x"], id="more columns since"),
    pytest.param(["id a", "id b", "id c a"], [[("a", "b")], [("b", "c")]], ["id c", "id c", "id c a"], id="another of the old name"),
    pytest.param(["id a x", "id x b"], [[("a", "b")]], ["id b x", "id x b"], id="renamed and moved"),
])  # fmt: skip
def test_newest_names(
    versions: list[str], statements: list[list[tuple[str, str]]], expected: list[str]
) -> None:
    names = [version.split() for version in versions]
    found = newest_names(names, statements)
    assert [
        " ".join(new.get(name, name).lower() for name in version)
        for version, new in zip(names, found, strict=True)
    ] == expected


def test_renaming_to_and_fro_without_end_is_no_endless_work() -> None:
    wide = [f"c{n}" for n in range(1000)]
    versions = [["a", "b", *wide], ["b", "a", *wide]] * 20
    named = newest_names(versions, [SWAP] * 4001)
    assert [dict(new) != {} for new in named][-2:] == [True, False]


def test_earlier_names_of_selected_columns_are_reported() -> None:
    assert unnamed_renames("shop.t", [], [SWAP]) == []
    assert unnamed_renames("shop.t", ["a", "b"], [SWAP]) == []
    [sentence] = unnamed_renames("shop.t", ["a"], [SWAP])
    assert sentence.startswith("shop.t.A was named B before")
    told = unnamed_renames("shop.t", ["C"], [[("a", "b"), ("x", "y")], [("b", "c")]])
    assert [sentence.split(":")[0] for sentence in told] == ["shop.t.c was named b before", "shop.t.b was named a before"]  # fmt: skip
    assert (
        len(unnamed_renames("shop.t", ["C"], [[("a", "b")], [("b", "c")]], ["id", "A", "c"])) == 1
    )
