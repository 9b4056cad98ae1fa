"""The history of a row for the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from binlake.errors import OptionError
from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.table.row_history.entries import NOT_LOGGED, ColumnChange, RowChange, TableStatement
from binlake.table.row_history.history import HistoryReader, history_options
from binlake.table.row_history.keys import RowKey
from binlake.ui.change_objects import value_texts
from binlake.ui.opened_logs import LogSession, stoppable
from binlake.values.ledger import Ledger

_MOST_ENTRIES = 500


def key_of(texts: list[str]) -> RowKey:
    """Return the key of a request: values of the primary key in its order, or each as COLUMN=VALUE.

    Raises OptionError.
    """
    if not texts or not all(texts):
        raise OptionError("the key of the row is missing", name="key")
    if len(texts) == 1 and "=" not in texts[0]:
        return RowKey((texts[0],))
    if all("=" in text for text in texts):
        return RowKey.of_columns(dict(text.split("=", 1) for text in texts))
    return RowKey(tuple(texts))


@contextmanager
def history_reader(session: LogSession, table: str, key: RowKey) -> Iterator[HistoryReader]:
    """Yield the reader of a history. Raises BinlogError."""
    options = history_options(session.options, table)
    chain = the_only_chain(session.chains, "a history covers a row of one server")
    with session.schema(options) as schema:
        yield HistoryReader(chain, options, schema, Ledger(), key)


def row_history(session: LogSession, table: str, key: RowKey, stop: Event) -> dict[str, Any]:
    """Return the changes of a row and the statements on its table, oldest first; of very many the
    newest. Raises BinlogError, Stopped.
    """
    with history_reader(session, table, key) as reader:
        found = reader.read(stoppable(stop))
    entries = found.entries[-_MOST_ENTRIES:]
    return {
        "table": found.full_name,
        "key": value_texts({name: str(value) for name, value in found.key.items()}),
        "changes": len(found.changes),
        "lives": found.lives,
        "left_out": len(found.entries) - len(entries),
        "entries": [
            _change(one) if isinstance(one, RowChange) else _statement(one) for one in entries
        ],
        "remarks": reader.ledger.remarks(),
    }


def _place(entry: RowChange | TableStatement) -> dict[str, Any]:
    return {
        "ts": entry.ts.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "gtid": entry.gtid,
        "server_id": entry.server_id,
        "thread_id": entry.thread_id,
        "file": entry.file,
        "pos": entry.pos,
        "query": entry.query,
        "op": entry.op,
    }


def _statement(entry: TableStatement) -> dict[str, Any]:
    return {**_place(entry), "user": entry.user, "number": None}


def _change(entry: RowChange) -> dict[str, Any]:
    return {
        **_place(entry),
        "number": entry.number,
        "life": entry.life,
        "key": value_texts(entry.key),
        "new_key": None if entry.new_key is None else value_texts(entry.new_key),
        "changed": [{"name": name, **_values(change)} for name, change in entry.changed.items()],
        "absent": list(entry.absent),
    }


def _values(change: ColumnChange) -> dict[str, Any]:
    """Return the values that the log contains."""
    values = {"old": change.old, "new": change.new}
    return value_texts({name: value for name, value in values.items() if value is not NOT_LOGGED})
