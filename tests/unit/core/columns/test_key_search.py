"""Sorted keys in sorted entries: what a comparison of each pair finds, for both kinds of keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.columns.key_search import matching_keys

WORDS = st.integers(0, (1 << 64) - 1)
FEW = st.integers((1 << 64) - 6, (1 << 64) - 1)  # many are equal, and above the range of int64
HALVES = st.tuples(FEW | WORDS, st.integers(0, 2))


def pairs(*arguments: object) -> set[tuple[int, int]]:
    numbers, entries = (np.frombuffer(each, np.int64) for each in matching_keys(*arguments))
    found = list(zip(numbers.tolist(), entries.tolist(), strict=True))
    assert len(found) == len(set(found))
    return set(found)


@given(st.lists(HALVES, max_size=200), st.lists(HALVES, max_size=40))
def test_keys_of_two_halves(entries: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    """Only `high` ascends; keys can be there several times, on both sides."""
    entries.sort(key=lambda key: key[0])
    wanted.sort(key=lambda key: key[0])
    high, low = np.array(entries, np.uint64).reshape(-1, 2).T.copy()
    wanted_high, wanted_low = np.array(wanted, np.uint64).reshape(-1, 2).T.copy()
    expected = {(i, j) for i, key in enumerate(wanted) for j, at in enumerate(entries) if key == at}
    assert pairs(high, low, wanted_high, wanted_low) == expected


@given(st.lists(st.integers(-9, 9), max_size=60), st.lists(st.integers(-11, 11), max_size=20))
def test_integer_keys(entries: list[int], wanted: list[int]) -> None:
    entries.sort()
    wanted.sort()
    expected = {(i, j) for i, key in enumerate(wanted) for j, at in enumerate(entries) if key == at}
    assert pairs(np.array(entries, np.int64), None, np.array(wanted, np.int64), None) == expected


@pytest.mark.parametrize("gap", [1, 2, 3, 64, 1000])
def test_gaps(gap: int) -> None:
    """Each entry is found from any other one before it, also when the mapped file cannot be written."""
    high = np.arange(0, 2 * 3000, 2, dtype=np.int64)
    high.flags.writeable = False
    for offset in range(min(gap, 9)):
        wanted = high[offset::gap]
        assert pairs(high, None, np.ascontiguousarray(wanted), None) == set(
            enumerate(range(offset, 3000, gap))
        )
        assert not pairs(high, None, wanted + 1, None)


@pytest.mark.parametrize("wanted", [1, 15, 16, 17, 5000])
def test_keys_that_are_spread_unevenly(wanted: int) -> None:
    """Most are close together, at both ends of the range of int64 and around 0; some are there often."""
    rng = np.random.default_rng(wanted)
    around = np.array([-(1 << 63), 0, (1 << 63) - 4096])
    high = np.sort(np.concatenate([rng.integers(0, 4096, 3000) + at for at in around]))
    keys = np.sort(np.concatenate([rng.choice(high, wanted), rng.integers(-9, 9, wanted)]))
    counts = np.searchsorted(high, keys, "right") - np.searchsorted(high, keys)
    found = pairs(high, None, keys, None)
    assert len(found) == counts.sum()
    assert all(keys[number] == high[entry] for number, entry in found)


def test_keys_in_no_order_are_refused() -> None:
    """A key would not be found otherwise."""
    high = np.arange(9, dtype=np.int64)
    with pytest.raises(ValueError, match="descend"):
        matching_keys(high, None, np.array([5, 3], np.int64), None)


def test_halves_that_do_not_fit_are_refused() -> None:
    high = np.arange(9, dtype=np.uint64)
    with pytest.raises(ValueError, match="different lengths"):
        matching_keys(high, high[:8], high, high)
    with pytest.raises(ValueError, match="different lengths"):
        matching_keys(high, high, high, high[:8])
    with pytest.raises(ValueError, match="only some"):
        matching_keys(high, None, high, high)
