"""Row changes as SQL statements: forward, or as an undo.

There is one statement per row change, built column by column with Arrow kernels:

    INSERT INTO `db`.`t` (`a`, `b`) VALUES (1, 'x');
    UPDATE `db`.`t` SET `b` = 'y' WHERE `a` = 1;
    DELETE FROM `db`.`t` WHERE `a` = 1;

The primary key identifies the row, if it is known and the image has it. Otherwise all columns of
the image do, compared exactly (`ColumnType.sql_equal`), with LIMIT 1, because equal rows are
interchangeable. A statement is one line and expects `sql_text.SESSION`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import MissingContextError, UnsupportedError
from binlake.format import column_types as ct
from binlake.format.sql_names import quoted_name
from binlake.source.arrays import scalar
from binlake.table.batches import OPERATIONS, Changes, TableChanges
from binlake.table.images import Image, has_column
from binlake.table.plan import TableTypes
from binlake.table.text.json_text import join
from binlake.table.text.sql_text import ANY_VALUE_MODE, STRICT_MODE
from binlake.table.types.base import ColumnType
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

_TEXT = pa.large_string()
_NULL = scalar("NULL", _TEXT)
_EMPTY = scalar("", _TEXT)
_SHOWN_COLUMNS = 5
# the columns of a MariaDB sequence, which is logged as a table of one row (sql/sql_sequence.cc)
_SEQUENCE = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value",
    "increment", "cache_size", "cycle_option", "cycle_count",
)  # fmt: skip
_SCHEMA_HINT = (
    "--schema FILE with its SHOW CREATE TABLE does, or with the output of"
    " `binlake schema OLDER-LOGS > history.sql`"
)
# without an assignment one of these may change automatically (ON UPDATE CURRENT_TIMESTAMP)
_SELF_UPDATING = frozenset(
    (
        ct.MYSQL_TYPE_TIMESTAMP,
        ct.MYSQL_TYPE_TIMESTAMP2,
        ct.MYSQL_TYPE_DATETIME,
        ct.MYSQL_TYPE_DATETIME2,
    )
)


class SqlValues:
    """The values of some rows in one column."""

    def __init__(self, kind: ColumnType, values: pa.Array) -> None:
        self.kind = kind
        self.values = values

    @cached_property
    def literals(self) -> pa.Array:
        """Return SQL literals, NULL for null."""
        return self.kind.to_sql(self.values).fill_null(_NULL)

    def assigned(self) -> pa.Array:
        """Return `, column = literal`."""
        return join(f", {self.kind.sql_name} = ", self.literals)

    def equal(self) -> pa.Array:
        """Return a condition that the column has exactly these values."""
        return self.kind.sql_equal(self.values, self.literals)

    def key_equal(self) -> pa.Array:
        """Return a condition that the column, part of a key, equals the row's value."""
        return self.kind.sql_key_equal(self.values, self.literals)


Row = Mapping[int, SqlValues]  # by the column's ordinal; a column that an image lacks has no entry


class Shape(NamedTuple):
    """Row changes of one table, of one operation, whose images have the same columns."""

    rows: pa.Array  # indexes in the TableChanges
    operation: str
    before: Row
    after: Row


class SqlTable:
    """The facts about a table that SQL needs. Raises MissingContextError, UnsupportedError."""

    def __init__(
        self,
        types: TableTypes,
        generated: Sequence[str],
        databases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        definition = types.definition
        self.full_name = definition.full_name
        _check_names(definition)
        self.database, self.table = definition.database, definition.table
        database = databases.get(definition.database, definition.database)
        self.name = quoted_name(database, definition.table)
        self.columns = {kind.column.ordinal: kind for kind in types.columns}
        if definition.name_source == NameSource.NONE:
            raise MissingContextError(
                f"{self.full_name}: the log does not contain the names of the columns",
                hint=_SCHEMA_HINT,
            )
        listed = [kind.column for kind in types.columns]
        unsigned = [column.name for column in listed if _sign_untold(column)]
        if unsigned:
            raise MissingContextError(
                f"{self.full_name}: the log does not contain the sign of {_listed(unsigned)}",
                hint=_SCHEMA_HINT,
            )
        if definition.flavour == "mariadb" and _is_versioned(listed):
            raise UnsupportedError(
                f"{self.full_name} is a system-versioned table: SQL statements cannot write"
                " its history",
                hint=f"exclude it with --exclude-table {self.full_name}",
            )
        names = {name.casefold() for name in generated}
        self.computed = frozenset(
            column.ordinal
            for column in listed
            if column.generated
            or {column.name.casefold(), f"{self.full_name}.{column.name}".casefold()} & names
            or _is_hash(column, definition.flavour)
        )
        self.key = [ordinal for ordinal in definition.primary_key if ordinal in self.columns]
        names_of = tuple(column.name for column in listed)
        self.is_sequence = definition.flavour == "mariadb" and names_of == _SEQUENCE

    def lacks(self, row: Row) -> list[str]:
        """Return the names of the columns that a row needs but lacks."""
        needed = self.columns.keys() - self.computed - row.keys()
        return [self.columns[ordinal].column.name for ordinal in sorted(needed)]

    def has_key(self, row: Row) -> bool:
        """Whether a row has the known primary key."""
        return bool(self.key) and all(ordinal in row for ordinal in self.key)

    def set_sequence(self, row: Row) -> pa.Array:
        """Return the statement that sets a MariaDB sequence to the state of a row: the next value,
        and the cycle.
        """
        value, cycle = row[0].literals, row[len(_SEQUENCE) - 1].literals
        return join(f"DO SETVAL({self.name}, ", value, ", 0, ", cycle, ");\n")

    def identity(self, row: Row) -> pa.Array:
        """Return the condition that identifies a row: on its key, else on all columns that it has."""
        held = [row[i] for i in (self.key if self.has_key(row) else sorted(row))]
        return _separated([join(f"{v.kind.sql_name} = ", v.literals) for v in held], " AND ")

    def exactly(self, row: Row) -> pa.Array:
        """Return a condition that a row has exactly these values."""
        compared = [row[i].equal() for i in sorted(row) if i not in self.computed]
        keys = [row[i].key_equal() for i in self.key] if self.has_key(row) else []
        return _separated([*keys, *compared], " AND ")

    # -- statements ----------------------------------------------------------------------------

    def insert(self, row: Row, count: int) -> pa.Array:
        """Return the INSERT statements of rows."""
        held = self._settable(row)
        names = ", ".join(values.kind.sql_name for values in held)
        head = f"INSERT INTO {self.name} ({names}) VALUES ("
        if not held:
            return pa.repeat(scalar(head + ");\n", _TEXT), count)
        literals = _separated([values.literals for values in held], ", ")
        return _taking_any_value(join(head, literals, ");\n"), held)

    def delete(self, row: Row) -> pa.Array:
        """Return the DELETE statements of rows with the values `row`."""
        condition, limit = self._where(row)
        return join(f"DELETE FROM {self.name} WHERE ", condition, f"{limit};\n")

    def update(self, row: Row, old: Row, new: Row) -> pa.Array:
        """Return the UPDATE statements of rows with the values `row`, from values `old` to values
        `new`.

        They set only changed columns, and columns that would otherwise change automatically.
        """
        condition, limit = self._where(row)
        held = self._settable(new)
        pieces: list[pa.Array] = []
        for values in held:
            assigned = values.assigned()
            before = old.get(values.kind.column.ordinal)
            if before is not None and not _updates_itself(values.kind):
                changed = pc.not_equal(before.literals, values.literals)
                assigned = pc.if_else(changed, assigned, _EMPTY)
            pieces.append(assigned)
        kept = [
            f", {kind.sql_name} = {kind.sql_name}"
            for ordinal, kind in self.columns.items()
            if ordinal not in new and ordinal not in self.computed and _updates_itself(kind)
        ]
        nothing = pa.repeat(_EMPTY, len(condition))
        assignments = pc.utf8_slice_codeunits(join(nothing, *pieces, *kept), len(", "))
        statements = join(
            f"UPDATE {self.name} SET ", assignments, " WHERE ", condition, f"{limit};\n"
        )
        # where only computed columns changed, the server computes them again
        statements = pc.if_else(pc.equal(assignments, scalar("")), nothing, statements)
        return _taking_any_value(statements, held)

    def _settable(self, row: Row) -> list[SqlValues]:
        return [row[ordinal] for ordinal in sorted(row) if ordinal not in self.computed]

    def _where(self, row: Row) -> tuple[pa.Array, str]:
        """Return the condition that finds a row, and the LIMIT that it needs."""
        if self.has_key(row):
            return _separated([row[i].key_equal() for i in self.key], " AND "), ""
        compared = [row[i].equal() for i in sorted(row) if i not in self.computed]
        if not compared:
            raise MissingContextError(f"{self.full_name}: an image has no column to find its row")
        return _separated(compared, " AND "), " LIMIT 1"


class UndoGuard(Protocol):
    """Takes the row changes of one table in a batch that are undone, as `SqlFaces.see`."""

    def see(self, table: SqlTable, shapes: Sequence[Shape]) -> None: ...


class SqlFaces(ABC):
    """Statements of row changes. `generated` names columns that the server computes; `databases`
    gives new names to databases of the log.

    A change that SQL cannot express is an error that names the first such row change.
    """

    def __init__(
        self,
        generated: Sequence[str] = (),
        databases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._generated = generated
        self._databases = databases
        self._tables: dict[int, tuple[TableTypes, SqlTable]] = {}

    def see(self, table: SqlTable, shapes: Sequence[Shape]) -> None:
        """Take all row changes of a table in a batch, before their statements are requested."""
        return

    @abstractmethod
    def shape(self, table: SqlTable, shape: Shape) -> pa.Array:
        """Return the statements of row changes of one shape."""

    def statements(self, table: TableChanges, changes: Changes) -> pa.Array:
        """Return one statement (large_string, with its newline) for each row change of a table.

        Raises MissingContextError, UnsupportedError with file and event.
        """
        texts: list[pa.Array] = []
        rows: list[pa.Array] = []
        first = 0
        try:
            known = self._table(table.types)
            shapes = list(shapes_of(table))
            first = shapes[0].rows[0].as_py() if shapes else 0
            self.see(known, shapes)
            for shape in shapes:
                first = shape.rows[0].as_py()
                texts.append(self.shape(known, shape))
                rows.append(shape.rows)
        except (MissingContextError, UnsupportedError) as error:
            row_origin = changes.row_origins[table.facts.row_origin[first].as_py()]
            raise error.at(file=row_origin.file, event_pos=table.facts.pos[first].as_py()) from None
        if len(texts) == 1:
            return texts[0]
        return pa.concat_arrays(texts).take(pc.sort_indices(pa.concat_arrays(rows)))

    def _table(self, types: TableTypes) -> SqlTable:
        known = self._tables.get(id(types))
        if known is None:
            # the types are kept, so that no other object ever gets their id
            known = self._tables[id(types)] = (
                types,
                SqlTable(types, self._generated, self._databases),
            )
        return known[1]


class Redo(SqlFaces):
    """The statements of row changes, forward."""

    def shape(self, table: SqlTable, shape: Shape) -> pa.Array:
        if table.is_sequence:
            return table.set_sequence(shape.after)
        if shape.operation == "insert":
            return table.insert(shape.after, len(shape.rows))
        if shape.operation == "delete":
            return table.delete(shape.before)
        return table.update(shape.before, shape.before, shape.after)


class Undo(SqlFaces):
    """The statements that undo row changes. Raises MissingContextError if old values are unknown.

    `guards` see every row change first and may refuse it. `sequences` counts, by name, the changes
    of MariaDB's sequences, which are left out: a sequence never goes back.
    """

    def __init__(
        self,
        generated: Sequence[str] = (),
        databases: Mapping[str, str] = MappingProxyType({}),
        guards: Sequence[UndoGuard] = (),
    ) -> None:
        super().__init__(generated, databases)
        self._guards = guards
        self.sequences: Counter[str] = Counter()

    def see(self, table: SqlTable, shapes: Sequence[Shape]) -> None:
        for guard in self._guards:
            guard.see(table, shapes)

    def shape(self, table: SqlTable, shape: Shape) -> pa.Array:
        if table.is_sequence:
            self.sequences[table.full_name] += len(shape.rows)
            return pa.repeat(_EMPTY, len(shape.rows))
        if shape.operation == "insert":
            self._can_find(table, shape.after)
            return table.delete(shape.after)
        if shape.operation == "delete":
            self._needs(table.lacks(shape.before), table, "a deleted row")
            return table.insert(shape.before, len(shape.rows))
        unknown = [
            table.columns[ordinal].column.name
            for ordinal in sorted(shape.after.keys() - shape.before.keys() - table.computed)
        ]
        self._needs(unknown, table, "an updated row")
        # a column that an after-image lacks was not assigned: it keeps its old value
        now = {**shape.before, **shape.after}
        self._can_find(table, now)
        old = {ordinal: shape.before[ordinal] for ordinal in shape.after if ordinal in shape.before}
        return table.update(now, shape.after, old)

    def _can_find(self, table: SqlTable, row: Row) -> None:
        """Refuse a row without a known key: part of a row may match another row."""
        if not table.has_key(row):
            self._needs(table.lacks(row), table, "a row without a known key")

    def _needs(self, lacking: list[str], table: SqlTable, what: str) -> None:
        if lacking:
            raise MissingContextError(
                f"{table.full_name}: {what} cannot be restored, because the log lacks its"
                f" {_listed(lacking)}",
                hint="only binlog_row_image=FULL logs all old values",
            )


# -- rows of one shape -----------------------------------------------------------------------


def shapes_of(table: TableChanges) -> Iterator[Shape]:
    """Yield the row changes of a table by operation and by the columns of their images."""
    assert table.before is not None, "the text target decodes both images"
    for number, operation in enumerate(OPERATIONS):
        rows = pc.indices_nonzero(pc.equal(table.facts.op, scalar(number, pa.uint8())))
        if not len(rows):
            continue
        for same in _by_pattern(table.before if operation != "insert" else None, rows):
            for chosen in _by_pattern(table.after if operation != "delete" else None, same):
                before = _row(table.before, chosen) if operation != "insert" else {}
                after = _row(table.after, chosen) if operation != "delete" else {}
                yield Shape(chosen, operation, before, after)


def _by_pattern(image: Image | None, rows: pa.Array) -> Iterator[pa.Array]:
    """Yield the rows in groups whose images have the same columns."""
    if image is None or image.pattern_of is None:
        yield rows
        return
    patterns = image.pattern_of.take(rows)
    for pattern in pc.unique(patterns):
        yield rows.filter(pc.equal(patterns, pattern))


def _row(image: Image, rows: pa.Array) -> Row:
    pattern = 0 if image.pattern_of is None else image.pattern_of[rows[0].as_py()].as_py()
    bitmap = image.patterns[pattern]
    every = len(rows) == image.count
    return {
        kind.column.ordinal: SqlValues(kind, column if every else column.take(rows))
        for kind, column in zip(image.types.columns, image.columns, strict=True)
        if has_column(bitmap, kind.column.ordinal)
    }


def _separated(pieces: Sequence[pa.Array], separator: str) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, scalar(separator, _TEXT))


def _taking_any_value(statements: pa.Array, held: Sequence[SqlValues]) -> pa.Array:
    """Wrap statements with a value that a strict server accepts from row events only, so that a
    non-strict session runs them.
    """
    odd: pa.Array | None = None
    for values in held:
        needs = values.kind.sql_needs_any_value(values.values)
        if needs is not None:
            needs = needs.fill_null(scalar(False))
            odd = needs if odd is None else pc.or_(odd, needs)
    if odd is None:
        return statements
    wrapped = join(
        f"SET SESSION sql_mode = '{ANY_VALUE_MODE}';\n",
        statements,
        f"SET SESSION sql_mode = '{STRICT_MODE}';\n",
    )
    return pc.if_else(odd, wrapped, statements)


# -- columns -------------------------------------------------------------------------------------


def _check_names(definition: TableDefinition) -> None:
    """Refuse names that no client reads unchanged. Raises UnsupportedError."""
    names = (definition.database, definition.table, *(column.name for column in definition.columns))
    for name in names:
        if "\0" in name or "\r\n" in name:
            raise UnsupportedError(
                f"{definition.full_name}: the client changes a name that contains NUL or CR LF",
                hint="exclude the table with --exclude-table",
            )


def _updates_itself(kind: ColumnType) -> bool:
    return kind.column.type_code in _SELF_UPDATING


def _sign_untold(column: ColumnDefinition) -> bool:
    known = ct.COLUMN_TYPES.get(column.type_code)
    integer = known is not None and known.signed_bit and known.value_bytes is not None
    floating = column.type_code in (ct.MYSQL_TYPE_FLOAT, ct.MYSQL_TYPE_DOUBLE, ct.MYSQL_TYPE_YEAR)
    return integer and not floating and column.unsigned is None


def _is_versioned(columns: Sequence[ColumnDefinition]) -> bool:
    """Whether MariaDB keeps the history of such rows: by a declaration, else by the names that it gives automatically."""
    if any(column.bounds_version for column in columns):
        return True
    undeclared = (column for column in columns if column.bounds_version is None)
    return {"row_start", "row_end"} <= {column.name.casefold() for column in undeclared}


def _is_hash(column: ColumnDefinition, flavour: str) -> bool:
    """Whether this is MariaDB's hidden column of a UNIQUE key over long values, which no statement
    can name.
    """
    return flavour == "mariadb" and column.name.startswith("DB_ROW_HASH_")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_COLUMNS
    text = ", ".join(names[:_SHOWN_COLUMNS]) + (f" and {more} more" if more > 0 else "")
    return f"{'column' if len(names) == 1 else 'columns'} {text}"
