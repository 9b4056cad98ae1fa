"""The versions of a lake table, from the newest one back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Version:
    """A version with the summary of its commit. `is_change`: whether rows or columns may differ from those of the version before."""

    snapshot: int | None
    summary: Mapping[str, str]
    is_change: bool = True


def ancestors(snapshot: int | None, history: Iterable[Mapping[str, Any]]) -> Iterator[Version]:
    """The kept ancestors of a version, newest first. `history`: versions with their parents and summaries."""
    kept = {one["snapshot"]: one for one in history}
    head = kept.pop(snapshot, {})
    while (one := kept.pop(head.get("parent"), None)) is not None:
        yield Version(one["snapshot"], one["summary"])
        head = one
