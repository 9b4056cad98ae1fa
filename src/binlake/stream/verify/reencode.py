"""Decode events, encode them again, and compare the result with the log.

Everything must come out byte for byte, including header and checksum. The exception is compressed
statements (QUERY_COMPRESSED): another zlib compresses the statement differently, so the inflated
text is compared. A transaction payload is compared as a whole, and so is every event in it. The
table room compares row images (`RowCheck`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from binlake.errors import BinlogError
from binlake.events.base import Event
from binlake.events.body.encoding import encode_event
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.registry import decode_event
from binlake.format import event_types as types
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.event_types import Role, event_name
from binlake.source.access import DEFAULT_ACCESS, Access
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.stream.verify.bodies import no_images
from binlake.stream.verify.log_file import LISTED_BAD
from binlake.stream.verify.problems import Kind, Problem

if TYPE_CHECKING:
    from binlake.source.chain import LogPath
    from binlake.source.window import Window
    from binlake.stream.verify.log_file import FileReport

#: Takes the windows of one log in order, and returns the problems of the row images in each.
RowCheck = Callable[["Window"], Iterator[Problem]]

_SHOWN_BYTES = 8


class Reencoding:
    """A check of `verify`: decodes and encodes all events of a file, even a damaged one.

    `rows` makes, for every file, the check of row images; `access` opens it. `events` counts the
    events that came out the same, over all files.
    """

    def __init__(
        self, rows: Callable[[], RowCheck] = lambda: no_images, access: Access = DEFAULT_ACCESS
    ) -> None:
        self.events = 0
        self._rows = rows
        self._access = access

    def __call__(self, path: LogPath, ordinal: int, report: FileReport) -> None:
        """Add differences to the report. It already contains events that cannot be read or have
        problems.
        """
        known = {problem.pos for problem in report.problems if problem.kind is not Kind.IN_USE}
        try:
            log = self._access.open(path, ordinal)
        except BinlogError:
            return
        found = 0
        rows, inside = self._rows(), self._rows()
        with log, suppress(BinlogError):
            for window in log.windows(verify=False):
                problems = [
                    p for p in reencode_problems(window, rows, inside) if p.pos not in known
                ]
                report.problems += problems[: max(LISTED_BAD - found, 0)]
                found += len(problems)
                self.events += len(window) - len({problem.pos for problem in problems})
        if found > LISTED_BAD:
            last = report.problems[-1].pos
            report.add(last, Kind.REENCODED, f"{found - LISTED_BAD} more events after it")


def reencode_problems(
    window: Window, rows: RowCheck = no_images, inside: RowCheck = no_images
) -> Iterator[Problem]:
    """Yield the events of a window that do not decode, or that differ when they are encoded again.

    `rows` checks the row images of the window, `inside` those in its payloads: a transaction may
    continue in the next window, with whole ones in between.
    """
    yield from rows(window)
    for index in range(len(window)):
        frame = window.frame(index)
        try:
            message = _difference(window, index)
        except BinlogError as error:
            yield Problem(frame.offset, Kind.BAD_EVENT, _named(window, index, error.message))
            continue
        if message is not None:
            yield Problem(frame.offset, Kind.REENCODED, _named(window, index, message))
        if frame.type_code == types.TRANSACTION_PAYLOAD_EVENT:
            yield from _inside(window, index, inside)


def _inside(window: Window, index: int, rows: RowCheck) -> Iterator[Problem]:
    """The problems of the events in a payload, at the payload's place."""
    offset = window.frame(index).offset
    try:
        for inner in inner_windows(window, index):
            for problem in reencode_problems(inner, rows):
                message = f"in the payload at {problem.pos}: {problem.message}"
                yield Problem(offset, problem.kind, message)
    except BinlogError as error:
        yield Problem(offset, Kind.BAD_EVENT, _named(window, index, error.message))


def _named(window: Window, index: int, message: str) -> str:
    return f"{event_name(window.frame(index).type_code)}: {message}"


def _difference(window: Window, index: int) -> str | None:
    """Return where an event that is encoded again differs from its bytes; None: nowhere."""
    event = event_at(window, index)
    raw = bytes(window.raw(index))
    # the checksum of a format description is part of its body
    tail_bytes = 0 if isinstance(event, FormatDescriptionEvent) else window.format.checksum_bytes
    header_bytes = len(raw) - len(window.body(index)) - tail_bytes
    again = encode_event(event, window.format, raw[HEADER_BYTES:header_bytes])
    if again == raw:
        return None
    # a wrong stored checksum is another problem, with its own report
    if _without_checksum(again, event, window) == _without_checksum(raw, event, window):
        return None
    if _is_deflated(event):
        body = again[header_bytes : len(again) - tail_bytes]
        if decode_event(event.frame, body, window.format) == event:
            return None
    shorter = min(len(again), len(raw))
    at = next((i for i in range(shorter) if again[i] != raw[i]), shorter)
    stored, made = (each[at : at + _SHOWN_BYTES].hex() or "nothing" for each in (raw, again))
    return f"encoded again, it differs from byte {at} on (stored {stored}, encoded {made})"


def _without_checksum(raw: bytes, event: Event, window: Window) -> bytes:
    if isinstance(event, FormatDescriptionEvent):
        return raw if event.checksum_alg is None else raw[:-CHECKSUM_BYTES]
    return raw[: len(raw) - window.format.checksum_bytes]


def _is_deflated(event: Event) -> bool:
    """Whether encoding the event compresses: rows and payloads keep the bytes that they have."""
    known = types.EVENT_TYPES.get(event.frame.type_code)
    return known is not None and known.compressed and known.role is Role.QUERY
