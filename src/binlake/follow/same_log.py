"""Whether an offset belongs to the logs that a stream finds: the same server, and the same file."""

from __future__ import annotations

from binlake.follow.logs import LogsNow, StreamLogs
from binlake.follow.offsets import StreamOffset
from binlake.format.magic import FIRST_EVENT
from binlake.source.log_file import LogFile
from binlake.values.position import Position


def misfit(logs: StreamLogs, now: LogsNow, offset: StreamOffset) -> str | None:
    """Return why an offset does not belong to the logs; None if it does. Raises BinlogError."""
    position = offset.position
    if position.server_uuid and now.server_uuid and position.server_uuid != now.server_uuid:
        return (
            f"the stream had reached {position} of server {position.server_uuid}, but this is "
            f"server {now.server_uuid}"
        )
    number = now.number_of(position.file)
    if number is None:
        return (
            f"the stream had reached {position}, but that file does not exist: there are"
            f" {now.shown}"
        )
    size = now.files[number].size
    if size is not None and size < position.offset > FIRST_EVENT:
        return f"the stream had reached {position}, but that file has only {size} bytes"
    if offset.log_created not in (None, logs.created(now, number)):
        return another_log(position)
    if offset.fingerprint is not None and not logs.has(now, number, offset.fingerprint):
        return another_log(position)
    return None


def is_of(log: LogFile, offset: StreamOffset) -> bool:
    """Whether a file is the one in which a stream reached an offset."""
    if offset.log_created not in (None, log.created):
        return False
    return offset.fingerprint is None or offset.fingerprint.is_in(log)


def another_log(position: Position) -> str:
    """The message that a file is not the one of a position."""
    return f"the stream had reached {position}, but that file is another log now"
