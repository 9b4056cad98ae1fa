"""Tables declared in SQL, which complete the description in the log.

TABLE_MAP is the truth, a declaration a hint: it fills in names, signs, character sets, members and
keys that the log lacks. binlake ignores a declaration that does not fit the columns of the log,
and reports the reason. A table may be declared several times (a dump after an ALTER): the last
declaration that fits counts.

Declarations that hold from a place of the log on (`since`) are versions: the place of the rows
decides which one counts (`table/schema/history.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from binlake.format import column_types as ct
from binlake.format.collations import COLLATIONS, charset_of
from binlake.format.flags import TM_GENERATED_INVISIBLE_PK_F
from binlake.table.schema.defaults import Default, Unknown
from binlake.table.types.registry import STRING_TYPES
from binlake.table.types.sql_types import sql_type
from binlake.values.charset_text import lower_case
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition
from binlake.values.position import LogPosition

OLD_TEMPORAL = (ct.MYSQL_TYPE_TIMESTAMP, ct.MYSQL_TYPE_DATETIME, ct.MYSQL_TYPE_TIME)
_LISTED = (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET)
#: The column of MySQL's generated invisible primary keys.
ROW_ID = "my_row_id"
#: What follows AS in the declarations of the two columns that hold the version of a row (MariaDB).
_VERSION_BOUNDS = ("ROW START", "ROW END")


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """One column of a CREATE TABLE.

    `sql` is the type as written, in lower case; `type_codes` are the codes that TABLE_MAP may have
    for it. `charset` is the name of a character column's set, "binary" for bytes, None if it is
    the server's default. `special`: uuid, inet4, inet6, vector or json. `generated`: AS (…),
    `virtual` if the server does not store it, `expression` is the text after AS. `nullable`:
    whether it may be NULL, None if unknown. `default`: the value in rows whose INSERT does not name the column. It has
    no effect on the values of a log, so columns that differ in it are equal. `is_hidden_key`: an INVISIBLE column that has
    the name of those that MySQL generates for primary keys.
    """

    name: str
    sql: str
    type_codes: frozenset[int]
    length: int = 0
    decimals: int = 0
    unsigned: bool = False
    charset: str | None = None
    members: tuple[str, ...] | None = None
    special: str | None = None
    generated: bool = False
    nullable: bool | None = None
    virtual: bool = False
    expression: str = ""
    default: Default = field(default=Unknown("its definition is not known"), compare=False)
    is_hidden_key: bool = False
    # each of thousands of ALTER TABLE compares the names of all columns
    lower_name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lower = lower_case(self.name)
        object.__setattr__(self, "lower_name", self.name if lower == self.name else lower)

    @property
    def bounds_version(self) -> bool:
        """Whether it is the start or the end of a version of a row."""
        return self.expression.upper() in _VERSION_BOUNDS


#: The actions of foreign keys that change no row.
PASSIVE = frozenset(("RESTRICT", "NO ACTION"))


class ForeignKey(NamedTuple):
    """A foreign key of a table: its `columns` refer to `parent_columns` of `parent` (database, table).

    `on_delete` and `on_update` are RESTRICT, NO ACTION, CASCADE, SET NULL or SET DEFAULT. A key
    without a name has the one that InnoDB gives it (`table_ibfk_1`).
    """

    name: str
    columns: tuple[str, ...]
    parent: tuple[str, str]
    parent_columns: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"

    @property
    def actions(self) -> set[str]:
        """Its actions that change rows."""
        return {self.on_delete, self.on_update} - PASSIVE


#: The foreign keys that refer to a table (database, name), with the full names of their tables.
References = Callable[[str, str], Sequence[tuple[str, ForeignKey]]]


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as a CREATE TABLE, and later ALTER statements, declare it.

    `database` is None if neither the statement nor a USE names one. `line` is that of a schema
    file, 0 for DDL of a log. `charset` is the default of new columns. `since` is the place of the
    DDL that made this version; for a version without columns, `missing` is the reason.
    `system_versioned`: WITH SYSTEM VERSIONING, with columns AS ROW START and AS ROW END among `columns` or not.
    """

    database: str | None
    table: str
    columns: tuple[DeclaredColumn, ...]
    primary_key: tuple[str, ...] = ()
    system_versioned: bool = False
    line: int = 0
    charset: str | None = None
    since: LogPosition | None = None
    missing: str = ""
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def origin(self) -> str:
        """The place of the declaration, for messages."""
        return f"line {self.line} of the schema" if self.since is None else str(self.since)

    @property
    def defaults(self) -> tuple[Default, ...]:
        """The defaults of its columns, in their order."""
        return tuple(column.default for column in self.columns)

    @property
    def hides_versions(self) -> bool:
        """Whether MariaDB adds the columns with the start and the end of a row's version, and does not show them."""
        return self.system_versioned and not any(c.bounds_version for c in self.columns)


#: Whether TABLE_MAP leaves open something that a reader has to know about a table.
Lacks = Callable[[TableDefinition], bool]


def lacks_something(definition: TableDefinition) -> bool:
    """Whether TABLE_MAP leaves open something that determines values: the `Lacks` for showing
    values.
    """
    if definition.name_source != NameSource.METADATA:
        return True
    return any(
        column.type_code in OLD_TEMPORAL
        or (definition.flavour == "mariadb" and _may_be_network(column))
        or (column.unsigned is None and ct.COLUMN_TYPES[column.type_code].signed_bit)
        or (column.collation_id is None and column.type_code in STRING_TYPES)
        or (column.members is None and column.type_code in _LISTED)
        for column in definition.columns
    )


def lacks_computed(_definition: TableDefinition) -> bool:
    """The `Lacks` for writing statements: no metadata records which columns the server computes."""
    return True


def _may_be_network(column: ColumnDefinition) -> bool:
    """Whether MariaDB's metadata may mean UUID, INET6, INET4 or VECTOR as well as bytes."""
    if column.declared is not None or charset_of(column.collation_id) != "binary":
        return False
    if column.type_code == ct.MYSQL_TYPE_STRING:
        return column.length in (4, 16)
    return column.type_code == ct.MYSQL_TYPE_VARCHAR and column.length % 4 == 0


class DeclaredSchema:
    """All declarations of one or more files, by table; `versions` are those with a place."""

    def __init__(self, tables: Iterable[DeclaredTable] = ()) -> None:
        self.tables = tuple(tables)
        self.versions = tuple(table for table in self.tables if table.since is not None)
        self._by_name: dict[str, list[DeclaredTable]] = {}
        for table in self.tables:
            if table.since is None:
                self._by_name.setdefault(table.table, []).insert(0, table)  # newest first

    def close(self) -> None:
        """Release resources."""
        return

    def of_logs(self, inputs: Iterable[str]) -> DeclaredSchema:
        """Return the schema for logs at these paths or URLs: only the server of a log knows its
        tables.

        It is closed with this one.
        """
        return self

    def declarations(self, database: str, table: str) -> Sequence[DeclaredTable]:
        """Return declarations without a place, newest first; those without a database match any."""
        found = self._by_name.get(table, ())
        named = [d for d in found if d.database == database]
        return named or [d for d in found if d.database is None]

    def references(self, _database: str, _table: str) -> Sequence[tuple[str, ForeignKey]]:
        """Return the foreign keys that a live server has for a table; those of a file are in
        `tables`.
        """
        return ()

    def complete(
        self, definition: TableDefinition, lacks: Lacks = lacks_something
    ) -> tuple[TableDefinition, str | None]:
        """Return the definition completed by a declaration, and why none fitted (None when one
        did).

        `lacks` decides whether to ask a server for a declaration.
        """
        problem: str | None = None
        for declared in self.declarations(definition.database, definition.table):
            why = misfit(definition, declared)
            if why is None:
                return (
                    completed(definition, declared, NameSource.SCHEMA),
                    charset_conflict(definition, declared),
                )
            problem = problem or (
                f"{definition.full_name}: the declaration at {declared.origin} does"
                f" not fit the log: {why}; it is ignored"
            )
        return definition, problem


def _pairs(
    definition: TableDefinition, declared: DeclaredTable
) -> list[tuple[ColumnDefinition, DeclaredColumn | None]]:
    """Return each column of the log with its declaration: by name if the log has names, else by
    place.
    """
    columns = _with_hidden(definition, declared)
    if definition.name_source != NameSource.NONE:
        by_name = {lower_case(column.name): column for column in columns or declared.columns}
        return [(column, by_name.get(lower_case(column.name))) for column in definition.columns]
    return list(zip(definition.columns, columns, strict=True)) if columns else []


def _with_hidden(
    definition: TableDefinition, declared: DeclaredTable
) -> list[DeclaredColumn] | None:
    """Return the declared columns with those that SHOW CREATE TABLE hides; None when the count is
    wrong.
    """
    columns = list(declared.columns)
    logged = definition.columns
    if definition.flags & TM_GENERATED_INVISIBLE_PK_F and len(logged) == len(columns) + 1:
        columns.insert(0, _hidden(ROW_ID, ct.MYSQL_TYPE_LONGLONG))
    elif definition.flags & TM_GENERATED_INVISIBLE_PK_F:
        # stays the first one, whatever an ALTER TABLE puts FIRST
        columns.sort(key=lambda column: column.lower_name != ROW_ID)
    if declared.hides_versions and len(logged) >= len(columns) + 2:
        for bound in _VERSION_BOUNDS:
            hidden = _hidden(bound.lower().replace(" ", "_"), ct.MYSQL_TYPE_TIMESTAMP2, 6)
            columns.append(replace(hidden, expression=bound))
    # MariaDB keeps a hash of each UNIQUE key over long columns behind all others
    hashes = logged[len(columns) :]
    if len(hashes) <= 8 and all(column.type_code == ct.MYSQL_TYPE_LONGLONG for column in hashes):
        columns += [
            _hidden(f"DB_ROW_HASH_{n + 1}", ct.MYSQL_TYPE_LONGLONG) for n in range(len(hashes))
        ]
    return columns if len(columns) == len(logged) else None


def _hidden(name: str, code: int, decimals: int = 0) -> DeclaredColumn:
    kind = "bigint unsigned" if code == ct.MYSQL_TYPE_LONGLONG else f"timestamp({decimals})"
    return DeclaredColumn(
        name,
        kind,
        frozenset({code}),
        decimals=decimals,
        unsigned=code == ct.MYSQL_TYPE_LONGLONG,
        generated=name != ROW_ID,
        virtual=name.startswith("DB_ROW_HASH"),
    )


def misfit(definition: TableDefinition, declared: DeclaredTable) -> str | None:
    """Return why a declaration cannot be of a table of the log; None if it can."""
    pairs = _pairs(definition, declared)
    if not pairs:
        return f"it has {len(declared.columns)} columns, but the log has {len(definition.columns)}"
    for column, hint in pairs:
        if hint is None:
            return f"it has no column {column.name}"
        if not _fits(column, hint):
            found = sql_type(column, charset_of(column.collation_id))
            return f"column {hint.name} is declared as {hint.sql}, but is {found} in the log"
    return None


def _fits(column: ColumnDefinition, hint: DeclaredColumn) -> bool:
    code = column.type_code
    if code not in hint.type_codes:
        return False
    if code == ct.MYSQL_TYPE_NEWDECIMAL:
        return (column.precision, column.decimals) == (hint.length, hint.decimals)
    if code == ct.MYSQL_TYPE_BIT:
        return column.length == hint.length
    if code in ct.FRACTIONAL_TYPES:
        return column.decimals == hint.decimals
    if code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET) and hint.members is not None:
        return column.length == member_bytes(code, len(hint.members))
    if column.unsigned is not None and hint.unsigned != column.unsigned:
        return code not in ct.INTEGER_TYPES
    return True


def member_bytes(code: int, count: int) -> int:
    """Return the bytes of an ENUM or SET with so many members."""
    if code == ct.MYSQL_TYPE_ENUM:
        return 1 if count <= 255 else 2
    width = (count + 7) // 8
    return width if width <= 4 else 8


def completed(definition: TableDefinition, declared: DeclaredTable, source: str) -> TableDefinition:
    """Return the definition completed by a declaration that fits; `source` describes the
    declaration.
    """
    columns = tuple(
        column if hint is None else _with_hint(column, hint, definition)
        for column, hint in _pairs(definition, declared)
    )
    ordinals = {lower_case(column.name): column.ordinal for column in columns}
    key = definition.primary_key
    if not key and ordinals.keys() >= {lower_case(name) for name in declared.primary_key}:
        key = tuple(ordinals[lower_case(name)] for name in declared.primary_key)
    if definition.name_source != NameSource.NONE:
        return replace(definition, columns=columns, primary_key=key)
    return replace(
        definition,
        columns=columns,
        primary_key=key,
        name_source=source,
        name_origin=declared.origin,
    )


def with_noted_columns(
    definition: TableDefinition, noted: Sequence[DeclaredColumn]
) -> TableDefinition:
    """Return the definition completed by declarations of some columns, by name, if they fit."""
    by_name = {lower_case(column.name): column for column in noted}
    columns = tuple(
        _with_hint(column, hint, definition)
        if (hint := by_name.get(lower_case(column.name))) is not None and _fits(column, hint)
        else column
        for column in definition.columns
    )
    return definition if columns == definition.columns else replace(definition, columns=columns)


def _with_hint(
    column: ColumnDefinition, hint: DeclaredColumn, table: TableDefinition
) -> ColumnDefinition:
    name = hint.name if table.name_source == NameSource.NONE else column.name
    collation = column.collation_id
    if collation is None and hint.charset is not None and column.type_code in STRING_TYPES:
        collation = A_COLLATION.get(hint.charset)
    unsigned = column.unsigned
    if unsigned is None and ct.COLUMN_TYPES[column.type_code].signed_bit:
        unsigned = hint.unsigned
    decimals = column.decimals
    if column.type_code in OLD_TEMPORAL:
        decimals = hint.decimals  # MariaDB's old fractional formats, which the log does not record
    return replace(
        column,
        name=name,
        decimals=decimals,
        unsigned=unsigned,
        collation_id=collation,
        is_collation_known=column.is_collation_known and collation == column.collation_id,
        members=hint.members if column.members is None else column.members,
        declared=hint.special,
        generated=hint.generated,
        virtual=hint.virtual and table.flavour == "mariadb",  # MySQL logs what it computes
        bounds_version=hint.bounds_version,
    )


def charset_conflict(definition: TableDefinition, declared: DeclaredTable) -> str | None:
    """Return a sentence about a column whose declared character set differs from the log, or None."""
    for column, hint in _pairs(definition, declared):
        told = charset_of(column.collation_id)
        if hint is not None and hint.charset is not None and told not in (None, hint.charset):
            return (
                f"{definition.full_name}.{hint.name}: the declaration has character set"
                f" {hint.charset},"
                f" the log has {told}; binlake uses that of the log"
            )
    return None


# one collation id of each character set: only the set is known then (`is_collation_known`)
A_COLLATION = {collation.charset: number for number, collation in COLLATIONS.items()}
