"""Declared tables as SQL text, and versions of them with their places in the log.

    -- binlake: from binlog.000002:4711
    CREATE TABLE `shop`.`orders` ( … );

    -- binlake: from binlog.000003:120: `shop`.`orders` is not known: dropped

The text contains what the log records about a table, and `schema_file` reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from binlake.format import column_types as ct
from binlake.format.sql_names import quoted_name
from binlake.printable import printable
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable, ForeignKey
from binlake.table.schema.defaults import Unknown
from binlake.values.position import LogPosition

_LISTED = {ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET}
_NAME = r"`((?:[^`]|``)+)`"
_ESCAPE = re.compile(r"\\([\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5})")
_SHORT = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_NOTE = re.compile(
    rf"-- binlake: from (?P<file>.+?):(?P<offset>\d{{1,18}})"
    rf"(?:: (?:{_NAME}\.)?{_NAME} is not known: (?P<why>.+))?\s*"
)


#: Writes a column as `column_text` does.
TextOfColumn = Callable[[DeclaredColumn], str]


def column_text(column: DeclaredColumn) -> str:
    """Return the definition of a column in CREATE TABLE."""
    kind = column.sql
    if column.members is not None:
        word = "enum" if ct.MYSQL_TYPE_ENUM in column.type_codes else "set"
        kind = f"{word}({','.join(map(_string, column.members))})"
    charset = ""
    is_binary = column.charset == "binary" and ("blob" in kind or "binary" in kind)
    is_text = column.special is None and not column.type_codes & _LISTED and not is_binary
    if is_text and column.charset is not None:
        charset = f" CHARACTER SET {column.charset}"
    computed = ""
    if column.generated and column.expression:
        stored = " VIRTUAL" if column.virtual else " STORED"
        computed = f" GENERATED ALWAYS AS {column.expression}"
        computed += stored if column.expression.startswith("(") else ""  # not ROW START
    null = " NOT NULL" if column.nullable is False else ""
    invisible = " INVISIBLE" if column.is_hidden_key else ""
    return f"{quoted_name(column.name)} {kind}{charset}{computed}{null}{invisible}"


def text_with_default(column: DeclaredColumn) -> str:
    """Return the definition of a column with its default: with the reason, if it is not known."""
    return column_text(column) + ("" if column.generated else _default_text(column))


def _default_text(column: DeclaredColumn) -> str:
    default = column.default
    if default is None:
        return " DEFAULT NULL"
    if isinstance(default, Unknown):
        return f" DEFAULT (unknown {_string(default.why)})"
    written = {"number": default.text, "bits": f"b'{default.text}'", "hex": f"x'{default.text}'"}
    if default.form == "implied":
        return ""
    return f" DEFAULT {written.get(default.form) or _string(default.text)}"


@dataclass(frozen=True, slots=True)
class _Lines:
    """The columns of a table, the line of each, and whether it lacks its character set."""

    columns: tuple[DeclaredColumn, ...] = ()
    lines: Sequence[str] = ()
    lacking: Sequence[bool] = ()

    def of(self, columns: tuple[DeclaredColumn, ...], text_of: TextOfColumn) -> _Lines:
        """Return the same for other columns; those at the beginning and at the end that are the same
        are not written again.
        """
        old = self.columns
        head = _same_at_start(old, columns)
        tail = _same_at_start(old[head:][::-1], columns[head:][::-1])
        middle = columns[head : len(columns) - tail]
        rest = len(old) - tail
        return _Lines(
            columns,
            [*self.lines[:head], *(f"  {text_of(c)}" for c in middle), *self.lines[rest:]],
            [*self.lacking[:head], *map(_lacks_charset, middle), *self.lacking[rest:]],
        )


def _same_at_start(one: Sequence[DeclaredColumn], other: Sequence[DeclaredColumn]) -> int:
    """Return how many columns two lists begin with in common. Slices are compared: a loop over thousands
    of columns takes longer.
    """
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


class VersionTexts:
    """Writes versions of tables as text, with their places.

    A log may change a wide table thousands of times, a column at a time. So the lines of each table are
    kept (`most_lines` of all tables together), and only columns that differ from the version before are written again. `text_of` writes one column.
    """

    def __init__(self, text_of: TextOfColumn = column_text, most_lines: int = 1 << 16) -> None:
        self._text_of = text_of
        self._most_lines = most_lines
        self._known: dict[tuple[str | None, str], _Lines] = {}
        self._lines = 0

    def text(self, table: DeclaredTable) -> str:
        """Return one version as text, with its place if it has one."""
        place = "" if table.since is None else f"-- binlake: from {_noted(str(table.since))}"
        if table.columns:
            return (f"{place}\n" if place else "") + _create_table(table, self._of(table))
        why = printable(" ".join(table.missing.split()))
        return f"{place}: {_noted(_full_name(table))} is not known: {why}\n"

    def _of(self, table: DeclaredTable) -> _Lines:
        name = table.database, table.table
        before = self._known.pop(name, _Lines())
        self._lines += len(table.columns) - len(before.lines)
        while self._known and self._lines > self._most_lines:
            oldest = self._known.pop(next(iter(self._known)))
            self._lines -= len(oldest.lines)
        found = self._known[name] = before.of(table.columns, self._text_of)
        return found


def read_note(text: str) -> tuple[LogPosition, DeclaredTable | None] | None:
    """Return the place in a comment of binlake, and the version if it has no columns.

    Returns None for any other comment.
    """
    found = _NOTE.fullmatch(text)
    if found is None:
        return None
    place = LogPosition(_read_back(found["file"]), int(found["offset"]))
    if found["why"] is None:
        return place, None
    database, table = found[3], found[4]
    return place, DeclaredTable(
        None if database is None else _read_back(database).replace("``", "`"),
        _read_back(table).replace("``", "`"),
        (),
        since=place,
        missing=found["why"],
    )


def _noted(text: str) -> str:
    """Return a name for a comment: in one line, so that it cannot end the comment."""
    return printable(text.replace("\\", "\\\\"))


def _read_back(noted: str) -> str:
    return _ESCAPE.sub(lambda found: _SHORT.get(found[1]) or chr(int(found[1][1:], 16)), noted)


def create_table_text(table: DeclaredTable, text_of: TextOfColumn = column_text) -> str:
    """Return a CREATE TABLE that declares the same."""
    return _create_table(table, _Lines().of(table.columns, text_of))


def _create_table(table: DeclaredTable, of_columns: _Lines) -> str:
    lines = [*of_columns.lines]
    if table.primary_key:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quoted_name, table.primary_key))})")
    lines += [f"  {_foreign_key(key)}" for key in table.foreign_keys]
    if table.system_versioned and not table.hides_versions:
        bounds = [column for column in table.columns if column.bounds_version]
        bounds.sort(key=lambda column: column.expression.upper(), reverse=True)  # ROW START first
        names = ", ".join(quoted_name(column.name) for column in bounds)
        lines.append(f"  PERIOD FOR SYSTEM_TIME ({names})")
    options = ""
    # without it the column would take the table's character set when this is read
    if table.charset is not None and not any(of_columns.lacking):
        options = f" DEFAULT CHARSET={table.charset}"
    if table.system_versioned:
        options += " WITH SYSTEM VERSIONING"
    return f"CREATE TABLE {_full_name(table)} (\n" + ",\n".join(lines) + f"\n){options};\n"


def _foreign_key(key: ForeignKey) -> str:
    columns, parent_columns = (
        ", ".join(map(quoted_name, names)) for names in (key.columns, key.parent_columns)
    )
    parent = ".".join(quoted_name(part) for part in key.parent if part)
    actions = "".join(
        f" ON {event} {action}"
        for event, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update))
        if action != "NO ACTION"
    )
    return (
        f"CONSTRAINT {quoted_name(key.name)} FOREIGN KEY ({columns})"
        f" REFERENCES {parent} ({parent_columns}){actions}"
    )


def _lacks_charset(column: DeclaredColumn) -> bool:
    return column.charset is None and bool(column.type_codes & ct.CHARACTER_TYPES["mysql"])


def _full_name(table: DeclaredTable) -> str:
    database = "" if table.database is None else f"{quoted_name(table.database)}."
    return database + quoted_name(table.table)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
