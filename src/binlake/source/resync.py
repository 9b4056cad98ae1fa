"""Where transactions start, found from any byte of a log without reading it from its beginning.

A split is a byte range: a task takes the transactions that start in [a, b). `first_sync`
determines both ends, so neighbours agree on the border without communication.

**Finding an event.** An event's header contains its end in the file (log_pos, modulo 2**32). A
place whose 19 bytes are consistent with that, and whose CRC32 is right, is a *candidate*. A BLOB
that holds pieces of binary logs is full of events, but their log_pos belongs to another place.
Even pieces that were made to fit still lie inside one event of this log, so:

- the search begins `before_bytes` ahead of the wanted byte; where that is the beginning of the
  log, or an event in between, the chain of real events leads over the pieces inside it;
- a candidate must lead, from event to event, `after_bytes` past the wanted byte or to the end
  of the file. A chain inside of an event breaks off with it, and the next candidate is tried.

So only an event longer than `before_bytes + after_bytes`, filled with events made to fit this
place in this file, can mislead the search. The driver detects that: the task before walks the real
chain, and its last event does not end where the next task starts (`Ledger.join_problems`).

**Finding a transaction.** For servers that open every transaction with a GTID event (MySQL since
5.7.6, anonymous ones too; MariaDB since 10.0.2) it is the first such event. For others it is the
event after the first XID, COMMIT or ROLLBACK. Both depend only on the events at and after the
wanted byte.

Relay logs (whose log_pos is the source's), logs before version 4 (where it is the event's start,
or missing), streams and MariaDB's encrypted logs are one split: for them the answer is the
beginning or the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from binlake.core.events.checksum import event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import (
    FORMAT,
    FrameBlock,
    find_anchor,
    find_pair,
    first_unanchored,
    read_frame,
    scan,
)
from binlake.errors import FormatError
from binlake.events.body.reader import BodyReader
from binlake.events.common.format_description import effective_type
from binlake.events.common.query import QueryEvent
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import (
    EVENT_TYPES,
    FORMAT_DESCRIPTION_EVENT,
    QUERY_EVENT,
    XID_EVENT,
    Role,
    any_code,
    codes_of,
)
from binlake.format.magic import FIRST_EVENT
from binlake.source.window import OpenLog
from binlake.values.frame import EventFormat, Frame

if TYPE_CHECKING:
    import re

    from binlake.source.reader import ByteReader

#: The end of a log whose length is not known.
END = sys.maxsize

_PIECE_BYTES = 256 << 10
_SEARCH_BYTES = 1 << 20
_HEADER_PAIR_BYTES = 2 * HEADER_BYTES
_GTID_TYPES = codes_of(Role.GTID)
_KNOWN_TYPES = bytes(code != 0 and code in EVENT_TYPES for code in range(256))
_GTID_ALWAYS_SINCE = {"mysql": (5, 7, 6), "mariadb": (10, 0, 2)}


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far around the wanted byte a chain of events is followed before it counts as real."""

    before_bytes: int = 1 << 20
    after_bytes: int = 1 << 20


def first_sync(log: OpenLog, at: int, limits: SearchLimits = SearchLimits()) -> int:
    """Return the offset of the first transaction that starts at or after byte `at` (docstring
    above).

    The result is FIRST_EVENT for `at` up to it, and the length of the file (END if it
    is unknown) if no transaction starts there. Raises SourceError.
    """
    found = first_sync_before(log, at, END, limits)
    assert found is not None
    return found


def first_sync_before(
    log: OpenLog, at: int, before: int, limits: SearchLimits = SearchLimits()
) -> int | None:
    """Return the same if an event between `at` and `before` determines it, else None: `first_sync` of
    both is the same then. Raises SourceError.
    """
    if at <= FIRST_EVENT:
        return FIRST_EVENT
    size = log.size
    if log.format is None or not log.is_splittable or size is None:
        return END if size is None else size
    start = first_frame(log.reader, log.format, at, size, limits, before)
    walk = _Walk(log.reader, log.format)
    if start >= before:
        return None
    for data, base, block in walk.blocks(start):
        if base >= before:
            return None
        found = walk.boundary(data, base, block, len(block))
        if found is not None:
            return found
    return next_transaction(log, walk.pos, log.format) if walk.broken else size


def event_inside(log: OpenLog) -> int | None:
    """Return where a server sends a log from (`ByteReader.begins_at`), if an event starts there.

    Raises SourceError.
    """
    at = log.reader.begins_at
    if log.format is None or not at:
        return None
    return at if _Walk(log.reader, log.format).proves(at) else None


def sync_inside(log: OpenLog) -> int | None:
    """Return `first_sync` for a log that a server sends from a place inside; None if no event
    starts there, or if the result depends on the bytes before it.

    Raises SourceError.
    """
    at = event_inside(log)
    if at is None:
        return None
    assert log.format is not None
    walk = _Walk(log.reader, log.format)
    if not opens_with_gtid(log.format):
        return at if walk.begins_transaction(at) else None
    for data, base, block in walk.blocks(at):
        found = walk.boundary(data, base, block, len(block))
        if found is not None:
            return found
    return None if walk.broken else walk.pos


def opens_with_gtid(fmt: EventFormat) -> bool:
    """Whether servers of this version begin every transaction with a GTID event."""
    return fmt.version >= _GTID_ALWAYS_SINCE[fmt.flavour]


def first_frame(
    reader: ByteReader,
    fmt: EventFormat,
    at: int,
    file_size: int,
    limits: SearchLimits = SearchLimits(),
    before: int = END,
) -> int:
    """Return the offset of the first event that starts at or after byte `at`; `file_size` if there
    is none. The search may end at byte `before` without one.

    For logs whose log_pos is their own (not relay logs). MariaDB since 11.7 gives a log_pos only
    to the events that open and end transactions: inside a transaction longer than `before_bytes`
    the result is the first of those, which is all that `first_sync` needs. Raises SourceError.
    """
    if at >= file_size:
        return file_size
    walk = _Walk(reader, fmt)
    begin = max(at - limits.before_bytes, FIRST_EVENT)
    if begin == FIRST_EVENT:
        # The chain from the beginning is the real one: no need to doubt it.
        found = walk.first_at(at)
        if found is not None:
            return found
        begin = at
    refuted: set[int] = set()
    while (candidate := walk.candidate(begin, before)) is not None:
        if candidate not in refuted:
            chain = walk.follow(candidate, max(at, candidate) + limits.after_bytes, at)
            if chain.holds:
                return file_size if chain.first_at is None else chain.first_at
            refuted.update(chain.offsets)
        begin = candidate + 1
    return file_size


def next_transaction(log: OpenLog, damaged: int, fmt: EventFormat) -> int:
    """Return where to continue after the event at `damaged` turned out not to be an event.

    That is the first transaction start (or FORMAT_DESCRIPTION) after it that verifies; the length
    of the file if there is none. If the damaged event's header is sound and leads to an event, the
    search begins there, so pieces of logs inside its body are not taken for events.
    """
    if fmt.binlog_version == 1:  # its headers contain too little to recognise them
        return END if log.size is None else log.size
    anchored = not log.is_relay and fmt.binlog_version >= 4
    walk = (_Walk if anchored else _RelayWalk)(log.reader, fmt)
    begin = walk.after_damaged(damaged)
    while (candidate := walk.candidate(begin)) is not None:
        chain = walk.follow(candidate, END)
        if chain.boundary is not None:
            return chain.boundary
        begin = walk.after_damaged(chain.end) if chain.offsets else candidate + 1
    return END if log.size is None else log.size


@dataclass(slots=True)
class _Chain:
    """Verified events, one after the other: `offsets` of them, up to `end`.

    `holds`: they lead as far as was asked, or to the end of the file. `first_at` is the first
    of them at or after the wanted byte, `boundary` where the first transaction starts.
    """

    end: int
    holds: bool = True
    offsets: list[int] = field(default_factory=list)
    first_at: int | None = None
    boundary: int | None = None


class _Walk:
    """Steps over a log by headers whose log_pos is where the event ends."""

    def __init__(self, reader: ByteReader, fmt: EventFormat) -> None:
        self._reader = reader
        self._format = fmt
        self._minimum = HEADER_BYTES + fmt.checksum_bytes
        self._opens_with_gtid = opens_with_gtid(fmt)
        self._boundaries = _boundaries(fmt)
        #: where `blocks` ended, and whether because the bytes there are no event
        self.pos = 0
        self.broken = False

    def blocks(self, pos: int) -> Iterator[tuple[bytes, int, FrameBlock]]:
        """Yield all whole events from the one at `pos` on, unverified: (data, its offset, frames)."""
        self.broken = False
        while True:
            self.pos = pos
            data = self._reader.read_at(pos, _PIECE_BYTES)
            block = self._scan(data, pos)
            if not len(block):
                if len(data) < HEADER_BYTES:
                    return
                frame = read_frame(data, pos, 0)
                self.broken = frame.length < self._minimum or not self._anchored(frame)
                if self.broken or self._cut(frame):
                    return
                data = self._reader.read_at(pos, frame.length)
                if len(data) < frame.length:
                    return
                block = self._scan(data, pos)
            yield data, pos, block
            pos = block.end(len(block) - 1)

    def first_at(self, at: int) -> int | None:
        """Return the first event at or after `at` on the chain from the beginning; None if that
        breaks.
        """
        for _, _, block in self.blocks(FIRST_EVENT):
            index = block.find(at)
            if index < len(block):
                return int(block.offset[index])
        return None if self.broken else self._reader.size

    def follow(self, start: int, until: int, at: int = 0) -> _Chain:
        """Follow the chain of verified events from `start` on, to `until` and the first at or
        after `at`.

        With `until` END it ends at the first boundary of transactions.
        """
        chain = _Chain(start)
        for data, base, block in self.blocks(start):
            good = self._verified(data, base, block)
            if good:
                chain.offsets += block.offset[:good]
                chain.end = block.end(good - 1)
                index = block.find(at)
                if chain.first_at is None and index < good:
                    chain.first_at = int(block.offset[index])
                if until == END:
                    chain.boundary = self.boundary(data, base, block, good)
            if good < len(block):
                chain.holds = False
                return chain
            if chain.boundary is not None or (chain.end >= until and chain.first_at is not None):
                return chain
        chain.holds = not self.broken
        return chain

    def boundary(self, data: bytes, base: int, block: FrameBlock, count: int) -> int | None:
        """Return where, by the first `count` frames of `block`, a transaction starts."""
        types = bytes(block.type_code[:count])
        for match in self._boundaries.finditer(types):
            index = match.start()
            frame = block.frame(index)
            if self._opens_with_gtid or frame.type_code == FORMAT_DESCRIPTION_EVENT:
                return frame.offset
            if frame.type_code != QUERY_EVENT or self._ends_transaction(frame, data, base):
                return frame.end
        return None

    def proves(self, offset: int) -> bool:
        """Whether an event starts at `offset`, by its checksum or else by its header."""
        data = self._reader.read_at(offset, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return False
        frame = read_frame(data, offset, 0)
        told = self._format.checksum_bytes > 0 or frame.log_pos != 0
        return told and self._sound(frame)

    def begins_transaction(self, offset: int) -> bool:
        """Whether the event at `offset` itself shows that a transaction starts with it."""
        data = self._reader.read_at(offset, HEADER_BYTES)
        frame = read_frame(data, offset, 0)
        if frame.type_code in _GTID_TYPES:
            return True
        if frame.type_code != QUERY_EVENT:
            return False
        return self._sql(frame, self._reader.read_at(offset, frame.length), offset) == b"BEGIN"

    def candidate(self, begin: int, before: int = END) -> int | None:
        """Return the first place at or after `begin` with an event that verifies, or None. The search
        may end at byte `before`.
        """
        while begin < before:
            data = self._reader.read_at(begin, _SEARCH_BYTES)
            pos = 0
            while (pos := self._find(data, begin, pos)) >= 0:
                if self._sound(read_frame(data, begin, pos)):
                    return begin + pos
                pos += 1
            if len(data) < _SEARCH_BYTES:
                return None
            begin += len(data) - _HEADER_PAIR_BYTES
        return None

    def after_damaged(self, damaged: int) -> int:
        """Return where to look for the next event: after the damaged one, if its header is sound."""
        data = self._reader.read_at(damaged, HEADER_BYTES)
        if len(data) == HEADER_BYTES:
            frame = read_frame(data, damaged, 0)
            if frame.length >= self._minimum and self._anchored(frame) and not self._cut(frame):
                data = self._reader.read_at(frame.end, HEADER_BYTES)
                if len(data) == HEADER_BYTES and self._sound(read_frame(data, frame.end, 0)):
                    return frame.end
        return damaged + 1

    def _scan(self, data: bytes, base: int) -> FrameBlock:
        block = FrameBlock()
        pos, reason = scan(data, base, 0, len(data), self._minimum, block)
        while reason == FORMAT:
            pos, reason = scan(data, base, pos, len(data), self._minimum, block)
        return block

    def _find(self, data: bytes, base: int, pos: int) -> int:
        """Return the index of the first consistent header from `pos` on, or -1."""
        return find_anchor(data, base, pos, len(data), self._minimum)

    def _anchored(self, frame: Frame) -> bool:
        """Whether a header is consistent; artificial events have no position to check."""
        return frame.log_pos in (0, frame.end & 0xFFFFFFFF)

    def _all_anchored(self, block: FrameBlock) -> int:
        """Return how many of the frames are consistent, from the first on."""
        wrong = first_unanchored(block, 0, len(block))
        return len(block) if wrong < 0 else wrong

    def _cut(self, frame: Frame) -> bool:
        """Whether the log ends before the event does."""
        size = self._reader.size
        return size is not None and frame.end > size

    def _verified(self, data: bytes, base: int, block: FrameBlock) -> int:
        """Return how many of the frames verify, from the first on."""
        count = self._all_anchored(block)
        if self._format.checksum_bytes:
            bad = first_bad(data, base, block, 0, count)
            count = count if bad < 0 else bad
        return count

    def _sound(self, frame: Frame) -> bool:
        """Whether the event of a consistent header is there, and its checksum is right.

        Without checksums the header after it has to be consistent too. It is checked in any case
        before a long event is read.
        """
        if frame.length < self._minimum or not self._anchored(frame) or self._cut(frame):
            return False
        data = self._reader.read_at(frame.end, HEADER_BYTES)
        if len(data) == HEADER_BYTES:
            after = read_frame(data, frame.end, 0)
            if after.length < self._minimum or not self._anchored(after):
                return False
        if not self._format.checksum_bytes:
            return True
        data = self._reader.read_at(frame.offset, frame.length)
        return len(data) == frame.length and event_crc32(data) == stored_crc32(data)

    def _ends_transaction(self, frame: Frame, data: bytes, base: int) -> bool:
        return self._sql(frame, data, base) in (b"COMMIT", b"ROLLBACK")

    def _sql(self, frame: Frame, data: bytes, base: int) -> bytes:
        """Return the statement of a QUERY, in capitals; b"" if it cannot be read."""
        end = frame.end - base - self._format.checksum_bytes
        body = memoryview(data)[frame.offset - base + self._format.header_length : end]
        try:
            event = QueryEvent.decode(frame, BodyReader(body), self._format)
        except FormatError:
            return b""
        return event.sql_raw.upper()


class _RelayWalk(_Walk):
    """A walk over a relay log. Its log_pos is a position in the source's log, so only types and lengths are checked."""

    def _find(self, data: bytes, base: int, pos: int) -> int:
        return find_pair(data, pos, len(data), self._minimum, _KNOWN_TYPES)

    def _anchored(self, frame: Frame) -> bool:
        return bool(_KNOWN_TYPES[frame.type_code])

    def _all_anchored(self, block: FrameBlock) -> int:
        return len(block)


@lru_cache(maxsize=8)
def _boundaries(fmt: EventFormat) -> re.Pattern[bytes]:
    """The types that begin a transaction, or may end one. A plan of many splits searches one log often."""
    codes = _GTID_TYPES if opens_with_gtid(fmt) else _ending_types(fmt)
    return any_code(codes | {FORMAT_DESCRIPTION_EVENT})


def _ending_types(fmt: EventFormat) -> frozenset[int]:
    """The types at which a transaction may have ended."""
    return frozenset(
        code for code in range(256) if effective_type(code, fmt) in (XID_EVENT, QUERY_EVENT)
    )
