"""Walk from event to event to make windows, and classify the place where the walk cannot continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from binlake.background import Background
from binlake.core.events.checksum import event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import FORMAT, FrameBlock, read_frame, scan, scan_v1
from binlake.errors import BinlogError, MalformedError, TruncatedError, UnsupportedError
from binlake.format.event_header import HEADER_BYTES, TYPE_AT
from binlake.format.event_types import (
    EVENT_TYPES,
    FORMAT_DESCRIPTION_EVENT,
    START_ENCRYPTION_EVENT,
    Role,
    codes_of,
    event_name,
)
from binlake.format.flags import LOG_EVENT_IGNORABLE_F
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.source.reader import TORN_TAIL
from binlake.source.window import OpenLog, Window, checksum_error
from binlake.values.frame import EventFormat, Frame
from binlake.values.ledger import FileCounts

# Minimum size of a read: more than one event, even before a near `stop`.
_MIN_READ_BYTES = 64 << 10
# A longer event must look like an event before memory is allocated for it.
_LONG_EVENT_BYTES = 64 << 20
# Logs compress to about a tenth. An event that inflates to more counts against max_memory.
_MOST_INFLATION = 32
# Events that begin a transaction. A window ends before the last of them if that event lies in the
# last quarter of the window. A transaction in one window costs less than a transaction in two
# windows, even though its start is read twice.
_BEGINNINGS = tuple(sorted(codes_of(Role.GTID)))
_LAST_SHARE = 4
# The offset of the first event's type.
_FIRST_TYPE = FIRST_EVENT + TYPE_AT
# The first release whose log_pos is right inside transactions.
_LOG_POS_SINCE = (5, 1, 0)


@dataclass(frozen=True, slots=True)
class TailReport:
    """A torn tail: the file ends at `offset + size`, inside the event that starts at `offset`.

    `in_use`: the server has not closed the file (it runs, or it crashed), so that this is normal.
    `message` describes the incomplete part.
    """

    offset: int
    size: int
    in_use: bool
    message: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of one step of the walk: a window, the reason why it stopped after that, or both.

    `error` belongs to the event at `offset`; with a torn tail `tail` is set too.
    """

    window: Window | None = None
    counts: FileCounts = field(default_factory=FileCounts)
    error: BinlogError | None = None
    offset: int = 0
    tail: TailReport | None = None


class Scanner:
    """Walks `log` from the event at `pos` up to the last one that starts before `stop`.

    `next` returns the steps. After a step with an error the walk is over unless `resume` sets
    where it continues. Used by one thread at a time.
    """

    def __init__(
        self, log: OpenLog, pos: int, stop: int | None, format: EventFormat,
        window_bytes: int, *, verify: bool,
    ) -> None:  # fmt: skip
        self.format = format
        self._log = log
        self._reader = log.reader
        self._pos = pos
        self._stop = stop
        self._window_bytes = window_bytes
        self._verify = verify
        self._capacity = 1024
        self._done = False

    def next(self) -> ScanResult | None:
        """Return the next step; None at the end. Raises SourceError."""
        if self._done or (self._stop is not None and self._pos >= self._stop):
            return None
        wanted = max(self._window_bytes, HEADER_BYTES)
        if self._stop is not None:
            wanted = min(wanted, max(self._stop - self._pos, _MIN_READ_BYTES))
        data = self._reader.read_at(self._pos, wanted)
        result = self._window_of(data)
        if result is None:
            # No whole event: the end of the file, an event longer than the window, or damage.
            rest = self._rest(data)
            if rest is None or isinstance(rest, ScanResult):
                self._done = True
                return rest
            result = self._window_of(rest)
            assert result is not None, "a whole event was read and not taken"
        self._done = result.error is not None
        return result

    def resume(self, offset: int) -> None:
        """Continue at the event at `offset`, after an error."""
        self._pos = offset
        self._done = False

    def _window_of(self, data: bytes) -> ScanResult | None:
        """Return the events of `data`, which begins at `_pos`; None if not one is whole."""
        block = FrameBlock(self._capacity)
        error = self._scan(data, block)
        if self._stop is not None:
            block.truncate(block.find(self._stop))
        if error is None and len(data) == self._window_bytes:  # otherwise the walk ends here
            self._cut(block)
        checked = self._verify and self.format.checksum_bytes > 0
        bad = first_bad(data, self._pos, block, 0, len(block)) if checked else -1
        encrypted = self._locked(block)
        if bad >= 0 and not 0 <= encrypted < bad:
            window = Window(self._log, data, self._pos, block, self.format)
            error = self._bad_checksum(window.frame(bad), window.raw(bad))
            block.truncate(bad)
        elif encrypted >= 0:
            error = self._encrypted(block.frame(encrypted))
            block.truncate(encrypted)
        if not len(block):
            return None if error is None else ScanResult(error=error, offset=self._pos)
        window = Window(self._log, data, self._pos, block, self.format)
        counts = _counts(window, verified=checked)
        self._capacity = len(block) + len(block) // 4 + 16
        self._pos = window.end
        return ScanResult(window, counts, error, self._pos)

    def _cut(self, block: FrameBlock) -> None:
        """Leave a transaction that begins near the end of the window to the next one."""
        codes = bytes(block.type_code)[: len(block)]
        last = max(map(codes.rfind, _BEGINNINGS))
        quarter = self._window_bytes // _LAST_SHARE
        if last > 0 and block.frame(last).offset - self._pos >= self._window_bytes - quarter:
            block.truncate(last)

    def _scan(self, data: bytes, block: FrameBlock) -> BinlogError | None:
        """Fill `block` with events of one format, and set it."""
        if self.format.binlog_version == 1:
            scan_v1(data, self._pos, 0, len(data), block)
            return None
        pos = 0
        while True:
            minimum = HEADER_BYTES + self.format.checksum_bytes
            pos, reason = scan(data, self._pos, pos, len(data), minimum, block)
            if reason != FORMAT:
                return None
            last = len(block) - 1
            frame = block.frame(last)
            raw = memoryview(data)[frame.offset - self._pos : frame.end - self._pos]
            if _begins_log(raw):  # a byte of its timestamp was taken for a type
                block.truncate(last)
                return self._another_log(frame)
            try:
                found = self._log.read_format(frame, raw)
                if self._is_damaged(found, raw) and found != self.format:
                    block.truncate(last)
                    return self._bad_checksum(frame, raw)
            except BinlogError as error:
                block.truncate(last)
                return error
            if found == self.format:
                continue
            if last > 0:  # a window has one format: the next one begins here
                block.truncate(last)
                return None
            self.format = found

    def _is_damaged(self, found: EventFormat, raw: memoryview) -> bool:
        """Whether a FORMAT_DESCRIPTION event has a wrong checksum: then its format is ignored."""
        return (
            self._verify
            and found.checksum_alg is not None
            and stored_crc32(raw) != event_crc32(raw)
        )

    def _rest(self, data: bytes) -> bytes | ScanResult | None:
        """Return why `data`, which begins at `_pos`, contains no whole event.

        Returns the bytes of the event if it is only longer than `data`, None at the end of the
        log, else a step with the error.
        """
        known = self._reader.damage_at(self._pos)
        if known is not None:
            return ScanResult(
                error=known.at(file=self._log.name, event_pos=self._pos), offset=self._pos
            )
        header_bytes = min(HEADER_BYTES, self.format.header_length)
        if len(data) < header_bytes:
            return self._end(data, None)
        # the fields that the shorter headers of version 1 lack are 0
        frame = read_frame(data[:header_bytes].ljust(HEADER_BYTES, b"\0"), self._pos, 0)
        minimum = header_bytes + self.format.checksum_bytes
        if frame.length < minimum:
            if self._only_zeros(data):
                return self._torn("the rest of the file is zero bytes: reserved, never written")
            return self._not_an_event(
                frame, data, f"its length would be {frame.length}, less than that of a header"
            )
        size = self._reader.size
        missing = size is not None and frame.end > size
        if (missing or frame.length > _LONG_EVENT_BYTES) and not self._plausible(frame):
            return self._not_an_event(
                frame, data, f"the bytes declare a length of {frame.length} and a wrong position"
            )
        if not missing:
            whole = self._whole(frame)
            if isinstance(whole, ScanResult) or len(whole) == frame.length:
                return whole
            data = whole
        return self._end(data, frame)

    def _not_an_event(self, frame: Frame, data: bytes, why: str) -> ScanResult:
        """Return the error of bytes that cannot be an event; `why` describes them."""
        error = self._another_log(frame) if _begins_log(data) else self._malformed(frame, why)
        return ScanResult(error=error, offset=frame.offset)

    def _bad_checksum(self, frame: Frame, raw: memoryview) -> BinlogError:
        """Return the error of an event whose checksum is wrong."""
        if _begins_log(raw):
            return self._another_log(frame)
        return checksum_error(self._log, frame, raw)

    def _another_log(self, frame: Frame) -> BinlogError:
        return self._malformed(
            frame,
            "another log begins here; read each log from its own file, not logs written one after the other",
        )

    def _whole(self, frame: Frame) -> bytes | ScanResult:
        """Return the bytes of the event at `_pos`, fewer if the input ends inside it.

        A compressed log can inflate to thousands of times its size. A long event is therefore read
        in steps, each limited by the compressed bytes that were read before.
        """
        allowed = 0
        while True:
            packed = self._reader.packed_bytes
            if packed is None:
                return self._reader.read_at(self._pos, frame.length)
            before, allowed = allowed, self.format.most_inflated + _MOST_INFLATION * packed
            if allowed == before:
                return ScanResult(error=self._inflates_to_much(frame), offset=self._pos)
            data = self._reader.read_at(self._pos, min(frame.length, allowed))
            if len(data) < allowed or len(data) == frame.length:
                return data
            del data  # not held beside the longer one

    def _inflates_to_much(self, frame: Frame) -> BinlogError:
        return UnsupportedError(
            f"the compressed log inflates to an event of {frame.length:,} bytes, which is out of"
            " proportion to its size",
            hint="set the option max_memory to more than four times as much",
            file=self._log.name,
            event_pos=frame.offset,
            event_type=event_name(frame.type_code),
        )

    def _end(self, data: bytes, frame: Frame | None) -> ScanResult | None:
        """Return the end of the file, at or inside the event whose first bytes are `data`."""
        damage = self._reader.damage
        if damage is not None:
            if damage.kind == TORN_TAIL:
                return self._torn(damage.message)
            return ScanResult(
                error=damage.at(file=self._log.name, event_pos=self._pos), offset=self._pos
            )
        if not data:
            return None
        if frame is None:
            return self._torn("the file ends inside the header of an event")
        name = event_name(frame.type_code)
        return self._torn(f"the file ends inside an event of {frame.length} bytes ({name})")

    def _torn(self, message: str) -> ScanResult:
        size = self._reader.size
        assert size is not None, "the end of the file has been seen"
        tail = TailReport(self._pos, size - self._pos, self._log.in_use, message)
        return ScanResult(error=torn_tail_error(self._log, tail), offset=self._pos, tail=tail)

    def _malformed(self, frame: Frame, why: str) -> BinlogError:
        return MalformedError(
            f"not an event: {why}",
            file=self._log.name,
            event_pos=frame.offset,
            field="event length",
        )

    def _locked(self, block: FrameBlock) -> int:
        """Return the first START_ENCRYPTION for which there is no key; -1 if there is none.

        An ignorable one comes from a server, which decrypts the log before sending it.
        """
        codes = bytes(block.type_code)[: len(block)]
        at = codes.find(START_ENCRYPTION_EVENT)
        while at >= 0:
            frame = block.frame(at)
            opened = frame.end == self._log.encrypted_from and self._log.locked is None
            if not opened and not frame.flags & LOG_EVENT_IGNORABLE_F:
                return at
            at = codes.find(START_ENCRYPTION_EVENT, at + 1)
        return -1

    def _encrypted(self, frame: Frame) -> BinlogError:
        if frame.end == self._log.encrypted_from and self._log.locked is not None:
            return self._log.locked
        return UnsupportedError(
            "encryption begins here, but not directly after the format description",
            file=self._log.name,
            event_pos=frame.offset,
            event_type=event_name(frame.type_code),
        )

    def _plausible(self, frame: Frame) -> bool:
        """Whether the header of an incomplete event is valid: a known type, a right log_pos."""
        if frame.type_code not in EVENT_TYPES or frame.type_code == 0:
            return False
        if self._log.is_relay or self.format.version < _LOG_POS_SINCE:
            return True
        return frame.log_pos in (0, frame.end & 0xFFFFFFFF)

    def _only_zeros(self, data: bytes) -> bool:
        """Whether there are only zero bytes from here to the end of the file."""
        pos = self._pos
        while data:
            if data.count(0) != len(data):
                return False
            pos += len(data)
            data = self._reader.read_at(pos, self._window_bytes)
        return self._reader.damage is None


def _begins_log(data: bytes | memoryview) -> bool:
    """Whether bytes are the beginning of a log, and not an event whose timestamp equals the magic."""
    if bytes(data[: len(BINLOG_MAGIC)]) != BINLOG_MAGIC:
        return False
    return bytes(data[_FIRST_TYPE : _FIRST_TYPE + 1]) == bytes((FORMAT_DESCRIPTION_EVENT,))


def torn_tail_error(log: OpenLog, tail: TailReport) -> TruncatedError:
    """Return the error for a torn tail of a file that is not in use."""
    # offset 0 is no event: the file ends before the first one is complete
    return TruncatedError(
        tail.message, file=log.name, event_pos=tail.offset or None, kind=TORN_TAIL, have=tail.size
    )


def _counts(window: Window, *, verified: bool) -> FileCounts:
    types = window.block.types(0, len(window))
    # the magic counts with the first event: a file's bytes add up to its length
    start = 0 if window.start == FIRST_EVENT else window.start
    counts = FileCounts(bytes=window.end - start)
    counts.events_by_type.update({code: n for code, n in enumerate(types) if n})
    if verified:
        counts.verified = len(window)
    else:
        counts.unchecked = len(window)
    return counts


def steps(scanner: Scanner, *, ahead: bool) -> Iterator[ScanResult]:
    """The scanner's steps, one of them made ahead by a second thread.

    The walk stops at an error until the caller has settled it, so nothing is read ahead then.
    Closing the iterator waits for the current step only.
    """
    if not ahead:
        while (result := scanner.next()) is not None:
            yield result
        return
    wanted: SimpleQueue[bool] = SimpleQueue()
    made: SimpleQueue[ScanResult | Exception | None] = SimpleQueue()
    thread = Background(partial(_scan, scanner, wanted, made), "binlake-scan")
    try:
        wanted.put(True)
        while (found := thread.get(made)) is not None:
            if isinstance(found, Exception):
                raise found
            if found.error is None:
                wanted.put(True)
                yield found
            else:
                yield found
                wanted.put(True)
    finally:
        wanted.put(False)
        thread.join()


def _scan(
    scanner: Scanner,
    wanted: SimpleQueue[bool],
    made: SimpleQueue[ScanResult | Exception | None],
) -> None:
    """Make a step of the scanner for each True in `wanted`."""
    try:
        while wanted.get():
            made.put(scanner.next())
    except Exception as error:  # noqa: BLE001 - raised where the result is taken
        made.put(error)
