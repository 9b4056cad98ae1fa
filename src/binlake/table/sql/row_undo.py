"""The undo of one row's changes, from a point of its history on."""

from __future__ import annotations

from dataclasses import replace

from binlake.printable import printable
from binlake.table.row_history.entries import RowHistory
from binlake.table.row_history.history import HistoryReader
from binlake.table.row_history.undoing import UndonePositions, first_undone
from binlake.table.sql.undo_run import UndoChoices, UndoRun
from binlake.values.position import FilePosition


def undo_of_row(
    point: str, found: RowHistory, reader: HistoryReader, choices: UndoChoices
) -> UndoRun | None:
    """Return the undo of a history to a point; None if no change comes after it. `reader` has read the history.

    The logs are read again, from the first change to undo. Raises OptionError.
    """
    chain, options, ledger = reader.chain, reader.options, reader.ledger
    first = first_undone(found.changes, point)
    places = reader.places[first:]
    if not places:
        ledger.warn("--undo: the history has no change after this point")
        return None
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
    undone = UndonePositions.of(reader.rows, places)
    return UndoRun([chain], options, choices, reader.schema, ledger, undone)
