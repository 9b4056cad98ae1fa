"""Find the columns of a table at a place of the log, where TABLE_MAP does not record them.

The sources, in this order, are the DDL of the log up to that place and a schema beside the log
(the option schema). Declarations with a place (`binlake schema` writes them) hold from there on,
the others wherever they fit. TABLE_MAP has priority: binlake ignores declarations that do not fit
it, and reports them.

If reading begins after the start of the input, the statements before it count, too; they are read
when a table is met that nothing else describes.

Statements are stored unparsed until a table is met that the log does not fully describe; only then
are they parsed. A log with full metadata never needs that, except for
computed columns: no metadata records them, no statement may set them, and in MariaDB an update may
leave their new value out.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable

from binlake.format.sql_names import TableName, lower_name
from binlake.stream.runs import Run, Transaction
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import DROPPED, Catalogue
from binlake.table.schema.ddl import apply_ddl
from binlake.table.schema.declared import (
    DeclaredSchema,
    DeclaredTable,
    ForeignKey,
    Lacks,
    charset_conflict,
    completed,
    lacks_something,
    misfit,
    with_noted_columns,
)
from binlake.values.log_names import LogName
from binlake.values.plan import NameSource, TableDefinition
from binlake.values.position import ChainPosition, LogPosition

#: Returns the statements before the place where reading begins, in order. Raises BinlogError.
DdlBefore = Callable[[], Iterable[DdlStatement]]

_MOST_WAITING = 16 << 20  # characters of statements that have not been needed yet
_MOST_ASKED = 1 << 16
_COMMENT = r"/\*(?!M?!)(?:[^*]|\*(?!/))*+(?:\*/|\Z)"
# Comments are skipped: searching one from each AS in it would be quadratic.
_COMPUTES = re.compile(rf"{_COMMENT}|(?P<computed>\bAS\b(?:\s++|{_COMMENT})*+\()", re.IGNORECASE)


class SchemaHistory:
    """The versions of tables while a chain of logs is read.

        for run in reader.runs(history.note):
            if history.at(position_of(run)) != before: …    # answers may have changed
            definition, sentences = history.complete(definition)

    Two readings of the same log get the same answers at the same place, provided that both see its
    DDL from the start, or have it in `schema`.
    """

    def __init__(self, schema: DeclaredSchema, lacks: Lacks = lacks_something) -> None:
        self.schema = schema
        self._lacks = lacks
        self._versions = _Versions(schema.versions)
        self._catalogue = Catalogue(self._before)
        self._waiting: list[DdlStatement] = []
        self._waiting_size = 0
        self._computes = False
        self._asked: set[TableName] = set()
        self._place = LogPosition("", 0)
        self._epoch = 0
        self._generation = 0
        self._ddl_before: DdlBefore = tuple
        self._earlier: Catalogue | None = None

    def begin(self, ddl_before: DdlBefore) -> None:
        """Start a reading; `ddl_before` returns the statements of the log before that place."""
        self._ddl_before = ddl_before
        self._earlier = None

    def note(self, ddl: DdlStatement) -> None:
        """Take a DDL statement: `stream.ddl.TakesDdl`."""
        if not self._computes and any(found["computed"] for found in _COMPUTES.finditer(ddl.sql)):
            self._computes = True
            self._generation += 1
        self._waiting.append(ddl)
        self._waiting_size += len(ddl.sql)
        if self._asked or self._waiting_size > _MOST_WAITING:
            self._apply_waiting()

    def apply(self, ddl: DdlStatement) -> list[DeclaredTable]:
        """Apply a statement immediately, and return the versions of tables that it makes."""
        catalogue = self._catalogue
        catalogue.position = ddl.position.in_log
        apply_ddl(catalogue, ddl)
        changed = sorted(catalogue.changed)
        catalogue.changed.clear()
        return [version for name in changed if (version := catalogue.entry(name)) is not None]

    def at(self, position: ChainPosition) -> int:
        """Go to the place of a run (`position_of`).

        Returns a number; while it is the same, `complete` returns the same answers.
        """
        self._place = position.in_log
        epoch = self._versions.epoch(self._place)
        if epoch != self._epoch:
            self._epoch = epoch
            self._generation += bool(self._asked)
        return self._generation

    def epoch(self, position: ChainPosition) -> int:
        """Return how many versions of the schema have begun before a place."""
        return self._versions.epoch(position.in_log)

    def complete(self, definition: TableDefinition) -> tuple[TableDefinition, list[str]]:
        """Return the definition completed by the log's DDL and the schema, and sentences about
        declarations that did not fit.
        """
        version = self._version_of(definition)
        problems: list[str] = []
        before = definition
        if version is not None and version.columns:
            definition, problems = _with_version(definition, version)
        if version is None and definition.name_source == NameSource.METADATA:
            noted = self._catalogue.noted_columns((definition.database, definition.table))
            definition = with_noted_columns(definition, noted)
        fitted = definition is not before
        definition, problem = self.schema.complete(definition, self._lacks)
        if problem is not None and not fitted:  # else it is of another version
            problems.append(problem)
        why = "" if version is None else version.missing
        if definition.name_source == NameSource.NONE and why not in ("", DROPPED):
            problems.append(f"{definition.full_name}: {why}")
        return definition, problems

    def declared(self, database: str, table: str) -> DeclaredTable | None:
        """Return the declaration of a table at this place, from the log's DDL or the schema."""
        self._apply_waiting()
        logged = self._catalogue.entry(self._catalogue.spelled((database, table)))
        found = logged or self._versions.of((database, table), self._place)
        if found is None or not found.columns:
            found = next(iter(self.schema.declarations(database, table)), None)
        return found or self._declared_before((database, table))

    def references(self, database: str, table: str) -> list[tuple[str, ForeignKey]]:
        """Return the foreign keys that refer to a table at this place, with the full names of
        their tables, as far as DDL, the schema or the live server has them. Raises BinlogError.
        """
        self._apply_waiting()
        children = {
            (child.database or "", child.table)
            for child in (
                *self._catalogue.with_foreign_keys(),
                *self._before_start().with_foreign_keys(),
                *(table for table in self.schema.tables if table.foreign_keys),
            )
        }
        found = {
            (f"{name[0]}.{name[1]}", key)
            for name in children
            if (child := self.declared(*name)) is not None
            for key in child.foreign_keys
            if lower_name(key.parent) == lower_name((database, table))
        }
        return sorted(found | set(self.schema.references(database, table)))

    def _version_of(self, definition: TableDefinition) -> DeclaredTable | None:
        name = (definition.database, definition.table)
        lacking = self._computes or self._lacks(definition)
        if not lacking and self._versions.is_empty:
            return None
        spelled = name
        if lacking:
            self._apply_waiting()
            spelled = self._catalogue.spelled(name)
        if len(self._asked) < _MOST_ASKED:
            self._asked |= {name, spelled}
        logged = self._catalogue.entry(spelled) if lacking else None
        found = logged or self._versions.of(name, self._place)
        if found is None and lacking and not self._is_declared(definition):
            found = self._declared_before(name)
        return found

    def _is_declared(self, definition: TableDefinition) -> bool:
        """Whether the schema has a declaration without a place that fits."""
        declared = self.schema.declarations(definition.database, definition.table)
        return any(misfit(definition, one) is None for one in declared)

    def _declared_before(self, name: TableName) -> DeclaredTable | None:
        """Return the declaration of a table by the statements before the start of reading."""
        earlier = self._before_start()
        return earlier.entry(earlier.spelled(name))

    def _before_start(self) -> Catalogue:
        """Return the tables after the statements before the start of reading."""
        if self._earlier is None:
            earlier = Catalogue(lambda *of: self._of_schema(of, earlier.position))
            self._earlier = earlier
            for ddl in self._ddl_before():
                earlier.position = ddl.position.in_log
                apply_ddl(earlier, ddl)
        return self._earlier

    def _apply_waiting(self) -> None:
        for ddl in self._waiting:
            self._catalogue.position = ddl.position.in_log
            apply_ddl(self._catalogue, ddl)
        self._waiting.clear()
        self._waiting_size = 0
        changed = self._catalogue.changed
        if len(self._asked) >= _MOST_ASKED or changed & self._asked:
            self._generation += 1
        changed.clear()

    def _before(self, database: str, table: str) -> DeclaredTable | None:
        """Return the declaration of a table before the current statement."""
        found = self._of_schema((database, table), self._catalogue.position)
        return self._declared_before((database, table)) if found is None else found

    def _of_schema(self, name: TableName, position: LogPosition) -> DeclaredTable | None:
        version = self._versions.of(name, position)
        if version is not None:
            return version
        return next(iter(self.schema.declarations(*name)), None)


def position_of(run: Run) -> ChainPosition:
    """Return the place whose versions of tables apply to the rows of a run."""
    if isinstance(run, Transaction):  # behind its own DDL: CREATE TABLE … SELECT
        return max(run.end, run.decided)
    file = run.window.file
    return ChainPosition(file.ordinal, file.name, run.window.block.offset[run.first])


def _with_version(
    definition: TableDefinition, version: DeclaredTable
) -> tuple[TableDefinition, list[str]]:
    why = misfit(definition, version)
    if why is not None:
        sentence = f"the definition of {version.origin} does not fit the log: {why}; it is ignored"
        return definition, [f"{definition.full_name}: {sentence}"]
    source = NameSource.SCHEMA if version.line else NameSource.DDL
    conflict = charset_conflict(definition, version)
    return completed(definition, version, source), [] if conflict is None else [conflict]


class _Versions:
    """The declarations of a schema that hold from a place on; a chain has its own."""

    def __init__(self, tables: Iterable[DeclaredTable]) -> None:
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._tables: dict[tuple[str, TableName], list[tuple[tuple[int, int], DeclaredTable]]] = {}
        self._spellings: dict[tuple[str, TableName], set[TableName]] = {}
        for table in tables:
            assert table.since is not None
            base, key = _key(table.since)
            self._places.setdefault(base, []).append(key)
            name = (table.database or "", table.table)
            self._tables.setdefault((base, name), []).append((key, table))
            self._spellings.setdefault((base, lower_name(name)), set()).add(name)
        for places in self._places.values():
            places.sort()
        for versions in self._tables.values():
            versions.sort(key=lambda version: version[0])

    @property
    def is_empty(self) -> bool:
        return not self._tables

    def epoch(self, position: LogPosition) -> int:
        """Return how many versions have begun before a place."""
        if self.is_empty:
            return 0
        base, key = _key(position)
        return bisect.bisect_left(self._places.get(base, []), key)

    def of(self, name: TableName, position: LogPosition) -> DeclaredTable | None:
        """Return the version that holds at a place, before a statement at that place.

        For an unknown name, return the version of the only name that differs in case, as
        `Catalogue.spelled`.
        """
        if self.is_empty:
            return None
        base, key = _key(position)
        exact = self._at((base, name), key)
        if exact is not None and exact.columns:
            return exact
        spellings = self._spellings.get((base, lower_name(name)), set()) - {name}
        others = [self._at((base, other), key) for other in spellings]
        known = [other for other in others if other is not None and other.columns]
        return known[0] if len(known) == 1 else exact

    def _at(self, name: tuple[str, TableName], key: tuple[int, int]) -> DeclaredTable | None:
        versions = self._tables.get(name, [])
        at = bisect.bisect_left(versions, key, key=lambda version: version[0])
        return versions[at - 1][1] if at else None


def _key(position: LogPosition) -> tuple[str, tuple[int, int]]:
    """Return the base name of a chain, and the sort key of its places."""
    named = LogName.parse(position.file)
    if named is None:
        return position.file, (0, position.offset)
    return named.base, (named.number, position.offset)
