"""Quantities in messages: a number and the noun that it counts."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
