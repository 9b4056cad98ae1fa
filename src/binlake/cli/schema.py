"""`binlake schema FILE…`: the tables that the DDL of a log defines, as SQL with positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from binlake.cli.common.flags import HOW_LOGS_ARE_OPENED, with_options
from binlake.cli.common.lines import script_output
from binlake.cli.common.parameters import LogFiles
from binlake.cli.common.terminal import fail_if_lost, note, say_result, watching
from binlake.errors import OptionError
from binlake.source.chain import Chain
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.log_input import LogInput
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import declared_schema
from binlake.table.schema.schema_text import VersionTexts
from binlake.table.text.sql_text import CLIENT_CHARSET
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

_HEAD = """\
-- Table definitions, written by binlake for its option schema. Each is valid from the position
-- in its comment on; one without a position, wherever no other definition is known.

"""


@with_options(
    "schema",
    "table",
    "exclude_table",
    "on_error",
    *HOW_LOGS_ARE_OPENED,
)
def schema(
    files: LogFiles,
    options: ReadOptions,
) -> None:
    """Write the table definitions that result from a log's DDL, as SQL, with their positions.

    Pass the output to --schema, or to the option schema in Spark: Spark's tasks do not read the DDL of streams, of
    large logs without an index, and of logs in object stores.
    Use --schema to describe tables that were created before these logs.

    Examples:
      binlake schema /var/lib/mysql/ > history.sql

      binlake schema --schema history.sql binlog.000013 > longer.sql

      binlake export --schema history.sql /var/lib/mysql/ lake/
    """
    known = declared_schema(options)
    everything = replace(options, table=(), exclude_table=())  # a table may be defined with LIKE
    logs = LogInput(files, everything)
    _check_bases(logs.chains)
    ledger = Ledger()
    with script_output() as write, watching(logs.chains, ledger) as seen:
        writer = _Writer(options, write)
        write(f"{_HEAD}{CLIENT_CHARSET}\n\n".encode())
        writer.write(known.tables)
        for reader in logs.readers(ledger):
            history = SchemaHistory(known)
            passed: list[DdlStatement] = []
            for _ in seen(reader.runs(passed.append)):
                writer.apply(history, passed)
            writer.apply(history, passed)
    if not writer.count:
        note("the logs contain no DDL of such tables")
    ledger.unshown.clear()  # rows were not asked for
    say_result(ledger)
    fail_if_lost(ledger)


class _Writer:
    """Writes versions of the wanted tables with `output`."""

    def __init__(self, options: ReadOptions, output: Callable[[bytes], object]) -> None:
        self._wanted = TableFilter(options)
        self._output = output
        self._texts = VersionTexts()
        self.count = 0

    def write(self, tables: Iterable[DeclaredTable]) -> None:
        for table in tables:
            if self._wanted.wants(table.database or "", table.table):
                self._output(f"{self._texts.text(table)}\n".encode("utf-8", "backslashreplace"))
                self.count += 1

    def apply(self, history: SchemaHistory, passed: list[DdlStatement]) -> None:
        for ddl in passed:
            self.write(history.apply(ddl))
        passed.clear()


def _check_bases(chains: Sequence[Chain]) -> None:
    """Check that the names of files are unique: positions of two servers must not be mixed."""
    bases = Counter(chain.base for chain in chains)
    twice = [base for base, count in bases.items() if count > 1]
    if twice:
        raise OptionError(
            f"{twice[0]}.* are logs of {bases[twice[0]]} servers",
            name="FILE",
            hint="write one schema for each",
        )
