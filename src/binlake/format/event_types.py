"""Every event type of MySQL (0 to 43) and MariaDB (160 to 172): the one table of them.

Names are spelled as in the servers' enumeration `Log_event_type`, numbers and post-header
lengths are from MySQL 9.7.4 `libs/mysql/binlog/event/binlog_event.h` and
`control_events.cpp`, and from MariaDB 11.8.6 `sql/log_event.h` and `log_event.cc`. Type 43 is
in MySQL's trunk after 9.7.4, type 172 in MariaDB 12.3.

The lengths are what the server's decoder uses. A FORMAT_DESCRIPTION event may list others
(40 for TRANSACTION_PAYLOAD, 0 for the v1 rows events in MySQL 9), so only a few types, QUERY,
ROTATE, LOAD, TABLE_MAP and rows, may be read with the listed length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

UNKNOWN_EVENT = 0
START_EVENT_V3 = 1
QUERY_EVENT = 2
STOP_EVENT = 3
ROTATE_EVENT = 4
INTVAR_EVENT = 5
LOAD_EVENT = 6
SLAVE_EVENT = 7
CREATE_FILE_EVENT = 8
APPEND_BLOCK_EVENT = 9
EXEC_LOAD_EVENT = 10
DELETE_FILE_EVENT = 11
NEW_LOAD_EVENT = 12
RAND_EVENT = 13
USER_VAR_EVENT = 14
FORMAT_DESCRIPTION_EVENT = 15
XID_EVENT = 16
BEGIN_LOAD_QUERY_EVENT = 17
EXECUTE_LOAD_QUERY_EVENT = 18
TABLE_MAP_EVENT = 19
PRE_GA_WRITE_ROWS_EVENT = 20
PRE_GA_UPDATE_ROWS_EVENT = 21
PRE_GA_DELETE_ROWS_EVENT = 22
WRITE_ROWS_EVENT_V1 = 23
UPDATE_ROWS_EVENT_V1 = 24
DELETE_ROWS_EVENT_V1 = 25
INCIDENT_EVENT = 26
HEARTBEAT_LOG_EVENT = 27
IGNORABLE_LOG_EVENT = 28
ROWS_QUERY_LOG_EVENT = 29
WRITE_ROWS_EVENT = 30
UPDATE_ROWS_EVENT = 31
DELETE_ROWS_EVENT = 32
GTID_LOG_EVENT = 33
ANONYMOUS_GTID_LOG_EVENT = 34
PREVIOUS_GTIDS_LOG_EVENT = 35
TRANSACTION_CONTEXT_EVENT = 36
VIEW_CHANGE_EVENT = 37
XA_PREPARE_LOG_EVENT = 38
PARTIAL_UPDATE_ROWS_EVENT = 39
TRANSACTION_PAYLOAD_EVENT = 40
HEARTBEAT_LOG_EVENT_V2 = 41
GTID_TAGGED_LOG_EVENT = 42
LARGE_TRANSACTION_HEADER_EVENT = 43
ANNOTATE_ROWS_EVENT = 160
BINLOG_CHECKPOINT_EVENT = 161
GTID_EVENT = 162
GTID_LIST_EVENT = 163
START_ENCRYPTION_EVENT = 164
QUERY_COMPRESSED_EVENT = 165
WRITE_ROWS_COMPRESSED_EVENT_V1 = 166
UPDATE_ROWS_COMPRESSED_EVENT_V1 = 167
DELETE_ROWS_COMPRESSED_EVENT_V1 = 168
WRITE_ROWS_COMPRESSED_EVENT = 169
UPDATE_ROWS_COMPRESSED_EVENT = 170
DELETE_ROWS_COMPRESSED_EVENT = 171
PARTIAL_ROW_DATA_EVENT = 172

# as the standard library's token.tok_name: the numbers above stay the only list of names
_NAMES = {code: name for name, code in list(globals().items()) if type(code) is int}


class Role(IntEnum):
    """The role of an event for a reader that reads a log in order."""

    UNKNOWN = 0  # no meaning known: raw bytes are kept
    FORMAT = 1  # defines how later events are read
    CONTROL = 2  # about the log itself: rotation, end, sets of GTIDs, heartbeats
    GTID = 3  # begins a transaction and names it
    QUERY = 4  # a statement, BEGIN and COMMIT among them
    TABLE_MAP = 5  # names and describes the table of the rows events after it
    ROWS = 6  # row images
    XID = 7  # commits a transaction
    XA_PREPARE = 8  # ends a transaction group that an XA COMMIT may commit later
    PAYLOAD = 9  # a whole transaction, compressed
    DATA = 10  # context or data of a statement: variables, statement text, LOAD DATA
    INCIDENT = 11  # reports that changes may be missing
    ENCRYPTION = 12  # what follows in the file is encrypted


class EventType(NamedTuple):
    """One event type.

    `flavour` "mysql", "mariadb" or "both" (the servers that write it); `since` the first release;
    `operation` "insert", "update" or "delete" and `rows_version` 0, 1 or 2 for rows events
    (version 2 has extra data in its header); `compressed` for MariaDB's zlib variants.
    """

    code: int
    name: str
    flavour: str
    since: str
    post_header_length: int
    role: Role
    operation: str | None = None
    rows_version: int | None = None
    compressed: bool = False


_TABLE: tuple[tuple[int, str, str, int, Role], ...] = (
    (UNKNOWN_EVENT, "both", "3.23", 0, Role.UNKNOWN),
    (START_EVENT_V3, "both", "3.23", 56, Role.FORMAT),
    (QUERY_EVENT, "both", "3.23", 13, Role.QUERY),
    (STOP_EVENT, "both", "3.23", 0, Role.CONTROL),
    (ROTATE_EVENT, "both", "3.23", 8, Role.CONTROL),
    (INTVAR_EVENT, "both", "3.23", 0, Role.DATA),
    (LOAD_EVENT, "both", "3.23", 18, Role.DATA),
    (SLAVE_EVENT, "both", "3.23", 0, Role.UNKNOWN),
    (CREATE_FILE_EVENT, "both", "4.0", 4, Role.DATA),
    (APPEND_BLOCK_EVENT, "both", "4.0", 4, Role.DATA),
    (EXEC_LOAD_EVENT, "both", "4.0", 4, Role.DATA),
    (DELETE_FILE_EVENT, "both", "4.0", 4, Role.DATA),
    (NEW_LOAD_EVENT, "both", "4.0", 18, Role.DATA),
    (RAND_EVENT, "both", "3.23", 0, Role.DATA),
    (USER_VAR_EVENT, "both", "4.1", 0, Role.DATA),
    (FORMAT_DESCRIPTION_EVENT, "both", "5.0", 57, Role.FORMAT),
    (XID_EVENT, "both", "5.0", 0, Role.XID),
    (BEGIN_LOAD_QUERY_EVENT, "both", "5.0.3", 4, Role.DATA),
    (EXECUTE_LOAD_QUERY_EVENT, "both", "5.0.3", 26, Role.DATA),
    (TABLE_MAP_EVENT, "both", "5.1", 8, Role.TABLE_MAP),
    (PRE_GA_WRITE_ROWS_EVENT, "both", "5.1", 8, Role.ROWS),
    (PRE_GA_UPDATE_ROWS_EVENT, "both", "5.1", 8, Role.ROWS),
    (PRE_GA_DELETE_ROWS_EVENT, "both", "5.1", 8, Role.ROWS),
    (WRITE_ROWS_EVENT_V1, "both", "5.1.16", 8, Role.ROWS),
    (UPDATE_ROWS_EVENT_V1, "both", "5.1.16", 8, Role.ROWS),
    (DELETE_ROWS_EVENT_V1, "both", "5.1.16", 8, Role.ROWS),
    (INCIDENT_EVENT, "both", "5.1.18", 2, Role.INCIDENT),
    (HEARTBEAT_LOG_EVENT, "both", "5.5", 0, Role.CONTROL),
    (IGNORABLE_LOG_EVENT, "both", "5.6", 0, Role.DATA),
    (ROWS_QUERY_LOG_EVENT, "both", "5.6.2", 0, Role.DATA),
    (WRITE_ROWS_EVENT, "both", "5.6", 10, Role.ROWS),
    (UPDATE_ROWS_EVENT, "both", "5.6", 10, Role.ROWS),
    (DELETE_ROWS_EVENT, "both", "5.6", 10, Role.ROWS),
    (GTID_LOG_EVENT, "mysql", "5.6", 42, Role.GTID),
    (ANONYMOUS_GTID_LOG_EVENT, "mysql", "5.6", 42, Role.GTID),
    (PREVIOUS_GTIDS_LOG_EVENT, "mysql", "5.6", 0, Role.CONTROL),
    (TRANSACTION_CONTEXT_EVENT, "mysql", "5.7.6", 18, Role.CONTROL),
    (VIEW_CHANGE_EVENT, "mysql", "5.7.6", 52, Role.CONTROL),
    (XA_PREPARE_LOG_EVENT, "both", "5.7.7", 0, Role.XA_PREPARE),
    (PARTIAL_UPDATE_ROWS_EVENT, "mysql", "8.0.3", 10, Role.ROWS),
    (TRANSACTION_PAYLOAD_EVENT, "mysql", "8.0.20", 0, Role.PAYLOAD),
    (HEARTBEAT_LOG_EVENT_V2, "mysql", "8.0.28", 0, Role.CONTROL),
    (GTID_TAGGED_LOG_EVENT, "mysql", "8.3", 0, Role.GTID),
    (LARGE_TRANSACTION_HEADER_EVENT, "mysql", "after 9.7", 0, Role.CONTROL),
    (ANNOTATE_ROWS_EVENT, "mariadb", "5.3", 0, Role.DATA),
    (BINLOG_CHECKPOINT_EVENT, "mariadb", "10.0", 4, Role.CONTROL),
    (GTID_EVENT, "mariadb", "10.0.1", 19, Role.GTID),
    (GTID_LIST_EVENT, "mariadb", "10.0.1", 4, Role.CONTROL),
    (START_ENCRYPTION_EVENT, "mariadb", "10.1", 0, Role.ENCRYPTION),
    (QUERY_COMPRESSED_EVENT, "mariadb", "10.2", 13, Role.QUERY),
    (WRITE_ROWS_COMPRESSED_EVENT_V1, "mariadb", "10.2", 8, Role.ROWS),
    (UPDATE_ROWS_COMPRESSED_EVENT_V1, "mariadb", "10.2", 8, Role.ROWS),
    (DELETE_ROWS_COMPRESSED_EVENT_V1, "mariadb", "10.2", 8, Role.ROWS),
    (WRITE_ROWS_COMPRESSED_EVENT, "mariadb", "10.2", 10, Role.ROWS),
    (UPDATE_ROWS_COMPRESSED_EVENT, "mariadb", "10.2", 10, Role.ROWS),
    (DELETE_ROWS_COMPRESSED_EVENT, "mariadb", "10.2", 10, Role.ROWS),
    (PARTIAL_ROW_DATA_EVENT, "mariadb", "12.3", 9, Role.DATA),
)


def _event_type(code: int, flavour: str, since: str, length: int, role: Role) -> EventType:
    name = _NAMES[code]
    if role is not Role.ROWS:
        return EventType(code, name, flavour, since, length, role, None, None, "COMPRESSED" in name)
    verbs = {"WRITE": "insert", "UPDATE": "update", "DELETE": "delete"}
    operation = next(op for verb, op in verbs.items() if f"{verb}_ROWS" in name)
    version = 0 if name.startswith("PRE_GA") else 1 if name.endswith("_V1") else 2
    return EventType(
        code, name, flavour, since, length, role, operation, version, "COMPRESSED" in name
    )


#: All event types by code.
EVENT_TYPES: Mapping[int, EventType] = MappingProxyType(
    {row[0]: _event_type(*row) for row in _TABLE}
)


def event_name(code: int) -> str:
    """The server's name of a type, `UNKNOWN_EVENT_<code>` where there is none."""
    known = EVENT_TYPES.get(code)
    return known.name if known is not None else f"UNKNOWN_EVENT_{code}"


def any_code(codes: Iterable[int]) -> re.Pattern[bytes]:
    """A pattern that finds these codes in a string of codes."""
    return re.compile(b"[" + re.escape(bytes(sorted(codes))) + b"]", re.DOTALL)


def codes_of(*roles: Role) -> frozenset[int]:
    """The codes of all types that have one of these roles."""
    return frozenset(code for code, known in EVENT_TYPES.items() if known.role in roles)
