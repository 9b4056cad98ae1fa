"""The step of every event type, from the one table of types (`format.event_types`).

A role describes an event; a step describes its effect on the grouping of events into transactions.
Only types whose role does not determine the step have an entry of their own here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from binlake.core.events.steps import StepRules, Steps
from binlake.events.common.format_description import effective_type
from binlake.format import event_types as types
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import EVENT_TYPES, Role
from binlake.values.frame import EventFormat
from binlake.values.step import Step

if TYPE_CHECKING:
    from binlake.source.window import Window

_QUERY_HEADER_BYTES = EVENT_TYPES[types.QUERY_EVENT].post_header_length
_BY_ROLE = {
    Role.UNKNOWN: Step.UNKNOWN,
    Role.FORMAT: Step.CONTROL,
    Role.CONTROL: Step.NEUTRAL,
    Role.GTID: Step.GTID,
    Role.QUERY: Step.STATEMENT,
    Role.TABLE_MAP: Step.TABLE_MAP,
    Role.ROWS: Step.ROWS,
    Role.XID: Step.XID,
    Role.XA_PREPARE: Step.XA_PREPARE,
    Role.PAYLOAD: Step.PAYLOAD,
    Role.DATA: Step.PREFIX,
    Role.INCIDENT: Step.INCIDENT,
    Role.ENCRYPTION: Step.CONTROL,
}

_BY_TYPE = {
    # between transactions, and in a relay log also inside one
    types.ROTATE_EVENT: Step.CONTROL,
    types.STOP_EVENT: Step.CONTROL,
    types.PREVIOUS_GTIDS_LOG_EVENT: Step.CONTROL,
    types.GTID_LIST_EVENT: Step.CONTROL,
    types.IGNORABLE_LOG_EVENT: Step.NEUTRAL,
    types.ROWS_QUERY_LOG_EVENT: Step.TEXT,
    types.ANNOTATE_ROWS_EVENT: Step.TEXT,
    # its body is compressed: it has to be decompressed before its step is known
    types.QUERY_COMPRESSED_EVENT: Step.UNDECIDED,
    types.GTID_EVENT: Step.GTID_OPEN,
    # its layout is not fixed: decoded by its event class
    types.GTID_TAGGED_LOG_EVENT: Step.GTID_OTHER,
    # the statements of the LOAD family that no QUERY follows
    types.LOAD_EVENT: Step.STATEMENT,
    types.NEW_LOAD_EVENT: Step.STATEMENT,
    types.EXEC_LOAD_EVENT: Step.STATEMENT,
    types.EXECUTE_LOAD_QUERY_EVENT: Step.STATEMENT,
    types.DELETE_FILE_EVENT: Step.LOAD_FAILED,
}


def _step_of_type() -> bytes:
    steps = bytearray([Step.UNKNOWN]) * 256
    for code, known in EVENT_TYPES.items():
        steps[code] = _BY_TYPE.get(code, _BY_ROLE[known.role])
    return bytes(steps)


#: The step of each type code, as far as the type determines it.
STEP_OF_TYPE = _step_of_type()


@lru_cache(maxsize=64)
def rules_of(fmt: EventFormat) -> StepRules:
    """How to find the steps of events of a format."""
    # the flags of a rows event follow the table id
    flags_at = bytearray(256)
    for code in range(256):
        if STEP_OF_TYPE[effective_type(code, fmt)] == Step.ROWS:
            flags_at[code] = fmt.table_id_bytes(code)
    # before version 4 it has 11 bytes: such texts are left to stream/
    listed = fmt.post_header_length(types.QUERY_EVENT)
    query_header_bytes = listed if fmt.binlog_version < 4 else max(listed, _QUERY_HEADER_BYTES)
    return StepRules(
        _steps_by_type(fmt),
        bytes(flags_at),
        fmt.header_length,
        fmt.checksum_bytes,
        query_header_bytes,
    )


@lru_cache(maxsize=64)
def _steps_by_type(fmt: EventFormat) -> bytes:
    return bytes(STEP_OF_TYPE[effective_type(code, fmt)] for code in range(256))


def opens_transaction(fmt: EventFormat, type_code: int) -> bool:
    """Whether an event between two transactions is the first of the next one."""
    return _steps_by_type(fmt)[type_code] not in (Step.NEUTRAL, Step.CONTROL)


def steps_of(window: Window) -> Steps:
    """Return the steps of the frames of a window.

    Raises MalformedError for an event that is shorter than the header length in the (damaged)
    format description: the core relies on that length.
    """
    if window.format.header_length > HEADER_BYTES:
        for index in range(len(window)):
            window.body(index)
    return Steps(rules_of(window.format), window.data, window.base, window.block)
