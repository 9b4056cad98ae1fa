"""A log's events as the servers' own tools list them, and as binlake decodes them.

Both sides are made `Listed` events: what the tools print of every event's header, and of its body
what says which event it is: table ids, GTIDs, positions, sizes, error codes. How many rows an
event changes is counted from the pseudo-SQL. `NOT_PRINTED` says what a tool does not print.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from binlake.core.rows.table_sink import CurrentRow, TableSink
from binlake.core.rows.walk import NO_LIMIT, RowWalker
from binlake.errors import BinlogError, MissingContextError, UnsupportedError
from binlake.events.base import Event
from binlake.events.body.reader import BodyReader
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.format import event_types as types
from binlake.format.flags import LOG_EVENT_IGNORABLE_F
from binlake.source.log_file import LogFile
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.table.plan import TableTypes
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat, Frame
from binlake.values.options import ReadOptions

__all__ = ["NOT_PRINTED", "Listed", "Listing", "listed_by_tool", "listed_here"]

NOT_PRINTED = {
    "both": (
        "where an INTVAR, RAND or USER_VAR event ends (printed late, or twice, with its statement)",
        "the bytes of row images, of which only the values show",
        "what is encrypted: neither tool takes a keyring",
    ),
    "mysql": (
        "rows behind the first GEOMETRY of an event",
        "some of the INTVAR events of LOAD DATA",
        "events inside a payload have no positions of their own there, and no checksums",
    ),
    "mariadb": ("the bodies of MySQL's events that it does not know: only that they are ignorable",),
}  # fmt: skip

#: Events that set a variable for the next statement, whose text a tool may print later, or again.
_BEFORE_STATEMENT = ("Intvar", "Rand", "User_var")


class Listed(NamedTuple):
    """One event: its header as the tools show it, its kind, and what identifies it."""

    time: str
    server_id: int
    end: int
    crc: int | None
    kind: str
    facts: tuple[object, ...] = ()


@dataclass
class Listing:
    """The events of a log: where each begins, their headers, and rows changed by each statement.

    `variables` are those whose text may come late or twice; `rows_cut` the statements of which a
    tool does not print all rows; with `drops_variables` it leaves out some of LOAD DATA.
    """

    starts: list[int] = field(default_factory=list)
    events: list[Listed] = field(default_factory=list)
    variables: set[Listed] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)
    rows_cut: set[int] = field(default_factory=set)
    drops_variables: bool = False

    def disagreements(self, tool: Listing, *, whole: bool) -> Iterator[str]:
        """Where a tool's listing says otherwise; if it is not `whole`, as far as it goes."""
        if whole:
            if len(self.events) != len(tool.events):
                yield f"{len(self.events)} events, the tool has {len(tool.events)}"
            told = self.variables & tool.variables if tool.drops_variables else self.variables
            if told != tool.variables:
                yield f"variables: {self.variables ^ tool.variables}"
        count = len(tool.starts) if whole else len(tool.starts) - 1  # at the last one it gave up
        if self.starts[: max(count, 0)] != tool.starts[: max(count, 0)]:
            yield f"events start at {self.starts[:count]}, the tool has {tool.starts[:count]}"
        for ours, theirs in zip(self.events, tool.events, strict=False):
            if ours != theirs:
                yield f"{ours}, the tool has {theirs}"
        known = tool.rows if whole else tool.rows[:-1]
        for at, (here, there) in enumerate(zip(self.rows, known, strict=False)):
            if here != there and at not in tool.rows_cut:
                yield f"statement {at} of rows changes {here} rows, the tool has {there}"


# --- as a tool prints them ---

_AT = re.compile(r"# at (\d+)")
_HEADER = re.compile(
    r"#(\d{6} [ \d]\d:\d\d:\d\d) server id (\d+)  end_log_pos (\d+)(?: CRC32 (0x[0-9a-f]{8}))? ?(.*)"
)
_IN_PAYLOAD = {"# Start of compressed events.": True, "# End of compressed events.": False}
#: What ends the rows of an event in MySQL's tool, at the first GEOMETRY.
_ROWS_CUT = "!! Don't know how to handle column type="
_ROW = re.compile(r"### (?:INSERT INTO|UPDATE|DELETE FROM) ")
_FACTS: tuple[tuple[str, str, str], ...] = (
    ("Query", r"\tQuery(?:_compressed)?\tthread_id=(\d+)\texec_time=(\d+)\terror_code=(\d+)", ""),
    ("Execute_load_query", r"\tExecute_load_query\tthread_id=(\d+)\texec_time=(\d+)\terror_code=(\d+)", ""),
    ("Xid", r"\tXid = (\d+)", ""),
    ("Table_map", r"\tTable_map: `(.*)` mapped to number (\d+)", ""),
    ("Rows", r"\t(Write|Update|Delete)(?:_compressed)?_rows(?:_v1|_partial)?: table id (\d+)(?: flags: (STMT_END_F))?", ""),
    ("Rotate", r"\tRotate to (.*)  pos: (\d+)", ""),
    ("Start", r"\tStart: binlog v (\d+), server v (.*?)(?: created .*)?$", ""),
    ("GTID", r"\tGTID\tlast_committed=(\d+)\tsequence_number=(\d+)", r"SET @@SESSION\.GTID_NEXT= '(.*)'/\*!\*/;"),
    ("Anonymous_GTID", r"\tAnonymous_GTID\tlast_committed=(\d+)\tsequence_number=(\d+)", ""),
    ("MariadbGtid", r"\tGTID (\d+-\d+-\d+)", ""),
    ("Gtid_list", r"\tGtid list \[(.*)", r"(# .*)"),
    ("Binlog_checkpoint", r"\tBinlog checkpoint (.*)", ""),
    ("Payload", r"\tTransaction_Payload\t\tpayload_size=(\d+)\tcompression_type=\w+\tuncompressed_size=(\d+)", ""),
    ("XA", r"\t(?:XA PREPARE|XID =) X'([0-9a-f]*)',X'([0-9a-f]*)',(\d+)", ""),
    ("Previous_gtids", r"\tPrevious-GTIDs", r"# (.*)"),
    ("Begin_load_query", r"", r"#Begin_load_query: file_id: (\d+)  block_len: (\d+)"),
    ("Append_block", r"", r"#Append_block: file_id: (\d+)  block_len: (\d+)"),
    ("Exec_load", r"", r"#Exec_load: file_id=(\d+)"),
    ("Delete_file", r"", r"#Delete_file: file_id=(\d+)"),
)  # fmt: skip
_COMPILED = [(kind, re.compile(head), re.compile(follows)) for kind, head, follows in _FACTS]


def listed_by_tool(text: str) -> Listing:
    """The content of a tool's text (`-v`)."""
    lines = text.split("\n")
    listing = Listing()
    in_statement = in_payload = False
    for number, line in enumerate(lines):
        in_payload = _IN_PAYLOAD.get(line, in_payload)
        if at := _AT.fullmatch(line):
            listing.starts.append(int(at[1]))
        elif head := _HEADER.fullmatch(line):
            # an event inside a payload has none, so the printed value has no meaning
            crc = None if head[4] is None or in_payload else int(head[4], 16)
            kind, facts = _facts(head[5], _until_next(lines, number + 1))
            shown = Listed(head[1], int(head[2]), int(head[3]), crc, kind, facts)
            if kind in _BEFORE_STATEMENT:
                listing.variables.add(shown)
                continue
            listing.events.append(shown)
            in_statement = _note_statement(listing, kind, in_statement)
        elif _ROW.match(line):
            listing.rows[-1] += 1
        elif _ROWS_CUT in line:
            listing.rows_cut.add(len(listing.rows) - 1)
    return listing


def _until_next(lines: list[str], first: int) -> list[str]:
    """The lines of an event, up to the next."""
    end = first
    while end < len(lines) and end < first + 40 and not _AT.fullmatch(lines[end]):
        end += 1
    return lines[first:end]


def _note_statement(listing: Listing, kind: str, in_statement: bool) -> bool:
    """Rows are printed behind the last event of their statement: count them by statement."""
    is_of_rows = kind in ("Table_map", "Rows")
    if is_of_rows and not in_statement:
        listing.rows.append(0)
    return is_of_rows


def _facts(rest: str, following: list[str]) -> tuple[str, tuple[object, ...]]:
    for kind, head, follows in _COMPILED:
        found = head.fullmatch(rest) if not head.pattern else head.match(rest)
        if not found:
            continue
        facts: tuple[object, ...] = tuple(_number(group) for group in found.groups())
        if kind == "Table_map":  # one tool doubles the backticks of names, the other does not
            facts = (found[1].replace("``", "`"), int(found[2]))
        if kind == "Previous_gtids":
            return kind, (_joined(following),)
        if kind == "Gtid_list":
            return kind, (_list_of(found[1], following),)
        if follows.pattern:
            after = next((m for m in map(follows.fullmatch, following) if m), None)
            if after is None:
                continue
            facts += tuple(_number(group) for group in after.groups())
        return kind, facts
    return rest.strip().partition("\t")[0].partition(":")[0], ()


def _number(text: str | None) -> object:
    return int(text) if text is not None and text.isdecimal() and text.isascii() else text


def _joined(following: list[str]) -> str:
    """The set behind Previous-GTIDs, over its lines."""
    parts = []
    for line in following:
        if not line.startswith("# ") or _AT.fullmatch(line):
            break
        parts.append(line.removeprefix("# "))
    return "".join(parts).replace("[empty]", "")


def _list_of(first: str, following: list[str]) -> str:
    text = first
    for line in following:
        if text.endswith("]"):
            break
        text += line.removeprefix("# ")
    return ",".join(sorted(text.rstrip("]").split(",")))


# --- as they are decoded here ---

_OPTIONS = ReadOptions.parse({"invalid": "hex"})
_PLAIN_KINDS = {
    types.STOP_EVENT: "Stop",
    types.INTVAR_EVENT: "Intvar",
    types.RAND_EVENT: "Rand",
    types.USER_VAR_EVENT: "User_var",
    types.ANNOTATE_ROWS_EVENT: "Annotate_rows",
    types.IGNORABLE_LOG_EVENT: "Ignorable",
    types.ROWS_QUERY_LOG_EVENT: "Rows_query",
    types.EXECUTE_LOAD_QUERY_EVENT: "Execute_load_query",
    types.INCIDENT_EVENT: "Incident",
}
_BLOCKS = {
    types.BEGIN_LOAD_QUERY_EVENT: "Begin_load_query",
    types.APPEND_BLOCK_EVENT: "Append_block",
}
_LOADED = {types.EXEC_LOAD_EVENT: "Exec_load", types.DELETE_FILE_EVENT: "Delete_file"}

#: Types of MySQL that MariaDB's tool passes over, as their writer marked them ignorable.
_IGNORED_BY_MARIADB = {
    types.GTID_LOG_EVENT,
    types.ANONYMOUS_GTID_LOG_EVENT,
    types.PREVIOUS_GTIDS_LOG_EVENT,
    types.ROWS_QUERY_LOG_EVENT,
    types.TRANSACTION_CONTEXT_EVENT,
    types.VIEW_CHANGE_EVENT,
}


def listed_here(path: Path, flavour: str) -> Listing:
    """The content of the log that the tool of a flavour prints, up to the first unreadable event."""
    listing = Listing()
    counter = _RowsOfEvents()
    in_statement = False
    try:
        for event, crc, start, end, rows in _events(path, counter):
            listing.starts.append(start)
            kind, facts = _kind(event, flavour)
            frame = event.frame
            shown = Listed(_time(frame.timestamp), frame.server_id, end, crc, kind, facts)
            if kind in _BEFORE_STATEMENT:
                listing.variables.add(shown)
                continue
            listing.events.append(shown)
            in_statement = _note_statement(listing, kind, in_statement)
            if rows:
                listing.rows[-1] += rows
    except BinlogError:
        pass  # damage is for others: what comes before it is compared
    return listing


Read = tuple[Event, int | None, int, int, int]


def _events(path: Path, counter: _RowsOfEvents) -> Iterator[Read]:
    """Events in the order of the tools: with the checksum, the place, and the rows of each."""
    with LogFile.open(str(path)) as log:
        for window in log.windows(verify=False):
            for index in range(len(window)):
                event = event_at(window, index)
                frame = window.frame(index)
                crc = None
                if window.format.checksum_bytes:
                    crc = int.from_bytes(window.raw(index)[-4:], "little")
                rows = counter.count(window, index)
                yield event, crc, frame.offset, frame.log_pos, rows
                if isinstance(event, TransactionPayloadEvent):
                    yield from _inside(window, index, counter)


def _inside(window: Window, index: int, counter: _RowsOfEvents) -> Iterator[Read]:
    """Events of a payload: the tool shows all of them at its end."""
    outer = window.frame(index)
    for inner in inner_windows(window, index):
        for i in range(len(inner)):
            yield event_at(inner, i), None, outer.end, outer.log_pos, counter.count(inner, i)


def _time(timestamp: int) -> str:
    at = time.gmtime(timestamp)
    return time.strftime("%y%m%d ", at) + f"{at.tm_hour:2}" + time.strftime(":%M:%S", at)


def _kind(event: Event, flavour: str) -> tuple[str, tuple[object, ...]]:
    code = event.frame.type_code
    unknown = code not in types.EVENT_TYPES and event.frame.flags & LOG_EVENT_IGNORABLE_F
    if unknown or (flavour == "mariadb" and code in _IGNORED_BY_MARIADB):
        return "Ignorable", ()
    match event:
        case QueryEvent():
            name = _PLAIN_KINDS.get(code, "Query")
            return name, (event.thread_id, event.exec_time, event.error_code)
        case XidEvent():
            return "Xid", (event.xid,)
        case TableMapEvent():
            return "Table_map", (f"{event.database}`.`{event.table}", event.table_id)
        case RowsEvent():
            operation = {"insert": "Write", "update": "Update", "delete": "Delete"}
            end = "STMT_END_F" if event.flags & 1 else None
            return "Rows", (operation[event.operation], event.table_id, end)
        case RotateEvent():
            return "Rotate", (event.next_file, event.position)
        case FormatDescriptionEvent():
            return "Start", (event.binlog_version, event.server_version)
        case GtidEvent() if code == types.ANONYMOUS_GTID_LOG_EVENT:
            return "Anonymous_GTID", (event.last_committed or 0, event.sequence_number or 0)
        case GtidEvent():
            return "GTID", (event.last_committed or 0, event.sequence_number or 0, event.gtid)
        case MariadbGtidEvent():
            return "MariadbGtid", (event.gtid,)
        case GtidListEvent():
            return "Gtid_list", (",".join(sorted(str(gtid) for gtid in event.gtids)),)
        case PreviousGtidsEvent():
            return "Previous_gtids", (str(event.gtids),)
        case TransactionPayloadEvent():
            return "Payload", (len(event.payload), event.uncompressed_size)
        case XaPrepareEvent():
            return "XA", (_digits(event.gtrid), _digits(event.bqual), event.format_id)
        case FileBlockEvent():
            return _BLOCKS[code], (event.file_id, event.block_bytes)
        case LoadedFileEvent():
            return _LOADED[code], (event.file_id,)
        case _ if code == types.BINLOG_CHECKPOINT_EVENT:
            return "Binlog_checkpoint", (event.to_fields()["file"],)
    return _PLAIN_KINDS.get(code, event.name), ()


def _digits(raw: bytes) -> object:
    return _number(raw.hex())


class _RowsOfEvents:
    """How many rows each rows event changes; 0 if it is unknown."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._walker = RowWalker(self._resolve, NO_LIMIT)
        self._walker.begin_transaction(None, 0, None, 0)

    def count(self, window: Window, index: int) -> int:
        """The rows of one event; TABLE_MAPs are remembered."""
        role = types.EVENT_TYPES.get(window.block.type_code[index])
        if role is None or role.role not in (types.Role.TABLE_MAP, types.Role.ROWS):
            return 0
        try:
            self._walker.set_format(window.format)
            self._walker.run_rows(window.data, window.base, window.block, index, index + 1)
            return sum(sum(sink.taken()) for sink, _ in self._walker.finish().tables)
        except (UnsupportedError, MissingContextError):
            self._start()
        return 0

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        frame = Frame(0, types.TABLE_MAP_EVENT, len(body), 0, 0, 0, 0)
        event = TableMapEvent.decode(frame, BodyReader(body), fmt)
        if event.description.columns.metadata is None:
            return None
        plans = TableTypes.of(event.definition(), _OPTIONS, Target.TEXT, lambda _: None).plan
        return CurrentRow(plans.columns, plans.columns, [0, 1, 2])
