"""Quantities in messages: a number and the noun that it counts."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_to_last(names: Sequence[str]) -> str:
    """Return the ends of a list of names in order: `a to c`, or `a` alone."""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
