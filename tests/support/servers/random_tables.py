"""Tables with columns of every type and keys of several kinds, and random changes of their rows."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from binlake.format.sql_names import quoted_name
from dev.golden.types import Column, families
from dev.servers import Server
from support.values.random_values import with_random_values

__all__ = ["KINDS", "Columns", "RandomTable", "column_list", "row_changes"]

#: Kinds of keys, in turn for the tables that are made.
KINDS = ("int", "composite", "uuid", "ci", "none")
_UTF8 = "CHARACTER SET utf8mb4"
_WORDS = ("key", "KEY", "Kéy", "key ", "schlüssel", "SCHLÜSSEL", "ß", "SS", "", "ключ")
#: The column by which changes find the rows of a table without a key.
_FINDS = Column("n", "INT", tuple(map(str, range(10))))
_MOST_ROWS = 4  # of an INSERT


@dataclass(slots=True)
class RandomTable:
    """A table as the server has it: its key, and its other columns in any order."""

    name: str
    key: tuple[Column, ...]
    columns: list[Column]
    is_partitioned: bool = field(default=False)

    def create(self) -> str:
        """The CREATE TABLE statement."""
        columns = [f"{quoted_name(c.name)} {c.type} NOT NULL" for c in self.key]
        columns += [f"{quoted_name(c.name)} {c.type} NULL" for c in self.columns]
        if self.key:
            columns.append(f"PRIMARY KEY ({column_list(self.key)})")
        return (
            f"CREATE TABLE {quoted_name(self.name)} ({', '.join(columns)})"
            f" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4"
        )

    def insert(self, rng: random.Random, verb: str = "INSERT IGNORE", rows: int = 1) -> str:
        """A statement that inserts rows with all columns."""
        columns = [*self.key, *self.columns]
        values = ", ".join(
            f"({', '.join([*(rng.choice(c.edges) for c in self.key), *(_value(c, rng) for c in self.columns)])})"
            for _ in range(rows)
        )
        return f"{verb} INTO {quoted_name(self.name)} ({column_list(columns)}) VALUES {values}"

    def place(self, rng: random.Random) -> str:
        """A condition that a few rows meet, or a limit."""
        if self.key:
            found = rng.sample(self.key, rng.randrange(1, len(self.key) + 1))
            return "WHERE " + " AND ".join(_equals(c, rng.choice(c.edges)) for c in found)
        if _FINDS in self.columns:
            return f"WHERE {_equals(_FINDS, rng.choice(_FINDS.edges))} LIMIT {rng.randrange(1, 4)}"
        return f"LIMIT {rng.randrange(1, 4)}"


class Columns:
    """Columns of every type that a server has, each with edge values and random ones."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._rng = rng
        self._made = 0
        self.all = [
            replace(column, name=f"{table.name}_{column.name}")
            for table in families(server)
            if table.name != "wide"  # has no type of its own
            for column in with_random_values(table, rng, 4).columns
        ]

    def dealt(self, tables: int) -> list[list[Column]]:
        """Each column once, in random order, for so many tables."""
        self._rng.shuffle(self.all)
        return [self.all[number::tables] for number in range(tables)]

    def one(self) -> Column:
        """A column of any type, under a new name."""
        return replace(self._rng.choice(self.all), name=self.new_name())

    def new_name(self) -> str:
        """A name that no table has."""
        self._made += 1
        return self._rng.choice(("c{}", "new name {}", "größe{}", "from`{}", "C{}")).format(
            self._made
        )

    def key(self, kind: str) -> tuple[Column, ...]:
        """The columns of a key, with the values that its rows have."""
        if kind == "int":
            return (Column("id", "INT", tuple(map(str, range(-20, 80)))),)
        if kind == "composite":
            words = tuple(f"'{word}'" for word in _WORDS)
            return (
                Column("a", f"VARCHAR(20) {_UTF8}", words),
                Column("b", "SMALLINT", tuple(map(str, range(-6, 6)))),
            )
        if kind == "uuid":
            names = (uuid.UUID(int=self._rng.getrandbits(128)) for _ in range(80))
            return (Column("id", "CHAR(36) CHARACTER SET ascii", tuple(f"'{n}'" for n in names)),)
        if kind == "ci":
            words = tuple(f"'{word}{number}'" for word in _WORDS for number in range(8))
            return (Column("id", f"VARCHAR(30) {_UTF8} COLLATE utf8mb4_unicode_ci", words),)
        return ()

    def table(self, name: str, kind: str, columns: list[Column]) -> RandomTable:
        """A table that is not made yet."""
        key = self.key(kind)
        return RandomTable(name, key, [*columns, *(() if key else (_FINDS,))])


def column_list(columns: list[Column] | tuple[Column, ...]) -> str:
    """The names of columns, for a statement."""
    return ", ".join(quoted_name(column.name) for column in columns)


def row_changes(table: RandomTable, rng: random.Random) -> list[str]:
    """Statements that change a few rows of a table, or many; the server may refuse them."""
    return list(rng.choice(_CHANGES)(table, rng))


def _value(column: Column, rng: random.Random) -> str:
    return column.edge(rng.randrange(99))


def _equals(column: Column, value: str) -> str:
    return f"{quoted_name(column.name)} = {value}"


def _assignments(table: RandomTable, rng: random.Random) -> str:
    some = rng.sample(table.columns, min(len(table.columns), rng.randrange(1, 4)))
    return ", ".join(_equals(column, _value(column, rng)) for column in some)


def _inserts(table: RandomTable, rng: random.Random) -> Iterator[str]:
    yield table.insert(rng, rows=rng.randrange(1, _MOST_ROWS + 1))


def _replaces(table: RandomTable, rng: random.Random) -> Iterator[str]:
    yield table.insert(rng, "REPLACE", rng.randrange(1, _MOST_ROWS + 1))


def _upserts(table: RandomTable, rng: random.Random) -> Iterator[str]:
    if table.columns:
        yield f"{table.insert(rng)} ON DUPLICATE KEY UPDATE {_assignments(table, rng)}"


def _updates(table: RandomTable, rng: random.Random) -> Iterator[str]:
    if table.columns:
        name = quoted_name(table.name)
        yield f"UPDATE IGNORE {name} SET {_assignments(table, rng)} {table.place(rng)}"


def _updates_all(table: RandomTable, rng: random.Random) -> Iterator[str]:
    if table.columns:
        yield f"UPDATE IGNORE {quoted_name(table.name)} SET {_assignments(table, rng)}"


def _moves(table: RandomTable, rng: random.Random) -> Iterator[str]:
    """Change keys."""
    if table.key:
        new = ", ".join(_equals(c, rng.choice(c.edges)) for c in table.key)
        yield f"UPDATE IGNORE {quoted_name(table.name)} SET {new} {table.place(rng)}"


def _swaps(table: RandomTable, rng: random.Random) -> Iterator[str]:
    """Two rows exchange their keys."""
    if len(table.key) == 1:
        key, name = quoted_name(table.key[0].name), quoted_name(table.name)
        edges = table.key[0].edges
        one, other = rng.sample(edges, 2)
        aside = "'aside'" if one.startswith("'") else "9999"
        for new, old in ((aside, one), (one, other), (other, aside)):
            yield f"UPDATE IGNORE {name} SET {key} = {new} WHERE {key} = {old}"


def _deletes(table: RandomTable, rng: random.Random) -> Iterator[str]:
    yield f"DELETE FROM {quoted_name(table.name)} {table.place(rng)}"


def _deletes_and_inserts(table: RandomTable, rng: random.Random) -> Iterator[str]:
    yield from _deletes(table, rng)
    yield from _inserts(table, rng)


def _deletes_many(table: RandomTable, rng: random.Random) -> Iterator[str]:
    finds = table.key[0] if table.key else _FINDS
    if table.key or _FINDS in table.columns:
        value = rng.choice(finds.edges)
        yield f"DELETE FROM {quoted_name(table.name)} WHERE {quoted_name(finds.name)} > {value}"


_CHANGES: tuple[Callable[[RandomTable, random.Random], Iterator[str]], ...] = (
    *(_inserts, _inserts, _inserts, _replaces, _upserts),
    *(_updates, _updates, _updates, _updates_all, _moves, _swaps),
    *(_deletes, _deletes_and_inserts, _deletes_many),
)
