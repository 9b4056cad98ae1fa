"""`binlake schema FILE…`: the tables that a log's DDL makes, as SQL with places."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from binlake.cli.flags import with_options
from binlake.cli.terminal import fail_if_lost, note, reading, say_result
from binlake.errors import OptionError
from binlake.source.chain import Chain, resolve
from binlake.stream.ddl import DdlStatement
from binlake.stream.log_reader import LogReader
from binlake.table.declared import DeclaredTable
from binlake.table.history import SchemaHistory
from binlake.table.schema_file import declared_schema
from binlake.table.schema_text import version_text
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

__all__ = ["schema"]

_HEAD = """\
-- Definitions of tables, written by binlake for its option schema. Each holds in the log from
-- the place that its comment names; one without a place, wherever nothing else is known.

"""


@with_options("schema", "table", "exclude_table", "on_error", "keyring", "keyring_password_file")
def schema(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
) -> None:
    """Write the definitions of tables that a log's DDL tells, as SQL, with their places.

    The output is a file for --schema and for the option schema of Spark, whose tasks see parts of
    a log only: with it they know names, signs, members and character sets as `binlake rows` does.
    With --schema it goes on from what is known of tables made before these logs.

    Examples:
      binlake schema /var/lib/mysql/ > history.sql

      binlake schema --schema history.sql binlog.000013 > longer.sql

      binlake export --schema history.sql /var/lib/mysql/ lake/
    """
    known = declared_schema(options)
    chains = resolve(files)
    _check_bases(chains)
    writer = _Writer(options)
    print(_HEAD, end="")
    writer.write(known.tables)
    ledger = Ledger()
    everything = replace(options, table=(), exclude_table=())  # a table may be like another
    with reading(files, ledger) as seen:
        for reader in LogReader.of_chains(chains, everything, ledger):
            history = SchemaHistory(known)
            passed: list[DdlStatement] = []
            for _ in seen(reader.runs(passed.append)):
                writer.apply(history, passed)
            writer.apply(history, passed)
    if not writer.count:
        note("the logs hold no DDL of such tables")
    ledger.unshown.clear()  # rows were not asked for
    say_result(ledger)
    fail_if_lost(ledger)


class _Writer:
    """Prints versions of the wanted tables."""

    def __init__(self, options: ReadOptions) -> None:
        self._wanted = TableFilter(options)
        self.count = 0

    def write(self, tables: Iterable[DeclaredTable]) -> None:
        for table in tables:
            if self._wanted.wants(table.database or "", table.table):
                sys.stdout.write(version_text(table) + "\n")
                self.count += 1

    def apply(self, history: SchemaHistory, passed: list[DdlStatement]) -> None:
        for ddl in passed:
            self.write(history.apply(ddl))
        passed.clear()


def _check_bases(chains: list[Chain]) -> None:
    """Places name files only: those of two servers must not be mixed."""
    bases = Counter(chain.base for chain in chains)
    twice = [base for base, count in bases.items() if count > 1]
    if twice:
        raise OptionError(
            f"{twice[0]}.* are the logs of {bases[twice[0]]} servers",
            name="FILE",
            hint="write one schema for each",
        )
