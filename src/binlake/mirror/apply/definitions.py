"""The definitions of the mirrored tables, of which each is parsed when the log has a row of its table.

A mirror may follow thousands of tables, and a range of the log has rows of few of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from binlake.format.sql_names import TableName
from binlake.table.schema.declared import DeclaredSchema, DeclaredTable
from binlake.table.schema.defaults import Unknown
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import create_table_text, text_with_default

_UNRECORDED = Unknown(
    "an earlier version of binlake, which did not record it, has copied the table"
)
# A parsed table takes tens of KB, and most rounds have rows of the same tables.
_MOST_PARSED = 1024


@dataclass(frozen=True, slots=True)
class Definition:
    """The CREATE TABLE of a table, as a lake table records it. Without `has_defaults`, an earlier version of binlake has left
    out the defaults of the columns.
    """

    text: str
    has_defaults: bool = True

    @property
    def declared(self) -> DeclaredTable:
        """The parsed table. Raises SchemaError."""
        return _parsed(self)

    @property
    def create_table(self) -> str:
        """The statement with the defaults of the columns, see `text_with_default`. Raises SchemaError."""
        if self.has_defaults:
            return self.text
        return create_table_text(self.declared, text_with_default)


@lru_cache(_MOST_PARSED)
def _parsed(definition: Definition) -> DeclaredTable:
    table = parse_schema(definition.text.encode()).tables[0]
    if definition.has_defaults:
        return table
    columns = tuple(replace(column, default=_UNRECORDED) for column in table.columns)
    return replace(table, columns=columns)


class Definitions:
    """The definitions of tables by name. Several tasks receive them compressed, which happens once."""

    def __init__(self, known: Mapping[TableName, Definition]) -> None:
        self.__dict__["_known"] = known

    @classmethod
    def _received(cls, packed: bytes) -> Definitions:
        """Those that a task has received, which are read when the log has a row of one of the tables."""
        found = cls.__new__(cls)
        found.__dict__["_packed"] = packed
        return found

    @cached_property
    def _known(self) -> Mapping[TableName, Definition]:
        return {
            (database, table): Definition(text, has_defaults)
            for database, table, text, has_defaults in json.loads(zlib.decompress(self._packed))
        }

    @cached_property
    def _packed(self) -> bytes:
        rows = [[*name, one.text, one.has_defaults] for name, one in self._known.items()]
        return zlib.compress(json.dumps(rows).encode(), 1)

    def __reduce__(self) -> tuple[object, ...]:
        return Definitions._received, (self._packed,)

    def declared(self, name: TableName) -> DeclaredTable | None:
        """A parsed table; None if there is no such definition. Raises SchemaError."""
        found = self._known.get(name)
        return None if found is None else found.declared


class DefinedTables(DeclaredSchema):
    """The schema of a range of the log: its tables are parsed when they are needed. Raises SchemaError then."""

    def __init__(self, definitions: Definitions) -> None:
        super().__init__()
        self._definitions = definitions

    def declarations(self, database: str, table: str) -> Sequence[DeclaredTable]:
        """Return the declaration of a table, if there is one."""
        found = self._definitions.declared((database, table))
        return () if found is None else (found,)
