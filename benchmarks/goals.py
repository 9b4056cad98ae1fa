"""The comparisons of the result page: ratios and figures of the measurements, and their goals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Measured

__all__ = ["Goal", "ratio"]


@dataclass(frozen=True)
class Goal:
    """A line of the result table: a ratio and what it should be."""

    name: str
    value: Callable[[dict[str, Measured]], float]
    wanted: str
    met: Callable[[float], bool]


def ratio(slow: str, fast: str) -> Callable[[dict[str, Measured]], float]:
    """How many times as long one measurement took as another."""
    return lambda done: done[slow].seconds / done[fast].seconds
