"""The filters that DuckDB pushes down, in the pickled form that pyarrow gives them: a version of pyarrow that
changes it fails here, and not by reading everything.
"""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from binlake.query.conditions import Asked

A, B = pc.field("a"), pc.field("b")


def found_in(asked: Asked) -> list[tuple[str, str, list[object]]]:
    return [(t.column, t.operator, [value.as_py() for value in t.values]) for t in asked.tests]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ((A == 1) & (B > "x"), [("a", "=", [1]), ("b", ">", ["x"])]),
        (pc.scalar(5) <= A, [("a", ">=", [5])]),
        (A.isin([1, 2, 3]), [("a", "in", [1, 2, 3])]),
    ],
    ids=["and", "constant first", "in"],
)
def test_found_in_a_filter(condition: pc.Expression, wanted: list[object]) -> None:
    assert found_in(Asked.of(condition)) == wanted


def test_columns_of_a_filter_without_tests() -> None:
    asked = Asked.of((A == 1) | B.is_null())
    assert (asked.columns, asked.tests) == (frozenset({"a", "b"}), ())
    assert Asked.of(None).columns == frozenset()
