"""The answers to the requests of the page, JSON-ready.

A request contains a selection: a span of time, tables, operations, a condition, a transaction, a key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Event, Lock
from typing import Any

from binlake.errors import OptionError
from binlake.source.reader import without_secrets
from binlake.ui.change_objects import found_rows
from binlake.ui.code import program
from binlake.ui.history import key_of, row_history
from binlake.ui.opened_logs import LogSession
from binlake.ui.overview import Overview, document
from binlake.ui.request_options import Selection
from binlake.ui.transactions import one_transaction, options_of_one, transaction_page
from binlake.ui.undo import undo_of_row_text, undo_text
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

Query = dict[str, str]

#: Bars of the timeline.
_BARS = 400
_KEPT_OVERVIEWS = 8
_MOST_OFFSET = 1 << 40
_REQUESTS = (
    *("state", "timeline", "summary", "transactions", "transaction", "rows", "history"),
    *("code", "undo"),
)


class Answers:
    """The answers of one session."""

    def __init__(self, session: LogSession) -> None:
        self._session = session
        self._lock = Lock()
        self._overviews: OrderedDict[Selection, tuple[Overview, Ledger]] = OrderedDict()

    def by_name(self) -> dict[str, Callable[[Query, list[str], Event], dict[str, Any]]]:
        """Return the functions that answer, by the names of requests."""
        return {name: getattr(self, name) for name in _REQUESTS}

    def state(self, _query: Query, _keys: list[str], _stop: Event) -> dict[str, Any]:
        """The progress of reading."""
        return self._session.state()

    def timeline(self, query: Query, _keys: list[str], stop: Event) -> dict[str, Any]:
        """The bars of a span. The bars of a long span are known; a short span may be read again."""
        selection = self._selection(query)
        overview = self._session.overview
        with overview.lock:
            coarse = self._is_too_coarse(overview, selection)
        if coarse or selection.op:
            overview, _ = self._counted(selection, stop)
        only = None
        if selection.table:
            only = [name for name in overview.timeline.tables if selection.wants(name)]
        with overview.lock:
            return overview.timeline.buckets(
                selection.since_us, selection.until_us, bars=_BARS, only=only
            )

    def _is_too_coarse(self, overview: Overview, selection: Selection) -> bool:
        if selection.since_us is None or selection.until_us is None:
            return False
        span = selection.until_us - selection.since_us
        return overview.timeline.width_us(span, _BARS) < overview.timeline.unit_us

    def summary(self, query: Query, _keys: list[str], stop: Event) -> dict[str, Any]:
        """Sums and the largest transactions of a span."""
        selection = self._selection(query)
        session = self._session
        if selection.is_everything:
            found = document(session.overview, session.ledger, bars=_BARS)
        else:
            overview, ledger = self._counted(selection, stop)
            found = document(overview, ledger, bars=_BARS)
        del found["timeline"]
        return found

    def _counted(self, selection: Selection, stop: Event) -> tuple[Overview, Ledger]:
        """Return the counts of a selection. The counts of the last selections are kept."""
        with self._lock:
            found = self._overviews.get(selection)
        if found is None:
            found = self._session.gathered(selection, stop)
            with self._lock:
                self._overviews[selection] = found
                while len(self._overviews) > _KEPT_OVERVIEWS:
                    self._overviews.popitem(last=False)
        return found

    def transactions(self, query: Query, _keys: list[str], stop: Event) -> dict[str, Any]:
        """A page of transactions, in the order of the log."""
        selection = self._selection(query)
        return transaction_page(self._session, selection, query.get("after", ""), stop)

    def transaction(self, query: Query, _keys: list[str], stop: Event) -> dict[str, Any]:
        """One transaction."""
        return one_transaction(self._session, _required(query, "at"), _offset(query), stop)

    def rows(self, query: Query, _keys: list[str], stop: Event) -> dict[str, Any]:
        """Row changes that a selection means."""
        return found_rows(self._session, self._selection(query), _offset(query), stop)

    def history(self, query: Query, keys: list[str], stop: Event) -> dict[str, Any]:
        """The history of a row."""
        return row_history(self._session, _required(query, "table"), key_of(keys), stop)

    def code(self, query: Query, keys: list[str], _stop: Event) -> dict[str, Any]:
        """Return a program that reads the rows that the page shows."""
        files = [without_secrets(path) for path in self._session.files]
        options, key = self._options(query), ()
        if keys:
            asked = key_of(keys)
            names = asked.columns
            key = tuple(keys) if names else asked.values  # type: ignore[assignment]
        return {"text": program(_required(query, "kind"), files, options, key)}

    def undo(self, query: Query, keys: list[str], stop: Event) -> dict[str, Any]:
        """Return the SQL that reverses the changes that the page shows."""
        if keys:
            point = query.get("point") or "1"
            return undo_of_row_text(
                self._session, _required(query, "table"), key_of(keys), point, stop
            )
        return undo_text(self._session, self._options(query), stop)

    def _options(self, query: Query) -> ReadOptions:
        if query.get("at"):
            return options_of_one(self._session.options, query["at"])
        return self._selection(query).options

    def _selection(self, query: Query) -> Selection:
        return Selection.of(self._session.options, query)


def _required(query: Query, name: str) -> str:
    text = query.get(name)
    if not text:
        raise OptionError(f"{name} is missing", name=name)
    return text


def _offset(query: Query) -> int:
    text = query.get("offset", "0")
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_OFFSET):
        raise OptionError(f"offset {text!r}: expected a number", name="offset", value=text)
    return int(text)
