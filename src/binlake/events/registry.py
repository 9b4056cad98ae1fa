"""The class of each event type, and the function that decodes any event.

The properties of an event type (role, version, compression) are in format/event_types.py. This
table only maps types to classes. Types without a class become RawEvent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from binlake.errors import BinlogError, MalformedError
from binlake.events.base import Event
from binlake.events.body.reader import BodyReader
from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.format_description import FormatDescriptionEvent, effective_type
from binlake.events.common.heartbeat import HeartbeatEvent, HeartbeatV2Event
from binlake.events.common.incident import IncidentEvent
from binlake.events.common.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.statement_context import IntvarEvent, RandEvent
from binlake.events.common.stop import StopEvent
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
from binlake.events.mysql.ignorable import IgnorableEvent
from binlake.events.mysql.large_transaction_header import LargeTransactionHeaderEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.events.mysql.tagged_gtid import GtidTaggedEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.events.old.start_v3 import StartV3Event
from binlake.events.raw import RawEvent
from binlake.format import event_types as types
from binlake.format.event_types import Role, codes_of, event_name
from binlake.values.frame import EventFormat, Frame

#: The class that decodes each typed event; all other types are RawEvent.
EVENT_CLASSES: Mapping[int, type[Event]] = MappingProxyType(
    {
        types.START_EVENT_V3: StartV3Event,
        types.STOP_EVENT: StopEvent,
        types.ROTATE_EVENT: RotateEvent,
        types.INTVAR_EVENT: IntvarEvent,
        types.LOAD_EVENT: LoadEvent,
        types.CREATE_FILE_EVENT: CreateFileEvent,
        types.APPEND_BLOCK_EVENT: FileBlockEvent,
        types.EXEC_LOAD_EVENT: LoadedFileEvent,
        types.DELETE_FILE_EVENT: LoadedFileEvent,
        types.NEW_LOAD_EVENT: LoadEvent,
        types.RAND_EVENT: RandEvent,
        types.USER_VAR_EVENT: UserVarEvent,
        types.FORMAT_DESCRIPTION_EVENT: FormatDescriptionEvent,
        types.BEGIN_LOAD_QUERY_EVENT: FileBlockEvent,
        types.EXECUTE_LOAD_QUERY_EVENT: ExecuteLoadQueryEvent,
        types.INCIDENT_EVENT: IncidentEvent,
        types.HEARTBEAT_LOG_EVENT: HeartbeatEvent,
        types.HEARTBEAT_LOG_EVENT_V2: HeartbeatV2Event,
        types.IGNORABLE_LOG_EVENT: IgnorableEvent,
        types.ROWS_QUERY_LOG_EVENT: RowsQueryEvent,
        types.GTID_LOG_EVENT: GtidEvent,
        types.ANONYMOUS_GTID_LOG_EVENT: GtidEvent,
        types.GTID_TAGGED_LOG_EVENT: GtidTaggedEvent,
        types.PREVIOUS_GTIDS_LOG_EVENT: PreviousGtidsEvent,
        types.TRANSACTION_CONTEXT_EVENT: TransactionContextEvent,
        types.VIEW_CHANGE_EVENT: ViewChangeEvent,
        types.TRANSACTION_PAYLOAD_EVENT: TransactionPayloadEvent,
        types.LARGE_TRANSACTION_HEADER_EVENT: LargeTransactionHeaderEvent,
        types.ANNOTATE_ROWS_EVENT: AnnotateRowsEvent,
        types.BINLOG_CHECKPOINT_EVENT: BinlogCheckpointEvent,
        types.GTID_EVENT: MariadbGtidEvent,
        types.GTID_LIST_EVENT: GtidListEvent,
        types.START_ENCRYPTION_EVENT: StartEncryptionEvent,
        types.PARTIAL_ROW_DATA_EVENT: PartialRowDataEvent,
        **dict.fromkeys(codes_of(Role.QUERY), QueryEvent),
        **dict.fromkeys(codes_of(Role.TABLE_MAP), TableMapEvent),
        **dict.fromkeys(codes_of(Role.ROWS), RowsEvent),
        **dict.fromkeys(codes_of(Role.XID), XidEvent),
        **dict.fromkeys(codes_of(Role.XA_PREPARE), XaPrepareEvent),
    }
)


def decode_event(
    frame: Frame, body: bytes | bytearray | memoryview, fmt: EventFormat | None
) -> Event:
    """Decode the body of one event: the bytes between its common header and its checksum.

    `fmt` is the format in force; None only where there is none yet (a FORMAT_DESCRIPTION, or
    the ROTATE before it in a stream). The header of a FORMAT_DESCRIPTION has 19 bytes whatever
    `fmt` says, and its CRC may be left on. The event may hold views of `body`, which must not
    change while it lives. Its frame has the type in today's numbering (`effective_type`).

    Raises FormatError for bytes that contradict the format, UnsupportedError for an unknown
    variant; both with the event's position, type, offset and field.
    """
    if fmt is not None:
        code = effective_type(frame.type_code, fmt)
        if code != frame.type_code:
            frame = frame._replace(type_code=code)
    reader = BodyReader(body)
    try:
        event = EVENT_CLASSES.get(frame.type_code, RawEvent).decode(frame, reader, fmt)
        if reader.left:
            event.trailing = reader.rest("trailing")
        return event
    except BinlogError as error:
        error.at(
            event_pos=frame.offset,
            event_type=event_name(frame.type_code),
            offset=reader.pos,
            field=reader.field or None,
        )
        raise


def event_format(frame: Frame, body: bytes | bytearray | memoryview) -> EventFormat:
    """The format that a FORMAT_DESCRIPTION event fixes; `body` is all after its 19-byte header.

    Raises FormatError, UnsupportedError, with the event's position.
    """
    event = decode_event(frame, body, None)
    if not isinstance(event, FormatDescriptionEvent):
        raise MalformedError(
            "a FORMAT_DESCRIPTION event is expected here",
            event_pos=frame.offset,
            event_type=event.name,
        )
    return event.format()
