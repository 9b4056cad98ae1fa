"""Foreign keys in CREATE TABLE and ALTER TABLE, and which tables they connect.

    [CONSTRAINT [name]] FOREIGN KEY [IF NOT EXISTS] [name] (columns) REFERENCES parent (columns)
        [MATCH …] [ON DELETE action] [ON UPDATE action]
    column type … REFERENCES parent [(columns)] …      MySQL 9.0, MariaDB 10.5; older servers ignore it

A parent without a database is in the child's (not in the current one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from binlake.table.schema.declared import ForeignKey
from binlake.table.schema.sql_tokens import Token, closing, read_name, split

_GENERATED_NAME = re.compile(r"_ibfk_(\d{1,9})$")
_ACTIONS = {"SET": 2, "NO": 2, "CASCADE": 1, "RESTRICT": 1}  # words of each


def foreign_key_of(item: Sequence[Token], database: str | None) -> ForeignKey | None:
    """Return the foreign key that an item of a list of columns and keys declares; None for another
    item.

    Raises UnreadableTableError.
    """
    words = [token.word for token in item]
    if "REFERENCES" not in words:
        return None
    refers = words.index("REFERENCES")
    name = ""
    columns: tuple[str, ...] = (item[0].text,)  # a column that refers
    if words[0] in ("CONSTRAINT", "FOREIGN"):
        if "FOREIGN" not in words[:refers]:
            return None
        name, columns = _name_and_columns(item, words.index("FOREIGN"))
    parent_database, parent, at = read_name(item, refers + 1, database)
    parent_columns = columns
    if words[at : at + 1] == ["("]:
        end = closing(item, at, parent)
        parent_columns = _names(item[at + 1 : end])
        at = end + 1
    return ForeignKey(
        name,
        columns,
        (parent_database or "", parent),
        parent_columns,
        _action(words[at:], "DELETE"),
        _action(words[at:], "UPDATE"),
    )


def named_keys(
    known: Sequence[ForeignKey], added: Iterable[ForeignKey], table: str
) -> tuple[ForeignKey, ...]:
    """Return `known` and `added`; those without a name get the name that InnoDB gives."""
    keys = list(known)
    numbers = [int(found[1]) for key in keys if (found := _GENERATED_NAME.search(key.name))]
    number = max(numbers, default=0)
    for key in added:
        if not key.name:
            number += 1
            key = key._replace(name=f"{table}_ibfk_{number}")
        keys.append(key)
    return tuple(keys)


def _name_and_columns(item: Sequence[Token], foreign: int) -> tuple[str, tuple[str, ...]]:
    """Return the name, "" if there is none, and the columns; `foreign` is the place of FOREIGN."""
    name = item[1].text if foreign == 2 else ""
    at = foreign + 2  # FOREIGN KEY
    if [token.word for token in item[at : at + 3]] == ["IF", "NOT", "EXISTS"]:
        at += 3
    if item[at : at + 1] and item[at].word != "(":
        name = name or item[at].text
        at += 1
    return name, _names(item[at + 1 : closing(item, at, name)])


def _names(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(part[0].text for part in split(tokens))


def _action(words: Sequence[str], event: str) -> str:
    for at in range(len(words) - 2):
        if words[at] == "ON" and words[at + 1] == event:
            count = _ACTIONS.get(words[at + 2], 1)
            return " ".join(words[at + 2 : at + 2 + count])
    return "NO ACTION"
