"""`binlake history --undo`: the SQL that takes the row back to a point of its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from binlake.cli.common.undo_run import UndoChoices, UndoRun
from binlake.errors import OptionError
from binlake.printable import printable
from binlake.source.chain import Chain
from binlake.table.row_history.entries import RowHistory
from binlake.table.row_history.history import HistoryReader
from binlake.table.row_history.undoing import UndonePlaces, first_undone
from binlake.table.schema.declared import DeclaredSchema
from binlake.values.ledger import Ledger
from binlake.values.options import FilePosition, ReadOptions

__all__ = ["check_undo", "print_undo"]


def print_undo(
    point: str,
    found: RowHistory,
    reader: HistoryReader,
    chain: Chain,
    options: ReadOptions,
    choices: UndoChoices,
    schema: DeclaredSchema,
    ledger: Ledger,
    seen: Callable[[Iterable[Any]], Iterable[Any]],
) -> bool:
    """Print the statements; return whether the server of --verify differs.

    The logs are read again, from the first change to undo. Raises BinlogError.
    """
    first = first_undone(found.changes, point)
    places = reader.places[first:]
    if not places:
        ledger.warn("--undo: the history has no change after this point")
        return False
    if options.at is None:  # an XA transaction may begin before the others
        ordinal, offset = min((one.ordinal, one.start) for one in places)
        options = replace(options, start=FilePosition(chain.names[ordinal], offset))
    options = choices.exact(replace(options, query=False, thread_id=False))
    taken = {one.keys.before for one in places} & reader.taken_keys
    for key in sorted(str(text) for text in taken):
        ledger.warn(
            f"{found.full_name}: another row has the key {printable(key)} now, which the row had: the"
            " server refuses the statement that gives it back"
        )
    run = UndoRun([chain], options, choices, schema, ledger, UndonePlaces.of(reader.rows, places))
    return run.print(seen)


def check_undo(
    point: str | None, chain: Chain, choices: UndoChoices, options: ReadOptions
) -> ReadOptions:
    """Return the options of a history that is undone, or of one that is not (`point` is None).

    Raises OptionError for choices without --undo, and for logs that can be read only once.
    """
    if point is None:
        if choices.force or choices.verify or choices.generated:
            raise OptionError("--generated, --force and --verify require --undo", name="undo")
        return options
    if any(file.path == "-" for file in chain.files):
        raise OptionError(
            "--undo reads the logs again, and standard input can be read only once", name="undo"
        )
    choices.exact(options)
    return replace(options, schema=options.schema or choices.verify)
