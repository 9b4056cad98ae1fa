"""Names of columns that readers of the lake cannot tell apart: equal to Java, apart from case."""

from __future__ import annotations

import time

import pytest

from binlake.mirror.columns.names import why_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "A"), ("É", "é"), ("ẞ", "ß"), ("Ꭰ", "ꭰ"), ("xſ", "XS"), ("ı", "i"), ("ı", "I"), ("İ", "i"), ("İ", "ı"),
        ("ς", "σ"), ("ΤΙΜΕΣ", "τιμες"), ("ΤΙΜΕΣ", "τιμεσ"), ("µ", "μ"), ("\u212a", "k"), ("\u1fb3", "\u1fbc"),
        ("İ", "i\u0307"),
    ],
)  # fmt: skip
def test_names_that_are_equal_to_readers(one: str, other: str) -> None:
    shown = f"readers of the lake cannot distinguish the columns {one} and {other}"
    assert why_same(("v", one, "w", other)) == shown


@pytest.mark.parametrize(
    ("one", "other"), [("e", "é"), ("ß", "ss"), ("\ufb01", "fi"), ("\u0149", "\u02bcn"), ("K", "H")]
)
def test_other_names(one: str, other: str) -> None:
    assert why_same((one, other)) == ""


def test_a_table_of_4096_columns_takes_little_time() -> None:
    begun = time.process_time()
    assert why_same([f"é{number}" for number in range(4096)]) == ""
    assert time.process_time() - begun < 1
