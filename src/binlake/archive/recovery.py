"""Find where an archive continues: the whole part of its last log, and the position to request.

The log that was being written when the archiver ended may end in the middle of an event, or, after
a crash of the machine, in bytes that never reached the disk. binlake reads and verifies all of it,
and drops the bytes after the last good event.

It then requests the log from a little before that place: from its last transaction on. The
received bytes must equal the archived ones. So a different log of the same name, after a reset of
the server's logs, is detected before a byte of it is written.

In a log without checksums, zeros inside an event, from a page that never reached the disk, look
like any other bytes. Then binlake requests everything that was not known to be durable, and takes
bytes from the server where the archive has zeros.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass

from binlake.archive.folder import LogWriter
from binlake.archive.start import gtid_text
from binlake.errors import FormatError, SourceError
from binlake.format.event_types import EVENT_TYPES, Role
from binlake.format.magic import FIRST_EVENT
from binlake.source.log_file import LogFile
from binlake.source.reader import ByteReader
from binlake.source.replica.progress import Progress
from binlake.stream.positions.gtid_search import head_gtids

_GTIDS = b"".join(re.escape(bytes((c,))) for c, t in EVENT_TYPES.items() if t.role is Role.GTID)
# The unit that a disk writes whole.
_SECTOR_BYTES = 512
_LAST_GTID = re.compile(b"[" + _GTIDS + b"](?=[^" + _GTIDS + b"]*$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Resumption:
    """The first `size` bytes of a log are whole events; the log is requested from `start` on.

    `gtid_set` are the GTIDs before `start`, in the notation of the flavour. `created` is the
    timestamp of the log's format description, None if there is none. `lost` counts the bytes after
    `size`, which were not whole events.
    """

    size: int
    start: int
    gtid_set: str
    created: int | None
    lost: int = 0


def recover(writer: LogWriter, flavour: str, durable: int = 0) -> Resumption:
    """Read a log, and drop incomplete bytes. The first `durable` bytes are known to have reached
    the disk. Raises SourceError.
    """
    reader = writer.reader()
    try:
        log = LogFile(reader, writer.name)
    except (FormatError, SourceError):  # not even its beginning is whole
        reader.close()
        return _nothing(writer)
    with log:
        found = _survey(log, flavour, durable)
    if found is None:
        return _nothing(writer)
    lost = writer.size - found.size
    if lost:
        writer.truncate(found.size)
    return Resumption(found.size, found.start, found.gtid_set, found.created, lost)


def _nothing(writer: LogWriter) -> Resumption:
    lost = writer.size
    if lost:
        writer.truncate(0)
    return Resumption(0, FIRST_EVENT, "", None, lost)


def _survey(log: LogFile, flavour: str, durable: int) -> Resumption | None:
    size, last_event, last_gtid, created = 0, FIRST_EVENT, None, None
    before = None
    with suppress(FormatError):
        before = head_gtids(log)
    proved = log.format is not None and log.format.checksum_bytes > 0
    latest = sys.maxsize if proved else max(durable, FIRST_EVENT)  # where `start` may lie
    try:
        for window in log.windows():
            if created is None:
                created = window.block.timestamp[0]
            size = window.end
            count = bisect_right(window.block.offset, latest, 0, len(window))
            if not count:
                continue
            last_event = window.frame(count - 1).offset
            codes = bytes(window.block.type_code[:count])
            match = _LAST_GTID.search(codes)
            if match is not None:
                last_gtid = window.frame(match.start()).offset
    except FormatError:  # the events before it have been verified
        pass
    if not size:
        return None
    start = last_event if last_gtid is None else last_gtid
    progress = Progress(flavour, gtid_text(before))
    for window in log.windows(stop=start, verify=False):
        progress.feed(window.data, window.base, window.block, window.format)
    progress.settle()  # the transaction before `start` is whole, because another one follows it
    return Resumption(size, start, progress.gtid_set(), created)


class Overlap:
    """Compares the bytes that a server sends again with bytes [start, size) of a log."""

    def __init__(self, reader: ByteReader, start: int, size: int) -> None:
        self._reader = reader
        self.at = start
        self.size = size

    def take(self, data: bytes) -> bytes | None:
        """Return the received bytes that are new; None if it is not the same log."""
        known = min(len(data), self.size - self.at)
        if self._reader.read_at(self.at, known) != data[:known]:
            return None
        self.at += known
        return data[known:]

    def has_holes(self, data: bytes) -> bool:
        """Whether it is the same log, except for zeros of pages that never reached the disk.

        A sector is there whole, in its state at an earlier end, or not at all: from the first
        differing byte on it is zero.
        """
        known = min(len(data), self.size - self.at)
        here = self._reader.read_at(self.at, known)
        for at in range(-(self.at % _SECTOR_BYTES), known, _SECTOR_BYTES):
            ours, theirs = (b[max(at, 0) : min(at + _SECTOR_BYTES, known)] for b in (here, data))
            if not theirs.startswith(ours.rstrip(b"\0")):
                return False
        return True

    @property
    def is_over(self) -> bool:
        """Whether all archived bytes have been received again."""
        return self.at >= self.size

    def close(self) -> None:
        """Close the log."""
        self._reader.close()
