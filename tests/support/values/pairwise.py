"""Few combinations in which every two values of any two axes meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

__all__ = ["covering", "pairs_of"]

Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(axes: Mapping[str, Sequence[str]]) -> set[Pair]:
    """Every two values of different axes."""
    return {
        ((one, a), (other, b))
        for one, other in combinations(axes, 2)
        for a, b in product(axes[one], axes[other])
    }


def _met(row: Mapping[str, str]) -> set[Pair]:
    return set(combinations(row.items(), 2))


def covering(axes: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Combinations that hold every pair, found greedily; the same for the same axes."""
    missing = pairs_of(axes)
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    chosen: list[dict[str, str]] = []
    while missing:
        best = max(every, key=lambda row: len(_met(row) & missing))
        chosen.append(best)
        missing -= _met(best)
    return chosen
