"""The rows of one table of a live server at one position of its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa

from binlake.errors import ServerError, SourceError, UnsupportedError
from binlake.snapshot.read_session import (
    begin_snapshot,
    open_session,
    raw_definitions,
    take_raw_text,
)
from binlake.snapshot.table_rows import RowSelect
from binlake.snapshot.tables import read_tables
from binlake.source.replica.prepared import BatchLimits
from binlake.source.replica.url import ServerUrl
from binlake.state.base import Base, MissingTableError, ambiguous_in
from binlake.state.origin import Origin
from binlake.state.shape import TableShape, collations_in
from binlake.table.schema.create_table import parse_create_table
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition

_LIMITS = BatchLimits(8192, 8 << 20)


class LiveTable(Base):
    """A consistent snapshot of a table, to be closed. No table is locked. Raises ServerError, SourceError,
    UnsupportedError, and OptionError if the name means several tables.
    """

    def __init__(self, url: str, database: str, table: str, options: ReadOptions) -> None:
        parsed = ServerUrl.parse(url)
        with ExitStack() as stack:
            self._server = stack.enter_context(open_session(parsed))
            self.name = f"the server {self._server.where}"
            position = begin_snapshot(self._server)
            self.origin = Origin(position=FilePosition(position.file, position.offset))
            try:
                found = read_tables(self._server, [f"{database}.{table}"], ReadOptions())
            except SourceError as error:
                raise MissingTableError(
                    f"{self.name} has no table {database}.{table}",
                    self.name,
                    self.origin,
                    error.hint,
                ) from None
            if len(found) > 1:
                tables = [(one.schema, one.name) for one in found]
                raise ambiguous_in(self.name, tables)
            [self._table] = found
            if not self._table.is_transactional:
                raise UnsupportedError(
                    f"{self._table.full_name}: binlake cannot read a table of engine {self._table.engine} in a"
                    " consistent snapshot"
                )
            sql = f"SHOW CREATE TABLE {self._table.sql_name}"
            with raw_definitions(self._server):
                self.create_table = self._server.row(sql, 2)[1] or ""
            take_raw_text(self._server)
            self._open = stack.pop_all()
        declared = parse_create_table(self.create_table, self._table.schema, {}, 0)
        if declared is None:  # `read_tables` has read it
            raise ServerError(f"{self.name} answers SHOW CREATE TABLE in two ways")
        flavour = self._server.flavour
        self.shape = TableShape.of(
            declared,
            flavour,
            self._table.key,
            options,
            collations_in(self.create_table, flavour),
            is_rounded=False,
        )

    def close(self) -> None:
        self._open.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises ServerError."""
        yield from RowSelect(self._table, _LIMITS, self.shape.types).batches(self._server)
