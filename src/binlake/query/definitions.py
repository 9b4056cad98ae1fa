"""The tables that a log changes, and the columns of each, which SQL needs before it reads a row.

One pass over the logs finds the definitions. It decodes no row, and reads only what the filters
select. `first_definitions` looks at the beginning of the logs only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from binlake.errors import BinlogError, OptionError, SchemaError
from binlake.format.sql_names import TableName
from binlake.source.chain import Chain
from binlake.source.log_file import Damage
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.batches import typed_schema
from binlake.table.checks.ambiguous_name import ambiguous_name
from binlake.table.decode import ChangeDecoder
from binlake.table.plan import TableTypes
from binlake.table.resolve import TableResolver, silent
from binlake.table.schema.declared import DeclaredSchema, lacks_something
from binlake.table.schema.evolution import Evolution, distinct_versions
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.renames import noting_renames
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

#: Runs of each log that `first_definitions` looks at; one is at most 2 MB, or a transaction.
_FIRST_RUNS = 4
#: Definitions by table, from the oldest to the newest.
_Found = dict[TableName, dict[int, TableTypes]]


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """A table of the log. `schemas` are the schemas of its definitions, from the oldest to the newest."""

    database: str
    table: str
    schemas: tuple[pa.Schema, ...]
    evolution: Evolution

    @property
    def name(self) -> str:
        """`database.table`, the name in SQL."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class ChangedTables:
    """The tables that SQL can read, by name, and the reasons why it cannot read the others."""

    readable: dict[str, ChangedTable]
    unreadable: dict[str, SchemaError | OptionError]


def find_tables(
    chains: Sequence[Chain], options: ReadOptions, schema: DeclaredSchema
) -> ChangedTables:
    """Return the tables with row changes in what the options choose.

    Columns and metadata columns are those that `options` adds to typed rows. Raises BinlogError.
    """
    if options.verify_checksum and options.on_error != Damage.SKIP:
        # Checksums cost more than everything else, and the scan of the rows verifies those of the
        # bytes that it reads. Damage
        # in other bytes can only add a definition; so where a table has several, this pass verifies them, too.
        with suppress(
            BinlogError
        ):  # a pass that verifies checksums gives the best report of damage
            quick = find_tables(chains, replace(options, verify_checksum=False), schema)
            if all(len(table.schemas) == 1 for table in quick.readable.values()):
                return quick
    found: _Found = {}
    ledger = Ledger()
    _search(chains, _scope(options), schema, ledger, found)
    return _readable(found, options, ledger)


def first_definitions(
    chains: Sequence[Chain], options: ReadOptions, schema: DeclaredSchema, names: Iterable[str]
) -> dict[str, tuple[ChangedTable, TableDefinition]]:
    """Return tables as the first and the last log of each chain describe them when a table comes first; of `names`
    those that are found soon, and have one definition.

    The logs may have other definitions of them. Options as for `find_tables`. Raises BinlogError.
    """
    wanted = frozenset(names)
    found: _Found = {}
    ledger = Ledger()
    scope = replace(_scope(options), verify_checksum=False)
    ends = [c for chain in chains for c in dict.fromkeys((_part(chain, 0), _part(chain, -1)))]
    for chain in ends:
        met: set[str] = set()

        def is_last(name: str, met: set[str] = met) -> None:
            met.add(name)
            if wanted <= met:
                raise _AllMetError

        with suppress(_AllMetError):
            _search(
                [chain],
                scope,
                schema,
                ledger,
                found,
                is_last,
                lambda runs: islice(runs, _FIRST_RUNS),
            )
    readable = _readable(found, options, ledger).readable
    return {
        name: (table, next(iter(found[table.database, table.table].values())).definition)
        for name, table in readable.items()
        if name in wanted and len(found[table.database, table.table]) == 1
    }


class _AllMetError(Exception):
    """Every table that is looked for has been met."""


def _part(chain: Chain, place: int) -> Chain:
    return replace(chain, files=(chain.files[place],))


def _scope(options: ReadOptions) -> ReadOptions:
    """The options of a search. To find statements costs more than all else, and a search shows none."""
    return replace(options, where=None, whole_transaction=False, query=False, on_unshown="count")


def _search(
    chains: Sequence[Chain],
    scope: ReadOptions,
    schema: DeclaredSchema,
    ledger: Ledger,
    found: _Found,
    met: Callable[[str], None] = lambda _name: None,
    part: Callable[[Iterator[Run]], Iterator[Run]] = lambda runs: runs,
) -> None:
    """Add the definitions in a part of the runs to `found`; `met` receives the name of a table when it is added."""
    for chain, reader in zip(chains, LogReader.of_chains(chains, scope, ledger), strict=True):
        history = SchemaHistory(schema.of_logs(chain.paths), lacks_something)
        tables = _NotedTables(TableResolver(scope, Target.TYPED, silent, history), found, met)
        decoder = ChangeDecoder(scope, Target.TYPED, ledger, history=history, tables=tables)
        decoder.begin(reader.ddl_before)

        def on_ddl(ddl: DdlStatement, decoder: ChangeDecoder = decoder) -> None:
            decoder.on_ddl(ddl)
            decoder.forget_tables()  # a definition that comes back is the newest again

        for _ in decoder.decode(part(reader.runs(noting_renames(ledger.renamed, on_ddl)))):
            pass  # no table is wanted, so there is no row


class _NotedTables:
    """Notes the definition of each table that the decoder meets, and refuses its rows."""

    def __init__(self, tables: TableResolver, found: _Found, met: Callable[[str], None]) -> None:
        self._tables = tables
        self._found = found
        self._met = met

    def types(self, body: bytes, fmt: EventFormat) -> TableTypes | None:
        types = self._tables.types(body, fmt)
        if types is not None:
            definition = types.definition
            noted = self._found.setdefault((definition.database, definition.table), {})
            noted.pop(id(types), None)
            noted[id(types)] = types  # the newest last; it stays alive, and so does its id
            self._met(definition.full_name)
        return None


def _readable(found: _Found, options: ReadOptions, ledger: Ledger) -> ChangedTables:
    tables = ChangedTables({}, {})
    for (database, table), definitions in sorted(found.items()):
        name = f"{database}.{table}"
        try:
            schemas = distinct_versions(
                [typed_schema(types, options) for types in definitions.values()]
            )
            evolution = Evolution.of(name, schemas, ledger.renames(database, table))
            _check_case(name, evolution.schema.names)
        except SchemaError as error:
            tables.unreadable[name] = error
            continue
        tables.readable[name] = ChangedTable(database, table, tuple(schemas), evolution)
    _refuse_shared_names(found, tables)
    same: dict[str, list[str]] = {}
    for name in tables.readable:
        same.setdefault(name.casefold(), []).append(name)
    for names in same.values():
        if len(names) > 1:
            for name in names:
                del tables.readable[name]
                tables.unreadable[name] = _alike(names)
    return tables


def check_names(tables: Collection[TableName]) -> None:
    """Raise OptionError for several tables with one name in SQL, because names may contain periods."""
    if len(tables) > 1:
        raise ambiguous_name(
            "the logs contain changes of",
            sorted(tables),
            "use the table changes: its columns database and table tell them apart",
        )


def _refuse_shared_names(found: _Found, tables: ChangedTables) -> None:
    sharing: dict[str, list[TableName]] = {}
    for table in found:
        sharing.setdefault(".".join(table), []).append(table)
    for name, named in sharing.items():
        try:
            check_names(named)
        except OptionError as error:
            tables.readable.pop(name, None)
            tables.unreadable[name] = error


def _alike(names: Sequence[str]) -> OptionError:
    return OptionError(
        f"the names of tables {' and '.join(names)} differ in upper and lower case only, which SQL"
        " does not distinguish",
        name="table",
        hint="choose one with the option table",
    )


def _check_case(table: str, names: Sequence[str]) -> None:
    """Raise SchemaError for columns that SQL does not distinguish."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other != name:
            raise SchemaError(
                f"table {table} has columns {other} and {name}, which SQL does not distinguish",
                field=name,
                hint="choose other names of metadata columns with the option metadata_prefix, or a"
                " part of the log with one name",
            )
