"""Tables that the log creates: after a dump was made, or again after they were dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from binlake.errors import SchemaError, UnsupportedError
from binlake.snapshot.definition import is_text_without_charset
from binlake.source.chain import Chain
from binlake.state.base import Base
from binlake.state.origin import Origin
from binlake.state.shape import TableShape, collations_in, key_of
from binlake.stream.log_reader import LogReader
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.ddl_effects import concerns, created_table, creates
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_ANY_CHARSET = "utf8mb4"


class CreatedLater(Base):
    """A table that is not in a dump, and that a statement of the log creates. It has no rows before that."""

    def __init__(self, name: str, origin: Origin, ddl: DdlStatement, shape: TableShape) -> None:
        self.name = name
        self.origin = origin
        self.shape = shape
        self.create_table = ddl.sql
        self.created_at = ddl.position

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from ()

    def close(self) -> None:
        return


def created_shape(
    ddl: DdlStatement, table: tuple[str, str], flavour: str, options: ReadOptions
) -> TableShape:
    """Return the shape of a table that a statement creates. Raises UnsupportedError with the reason
    if its text does not determine it.

    Text columns without a character set have that of the database, which the statement does not contain. The shape takes
    them for text of any set: the table is empty, and the first row of the log shows the set.
    """
    declared = created_table(ddl, table)
    unnamed = frozenset(
        column.name for column in declared.columns if is_text_without_charset(column)
    )
    columns = (
        replace(column, charset=_ANY_CHARSET) if column.name in unnamed else column
        for column in declared.columns
    )
    filled = replace(declared, columns=tuple(columns))
    try:
        key = key_of(ddl.sql, declared)
        collations = collations_in(ddl.sql, flavour)
        shape = TableShape.of(filled, flavour, key, options, collations, is_rounded=False)
    except SchemaError as error:
        raise UnsupportedError(error.message) from None
    return replace(shape, declared=declared, unnamed=unnamed)


def created_later(
    name: str,
    origin: Origin,
    table: tuple[str, str],
    chain: Chain,
    flavour: str,
    options: ReadOptions,
) -> CreatedLater | None:
    """Return the table as the first statement of the logs that creates it declares it; None if none does.

    `name` and `origin` are those of the rows that lack it. The logs may begin before them. Raises BinlogError.
    """
    found: list[DdlStatement] = []

    def look(ddl: DdlStatement) -> None:
        if creates(ddl.sql) and concerns(ddl, *table):
            found.append(ddl)

    for reader in LogReader.of_chains([chain], options, Ledger()):
        for _ in reader.runs(look):
            if found:
                break
    if not found:
        return None
    try:
        shape = created_shape(found[0], table, flavour, options)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{'.'.join(table)}, {found[0].position}: binlake cannot follow CREATE TABLE: {error.message}",
            hint="make a dump after this statement",
        ) from None
    return CreatedLater(name, origin, found[0], shape)
