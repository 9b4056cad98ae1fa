"""Find the newest names of the columns of older definitions, after renames by DDL.

A definition does not record whether it is from before or after a statement, and its names alone do
not show it: after `RENAME COLUMN a TO b, RENAME COLUMN b TO a` they are the same. But a renamed
column stays at its place. So binlake tries all numbers of statements that may have come before a
definition, and takes the one whose later statements make the definition most like the next newer
one, in the order of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

#: Old and new names of the columns that one statement renames, all at the same time.
ColumnRenames: TypeAlias = Sequence[tuple[str, str]]

_MOST_TRIED = (
    100  # limit on the namings of a definition, for a table that is renamed again and again
)


def newest_names(
    versions: Sequence[Sequence[str]], statements: Sequence[ColumnRenames]
) -> list[Mapping[str, str]]:
    """For each definition, the newest names of its columns by their names in lower case.

    `versions`: the names of the columns of each definition, oldest first. Columns whose name stays
    are left out. `statements`: in the order of the log.
    """
    if not versions:
        return []
    ages = [_age_of_newest(versions[-1], statements)]
    for names, newer in zip(reversed(versions[:-1]), reversed(versions), strict=False):
        ages.append(_age(names, newer, statements[: ages[-1]]))
    known: dict[int, Mapping[str, str]] = {}
    for age in ages:
        if age not in known:
            known[age] = _together(statements[age:])
    return [known[age] for age in reversed(ages)]


def unnamed_renames(
    table: str,
    columns: Sequence[str],
    statements: Sequence[ColumnRenames],
    there: Iterable[str] | None = None,
) -> list[str]:
    """Return a sentence for each wanted column (the option `columns`, [] for all) that older rows
    have under a name that is not wanted. `there`: the names in definitions, if they are known.
    """
    known = None if there is None else {name.lower() for name in there}
    wanted = {column.lower() for column in columns}
    names = set(wanted)
    found = []
    for statement in reversed(statements):
        meant = [(old, new) for old, new in statement if new.lower() in names]
        names.update(old.lower() for old, _ in meant)
        found += [
            f"{table}.{new} was named {old} before: to read rows of that time, add {old} to"
            " the option"
            f" columns"
            for old, new in meant
            if old.lower() not in wanted and (known is None or old.lower() in known)
        ]
    return list(dict.fromkeys(found))


def _together(statements: Sequence[ColumnRenames]) -> dict[str, str]:
    """Apply all of the statements to names."""
    found: dict[str, str] = {}
    for statement in reversed(statements):
        _put_before(statement, found)
    return found


def _put_before(statement: ColumnRenames, later: dict[str, str]) -> None:
    """Change `later`, names after a statement, so that it has the names before the statement, too."""
    later.update([(old.lower(), later.get(new.lower(), new)) for old, new in statement])


def _age_of_newest(names: Sequence[str], statements: Sequence[ColumnRenames]) -> int:
    """Return how many statements came before the newest definition: all except those at the end
    whose old names it still has.
    """
    there = {name.lower() for name in names}
    age = len(statements)
    while age:
        old = {name.lower() for name, _ in statements[age - 1]}
        new = {name.lower() for _, name in statements[age - 1]}
        if not (old - new) & there or (new - old) & there:
            break
        age -= 1
    return age


def _age(names: Sequence[str], newer: Sequence[str], statements: Sequence[ColumnRenames]) -> int:
    """Return how many of the statements before a newer definition came before this one."""
    lower = [name.lower() for name in names]
    wanted = [name.lower() for name in newer]
    there = set(lower)
    best = len(statements)
    best_likeness = _likeness(lower, wanted)
    later: dict[str, str] = {}
    tried: set[frozenset[tuple[str, str]]] = {frozenset()}
    for age in range(len(statements) - 1, -1, -1):
        _put_before(statements[age], later)
        if not any(old.lower() in there for old, _ in statements[age]):
            continue
        changes = frozenset(
            (old, new.lower()) for old in there & later.keys() if old != (new := later[old]).lower()
        )
        if changes in tried or len(tried) > _MOST_TRIED:
            continue
        tried.add(changes)
        new_names = dict(changes)
        renamed = [new_names.get(name, name) for name in lower]
        if len(set(renamed)) < len(renamed):
            continue  # two columns would have one name, so it came later
        likeness = _likeness(renamed, wanted)
        # as similar as without any rename: another definition than the newer one is from before
        if likeness > best_likeness or (likeness == best_likeness and best == len(statements)):
            best, best_likeness = age, likeness
    return best


def _likeness(names: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return how many columns are in the same order in both, then how many names are in both."""
    blocks = SequenceMatcher(None, names, others, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks), len(set(names) & set(others))
