"""What was read last of a log, by which the log is known again.

Logs of one name are told apart by the time in their format description, which has whole seconds.
A server whose logs are reset twice within one writes two of them that only differ in what follows:
in times to the microsecond, numbers of transactions and threads, rows. So a place in a log keeps a
digest of the last events before it. A log never changes what it holds; one with other events there
is another log.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlake.errors import BinlogError, FormatError, ServerError
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, START_ENCRYPTION_EVENT

if TYPE_CHECKING:
    from binlake.source.log_file import LogFile
    from binlake.source.window import Window

__all__ = ["LogFingerprint"]

# A transaction with its GTID, if it is a small one. Of a large one its XID, which is like no other.
_MOST_BYTES = 4096
_DIGEST_BYTES = 8
# What is not the same in all copies of a log: the flag of a log in use, how it was encrypted.
_DIFFERS = (FORMAT_DESCRIPTION_EVENT, START_ENCRYPTION_EVENT)


@dataclass(frozen=True, slots=True)
class LogFingerprint:
    """The events in bytes [start, end) of a file, as hexadecimal BLAKE2b of 64 bits."""

    start: int
    end: int
    digest: str

    @classmethod
    def before(cls, window: Window, end: int) -> LogFingerprint | None:
        """The last events before byte `end`, which is an event's end in `window`, as far as they
        are in the window; None if there are none.
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
            if error.retryable:
                raise
            return False
        damage: BinlogError | None = log.reader.damage
        if damage is not None and damage.retryable:
            raise damage
        return len(data) == self.end - self.start and _digest(data) == self.digest


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
