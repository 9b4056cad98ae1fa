"""`binlake query [SQL] FILE…`: SQL over logs, in DuckDB."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from binlake.cli.common.change_writer import format_option, open_target
from binlake.cli.common.flags import QUERY_OPTIONS, with_read_options
from binlake.cli.common.parameters import Argument, Exit, Option, OutputFile, with_fields
from binlake.cli.common.terminal import hinting, log_input, note, say_time_zone
from binlake.cli.query.result_writer import FORMATS, write_result
from binlake.errors import OptionError, needing
from binlake.query.connection import duckdb_library
from binlake.query.database import LogDatabase
from binlake.source.access import Access
from binlake.source.bytes import is_uri
from binlake.source.replica.url import is_server_url
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_STATEMENT = re.compile(
    r"\s*(?:--|/\*|\(|(?:select|with|from|values|table|pivot|unpivot|describe|desc|show|summarize"
    r"|explain|pragma|create|set|call)\b(?!\s*$))",
    re.IGNORECASE,
)
#: Formats that hold one table.
_ONE_RESULT = ("csv", "csv-guarded", "arrow", "parquet")


@dataclass
class Session:
    """A database over logs, and how its results are written."""

    database: LogDatabase
    options: ReadOptions
    form: str
    limit: int | None
    lost: bool = False
    _noted: set[str] = field(default_factory=set)

    def run(self, sql: str, output: Path | None) -> None:
        """Run the statements of a text, write their results, and report what the reads left out.

        Raises BinlogError.
        """
        if self.form in _ONE_RESULT and self.database.count(sql) > 1:
            raise OptionError(
                f"--format {self.form} writes the result of one statement only",
                name="format",
                hint="run the statements one by one, or use --format json",
            )
        with hinting(self.options), open_target(output, self.form) as target:
            for result in self.database.run(sql):
                write_result(result, self.form, self.options.binary, self.limit, target)
                target.flush()
                self._note_remarks(self.database.ledger)

    def _note_remarks(self, ledger: Ledger) -> None:
        self.lost = self.lost or bool(ledger.skipped)
        for line in ledger.remarks():
            if line not in self._noted:
                self._noted.add(line)
                note(line)


@dataclass(frozen=True, slots=True)
class QueryFlags:
    """The options of `binlake query` that are not options of a read."""

    form: Annotated[
        str | None, format_option(FORMATS, show_default="table on a terminal, else json")
    ] = None
    output: OutputFile = None
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, metavar="N", help="Show N rows of each result.")
    ] = None
    external_access: Annotated[
        bool,
        Option(
            "--external-access",
            help="Let SQL read and write files, use the network and load extensions.",
        ),
    ] = False

    @property
    def chosen_form(self) -> str:
        """The format of --format, or without it the one that suits the output."""
        if self.form:
            return self.form
        return "table" if self.output is None and sys.stdout.isatty() else "json"


@with_read_options(QUERY_OPTIONS)
@with_fields("flags")
def query(
    words: Annotated[
        list[str],
        Argument(
            metavar="[SQL] FILE…",
            help="A statement, and the logs to read. Without a statement: a prompt, or the statements"
            " on standard input.",
        ),
    ],
    options: ReadOptions,
    flags: QueryFlags,
) -> None:
    """Run SQL over row changes, transactions, events and statements.

    Tables: changes (all row changes, images as JSON), transactions, events, statements, and one of typed
    columns for each table of the log, such as "shop.orders". DuckDB runs the statement; binlake decodes
    only the columns that it names. Needs pip install 'binlake[query]'.

    Examples:
      binlake query 'SELECT op, count(*) FROM changes GROUP BY op' binlog.000012

      binlake query 'SELECT state, sum(total) FROM shop.orders GROUP BY state' /var/lib/mysql/

      binlake query 'FROM transactions ORDER BY bytes DESC LIMIT 5' /var/lib/mysql/ --since -1h

      binlake query 'SELECT * FROM shop.orders WHERE id = 116' binlog.000012 -f parquet -o life.parquet

      binlake query /var/lib/mysql/
    """
    sql, files = _split(words)
    form = flags.chosen_form
    duckdb_library()
    say_time_zone(options)
    logs = log_input(files, options)
    _expect_logs(logs)
    database = LogDatabase(logs.chains, options, files, external_access=flags.external_access)
    session = Session(database, options, form, flags.limit)
    try:
        if sql is not None:
            session.run(sql, flags.output)
        elif sys.stdin.isatty():
            _ask(session, flags.output)
        else:
            session.run(sys.stdin.read(), flags.output)
    finally:
        database.connection.close()
    if session.lost:
        raise Exit(1)


def _expect_logs(logs: LogInput) -> None:
    """Raise FormatError for a local file among the paths that is no log: a statement need not read it.

    Files that the user does not name were found by their names, and many need not be opened.
    """
    access = Access.of(logs.options)
    named = {path for path in logs.paths if not is_uri(path) and Path(path).is_file()}
    for log in (log for chain in logs.chains for log in chain.files if log.path in named):
        access.open(log, 0).close()


def _ask(session: Session, output: Path | None) -> None:
    """Run the statements that the user types."""
    if output is not None or session.form in ("arrow", "parquet"):
        raise OptionError(
            "the prompt prints results as text on the terminal only",
            name="output",
            hint="give the statement as an argument",
        )
    with needing("a prompt needs the library prompt_toolkit", "query"):
        from binlake.cli.query.prompt import run_prompt
    run_prompt(session.database, lambda sql: session.run(sql, None))


def _split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the statement, if the first word is one, and the paths of logs."""
    first, *others = words
    if not _is_statement(first):
        if any(map(_is_statement, others)):
            raise OptionError(
                "the statement comes before the logs",
                name="SQL",
                hint="binlake query 'SELECT …' FILE…",
            )
        return None, list(words)
    if not others:
        raise OptionError("expected the logs to read after the statement", name="FILE")
    return first, others


def _is_statement(word: str) -> bool:
    """Whether a word is SQL: it begins like SQL, or has spaces, and is not the name of a file."""
    if is_uri(word) or is_server_url(word):
        return False
    try:
        if Path(word).exists():
            return False
    except OSError:  # it is too long for a name
        return True
    return bool(_STATEMENT.match(word)) or " " in word.strip()
