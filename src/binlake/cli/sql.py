"""`binlake sql FILE…`: row changes as SQL statements, or the statements that take them back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from binlake.cli.flags import with_sql_options
from binlake.cli.terminal import (
    fail_if_lost,
    hinting,
    note,
    reading,
    say_nothing_found,
    say_result,
    say_time_zone,
)
from binlake.errors import FormatError, IncompleteError, MissingContextError, OptionError
from binlake.source.chain import resolve
from binlake.stream.log_reader import LogReader
from binlake.table.batches import Changes
from binlake.table.declared import DeclaredSchema
from binlake.table.decode import ChangeDecoder
from binlake.table.row_sql import Redo, Undo
from binlake.table.schema_file import declared_schema
from binlake.table.sql_script import ForeignKeys, Watched, backward_script, forward_script
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["sql"]


@with_sql_options
def sql(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    options: ReadOptions,
    undo: Annotated[
        bool, typer.Option("--undo", help="The inverse, last transaction first.")
    ] = False,
    generated: Annotated[
        list[str] | None,
        typer.Option(
            "--generated",
            metavar="COLUMN",
            help="A generated column, NAME or DB.TABLE.NAME; --schema tells them, too.",
        ),
    ] = None,
) -> None:
    """Print row changes as SQL that a server accepts, whole transactions in commit order.

    INSERT, UPDATE and DELETE; the primary key finds a row when it is known, all columns
    otherwise. The log must tell the names of columns (binlog_row_metadata=FULL), or --schema.
    With --undo, the statements that take the changes back, in reverse order; what cannot be
    taken back is refused before anything is printed.

    Examples:
      binlake sql binlog.000012 --schema schema.sql | mysql

      binlake sql binlog.000012 --at binlog.000012:4711 --undo > undo.sql

      binlake sql /var/lib/mysql/ --start binlog.000012:157 --until '2026-11-21 14:03' | mysql
    """
    say_time_zone(options, sys.argv)
    schema = declared_schema(
        options, files
    )  # a wrong one is told before anything is read or written
    if undo:
        options = _exact(options)
    ledger, keys = Ledger(), ForeignKeys()
    faces = Undo(generated or ()) if undo else Redo(generated or ())
    script = backward_script if undo else forward_script
    output = sys.stdout.buffer
    with hinting(options), reading(files, ledger) as seen:
        try:
            changes = seen(_changes(files, options, ledger, schema, keys))
            for text in script(iter(changes), faces, keys):
                output.write(text)
        except (IncompleteError, FormatError) as error:
            if undo:
                error.hint = "choose what is after it, or before it: --start, --stop, --at"
            raise
        except MissingContextError:
            if options.schema is not None:  # why it does not help
                for sentence in ledger.warnings:
                    note(sentence)
            raise
        finally:
            output.flush()
    ledger.json_differences.clear()  # as SQL functions, differences say all that they do
    say_result(ledger)
    if not ledger.rows:
        say_nothing_found(files, options)
    fail_if_lost(ledger)


def _exact(options: ReadOptions) -> ReadOptions:
    """The options of an undo: nothing may be missing between the changes that it takes back."""
    if options.on_error == "skip":
        raise OptionError(
            "--undo and --on-error skip exclude each other: later changes may depend on what is skipped",
            name="on_error",
        )
    return replace(options, on_unshown="error")


def _changes(
    files: list[str],
    options: ReadOptions,
    ledger: Ledger,
    schema: DeclaredSchema,
    keys: ForeignKeys,
) -> Iterator[Changes]:
    chains = resolve(files)
    for chain, reader in zip(chains, LogReader.of_chains(chains, options, ledger), strict=True):
        decoder = ChangeDecoder(options, Target.TEXT, ledger, schema.of_logs(chain.paths))
        yield from decoder.read(Watched(reader, keys))
