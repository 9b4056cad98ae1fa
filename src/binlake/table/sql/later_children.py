"""Find rows that refer, by a foreign key, to rows that an undo deletes.

The undo of an INSERT is a DELETE. If a later transaction has added a child row for the inserted
one, the server refuses the DELETE, or its foreign key changes the child row, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from binlake.format.sql_names import TableName
from binlake.source.arrays import scalar
from binlake.table.schema.declared import ForeignKey
from binlake.table.sql.row_sql import Row, Shape, SqlTable
from binlake.table.text.json_text import join
from binlake.values.quantities import counted

_MOST_KEYS = 4_000_000


class LaterChildren:
    """Finds such rows. `references`: by parent, its children's full names and their foreign keys."""

    def __init__(self, references: Mapping[TableName, Sequence[tuple[str, ForeignKey]]]) -> None:
        self._references = references
        self._by_child: dict[str, list[ForeignKey]] = {}
        for keys in references.values():
            for child, key in keys:
                self._by_child.setdefault(child, []).append(key)
        self._deleted: dict[ForeignKey, set[str]] = {}
        self._count = 0
        self._found: Counter[tuple[str, ForeignKey]] = Counter()

    @property
    def tables(self) -> list[str]:
        """Full names of the tables whose changes `see_later` needs."""
        return sorted(self._by_child)

    def see_undone(self, table: SqlTable, shape: Shape, is_undone: Sequence[bool]) -> None:
        """Take row changes of one shape, some of which are undone."""
        if shape.operation != "insert":
            return
        for _, key in self._references.get((table.database, table.table), ()):
            values = _values(table, shape.after, key.parent_columns)
            taken = [v for v, undone in zip(values, is_undone, strict=False) if undone and v]
            self._count += len(taken)
            if self._count <= _MOST_KEYS:
                self._deleted.setdefault(key, set()).update(taken)

    def see_later(self, table: SqlTable, shape: Shape, is_undone: Sequence[bool]) -> None:
        """Take row changes of one shape, some of which stay."""
        if shape.operation == "delete":
            return
        for key in self._by_child.get(table.full_name, ()):
            deleted = self._deleted.get(key)
            if not deleted:
                continue
            values = _values(table, {**shape.before, **shape.after}, key.columns)
            self._found[table.full_name, key] += sum(
                value in deleted and not undone
                for value, undone in zip(values, is_undone, strict=False)
            )

    def sentences(self) -> Iterator[str]:
        """Return a sentence for each foreign key with such rows."""
        for (child, key), count in sorted(self._found.items()):
            if count:
                parent = ".".join(key.parent)
                verb = "refers" if count == 1 else "refer"
                yield (
                    f"{child}: {counted(count, 'later change')} {verb} to rows of {parent} that"
                    " the undo"
                    f" deletes (foreign key {key.name}, ON DELETE {key.on_delete})"
                )


def _values(table: SqlTable, row: Row, columns: Sequence[str]) -> list[str | None]:
    """Return the values of these columns in each row as one text; None where one is NULL; [] if
    one is absent.
    """
    ordinals = {kind.column.name.casefold(): n for n, kind in table.columns.items()}
    held = [row.get(ordinals.get(name.casefold(), -1)) for name in columns]
    literals = [values.literals for values in held if values is not None]
    if len(literals) < len(columns):
        return []
    text = join(literals[0], *(join(", ", more) for more in literals[1:]))
    for part in literals:
        text = pc.if_else(pc.equal(part, scalar("NULL", part.type)), None, text)
    found: list[str | None] = text.to_pylist()
    return found
