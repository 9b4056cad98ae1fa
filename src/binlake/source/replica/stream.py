"""One dump: from the packets of a source to blocks of events as they lie in its files.

At each start, a source repeats the beginning of its file, and announces its position in artificial
events. `DumpStream` removes those, so that the bytes of the files remain, and it knows the
position of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from binlake.core.events.checksum import event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import FrameBlock, read_frame, scan
from binlake.core.events.packets import FULL, SPECIAL
from binlake.errors import BinlogError, ChecksumError, PositionLostError, ServerError
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.heartbeat import HeartbeatEvent, HeartbeatV2Event
from binlake.events.common.rotate import RotateEvent
from binlake.events.registry import decode_event, event_format
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.event_types import (
    FORMAT_DESCRIPTION_EVENT,
    HEARTBEAT_LOG_EVENT,
    HEARTBEAT_LOG_EVENT_V2,
    ROTATE_EVENT,
    START_ENCRYPTION_EVENT,
    event_name,
)
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_SKIP_REPLICATION_F
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.commands import error_of
from binlake.source.replica.connection import checked_log_name
from binlake.source.replica.packets import EOF_STATUS, ERROR_STATUS, Answer, PacketReader
from binlake.source.replica.progress import Progress
from binlake.values.frame import EventFormat, Frame
from binlake.values.position import NO_POSITION, LogPosition

_MASK32 = 0xFFFFFFFF
# So that a reader of the beginning of a log does not wait for the rest of a large block.
_FIRST_BLOCK_BYTES = 64 << 10
_WHOLE_FILE = 1 << 64
# No file is that large; after some events, a larger position would exceed 64 bits.
_MAX_OFFSET = 1 << 62
# After this time without a byte, the consumer learns that it has everything for now.
_QUIET_S = 0.05
# After so many bytes the source is about to send more: waiting makes fewer and larger blocks.
_BULK_BYTES = 64 << 10
_BREATH_S = 0.002
# A source sends about five of them at each start of a file.
_MOST_ARTIFICIAL = 1000

_LOOKED_AT = (
    ROTATE_EVENT,
    FORMAT_DESCRIPTION_EVENT,
    HEARTBEAT_LOG_EVENT,
    HEARTBEAT_LOG_EVENT_V2,
    START_ENCRYPTION_EVENT,
)
#: 0 for the event types that may contain information about the stream.
PLAIN_TYPES = bytes(code not in _LOOKED_AT for code in range(256))


@dataclass(frozen=True, slots=True)
class Block:
    """Whole events back to back, as they are in the source's file.

    `data` lies at offset `start` of `file`; `read_at` is the time when its last byte arrived
    (seconds since 1970). `source` is the identity of the server. The first block of a file starts
    at 4, or where
    following began. Blocks of a file join, unless the source leaves out known transactions.
    """

    file: str
    start: int
    data: bytes
    read_at: float
    source: str = ""

    @property
    def end(self) -> int:
        """Offset of the byte after it."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class Idle:
    """The consumer has everything for now, up to `offset` of `file`.

    `confirmed`: the source has confirmed it (a heartbeat, or the end of a dump that does not wait),
    so this is the end of its log, and no transaction is open. Otherwise nothing has arrived for a
    moment.
    """

    file: str
    offset: int
    read_at: float
    confirmed: bool
    source: str = ""


Item: TypeAlias = "Block | Idle"


class DumpStream:
    """The blocks of one dump that began at `offset` of `file`; `by_gtid` when the source chose where.

    `file` and `offset` are always where the next event lies. `created` is the timestamp of the
    current file's format description, `format` the format that it sets, `progress` counts the
    transactions that come. `left_open` is the log before `file`, if it has no end. Events before `known`, the start of an
    event, came over another connection and are skipped. Iteration stops at the end of a dump that does not wait; raises
    ServerError, ChecksumError, OSError and EOFError (lost).
    """

    def __init__(
        self, reader: PacketReader, file: str, offset: int, progress: Progress,
        *, source: str, by_gtid: bool, verify: bool, drops: bool, gaps: bool, block_bytes: int,
        known: LogPosition = NO_POSITION, left_open: str = "",
    ) -> None:  # fmt: skip
        self.file = file
        self.offset = offset
        self.created: int | None = None
        self.format_description = b""
        self.format: EventFormat | None = None
        self.awaited: LogPosition | None = None
        self._reader = reader
        self.progress = progress
        self._source = source
        self._verify = verify
        self._drops = drops
        self._gaps = gaps or by_gtid
        self._by_gtid = by_gtid
        self._block_bytes = block_bytes
        self._out = bytearray(min(block_bytes, _FIRST_BLOCK_BYTES))
        self._held = 0
        self._known_file, self._known_offset = known
        self._pass_to = 0  # bytes before this offset of the current file have been received already
        self._announced = False
        self._ends_open = False  # whether the last event received of the current file is no ROTATE
        # the file before the current one, if its last event is no ROTATE
        self._left_open = left_open
        self._is_quiet_reported = False
        self._artificial = 0  # packets that are no part of a file, since the last event of one
        self._frames = FrameBlock(1 << 14)

    def __iter__(self) -> Iterator[Item]:
        reader, receiver = self._reader, self._reader.receiver
        while True:
            held, reason = reader.copy_plain(self._out, self._held, self.offset)
            self.offset += held - self._held
            self._held = held
            if reason == SPECIAL:
                if not reader.has_whole():
                    yield from self._flush()
                answer = reader.take()
                if answer.status == EOF_STATUS:
                    yield from self._flush()
                    self._settle()
                    yield self._idle(confirmed=True)
                    return
                yield from self._look(answer)
                continue
            if reason == FULL:
                yield from self._flush()
                self._grow()
                continue
            try:
                if receiver.fill_at_once():
                    continue
                if self._held >= _BULK_BYTES and receiver.is_readable(_BREATH_S):
                    continue
                if self._held:
                    yield from self._flush()
                    self._is_quiet_reported = False
                if not self._is_quiet_reported:
                    if receiver.is_readable(_QUIET_S):
                        continue
                    self._is_quiet_reported = True
                    yield self._idle(confirmed=False)
                receiver.fill()
            except (OSError, EOFError):
                yield from self._flush()  # completely received events need not come again
                raise

    # -- receiving ---------------------------------------------------------------------------

    def _look(self, answer: Answer) -> Iterator[Item]:
        """Handle a packet that is not a plain event."""
        if answer.status == ERROR_STATUS:
            yield from self._flush()
            raise error_of(answer.raw)
        raw = answer.raw
        frame = read_frame(raw, 0, 0)
        kind = frame.type_code
        if kind == ROTATE_EVENT and (frame.flags & LOG_EVENT_ARTIFICIAL_F or not frame.timestamp):
            self._count_artificial()
            yield from self._flush()
            self._announce(raw)
        elif kind in (HEARTBEAT_LOG_EVENT, HEARTBEAT_LOG_EVENT_V2):
            yield from self._flush()
            yield self._heartbeat(frame, raw)
        elif not self._announced:
            raise ServerError(f"the source sends {event_name(kind)} before it has named the file")
        elif kind == FORMAT_DESCRIPTION_EVENT:
            self._count_artificial()
            yield from self._begin_file(frame, raw)
        elif frame.flags & LOG_EVENT_ARTIFICIAL_F or self._repeats_start(frame):
            # not in the file: MariaDB's GTID_LIST at the wanted GTID, and START_ENCRYPTION
            self._count_artificial()
        else:
            yield from self._event(frame, raw)
            if answer.wants_ack:
                # reported before delivery, because it may be durable when delivery returns
                self.awaited = LogPosition(self.file, self.offset)
                yield from self._flush()

    def _count_artificial(self) -> None:
        """Count an event that is no part of a file, until `_flush` delivers one that is. Raises ServerError."""
        self._artificial += 1
        if self._artificial > _MOST_ARTIFICIAL:
            raise ServerError(
                f"the source has sent {_MOST_ARTIFICIAL:,} artificial events in a row and no event of its log"
            )

    def _announce(self, raw: bytes) -> None:
        """Handle the artificial ROTATE before each file: its name, and where in it the source
        begins.
        """
        raw = _without_checksum(raw)
        frame = read_frame(raw, 0, 0)
        event = decode_event(frame, raw[HEADER_BYTES:], None)
        assert isinstance(event, RotateEvent)
        name = checked_log_name(event.next_file)
        position = _checked_position(name, event.position)
        if self._announced and name == self.file:
            return  # announced twice, as after a real ROTATE
        if self._announced and _is_before(name, self.file):
            raise ServerError(
                f"the source goes back from {self.file} to {name}", hint="its logs were reset"
            )
        if not self._announced and not self._by_gtid and self.file and name != self.file:
            raise ServerError(f"the source begins with {name}, {self.file} was asked for")
        if self._announced or self._by_gtid or not self.file:
            self.offset = position
        elif self.offset != position:
            raise ServerError(
                f"the source begins at {name}:{position}, {self.offset} was asked for"
            )
        if self._announced:
            is_next = name.rpartition(".")[0] == self.file.rpartition(".")[0]
            self._left_open = self.file if self._ends_open and is_next and not self._gaps else ""
        self._ends_open = False
        self.file = name
        self.created = None
        self._announced = True
        if name == self._known_file:
            self._pass_to = self._known_offset
        else:
            self._pass_to = _WHOLE_FILE if is_earlier_log(name, self._known_file) else 0

    def _begin_file(self, frame: Frame, raw: bytes) -> Iterator[Item]:
        """A format description: the file's own, or the copy before a place inside."""
        yield from self._flush()
        try:
            self.format = event_format(frame, raw[HEADER_BYTES:])
        except BinlogError as error:
            raise error.at(file=self.file, event_pos=self.offset) from None
        self.created = frame.timestamp
        self.format_description = raw
        if self.offset == FIRST_EVENT:
            self._check_rotated(frame, raw)
            self._append(raw)
            yield from self._flush()

    def _check_rotated(self, frame: Frame, raw: bytes) -> None:
        """Raise PositionLostError if the server continued with a file to which the previous file did not rotate.

        A server whose logs are reset while it sends the old file, which it has deleted, continues with the
        next number, and leaves out the first file of the new logs. After a crash, the next file has
        no ROTATE before it, but contains the time of the server's start.
        """
        event = decode_event(frame, raw[HEADER_BYTES:], None)
        assert isinstance(event, FormatDescriptionEvent)
        if self._left_open and not event.created:
            raise PositionLostError(
                f"the source continues with {self.file}, but {self._left_open} ended without a ROTATE_EVENT",
                hint="its logs were reset",
            )

    def _repeats_start(self, frame: Frame) -> bool:
        """Whether an event belongs to the start of the file, which lies far before the position."""
        return frame.type_code == START_ENCRYPTION_EVENT and frame.log_pos == 0

    def _event(self, frame: Frame, raw: bytes) -> Iterator[Item]:
        """Handle an event of the file that is not a plain packet, or lies elsewhere than expected."""
        end = self.offset + frame.length
        if frame.log_pos not in (0, end & _MASK32):
            if not self._gaps:
                raise ServerError(
                    f"the source sent an event {event_name(frame.type_code)} of {self.file} that ends at "
                    f"{frame.log_pos}; an event from {self.offset} to {end} should follow"
                )
            yield from self._flush()
            start = _extended(frame.log_pos, end) - frame.length
            if start < self.offset:
                raise ServerError(f"the source goes back from {self.file}:{self.offset} to {start}")
            self.offset = start
        if self._held + len(raw) > len(self._out):
            yield from self._flush()
        self._append(raw)
        if frame.type_code == ROTATE_EVENT:
            yield from self._flush()
            self._settle()
            self._ends_open = False

    def _heartbeat(self, frame: Frame, raw: bytes) -> Idle:
        raw = _without_checksum(raw)
        frame = frame._replace(length=len(raw))
        event = decode_event(frame, raw[HEADER_BYTES:], self.format)
        assert isinstance(event, HeartbeatEvent | HeartbeatV2Event)
        name = checked_log_name(event.file)
        position = _checked_position(name, event.position)
        if frame.type_code == HEARTBEAT_LOG_EVENT and position <= _MASK32:
            position = _extended(position, self.offset) if self._gaps else position
            same = position & _MASK32 == self.offset & _MASK32
        else:
            same = position == self.offset
        if self._announced and (
            name != self.file or not (same or (self._gaps and position > self.offset))
        ):
            raise ServerError(
                f"the source's heartbeat is at {name}:{position}, but its last event ended at "
                f"{self.file}:{self.offset}",
                hint="an event was lost on the way, or the log was reset",
            )
        if not same:  # it has skipped bytes that were received already
            self.offset = position
        self._settle()
        return self._idle(confirmed=True)

    # -- delivering --------------------------------------------------------------------------

    def _grow(self) -> None:
        """Make room for larger blocks. The first blocks are small, because a consumer may stop after them."""
        more = min(3 * len(self._out), self._block_bytes - len(self._out))
        if more > 0:
            self._out.extend(bytes(more))

    def _append(self, raw: bytes) -> None:
        end = self._held + len(raw)
        if end > len(self._out):
            self._out.extend(bytes(end - len(self._out)))
        self._out[self._held : end] = raw
        self._held = end
        self.offset += len(raw)

    def _settle(self) -> None:
        """Note that the source is between two transactions; the position stays while it repeats
        known bytes.
        """
        if self._announced and self.offset >= self._pass_to:
            self.progress.settle()

    def _idle(self, *, confirmed: bool) -> Idle:
        if self.offset < self._pass_to:
            known = self._known_file, self._known_offset
            return Idle(*known, time.time(), confirmed=False, source=self._source)
        return Idle(self.file, self.offset, time.time(), confirmed, self._source)

    def _flush(self) -> Iterator[Item]:
        """Return the buffered events as a block: verified, and without the events to be dropped."""
        size = self._held
        if not size:
            return
        with memoryview(self._out) as view:
            data = bytes(view[:size])
        self._held = self._artificial = 0
        self._ends_open = True
        start, now = self.offset - size, time.time()
        if start < self._pass_to:
            data = self._news(data, start)
            start, size = self.offset - len(data), len(data)
            if not size:
                return
        frames = self._frames
        frames.truncate(0)
        error: BinlogError | None = None
        at = 0
        while at < size:
            before = at
            at, _ = scan(data, start, at, size, HEADER_BYTES, frames)
            assert at > before, "whole events were put together"
        checked = self._verify and self.format is not None and self.format.checksum_bytes > 0
        bad = first_bad(data, start, frames, 0, len(frames)) if checked else -1
        if bad >= 0:
            error = self._checksum_error(data, start, frames.frame(bad))
            data = data[: frames.frame(bad).offset - start]
            frames.truncate(bad)
            self.offset = start + len(data)
        if data:
            self.progress.feed(data, start, frames, self.format)
            yield from self._kept(Block(self.file, start, data, now, self._source), frames)
        if error is not None:
            raise error

    def _news(self, data: bytes, start: int) -> bytes:
        """Return the part of events from offset `start` on that is new. Raises ServerError."""
        known, at = self._pass_to - start, 0
        while at < min(known, len(data)):
            at += read_frame(data, start, at).length
        if at != min(known, len(data)):
            raise ServerError(
                f"the source sends no event of {self.file} that begins at {self._pass_to}, "
                "where its last event ended",
                hint="its logs were reset",
            )
        return data[at:]

    def _kept(self, block: Block, frames: FrameBlock) -> Iterator[Block]:
        """Return the block without the events to be dropped."""
        if not self._drops or not any(
            flag & LOG_EVENT_SKIP_REPLICATION_F for flag in frames.flags[: len(frames)]
        ):
            yield block
            return
        kept_from = block.start
        for index in range(len(frames)):
            frame = frames.frame(index)
            if not frame.flags & LOG_EVENT_SKIP_REPLICATION_F:
                continue
            if frame.offset > kept_from:
                yield _part(block, kept_from, frame.offset)
            kept_from = frame.end
        if block.end > kept_from:
            yield _part(block, kept_from, block.end)

    def _checksum_error(self, data: bytes, start: int, frame: Frame) -> ChecksumError:
        raw = memoryview(data)[frame.offset - start : frame.end - start]
        return ChecksumError(
            "an event arrived with a wrong checksum",
            file=self.file,
            event_pos=frame.offset,
            event_type=event_name(frame.type_code),
            expected=stored_crc32(raw),
            actual=event_crc32(raw),
            hint="the log is damaged on the server, or was on the way",
        )


def _part(block: Block, start: int, end: int) -> Block:
    data = block.data[start - block.start : end - block.start]
    return Block(block.file, start, data, block.read_at, block.source)


def is_earlier_log(name: str, other: str) -> bool:
    """Whether a server wrote the log `name` before `other`, by their numbers."""
    one, two = (text.rpartition(".")[2] for text in (name, other))
    return one.isdecimal() and two.isdecimal() and int(one) < int(two)


def _checked_position(name: str, position: int) -> int:
    """Return a position that a source names. Raises ServerError for one that no file has."""
    if position > _MAX_OFFSET:
        raise ServerError(f"the source names the position {name}:{position}: refused")
    return position


def _is_before(name: str, other: str) -> bool:
    """Whether `name` precedes `other` in one chain; a server may continue with another base name."""
    return name.rpartition(".")[0] == other.rpartition(".")[0] and is_earlier_log(name, other)


def _extended(position: int, near: int) -> int:
    """Return the 64-bit offset at or after `near` - 2**31 whose low 32 bits are `position`."""
    base = max(0, near - (1 << 31))
    return base + ((position - base) & _MASK32)


def _without_checksum(raw: bytes) -> bytes:
    """Return an artificial event without its CRC32.

    No single rule determines whether it has one: it depends on the connection's variable, or the
    format of the file before. Four bytes equal the right CRC by chance once in 2**32.
    """
    if len(raw) >= HEADER_BYTES + CHECKSUM_BYTES and stored_crc32(raw) == event_crc32(raw):
        return raw[:-CHECKSUM_BYTES]
    return raw
