"""The events inside a TRANSACTION_PAYLOAD event, as windows of their own.

A payload is inflated as a stream into windows of whole events, so a payload of gigabytes takes the
memory of one window. Its events carry no checksums whatever the format says, and their offsets
count from the start of the inflated payload.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from binlake.core.events.frames import BAD_LENGTH, MORE, FrameBlock, read_frame, scan
from binlake.core.events.inflate import refuse_inflated
from binlake.errors import BinlogError, MalformedError, TruncatedError, UnsupportedError
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.format.event_header import HEADER_BYTES
from binlake.source.window import OpenLog, Window
from binlake.stream.event_at import event_at
from binlake.values.frame import EventFormat

#: Inflated bytes that make a window.
WINDOW_BYTES = 4 << 20

# The largest event that a server can write. binlake refuses a larger declared size as corrupt,
# before it allocates memory for it.
_EVENT_BYTES_MAX = 1 << 30
# Rows compress to a tenth or a hundredth of their size. A payload that inflates to more is limited
# by max_memory, since a file of a few bytes must not cost minutes.
_RATIO = 100


def inner_format(fmt: EventFormat) -> EventFormat:
    """The format of events inside a payload: 19-byte headers, no checksums."""
    return replace(fmt, checksum_bytes=0, header_length=HEADER_BYTES)


def inner_windows(window: Window, index: int) -> Iterator[Window]:
    """Inflate the payload event that is frame `index`, and yield its events window by window.

    Raises FormatError with the position of the payload event: MalformedError for corrupt data, a
    size larger than that of any event, or a payload within a payload; TruncatedError if the
    payload ends inside an event.
    """
    outer = window.frame(index)
    event = event_at(window, index)
    if not isinstance(event, TransactionPayloadEvent):
        raise MalformedError("not a transaction payload", event_pos=outer.offset)
    try:
        yield from _windows(event, window.file, inner_format(window.format))
    except BinlogError as error:
        raise error.at(
            file=window.file.name, event_pos=outer.offset, event_type=event.name, field="payload"
        ) from None


def _windows(event: TransactionPayloadEvent, file: OpenLog, fmt: EventFormat) -> Iterator[Window]:
    base = 0
    pending: list[
        bytes | memoryview
    ] = []  # joined once for each window: every copy of a gigabyte takes time
    pending_bytes = 0
    wanted = WINDOW_BYTES
    inflated = 0
    allowed = fmt.max_memory + _RATIO * event.payload_size
    for chunk in event.inflate():
        inflated += len(chunk)
        if inflated > allowed:
            raise UnsupportedError(
                f"{event.payload_size:,} compressed bytes inflate to more than {allowed:,}",
                hint="set the option max_memory to at least the size of the transaction",
            )
        pending.append(chunk)
        pending_bytes += len(chunk)
        if pending_bytes < wanted:
            continue
        data = b"".join(pending)
        taken = yield from _scan(data, base, file, fmt)
        base += taken
        rest = data[taken:]
        pending, pending_bytes = [rest], len(rest)
        wanted = max(WINDOW_BYTES, _bytes_of_next(rest, base, fmt.most_inflated))
    data = b"".join(pending)
    taken = yield from _scan(data, base, file, fmt)
    if taken < len(data):
        raise TruncatedError(
            "the payload ends inside an event",
            need=_bytes_of_next(data[taken:], base + taken, fmt.most_inflated),
            have=len(data) - taken,
            offset=base + taken,
        )


def _scan(data: bytes, base: int, file: OpenLog, fmt: EventFormat) -> Generator[Window, None, int]:
    """Yield the whole events of `data` as windows; return their total size."""
    pos = 0
    while True:
        block = FrameBlock()
        pos, why = scan(data, base, pos, len(data), HEADER_BYTES, block)
        if len(block):
            yield Window(file, data, base, block, fmt)
        if why == BAD_LENGTH:
            raise MalformedError(
                "an event in the payload is shorter than a header", offset=base + pos
            )
        if why == MORE:
            return pos


def _bytes_of_next(data: bytes, base: int, most: int) -> int:
    """Return the length of the event at the start of `data`, as far as it is known.

    Raises MalformedError, and UnsupportedError for an event of more than `most` bytes.
    """
    if len(data) < HEADER_BYTES:
        return HEADER_BYTES
    length = read_frame(memoryview(data), base, 0).length
    if length > _EVENT_BYTES_MAX:
        raise MalformedError(f"an event in the payload declares {length} bytes", offset=base)
    refuse_inflated(length, most)
    return length
