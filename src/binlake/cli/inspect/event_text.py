"""Typed events as text: the one-line summary, all fields, and a hex dump."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from binlake.events.base import Event
from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.heartbeat import HeartbeatEvent, HeartbeatV2Event
from binlake.events.common.incident import IncidentEvent
from binlake.events.common.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.statement_context import IntvarEvent, RandEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mariadb.binlog_checkpoint import BinlogCheckpointEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mariadb.partial_row_data import PartialRowDataEvent
from binlake.events.mariadb.start_encryption import StartEncryptionEvent
from binlake.events.mysql.group_replication import TransactionContextEvent, ViewChangeEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.large_transaction_header import LargeTransactionHeaderEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.events.mysql.tagged_gtid import GtidTaggedEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.events.old.start_v3 import StartV3Event
from binlake.printable import truncated

_SUMMARY_CHARACTERS = 100
_BYTES_PER_LINE = 16


def _gtid(event: Any) -> str:
    return "anonymous" if event.gtid is None else str(event.gtid)


def _file_and_position(event: Any) -> str:
    return f"{event.file} position {event.position}"


def _loaded(event: Any) -> str:
    return f"[{event.database}] LOAD DATA {event.file} into {event.table}"


_SUMMARIES: dict[type[Event], Callable[[Any], str]] = {
    FormatDescriptionEvent: lambda e: f"{e.server_version}, binlog v{e.binlog_version}",
    RotateEvent: lambda e: f"next {e.next_file} position {e.position}",
    QueryEvent: lambda e: f"[{e.database}] {e.sql}" if e.database else str(e.sql),
    GtidEvent: _gtid,
    GtidTaggedEvent: _gtid,
    MariadbGtidEvent: _gtid,
    PreviousGtidsEvent: lambda e: str(e.gtids) or "(none)",
    GtidListEvent: lambda e: ",".join(map(str, e.gtids)) or "(none)",
    TableMapEvent: lambda e: f"{e.database}.{e.table} table id {e.table_id}",
    RowsEvent: lambda e: f"table id {e.table_id}, {len(e.rows)} bytes of rows",
    XidEvent: lambda e: f"xid {e.xid}",
    XaPrepareEvent: lambda e: str(e.xid),
    TransactionPayloadEvent: lambda e: f"{len(e.payload)} bytes compressed, {e.uncompressed_size} inflated",
    RowsQueryEvent: lambda e: str(e.query),
    AnnotateRowsEvent: lambda e: str(e.query),
    IncidentEvent: lambda e: f"{e.incident} {e.message}",
    HeartbeatEvent: _file_and_position,
    HeartbeatV2Event: _file_and_position,
    BinlogCheckpointEvent: lambda e: str(e.file),
    StartV3Event: lambda e: f"{e.server_version}, binlog v{e.binlog_version}",
    IntvarEvent: lambda e: f"{e.variable} {e.value}",
    RandEvent: lambda e: f"seeds {e.seed1} {e.seed2}",
    UserVarEvent: lambda e: f"@{e.variable} = {'NULL' if e.value is None else e.value}",
    LoadEvent: _loaded,
    CreateFileEvent: _loaded,
    FileBlockEvent: lambda e: f"file {e.file_id}, {e.block_bytes} bytes",
    LoadedFileEvent: lambda e: f"file {e.file_id}",
    ExecuteLoadQueryEvent: lambda e: f"[{e.database}] {e.sql}",
    TransactionContextEvent: lambda e: f"thread {e.thread_id} of {e.server_uuid}",
    ViewChangeEvent: lambda e: str(e.view_id),
    LargeTransactionHeaderEvent: lambda e: f"transaction ends at {e.terminating_event_offset}",
    StartEncryptionEvent: lambda e: f"scheme {e.scheme}, key version {e.key_version}",
    PartialRowDataEvent: lambda e: f"fragment {e.sequence} of {e.total}, {e.chunk_bytes} bytes",
}  # fmt: skip


def summary(event: Event) -> str:
    """Return the main fields of an event, in one line of bounded length; "" if there are none."""
    make = _SUMMARIES.get(type(event))
    return truncated(" ".join(make(event).split()) if make else "", _SUMMARY_CHARACTERS)


def timestamp_text(seconds: int) -> str:
    """Return the header's timestamp in UTC, `-` for an artificial event, which has none."""
    if not seconds:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_line(place: str, event: Event) -> str:
    """Return `place  time  server id  TYPE  bytes  summary`."""
    frame = event.frame
    when = timestamp_text(frame.timestamp)
    line = f"{place:<24} {when:<20} {frame.server_id:>10} {event.name:<28} {frame.length:>9}"
    return f"{line}  {summary(event)}".rstrip()


def field_lines(event: Event) -> Iterator[str]:
    """Return every field of the body, indented; lists with one item to a line."""
    for name, value in event.to_fields().items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"    {name}:"
            yield from (f"      - {_inline(item)}" for item in value)
        else:
            yield f"    {name}: {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={_inline(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list):
        return ", ".join(map(_inline, value)) or "-"
    if value is None:
        return "-"
    return str(value)


def hex_lines(raw: bytes | memoryview, offset: int) -> Iterator[str]:
    """Return a hex dump: file offset, 16 bytes, their ASCII."""
    data = bytes(raw)
    for at in range(0, len(data), _BYTES_PER_LINE):
        part = data[at : at + _BYTES_PER_LINE]
        digits = part[:8].hex(" ") + "  " + part[8:].hex(" ")
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
        yield f"    {offset + at:08x}  {digits:<49} |{text}|"
