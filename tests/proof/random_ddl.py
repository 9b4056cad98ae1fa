"""Random DDL on tables with columns of every type: columns, keys, names and partitions change, and tables come and go."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from binlake.format.sql_names import quoted_name
from dev.golden.types import Column
from support.servers.random_tables import KINDS, Columns, RandomTable, column_list

__all__ = ["RandomTables", "Step"]

#: How the names of tables begin, and those of tables that the mirror does not select.
SELECTED, ASIDE = "t", "x"
_MOST_COLUMNS = 30
_ROWS = 12
_INTEGERS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_TEXTS = ("''", "'text'", "'é😀'", "'-7'")
_NUMBERS = ("0", "-7", "100", "9000000000")
#: Columns that existing rows get with a value, and columns of which only a copy has the values.
_DEFAULTS = (
    Column("", "INT NOT NULL DEFAULT 7", _NUMBERS[:3]),
    Column("", "BIGINT NOT NULL", _NUMBERS),
    Column("", "VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'new'", _TEXTS),
    Column("", "ENUM('a','b') NOT NULL", ("'a'", "'b'")),
    Column("", "DATETIME NOT NULL DEFAULT '2020-01-02 03:04:05'", ("'2021-01-01'",)),
    Column("", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", ("'2022-01-01'",)),
)
#: Types to which columns are converted, with values for them.
_CONVERTED = (
    ("BIGINT", _NUMBERS),
    ("DECIMAL(20,2)", _NUMBERS),
    ("DOUBLE", _NUMBERS),
    ("VARCHAR(200) CHARACTER SET utf8mb4", _TEXTS),
    ("LONGTEXT CHARACTER SET utf8mb4", _TEXTS),
    ("VARBINARY(200)", ("''", "x'00ff'")),
)
_RANGES = (
    "RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (40),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
#: The server refuses those that are for other kinds of partitions.
_OF_PARTITIONS = ("TRUNCATE PARTITION p0", "DROP PARTITION p1", "COALESCE PARTITION 1", "ANALYZE PARTITION p0")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, and what to note if the server accepts it."""

    sql: str
    accepted: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of an ALTER TABLE."""

    sql: str
    accepted: Callable[[], object] = lambda: None


class RandomTables:
    """Tables, and DDL that changes them: the same for the same seed, if the server accepts the same statements."""

    def __init__(self, columns: Columns, rng: random.Random, count: int) -> None:
        self.columns, self.rng, self.count = columns, rng, count
        self.tables: list[RandomTable] = []
        self._names = 0

    @property
    def selected(self) -> set[str]:
        """The names of the tables that a mirror selects."""
        return {table.name for table in self.tables if table.name.startswith(SELECTED)}

    def first(self) -> Iterator[list[Step]]:
        """The statements that make the tables, and fill them."""
        for number, columns in enumerate(self.columns.dealt(self.count)):
            yield self._making(self._name(), KINDS[number % len(KINDS)], columns)

    def ddl(self, table: RandomTable) -> list[Step]:
        """A change of a table, or of two, as one statement or several."""
        if len(self.tables) < self.count:
            return self._making(self._name(), self.rng.choice(KINDS), self._some_columns())
        while True:
            change = self.rng.choices(list(_DDL), list(_DDL.values()))[0]
            steps = list(change(self, table))
            if steps:
                return steps

    # -- whole tables ------------------------------------------------------------------------------

    def _name(self, prefix: str = SELECTED) -> str:
        self._names += 1
        return f"{prefix}{self._names:03}"

    def _some_columns(self) -> list[Column]:
        return [self.columns.one() for _ in range(self.rng.randrange(1, 9))]

    def _making(self, name: str, kind: str, columns: list[Column]) -> list[Step]:
        """Statements that make and fill a table; a server may refuse one with so many columns, but not all."""
        made = self.columns.table(name, kind, columns)
        steps = [Step(made.create(), lambda: self.tables.append(made))]
        return [*steps, *(Step(made.insert(self.rng)) for _ in range(_ROWS))]

    def _truncates(self, table: RandomTable) -> Iterator[Step]:
        yield Step(f"TRUNCATE TABLE {quoted_name(table.name)}")

    def _drops_and_creates(self, table: RandomTable) -> Iterator[Step]:
        """Another table of the same name."""
        yield Step(f"DROP TABLE {quoted_name(table.name)}", lambda: self.tables.remove(table))
        yield from self._making(table.name, self.rng.choice(KINDS), self._some_columns())

    def _creates_like(self, table: RandomTable) -> Iterator[Step]:
        """A table is replaced by a copy of another one."""
        other = self.rng.choice(self.tables)
        if other is table:
            return
        made = replace(other, name=table.name, columns=list(other.columns))
        name, like = quoted_name(table.name), quoted_name(other.name)
        yield Step(f"DROP TABLE {name}", lambda: self.tables.remove(table))
        yield Step(f"CREATE TABLE {name} LIKE {like}", lambda: self.tables.append(made))
        yield Step(f"INSERT INTO {name} SELECT * FROM {like}")

    def _creates_as_select(self, table: RandomTable) -> Iterator[Step]:
        """A table without a key takes the place of one."""
        other = self.rng.choice(self.tables)
        if other is table:
            return
        made = RandomTable(table.name, (), [*other.key, *other.columns])
        name = quoted_name(table.name)
        yield Step(f"DROP TABLE {name}", lambda: self.tables.remove(table))
        select = f"CREATE TABLE {name} AS SELECT * FROM {quoted_name(other.name)}"
        yield Step(select, lambda: self.tables.append(made))

    def _renames(self, table: RandomTable) -> Iterator[Step]:
        """To a name that the mirror selects, or to one that it does not."""
        is_aside = table.name.startswith(SELECTED) and self.rng.random() < 0.3
        new = self._name(ASIDE if is_aside else SELECTED)
        sql = self.rng.choice(("RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"))
        yield Step(
            sql.format(quoted_name(table.name), quoted_name(new)),
            lambda: setattr(table, "name", new),
        )

    def _exchanges_names(self, table: RandomTable) -> Iterator[Step]:
        other = self.rng.choice(self.tables)
        if other is table:
            return

        def swapped() -> None:
            table.name, other.name = other.name, table.name

        one, two = quoted_name(table.name), quoted_name(other.name)
        yield Step(f"RENAME TABLE {one} TO `swap`, {two} TO {one}, `swap` TO {two}", swapped)

    # -- keys and partitions -----------------------------------------------------------------------

    def _changes_key(self, table: RandomTable) -> Iterator[Step]:
        name = quoted_name(table.name)
        if not table.key:
            number = Column(self.columns.new_name(), "INT", tuple(map(str, range(1, 60))))
            added = f"ADD COLUMN {quoted_name(number.name)} INT NOT NULL AUTO_INCREMENT PRIMARY KEY"
            yield Step(f"ALTER TABLE {name} {added}", lambda: setattr(table, "key", (number,)))
            return
        first = table.key[0]
        widened = replace(first, type={"INT": "BIGINT", "SMALLINT": "INT"}.get(first.type, "INT"))
        renamed = replace(first, name=self.columns.new_name())
        # the items of an ALTER, the key after it, and the columns that are no longer in a key
        choices: list[tuple[str, tuple[Column, ...], list[Column]]] = [
            ("DROP PRIMARY KEY", (), list(table.key)),
            (f"DROP PRIMARY KEY, ADD UNIQUE KEY ({column_list(table.key)})", table.key, []),
            (
                f"CHANGE {quoted_name(first.name)} {quoted_name(renamed.name)} {first.type} NOT NULL",
                (renamed, *table.key[1:]),
                [],
            ),
        ]
        if len(table.key) > 1:
            turned = table.key[::-1]
            choices.append(
                (f"DROP PRIMARY KEY, ADD PRIMARY KEY ({column_list(turned)})", turned, [])
            )
        if first.type in _INTEGERS:
            modified = f"MODIFY {quoted_name(first.name)} {widened.type} NOT NULL"
            choices.append((modified, (widened, *table.key[1:]), []))
        sql, key, left = self.rng.choice(choices)

        def accepted() -> None:
            table.key = key
            table.columns += left

        yield Step(f"ALTER TABLE {name} {sql}", accepted)

    def _partitions(self, table: RandomTable) -> Iterator[Step]:
        name = quoted_name(table.name)
        if table.is_partitioned:
            if self.rng.random() < 0.7:
                yield Step(f"ALTER TABLE {name} {self.rng.choice(_OF_PARTITIONS)}")
            else:
                yield Step(
                    f"ALTER TABLE {name} REMOVE PARTITIONING",
                    lambda: setattr(table, "is_partitioned", False),
                )
        elif table.key:
            by = [f"KEY ({column_list(table.key)}) PARTITIONS 3"]
            by += [_RANGES] * (table.key[0].name == "id" and table.key[0].type in _INTEGERS)
            yield Step(
                f"ALTER TABLE {name} PARTITION BY {self.rng.choice(by)}",
                lambda: setattr(table, "is_partitioned", True),
            )

    # -- columns -----------------------------------------------------------------------------------

    def _alters(self, table: RandomTable) -> Iterator[Step]:
        """One change of columns, or several at once."""
        left = self.rng.sample(table.columns, len(table.columns))
        items: list[_Item] = []
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            items += self.rng.choice(_ITEMS)(self, table, left)
        if not items:
            return

        def accepted() -> None:
            for item in items:
                item.accepted()

        sql = ", ".join(item.sql for item in items)
        yield Step(f"ALTER TABLE {quoted_name(table.name)} {sql}", accepted)

    def _place(self, table: RandomTable) -> str:
        after = [f" AFTER {quoted_name(column.name)}" for column in table.key]
        return self.rng.choice(("", " FIRST", *after))

    def _adds(self, table: RandomTable, _left: list[Column]) -> Iterator[_Item]:
        if len(table.columns) >= _MOST_COLUMNS:
            return
        if self.rng.random() < 0.3:
            made = replace(self.rng.choice(_DEFAULTS), name=self.columns.new_name())
            definition = made.type
        else:
            made = self.columns.one()
            definition = f"{made.type} NULL"
        sql = f"ADD COLUMN {quoted_name(made.name)} {definition}{self._place(table)}"
        # its type without the default, for later statements
        column = replace(made, type=re.split(" NOT NULL| NULL| DEFAULT", made.type)[0])
        yield _Item(sql, lambda: table.columns.append(column))

    def _drops(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        if len(left) > 1:
            column = left.pop()
            yield _Item(
                f"DROP COLUMN {quoted_name(column.name)}", lambda: table.columns.remove(column)
            )

    def _changed(self, table: RandomTable, old: Column, new: Column, place: str = "") -> _Item:
        """A column becomes another one."""

        def accepted() -> None:
            table.columns[table.columns.index(old)] = new

        sql = f"CHANGE {quoted_name(old.name)} {quoted_name(new.name)} {new.type} NULL{place}"
        return _Item(sql, accepted)

    def _renames_column(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        if left:
            column = left.pop()
            yield self._changed(table, column, replace(column, name=self.columns.new_name()))

    def _exchanges_columns(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        if len(left) > 1:
            one, other = left.pop(), left.pop()
            yield self._changed(table, one, replace(one, name=other.name))
            yield self._changed(table, other, replace(other, name=one.name))

    def _moves(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        if left:
            column = left.pop()
            yield self._changed(table, column, column, self._place(table))

    def _widens(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        for column in left:
            if (wider := _wider(column.type)) != column.type:
                left.remove(column)
                yield self._changed(table, column, replace(column, type=wider))
                return

    def _converts(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        if left:
            column = left.pop()
            kind, edges = self.rng.choice(_CONVERTED)
            yield self._changed(table, column, replace(column, type=kind, edges=edges))

    def _changes_nothing(self, table: RandomTable, left: list[Column]) -> Iterator[_Item]:
        choices = ["COMMENT 'changed'", "ENGINE=InnoDB", "DEFAULT CHARACTER SET latin1"]
        if left:
            choices.append(f"ADD INDEX ({quoted_name(left[0].name)})")
        yield _Item(self.rng.choice(choices))


def _wider(kind: str) -> str:
    """A type that has all values of another one, and more; the same type if none is known."""
    found = re.fullmatch(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?(.*)", kind)
    if found is None:
        return kind
    name, more = found[1].upper(), found[4]
    if name in _INTEGERS[:-1] and found[2] is None:
        return f"{_INTEGERS[_INTEGERS.index(name) + 1]}{more}"
    if name in ("VARCHAR", "VARBINARY") and int(found[2]) <= 1000:
        return f"{name}({int(found[2]) * 2}){more}"
    if name == "DECIMAL" and int(found[2]) < 60:
        return f"{name}({int(found[2]) + 5},{found[3]}){more}"
    return "DOUBLE" if kind == "FLOAT" else kind


_ITEMS: tuple[Callable[[RandomTables, RandomTable, list[Column]], Iterator[_Item]], ...] = (
    *(RandomTables._adds, RandomTables._adds, RandomTables._drops),
    *(RandomTables._renames_column, RandomTables._exchanges_columns, RandomTables._moves),
    *(RandomTables._widens, RandomTables._widens, RandomTables._converts),
    RandomTables._changes_nothing,
)
#: Kinds of DDL, and how often they are chosen.
_DDL: dict[Callable[[RandomTables, RandomTable], Iterator[Step]], int] = {
    RandomTables._alters: 10,
    RandomTables._truncates: 1,
    RandomTables._drops_and_creates: 2,
    RandomTables._creates_like: 1,
    RandomTables._creates_as_select: 1,
    RandomTables._renames: 2,
    RandomTables._exchanges_names: 1,
    RandomTables._changes_key: 3,
    RandomTables._partitions: 3,
}
