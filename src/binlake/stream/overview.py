"""Describe the content of a log when filters matched nothing: its tables and its time span.

It is used only then, and it is bounded, since the log may be large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from binlake.errors import BinlogError, OptionError
from binlake.events.common.query import QueryEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.format import event_types as types
from binlake.source.access import Access
from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.stream.sql.ddl_targets import spellings
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.option_texts import parse_at
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition
from binlake.values.similar_names import question_of, similar_names

if TYPE_CHECKING:
    from binlake.source.window import Window

#: Bytes of log to look at.
LOOK_BYTES = 64 << 20
_SHOWN_TABLES = 8
_GTID_FLAVOURS = {
    types.GTID_LOG_EVENT: "MySQL",
    types.GTID_TAGGED_LOG_EVENT: "MySQL",
    types.GTID_EVENT: "MariaDB",
}


def nothing_found(
    chains: Sequence[Chain], options: ReadOptions, look_bytes: int = LOOK_BYTES
) -> str:
    """Return one sentence: the filters matched nothing, and the first `look_bytes` of the log contain this."""
    return _nothing_found(_look(chains, options, look_bytes=look_bytes), options)


def transaction_not_found(chains: Sequence[Chain], options: ReadOptions) -> OptionError:
    """Return the error for an option `at` that names a transaction which the logs do not contain."""
    at = str(options.at)
    does = "contains" if isinstance(parse_at(at), FilePosition) else "has the GTID"
    return OptionError(
        f"no transaction {does} {at}",
        name="at",
        value=at,
        hint="; ".join(_contents(_look(chains, options), options)) or None,
    )


def _nothing_found(seen: _Seen, options: ReadOptions) -> str:
    near = "".join(_near(seen, options))
    return "; ".join([f"nothing matches the filters{near}", *_contents(seen, options)])


def _contents(seen: _Seen, options: ReadOptions) -> Iterator[str]:
    """Yield the content of the logs that can explain why nothing was found."""
    yield from _tables(seen)
    yield from _other_flavour(seen, options)
    if seen.last:
        upto = "" if seen.complete else "at least "
        yield f"its events are from {_time(seen.first)} to {upto}{_time(seen.last)}"


def unknown_table(chains: Sequence[Chain], options: ReadOptions) -> str | None:
    """Return the sentence of `nothing_found` if the logs surely contain nothing about the only table of the option
    table, whatever the filters: no row change, and no statement with its name in the text.
    """
    name = options.table[0]
    seen = _look(chains, options, name.rpartition(".")[2])
    known = {name.casefold() for name in seen.tables}
    is_known = seen.is_named or name.casefold() in known
    return _nothing_found(seen, options) if seen.complete and not is_known else None


def _look(
    chains: Sequence[Chain], options: ReadOptions, table: str = "", look_bytes: int = LOOK_BYTES
) -> _Seen:
    seen = _Seen(Access.of(options), table)
    if pipe_in(path for chain in chains for path in chain.paths) is not None:
        seen.complete = False
    else:
        seen.look(chains, look_bytes)
    return seen


def _near(seen: _Seen, options: ReadOptions) -> Iterator[str]:
    for wanted in options.table:
        same = [name for name in seen.tables if name.casefold() == wanted.casefold()]
        near = same or _with_similar_name(wanted, seen.tables)
        if near and near[0] != wanted:
            yield f" ({question_of(near[:1])})"


def _with_similar_name(wanted: str, tables: Collection[str]) -> list[str]:
    """The table whose name is most similar; two names are not similar because their databases are equal."""
    database, _, table = wanted.partition(".")
    found = similar_names(wanted, tables, most=len(tables) or 1)
    for name in found:
        its_database, _, its_table = name.partition(".")
        pairs = (database, its_database), (table, its_table)
        if all(one == other or similar_names(one, [other]) for one, other in pairs):
            return [name]
    return []


def _other_flavour(seen: _Seen, options: ReadOptions) -> Iterator[str]:
    """The options whose GTIDs are all of the flavour that did not write the log."""
    at = options.at
    if at is not None and isinstance(parse_at(at), FilePosition):
        at = None
    for name, text in (("at", at), ("gtid", options.gtid)):
        if text is None or len(seen.flavours) != 1:
            continue
        wanted = parse_gtid_filter(text)
        if "MariaDB" in seen.flavours and not wanted.mariadb:
            yield f"option {name}: {text} is a MySQL GTID; the log is a MariaDB log"
        elif "MySQL" in seen.flavours and not wanted.mysql:
            yield f"option {name}: {text} is a MariaDB GTID; the log is a MySQL log"


def _tables(seen: _Seen) -> Iterator[str]:
    if seen.tables:
        names = list(seen.tables)
        more = ", …" if len(names) > _SHOWN_TABLES or not seen.complete else ""
        yield f"the log has changes of {', '.join(names[:_SHOWN_TABLES])}{more}"
    elif seen.last and seen.complete:
        yield "the log contains no row changes"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


class _Seen:
    """Tables in the order of their appearance, the flavours of GTIDs, and times of events in
    seconds since 1970. `is_named`: a statement contains the name of `table`.
    """

    def __init__(self, access: Access, table: str = "") -> None:
        self._access = access
        self._names_table = _finder(table) if table else None
        self.is_named = False
        self.tables: dict[str, None] = {}
        self.flavours: set[str] = set()
        self.first = 0
        self.last = 0
        self.complete = True

    def look(self, chains: Sequence[Chain], most_bytes: int) -> None:
        """Look at the logs, up to `most_bytes` or the first damage."""
        left = most_bytes
        try:
            for window in _windows(chains, self._access):
                if left <= 0:
                    self.complete = False
                    self._look_at_newest(chains[-1])
                    return
                left -= len(window.data)
                self._window(window)
        except BinlogError:
            self.complete = False

    def _look_at_newest(self, chain: Chain) -> None:
        """Find the time when the last file of a long chain begins."""
        ordinal = len(chain.files) - 1
        with self._access.open(chain.files[ordinal], ordinal) as log:
            for window in log.windows(verify=False):
                self._times(window)
                return

    def _times(self, window: Window) -> None:
        times = [time for time in window.block.timestamp[: len(window)] if time]
        if times:
            self.first = min(self.first or times[0], *times)
            self.last = max(self.last, *times)

    def _window(self, window: Window) -> None:
        self._times(window)
        codes = bytes(window.block.type_code[: len(window)])
        self.flavours.update(_GTID_FLAVOURS[code] for code in _GTID_FLAVOURS if code in codes)
        for index in _indices(codes, types.TABLE_MAP_EVENT):
            event = event_at(window, index)
            if isinstance(event, TableMapEvent):
                self.tables[f"{event.database}.{event.table}"] = None
        if self._names_table is not None and not self.is_named:
            self.is_named = self._names_table(window, codes)
        for index in _indices(codes, types.TRANSACTION_PAYLOAD_EVENT):
            for inner in inner_windows(window, index):
                self._window(inner)


def _finder(table: str) -> Callable[[Window, bytes], bool]:
    """Return a function that reports whether a statement of a window contains the name of a table, quoted or not.

    All character sets of clients write ASCII as ASCII, so statements need not be decoded for such a name.
    """
    word = rf"(?<![\w$])(?:{spellings(table)})(?![\w$])"
    if table.isascii():
        raw = re.compile(word.encode(), re.IGNORECASE)
        return lambda window, codes: any(map(raw.search, _statements(window, codes)))
    text = re.compile(word, re.IGNORECASE)
    return lambda window, codes: any(
        (sql := _text(event)) is None or text.search(sql) for event in _queries(window, codes)
    )


def _text(event: QueryEvent) -> str | None:
    """The text of a statement; None if its character set does not have these bytes."""
    if event.sql_raw.isascii():
        return event.sql_raw.decode("ascii")
    text = event.sql
    return None if text == f"0x{event.sql_raw.hex()}" else text


def _queries(window: Window, codes: bytes) -> Iterator[QueryEvent]:
    """The statements of a window, decoded."""
    for code in (types.QUERY_EVENT, types.QUERY_COMPRESSED_EVENT):
        for index in _indices(codes, code):
            event = event_at(window, index)
            if isinstance(event, QueryEvent):
                yield event


def _statements(window: Window, codes: bytes) -> Iterator[bytes]:
    """The statements of a window, some with the rest of their events around them."""
    for index in _indices(codes, types.QUERY_EVENT):
        frame = window.frame(index)
        start = frame.offset - window.base
        yield window.data[start : start + frame.length]
    for index in _indices(codes, types.QUERY_COMPRESSED_EVENT):
        event = event_at(window, index)
        if isinstance(event, QueryEvent):
            yield event.sql_raw


def _windows(chains: Sequence[Chain], access: Access) -> Iterator[Window]:
    for chain in chains:
        for ordinal, path in enumerate(chain.files):
            with access.open(path, ordinal) as log:
                yield from log.windows(verify=False)


def _indices(codes: bytes, code: int) -> Iterable[int]:
    at = codes.find(code)
    while at >= 0:
        yield at
        at = codes.find(code, at + 1)
