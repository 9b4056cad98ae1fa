"""Quantities in messages."""

from __future__ import annotations

import pytest

from binlake.values.quantities import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (2000, "2,000 files")]
)
def test_the_noun_has_the_number_of_the_count(count: int, text: str) -> None:
    assert counted(count, "file") == text
