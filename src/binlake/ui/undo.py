"""The SQL that reverses the changes on the page: a transaction, a selection, or the changes of a row."""

from __future__ import annotations

from threading import Event
from typing import Any

from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.table.row_history.keys import RowKey
from binlake.table.sql.row_undo import undo_of_row
from binlake.table.sql.undo_run import UndoChoices, UndoRun
from binlake.ui.history import history_reader
from binlake.ui.opened_logs import LogSession, stoppable
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_MOST_CHARACTERS = 500_000


def undo_text(session: LogSession, options: ReadOptions, stop: Event) -> dict[str, Any]:
    """Return the undo of the row changes that options choose. Raises BinlogError, Stopped."""
    chain = the_only_chain(session.meant(options), "an undo accepts the logs of one server")
    choices, ledger = UndoChoices(), Ledger()
    with session.schema(options) as schema:
        run = UndoRun([chain], choices.exact(options), choices, schema, ledger)
        return _result(run, ledger, stop)


def undo_of_row_text(
    session: LogSession, table: str, key: RowKey, point: str, stop: Event
) -> dict[str, Any]:
    """Return the undo of the changes of a row from a point on. Raises BinlogError, Stopped."""
    with history_reader(session, table, key) as reader:
        found = reader.read(stoppable(stop))
        reader.ledger.take()  # the undo reports what it reads
        run = undo_of_row(point, found, reader, UndoChoices())
        return _result(run, reader.ledger, stop)


def _result(run: UndoRun | None, ledger: Ledger, stop: Event) -> dict[str, Any]:
    parts: list[str] = []
    length, cut = 0, False
    for text in () if run is None else run.script(stoppable(stop)).texts:
        parts.append(bytes(text).decode("utf-8", "replace"))
        length += len(parts[-1])
        if length > _MOST_CHARACTERS:
            cut = True
            break
    ledger.json_differences.clear()  # as SQL functions, differences are complete
    return {"text": "".join(parts)[:_MOST_CHARACTERS], "cut": cut, "remarks": ledger.remarks()}
