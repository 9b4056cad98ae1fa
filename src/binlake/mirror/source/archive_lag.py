"""Whether an archive lags behind its server: it need not have a log of the server without changes."""

from __future__ import annotations

from binlake.mirror.control import position_key
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.values.position import Position, is_log_of

# The events of a log without a transaction, as SHOW BINLOG EVENTS of MySQL and MariaDB spells them.
_NO_CHANGE = frozenset(
    (
        "Binlog_checkpoint",
        "Format_desc",
        "Gtid_list",
        "Previous_gtids",
        "Rotate",
        "Start_encryption",
        "Stop",
    )
)
# A log without a transaction has fewer events.
_MOST_EVENTS = 16


def lags(log: Position, position: Position) -> bool:
    """Whether the end of a log is before a position of the same server."""
    is_same = is_log_of(log.server_uuid, position.server_uuid)
    return is_same and position_key(log) < position_key(position)


def lacks_changes(server: ServerConnection, log: Position, position: Position) -> bool:
    """Whether a log that ends before a position of its server may lack changes before it. Raises ServerError."""
    names = [found.name for found in server.logs()]
    if not {log.file, position.file} <= {*names}:
        return True
    for name in names[names.index(log.file) : names.index(position.file) + 1]:
        start = f" FROM {log.offset}" if name == log.file else ""
        events = server.rows(f"SHOW BINLOG EVENTS IN '{name}'{start} LIMIT {_MOST_EVENTS}", 3)
        if name == position.file:
            events = [row for row in events if whole_number(row[1], "Pos") < position.offset]
        if len(events) == _MOST_EVENTS or any(row[2] not in _NO_CHANGE for row in events):
            return True
    return False
