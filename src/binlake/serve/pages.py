"""The windows of a chain from a position on, including growing and future files.

    for page in pages(library, "binlog.000007", 4):
        Opened    a file begins (or is entered in its middle)
        Window    whole, verified events that follow
        CaughtUp  there is no more now; iterate again, perhaps after waiting

A torn tail in the last file is an end like any other: the rest may follow. If the last file
becomes shorter, the stream also waits: an archiver that was killed drops incomplete bytes, and
downloads the same bytes again. A torn tail in a file that has a successor is the result of a
crash, and the stream continues with the successor, as servers do. If the successor shows that no
server started in between, the file is an incomplete copy (`stream.holes`), and the stream ends.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

from binlake.core.events.checksum import event_crc32, stored_crc32
from binlake.core.events.frames import read_frame
from binlake.errors import ChecksumError, TruncatedError, UnsupportedError
from binlake.format.event_header import HEADER_BYTES
from binlake.format.magic import FIRST_EVENT
from binlake.serve.answers import lost, no_such_log
from binlake.serve.library import Library
from binlake.source.chain import Chain
from binlake.source.log_file import LogFile
from binlake.source.reader import TORN_TAIL
from binlake.source.window import Window
from binlake.stream.holes import closed, cut_off, next_log
from binlake.values.frame import EventFormat

#: The size of a read: replicas that wait for their network each hold a few windows.
WINDOW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """Reading begins at byte `position` of the file `name`; `head` is its FORMAT_DESCRIPTION event,
    which no window has.
    """

    name: str
    position: int
    format: EventFormat
    head: bytes


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything up to byte `position` of the file `name` has been yielded. `version` is the
    library's at that moment, so waiting for another version misses nothing.
    """

    name: str
    position: int
    version: int


Page = Opened | Window | CaughtUp


def pages(library: Library, name: str, position: int) -> Generator[Page, None, None]:
    """Yield without an end; closing it closes the open file. Raises BinlogError; ServerError
    (1236) for a file that does not exist (any more).
    """
    format: EventFormat | None = None
    while True:
        version, chain = library.version, library.chain
        file = next((file for file in chain.files if file.name == name), None)
        if file is None:
            raise no_such_log(name, chain.shown)
        # checked before reading: a file that has a successor now does not grow any more
        following = library.after(chain, name)
        with library.open(file) as log:
            if log.format is not None and format is None:
                format = log.format
                head = _first_event(log)
                yield Opened(name, position, format, head)
                position = max(position, FIRST_EVENT + len(head))
            if format is not None:
                with closing(_windows(log, position, format)) as windows:
                    for window in windows:
                        yield window
                        position, format = window.end, window.format
        if following is not None:
            _refuse_hole(library, chain, log, position)
            name, position, format = following.name, FIRST_EVENT, None
        else:
            yield CaughtUp(name, position, version)


def _refuse_hole(library: Library, chain: Chain, log: LogFile, position: int) -> None:
    """Raise ServerError (1236) if a file that has been read to `position`, its end, is cut off before the next one, or if
    a file between the two is missing.
    """
    ordinal = chain.names.index(log.name)
    if missing := chain.gap_before(ordinal + 1):
        raise lost(f"{missing}: copy it to the archive")
    following = next_log(chain, ordinal)
    if following is None:
        return
    # a replica that connects again at the end of a file has seen none of its events
    hole = cut_off(log, following, lambda: library.open(following), lambda: closed(log, position))
    if hole:
        raise lost(f"{hole}: copy it to the archive again")


def _windows(log: LogFile, position: int, format: EventFormat) -> Generator[Window, None, None]:
    try:
        yield from log.windows(position, format=format, window_bytes=WINDOW_BYTES)
    except TruncatedError as error:
        if error.kind != TORN_TAIL:
            raise


def _first_event(log: LogFile) -> bytes:
    """Return the FORMAT_DESCRIPTION event, which opening has read. Raises ChecksumError,
    UnsupportedError.
    """
    assert log.format is not None
    if log.format.binlog_version < 4:
        raise UnsupportedError(
            f"{log.name} is of binary log version {log.format.binlog_version}: current"
            " replicas read"
            " version 4"
        )
    frame = read_frame(log.reader.read_at(FIRST_EVENT, HEADER_BYTES), FIRST_EVENT, 0)
    raw = log.reader.read_at(FIRST_EVENT, frame.length)
    if log.format.checksum_alg is not None and stored_crc32(raw) != event_crc32(raw):
        raise ChecksumError("bad checksum", file=log.name, event_pos=FIRST_EVENT)
    return raw
