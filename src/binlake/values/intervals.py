"""Interval sets: sets of integers.

An interval set is a sorted list of boundaries [start, end, start, end, …], ends exclusive: a
number is inside when an odd number of boundaries are at or below it, so every lookup is one
bisection. `IntervalSets` keeps one per key; GTID sets are built on it (`values/gtid.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, Self, TypeVar

Bounds = list[int]

_INTERVAL = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")


def inside(bounds: Bounds, number: int) -> bool:
    """Whether a number is in the set."""
    return bisect_right(bounds, number) & 1 == 1


def unite(bounds: Bounds, start: int, end: int) -> None:
    """Add [start, end) to the set and join adjacent intervals."""
    first, last = bisect_left(bounds, start), bisect_right(bounds, end)
    new_start = [] if first & 1 else [start]
    new_end = [] if last & 1 else [end]
    bounds[first:last] = new_start + new_end


def common(bounds: Bounds, start: int, end: int) -> Bounds:
    """The numbers of the set in [start, end), which is not empty: by bisection, however large the set."""
    first, last = bisect_right(bounds, start), bisect_left(bounds, end)
    return [start] * (first & 1) + bounds[first:last] + [end] * (last & 1)


def intervals(bounds: Bounds) -> Iterator[tuple[int, int]]:
    """The intervals (start, end exclusive), in order."""
    return zip(bounds[::2], bounds[1::2], strict=True)


def intervals_text(bounds: Bounds) -> str:
    """`1-5:7`, ends included."""
    return ":".join(
        str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in intervals(bounds)
    )


def parse_interval(text: str, limit: int) -> tuple[int, int]:
    """`5` or `5-9` as (first, last + 1); numbers from 1 and below `limit`. Raises ValueError."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number or a range like 1-5")
    first = int(match[1])
    last = int(match[2] or first)
    if not 0 < first <= last < limit:
        raise ValueError(f"{text!r} is not a range of sequence numbers")
    return first, last + 1


def _combine(left: Bounds, right: Bounds, keep: Callable[[bool, bool], bool]) -> Bounds:
    """The numbers x for which `keep(x in left, x in right)`; `keep(False, False)` is False."""
    result: Bounds = []
    for bound in sorted({*left, *right}):
        if keep(inside(left, bound), inside(right, bound)) != (len(result) & 1 == 1):
            result.append(bound)
    return result


K = TypeVar("K")


class IntervalSets(Generic[K]):
    """An interval set per key, and the algebra of such sets: `|`, `-`, `&`, `<=` and `==`.

    A subclass defines the keys, how the set is filled, and its text form.
    """

    __hash__ = None  # type: ignore[assignment]  # it can change
    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[K, Bounds] = {}

    def count(self) -> int:
        """How many numbers are in all sets together."""
        return sum(sum(b[1::2]) - sum(b[::2]) for b in self._bounds.values())

    def bounds_of(self, key: K) -> Bounds:
        """The interval set of one key; empty if the key is not in it."""
        return self._bounds.get(key, [])

    def copy(self) -> Self:
        """A copy of the sets."""
        return self | self

    def _combined(self, other: Self, keep: Callable[[bool, bool], bool]) -> Self:
        result = type(self).__new__(type(self))
        result._bounds = {}
        for key in self._bounds.keys() | other._bounds.keys():
            bounds = _combine(self._bounds.get(key, []), other._bounds.get(key, []), keep)
            if bounds:
                result._bounds[key] = bounds
        return result

    def __or__(self, other: Self) -> Self:
        return self._combined(other, lambda mine, theirs: mine or theirs)

    def __sub__(self, other: Self) -> Self:
        return self._combined(other, lambda mine, theirs: mine and not theirs)

    def __and__(self, other: Self) -> Self:
        return self._combined(other, lambda mine, theirs: mine and theirs)

    def __le__(self, other: Self) -> bool:
        return not self - other

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._bounds == other._bounds

    def __bool__(self) -> bool:
        return bool(self._bounds)
