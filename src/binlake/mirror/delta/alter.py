"""Changes of a schema as clauses of Delta's ALTER TABLE."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binlake.format.sql_names import quoted_name
from binlake.mirror.columns.names import caseless
from binlake.mirror.delta.schema import column_sql, type_sql
from binlake.mirror.tables.schema import storage_schema

Step = Mapping[str, Any]


def alter_sql(groups: Sequence[Sequence[Step]], names: Sequence[str]) -> list[str]:
    """The clauses for groups of steps (see `ddl.effects`) on a table with these columns, one commit each.

    Columns that are where they belong are not moved.
    """
    order = list(names)
    found: list[str] = []
    for group in groups:
        if group[0]["do"] == "rename":
            found += _renames(group, order)
        else:
            for step in group:
                found += _clause(step, order)
    return found


def _clause(step: Step, order: list[str]) -> Iterator[str]:
    """The clause of a step, and `order` after it."""
    do, name = step["do"], step["name"]
    if do == "drop":
        order.remove(name)
        yield f"DROP COLUMN {quoted_name(name)}"
    elif do == "add":
        order.append(name)
        yield f"ADD COLUMNS ({column_sql(_field(step))})"
    elif do == "widen":
        yield f"ALTER COLUMN {quoted_name(name)} TYPE {type_sql(_field(step).type)}"
    else:
        at = 0 if do == "first" else order.index(step["other"]) + 1
        before = order.index(name)
        if before == at:
            return
        order.remove(name)
        order.insert(at if before > at else at - 1, name)
        where = "FIRST" if do == "first" else f"AFTER {quoted_name(step['other'])}"
        yield f"ALTER COLUMN {quoted_name(name)} {where}"


def _field(step: Step) -> Any:
    return storage_schema(step["schema"]).field(0)


def _renames(group: Sequence[Step], order: list[str]) -> list[str]:
    """Simultaneous renames; through temporary names if a new name is still taken."""
    pairs = [(step["name"], step["to"]) for step in group]
    taken = set(map(caseless, order))
    first: list[tuple[str, str]] = []
    if any(caseless(new) in taken for _, new in pairs):
        free = (f"__binlake_{number}" for number in itertools.count())
        used = taken | {caseless(new) for _, new in pairs}
        between = list(itertools.islice((n for n in free if n not in used), len(pairs)))
        first = [(old, name) for (old, _), name in zip(pairs, between, strict=True)]
        second = [(name, new) for (_, new), name in zip(pairs, between, strict=True)]
    else:
        second = pairs
    for old, new in pairs:
        order[order.index(old)] = f"\0{new}"
    order[:] = [name.removeprefix("\0") for name in order]
    return [f"RENAME COLUMN {quoted_name(a)} TO {quoted_name(b)}" for a, b in [*first, *second]]
