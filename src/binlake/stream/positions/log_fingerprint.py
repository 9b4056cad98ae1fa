"""The fingerprint of a log at a position: a digest of the events before it.

The creation time in the format description distinguishes logs of one name, but it has whole
seconds. A server whose logs are reset twice within a second writes two logs that differ only in
later events: in times to the microsecond, in transaction and thread numbers, in rows. So a
position in a log keeps a digest of the last events before it. A log never changes its content, so
a log with other events there is another log.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlake.errors import BinlogError, FormatError, PositionLostError, ServerError
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, START_ENCRYPTION_EVENT

if TYPE_CHECKING:
    from binlake.source.log_file import LogFile
    from binlake.source.window import Window

# A transaction with its GTID, if it is a small one. For a large one its XID, which is unique.
_MOST_BYTES = 4096
_DIGEST_BYTES = 8
# These differ between copies of a log: the flag of a log in use, and its encryption.
_DIFFERS = (FORMAT_DESCRIPTION_EVENT, START_ENCRYPTION_EVENT)


@dataclass(frozen=True, slots=True)
class LogFingerprint:
    """Return the digest of the events in bytes [start, end) of a file: hexadecimal BLAKE2b of 64
    bits.
    """

    start: int
    end: int
    digest: str

    @classmethod
    def before(cls, window: Window, end: int) -> LogFingerprint | None:
        """Return the fingerprint of the last events before byte `end`, which is the end of an
        event in `window`, as far as they are in the window; None if there are none.
        """
        block = window.block
        last = block.find(end)
        start = end
        for index in range(last - 1, -1, -1):
            frame = block.frame(index)
            if frame.end != start or frame.type_code in _DIFFERS:
                break
            if start != end and end - frame.offset > _MOST_BYTES:
                break
            start = frame.offset
        if start == end:
            return None
        data = memoryview(window.data)[start - window.base : end - window.base]
        return cls(start, end, _digest(data))

    def is_in(self, log: LogFile) -> bool:
        """Whether a file has these events. Raises SourceError; AuthError, ConnectionLostError."""
        try:
            data = log.reader.read_at(self.start, self.end - self.start)
        except (FormatError, ServerError) as error:
            if _is_unanswered(error):
                raise
            return False
        damage: BinlogError | None = log.reader.damage
        if damage is not None and _is_unanswered(damage):
            raise damage
        return len(data) == self.end - self.start and _digest(data) == self.digest


def _is_unanswered(error: BinlogError) -> bool:
    """Whether a server has not looked for the events: it is not available, or does not send its log as it is configured."""
    return error.retryable or (bool(error.is_passing) and not isinstance(error, PositionLostError))


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
