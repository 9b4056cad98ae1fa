"""The names of one table between two moments of the log: RENAME TABLE gives it others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from binlake.errors import SourceError, UnsupportedError
from binlake.format.sql_names import TableName
from binlake.source.chain import Chain
from binlake.stream.log_reader import LogReader
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement, ignore_ddl
from binlake.stream.sql.ddl_targets import (
    renamed_tables,
    renames_what_exists,
    renaming,
    spelling_decides,
)
from binlake.stream.watched_statements import WATCHED_KINDS, watched_statements
from binlake.table.schema.ddl_effects import concerns, creates, drops
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition

_MAY_MOVE = re.compile(r"\b(?:CREATE|DROP|RENAME)\b", re.IGNORECASE)
_HEAD_CHARACTERS = 4096


class NameMovedError(Exception):
    """A statement gives the name of the table to another table, or this table another name. The reader then
    finds out which table is meant.
    """


@dataclass(frozen=True, slots=True)
class TableNames:
    """The name of a table at the beginning of a range, and the later ones, with the statements that give them."""

    first: TableName
    later: tuple[tuple[ChainPosition, TableName], ...] = ()

    @property
    def all(self) -> tuple[TableName, ...]:
        """Every name, once."""
        return tuple(dict.fromkeys((self.first, *(name for _, name in self.later))))

    @property
    def last(self) -> TableName:
        """The name at the end of the range."""
        return self.later[-1][1] if self.later else self.first

    def at(self, ordinal: int, offset: int) -> TableName:
        """The name that an event at this place of the chain has for the table."""
        found = self.first
        for position, name in self.later:
            if (ordinal, offset) <= (position.ordinal, position.offset):
                break
            found = name
        return found

    def given_at(self, position: ChainPosition) -> TableName | None:
        """The name that the statement at this position gives the table."""
        return next((name for place, name in self.later if place == position), None)


def certain_renaming(
    ddl: DdlStatement, name: TableName
) -> tuple[TableName | None, TableName | None] | None:
    """Return the same as `renaming`. Raises UnsupportedError if the text does not determine which table has
    the name after the statement.
    """

    def unsure(why: str) -> UnsupportedError:
        return UnsupportedError(
            f"{why}, so it is not certain which table is {'.'.join(name)} after it",
            file=ddl.position.file,
            event_pos=ddl.position.offset,
            hint="use rows and a moment that are both before or both after this statement",
        )

    if spelling_decides(ddl, name):
        raise unsure(
            "names in the statement differ only in case, and binlake cannot know whether they are the same table"
        )
    moved = renaming(ddl, name)
    if moved is not None and moved[0] is not None and renames_what_exists(ddl.sql):
        raise unsure(f"{'.'.join(moved[0])} may not exist before RENAME … IF EXISTS")
    return moved


def names_until_end(chain: Chain, options: ReadOptions, name: TableName) -> TableNames:
    """Return the names, in the range of `options`, of the table that has a name at its end. Raises BinlogError."""
    later: list[tuple[ChainPosition, TableName]] = []
    for ddl in reversed(_heads_of_moves(chain, options)):
        came, _ = certain_renaming(ddl, name) or (None, None)
        if came is not None:
            later.insert(0, (ddl.position, name))
            name = came
        elif creates(ddl.sql) and concerns(ddl, *name):
            break
    return TableNames(name, tuple(later))


def names_from_beginning(chain: Chain, options: ReadOptions, name: TableName) -> TableNames:
    """Return the names, in the range of `options`, of the table that has a name at its beginning.

    Raises SourceError if no table has it then.
    """
    first = name
    later: list[tuple[ChainPosition, TableName]] = []
    for ddl in _statements(chain, options):
        came, went = certain_renaming(ddl, name) or (None, None)
        if went is not None:
            later.append((ddl.position, went))
            name = went
        elif came is not None:
            raise SourceError(
                f"{'.'.join(first)} does not exist at this moment: {ddl.position} renames"
                f" {'.'.join(came)} to {'.'.join(name)}"
            )
        elif (creates(ddl.sql) or drops(ddl.sql)) and concerns(ddl, *name):
            break
    return TableNames(first, tuple(later))


def _heads_of_moves(chain: Chain, options: ReadOptions) -> list[DdlStatement]:
    """The statements that rename or create tables; of the latter the first part, which has the name."""
    found = []
    for ddl in _statements(chain, options):
        if renamed_tables(ddl):
            found.append(ddl)
        elif creates(ddl.sql):
            found.append(ddl._replace(sql=ddl.sql[:_HEAD_CHARACTERS]))
    return found


def _statements(chain: Chain, options: ReadOptions) -> Iterator[DdlStatement]:
    """Yield the statements of a range that may give tables other names, or begin or end a table."""
    for reader in LogReader.of_chains([chain], options, Ledger()):
        for run in reader.runs(ignore_ddl, WATCHED_KINDS):
            for statement in watched_statements(run):
                ddl = DdlStatement.of(statement.event, statement.position)
                if _MAY_MOVE.search(ddl.sql):
                    yield without_comments(ddl)
