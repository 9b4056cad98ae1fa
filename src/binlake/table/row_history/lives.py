"""Which changes belong to one row, through all keys that it had.

A row begins with an insert, or with the first change that the logs contain, and ends with its
delete. The server changes one row after the other, also within a statement, so the order of the
changes decides which row has a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class KeyChange(NamedTuple):
    """The key before and after a change, None where there is no row. `had`, `has`: whether that is the requested key."""

    before: str | None
    after: str | None
    had: bool
    has: bool


def other_keys(changes: Sequence[KeyChange]) -> frozenset[str]:
    """Return the other keys of rows that had the key, among all changes of keys.

    They may include keys that another row had in between: `lives_of` decides.
    """
    found: set[str] = set()
    now: set[str] = set()  # keys of rows that had the key before
    for change in changes:
        if not _moves(change):
            continue
        if change.had or change.before in now:
            now.discard(str(change.before))
            if not change.has:
                now.add(str(change.after))
                found.add(str(change.after))
    now.clear()  # keys of rows that have the key later
    for change in reversed(changes):
        if not _moves(change):
            continue
        if change.has or change.after in now:
            now.discard(str(change.after))
            if not change.had:
                now.add(str(change.before))
                found.add(str(change.before))
    return frozenset(found)


def lives_of(changes: Sequence[KeyChange], ends: Iterable[int] = ()) -> list[int]:
    """Return the number of the row of each change, from 1 in the order of their first changes; 0
    for the changes of rows that never had the key.

    `ends` are the indices of the first changes after statements that empty the table, drop it or give its name to
    another. The rows after them are other rows, also if the table comes back: a history has no changes of a
    table under its other names.
    """
    alive: dict[str, int] = {}  # the row that has a key
    rows: list[int] = []
    wanted: set[int] = set()
    count = 0
    starts = frozenset(ends)
    for index, change in enumerate(changes):
        if index in starts:
            alive = {}
        known = None if change.before is None else alive.pop(change.before, None)
        if known is None:
            count += 1
        row = count if known is None else known
        if change.after is not None:
            alive[change.after] = row
        if change.had or change.has:
            wanted.add(row)
        rows.append(row)
    numbers = {row: number for number, row in enumerate(sorted(wanted), 1)}
    return [numbers.get(row, 0) for row in rows]


def keys_of_others(changes: Sequence[KeyChange], lives: Sequence[int]) -> frozenset[str]:
    """Return the keys that other rows have after the changes; `lives` is the result of `lives_of`."""
    holders: dict[str, int] = {}
    for change, life in zip(changes, lives, strict=True):
        if change.before is not None:
            holders.pop(change.before, None)
        if change.after is not None:
            holders[change.after] = life
    return frozenset(key for key, life in holders.items() if not life)


def _moves(change: KeyChange) -> bool:
    return change.before is not None and change.after is not None and change.before != change.after
