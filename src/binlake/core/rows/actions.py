"""The actions of the walk over frames, as tables by type code.

Derived from the one table of event types; 256 entries each, so that a type of one byte needs no
check.
"""

from __future__ import annotations

from enum import IntEnum

from binlake.core.rows.table_sink import DELETE, INSERT, UPDATE
from binlake.format.event_types import (
    EVENT_TYPES,
    Role,
)

COMPRESSED = 0x80  # a bit in VERSION_OF


class Action(IntEnum):
    """The action of the walk for an event."""

    PASS = 0
    TABLE_MAP = 1
    ROWS = 2


_BY_ROLE = {
    Role.TABLE_MAP: Action.TABLE_MAP,
    Role.ROWS: Action.ROWS,
}
_OPERATIONS = {"insert": INSERT, "update": UPDATE, "delete": DELETE}


def _table(of_known: dict[int, int]) -> bytes:
    return bytes(of_known.get(code, 0) for code in range(256))


#: The Action of each type.
ACTION_OF = _table(
    {code: _BY_ROLE.get(known.role, Action.PASS) for code, known in EVENT_TYPES.items()}
)
#: INSERT, UPDATE or DELETE of rows events.
OPERATION_OF = _table(
    {code: _OPERATIONS[known.operation] for code, known in EVENT_TYPES.items() if known.operation}
)
#: The version of rows events, and COMPRESSED.
VERSION_OF = _table(
    {
        code: (known.rows_version or 0) | (COMPRESSED if known.compressed else 0)
        for code, known in EVENT_TYPES.items()
    }
)
