"""`binlake sql FILE…`: row changes as SQL statements, or the statements that reverse them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from binlake.cli.common.flags import SQL_OPTIONS, renamed_databases, with_read_options
from binlake.cli.common.lines import script_output
from binlake.cli.common.parameters import Exit, LogFiles, Option, with_fields
from binlake.cli.common.terminal import (
    fail_if_lost,
    log_input,
    note,
    reading,
    say_if_nothing_matched,
    say_result,
    say_time_zone,
)
from binlake.cli.common.undo_run import ForceFlag, VerifyFlag, print_script, require_undo
from binlake.cli.sql.forward import changes_of, changes_with_ddl
from binlake.errors import MissingContextError, OptionError
from binlake.replay.ddl_script import DdlScript
from binlake.table.log_input import LogInput
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.sql.row_sql import Redo
from binlake.table.sql.sql_script import ForeignKeys, forward_script
from binlake.table.sql.undo_run import UndoChoices, UndoRun
from binlake.table.where.choosing import check_where_columns
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SqlFlags:
    """The options of `binlake sql` that are not options of a read."""

    undo: Annotated[
        bool,
        Option("--undo", help="Print the SQL that reverses the changes, last transaction first."),
    ] = False
    ddl: Annotated[
        bool,
        Option(
            "--ddl",
            help="Also print DDL, TRUNCATE and account management in commit order, and triggers and events at the end.",
        ),
    ] = False
    generated: Annotated[
        list[str] | None,
        Option(
            "--generated",
            metavar="COLUMN",
            help="A generated column, as NAME or DB.TABLE.NAME. Not needed for tables that --schema describes.",
        ),
    ] = None
    rewrite_db: Annotated[
        list[str] | None,
        Option(
            "--rewrite-db",
            metavar="'OLD->NEW'",
            help="Rename database OLD to NEW in the output; filters and --schema use the old name.",
        ),
    ] = None
    force: ForceFlag = False
    check_later: Annotated[
        bool,
        Option(
            "--check-later/--no-check-later",
            help="With --undo: search the rest of the log for later changes of the same rows.",
        ),
    ] = True
    verify: VerifyFlag = None

    def check(self, options: ReadOptions) -> None:
        """Raise OptionError for options that cannot be combined."""
        if not self.undo:
            require_undo(UndoChoices(force=self.force, verify=self.verify))
        if self.ddl and (options.op or options.where):
            other = "op" if options.op else "where"
            raise OptionError(f"--ddl and --{other} cannot be combined", name="ddl")
        if self.ddl and self.undo:
            raise OptionError("--undo reverses row changes only, not --ddl", name="ddl")

    @property
    def choices(self) -> UndoChoices:
        """The choices about the SQL. Raises OptionError."""
        return UndoChoices(
            tuple(self.generated or ()),
            renamed_databases(self.rewrite_db),
            self.force,
            self.check_later,
            self.verify,
        )


@with_read_options(SQL_OPTIONS)
@with_fields("flags")
def sql(files: LogFiles, options: ReadOptions, flags: SqlFlags) -> None:
    """Print row changes as SQL that a server accepts, whole transactions in commit order.

    Prints INSERT, UPDATE and DELETE. The statements find rows by the primary key if binlake knows
    it, otherwise by all columns. Column names must be in the log (binlog_row_metadata=FULL, or DDL)
    or in --schema. --undo prints the statements that reverse the changes, last first. It refuses
    changes that it cannot reverse before it prints anything.

    Examples:
      binlake sql binlog.000012 --schema schema.sql | mysql

      binlake sql binlog.000012 --at binlog.000012:4711 --undo > undo.sql

      binlake sql /var/lib/mysql/ --start binlog.000012:157 --until '2026-11-21 14:03' | mysql

      binlake sql /backup/binlogs/ --ddl --start binlog.000007:157 --stop binlog.000009:48136 | mysql
    """
    say_time_zone(options)
    flags.check(options)
    choices = flags.choices
    if flags.undo:
        options = choices.exact(options)
    logs = log_input(files, options)
    logs.only(f"{'--undo' if flags.undo else 'sql'} accepts the logs of one server")
    # a wrong schema is reported before anything is read or written
    known = logs.with_options(replace(options, schema=options.schema or flags.verify))
    ledger = Ledger()
    script = DdlScript(options, choices.databases, ledger) if flags.ddl else None
    differs = False
    with (
        closing(known.schema()) as schema,
        reading(logs, ledger) as seen,
        _explained(options, ledger),
    ):
        if flags.undo:
            run = UndoRun(logs.chains, options, choices, schema, ledger)
            differs = print_script(run, seen)
        else:
            faces = Redo(choices.generated, choices.databases)
            with script_output() as write:
                for text in seen(_forward(logs, ledger, schema, script, faces)):
                    write(text)
    check_where_columns(options.where, ledger)
    ledger.json_differences.clear()  # as SQL functions, differences are complete
    say_result(ledger)
    if script is None or not script.printed:
        say_if_nothing_matched(logs, ledger)
    fail_if_lost(ledger)
    if differs:
        raise Exit(1)


@contextmanager
def _explained(options: ReadOptions, ledger: Ledger) -> Iterator[None]:
    """Print why a declared schema does not help, if column names are missing all the same."""
    try:
        yield
    except MissingContextError:
        if options.schema is not None:
            for sentence in ledger.warnings:
                note(sentence)
        raise


def _forward(
    logs: LogInput, ledger: Ledger, schema: DeclaredSchema, script: DdlScript | None, faces: Redo
) -> Iterator[pa.Buffer | bytes]:
    """Print the script of the changes of a chain."""
    keys = ForeignKeys()
    read = (logs, ledger, schema, keys)
    changes = changes_of(*read) if script is None else changes_with_ddl(*read, script)
    return forward_script(changes, faces, keys)
