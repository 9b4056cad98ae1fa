"""The stream of events to one replica, until it disconnects, the log cannot continue, or the
server stops.

All events of a window leave in one write: the packets' headers are put between them, and the
events are not changed. Only that write waits for a slow replica.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from contextlib import closing
from dataclasses import dataclass

from binlake.errors import FormatError, PeerGoneError
from binlake.events.common.rotate import RotateEvent
from binlake.format.event_types import ROTATE_EVENT
from binlake.format.magic import FIRST_EVENT
from binlake.format.protocol import MAX_PACKET_BYTES
from binlake.serve import made_up
from binlake.serve.answers import MALFORMED_PACKET, SERVER_SHUTDOWN, eof, lost, refused
from binlake.serve.channel import Channel
from binlake.serve.library import Library
from binlake.serve.mariadb_selection import MariadbSelection
from binlake.serve.pages import CaughtUp, Opened, pages
from binlake.serve.start import Start
from binlake.source.replica.commands import ACK_FLAG, SEMI_SYNC_MAGIC, Ack
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.values.frame import EventFormat

_MAX_ACK_BYTES = 1024
_ACK_SECONDS = 10.0
_COM_QUIT = 1
# How often a waiting stream checks whether its replica is still there.
_LOOK_SECONDS = 1.0
_SEQUENCES = [number << 24 for number in range(256)]
_HEAD = struct.Struct("<I").pack


@dataclass(slots=True)
class DumpProgress:
    """The progress of one replica, for status lines and metrics. `acknowledged` is its last ACK."""

    file: str = ""
    position: int = 0
    events: int = 0
    bytes: int = 0
    heartbeats: int = 0
    acknowledged: str = ""
    acks: int = 0


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """The request of a replica. `checksums`: it supports checksums, and the first announcement has
    one (`first_checksum`). Without `heartbeat_seconds` it gets no heartbeats.
    """

    start: Start
    non_blocking: bool = False
    heartbeat_seconds: float = 0
    heartbeat_v2: bool = False
    checksums: bool = False
    first_checksum: bool = False
    semi_sync: bool = False


class EventStream:
    """One stream, in its connection's thread. `stop` may be set by any other."""

    def __init__(
        self,
        channel: Channel,
        library: Library,
        request: DumpRequest,
        server_id: int,
        progress: DumpProgress,
        stop: threading.Event,
    ) -> None:
        self._channel = channel
        self._library = library
        self._request = request
        self._selection = request.start.selection
        self._server_id = server_id
        self._progress = progress
        self._stop = stop
        self._format: EventFormat | None = None
        self._entered = False
        self._out: list[bytes] = []
        self._sent_at = time.monotonic()
        self._passed = 0  # the replica does not know the events before this position

    def run(self) -> None:
        """Send until the requested end. Raises PeerGoneError, BinlogError; ServerError when
        stopped.
        """
        start = self._request.start
        with closing(pages(self._library, start.name, start.position)) as all_pages:
            for page in all_pages:
                if isinstance(page, Opened):
                    self._open(page)
                    if self._nothing_left(page):
                        break
                elif isinstance(page, CaughtUp):
                    self._send_position(page.position)
                    self._flush()
                    if self._request.non_blocking:
                        break
                    self._wait(page)
                else:
                    self._send_window(page)
                    if self._selection.is_over:
                        break
                self._listen()
        self._flush()
        self._channel.write(eof())

    # -- sending -----------------------------------------------------------------------------------

    def _open(self, page: Opened) -> None:
        request, format = self._request, page.format
        if format.checksum_bytes and not request.checksums:
            raise lost(
                "Slave can not handle replication events with the checksum that master is"
                " configured"
                f" to log; the first event is in {page.name} (the replica did not set"
                " @source_binlog_checksum or @master_binlog_checksum)"
            )
        self._send_position(self._progress.position)
        checksums = made_up.with_checksums if request.first_checksum else made_up.without_checksums
        before = self._format or checksums(format)
        self._add(made_up.rotate(before, self._server_id, page.name, page.position))
        head_bytes = FIRST_EVENT + len(page.head)
        entered = page.position > FIRST_EVENT
        created = not entered and (self._entered or not request.start.by_gtid)
        self._add(made_up.format_description(page.head, format, entered=entered, created=created))
        self._entered = True
        self._format = format
        self._progress.file, self._progress.position = page.name, max(page.position, head_bytes)
        file = self._library.find(page.name)
        head = None if file is None else self._library.head(file)
        self._selection.begin(None if head is None or entered else head.before)
        self._flush()

    def _nothing_left(self, page: Opened) -> bool:
        """Whether UNTIL lies before the start."""
        selection = self._selection
        if not isinstance(selection, MariadbSelection) or not selection.is_nothing_left:
            return False
        self._add(selection.farewell(page.format, self._progress.position))
        return True

    def _send_window(self, window: Window) -> None:
        self._format = window.format
        reached = 0
        for part in self._selection.parts(window):
            if part.first > reached:
                self._passed = window.frame(part.first - 1).end
            if part.made is not None:
                self._add(part.made)
            elif part.first < part.last:
                self._send_position(window.frame(part.first).offset)
                self._add_events(window, part.first, part.last)
            reached = part.last
        if reached < len(window):
            self._passed = window.end
        self._stand_behind(window)
        self._flush()
        period = self._request.heartbeat_seconds
        if self._passed and period and time.monotonic() - self._sent_at > period:
            self._send_position(window.end)
            self._flush()

    def _stand_behind(self, window: Window) -> None:
        """Tell the replica its position. A ROTATE moves it to the next file, which may come later."""
        progress, last = self._progress, len(window) - 1
        progress.position = window.end
        if window.block.type_code[last] == ROTATE_EVENT and not self._passed:
            event = event_at(window, last)
            assert isinstance(event, RotateEvent)
            progress.file, progress.position = event.next_file, event.position

    def _add_events(self, window: Window, first: int, last: int) -> None:
        """Send events unchanged: a packet's header, the status byte, the event."""
        data, block = window.data, window.block
        lengths = memoryview(block.length[first:last]).tolist()
        progress, channel = self._progress, self._channel
        progress.events += last - first
        prefix = self._prefix
        overhead = len(prefix)
        position = block.offset[first] - window.base
        if max(lengths) + overhead >= MAX_PACKET_BYTES:
            for length in lengths:
                self._add(data[position : position + length])
                position += length
            return
        sequences = itertools.islice(itertools.cycle(_SEQUENCES), channel.sequence, None)
        out = self._out
        for length, sequence in zip(lengths, sequences, strict=False):
            out.append(_HEAD(length + overhead | sequence) + prefix)
            out.append(data[position : position + length])
            position += length
        channel.sequence = channel.sequence + len(lengths) & 0xFF
        # An ACK of the last event covers all before it. Compressed packets would have to end with
        # it, since it makes both sides restart their counts: so with compression none is
        # requested.
        if self._request.semi_sync and not channel.compression:
            out[-2] = out[-2][:-1] + bytes((ACK_FLAG,))
            channel.sequence = 1  # both sides restart their counts then: the ACK has the number 0

    def _add(self, event: bytes) -> None:
        self._out.append(self._channel.packets(self._prefix + event))

    @property
    def _prefix(self) -> bytes:
        """Return the bytes before an event in its packet: the status, and with semi-sync the
        request for an ACK.
        """
        return bytes((0, SEMI_SYNC_MAGIC, 0)) if self._request.semi_sync else b"\0"

    def _flush(self) -> None:
        if not self._out:
            return
        block = b"".join(self._out)
        self._out.clear()
        self._channel.send(block)
        self._progress.bytes += len(block)
        self._sent_at = time.monotonic()

    def _send_position(self, position: int) -> None:
        """Send the position, as a heartbeat, to a replica that counts events and did not get the last ones."""
        passed, self._passed = self._passed, 0
        if passed and not self._selection.passes_silently:
            self._heartbeat(position)

    def _heartbeat(self, position: int) -> None:
        assert self._format is not None
        make = made_up.heartbeat_v2 if self._request.heartbeat_v2 else made_up.heartbeat
        self._add(make(self._format, self._server_id, self._progress.file, position))
        self._progress.heartbeats += 1

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, page: CaughtUp) -> None:
        """Wait until the library has changed; send heartbeats meanwhile."""
        period = self._request.heartbeat_seconds
        while self._library.version == page.version:
            self._listen()
            left = self._sent_at + period - time.monotonic() if period else _LOOK_SECONDS
            if left <= 0 and self._format is not None:
                self._heartbeat(self._progress.position)
                self._flush()
                continue
            self._library.wait(page.version, min(max(left, 0.001), _LOOK_SECONDS))

    def _listen(self) -> None:
        """Read the replica's packets, which are ACKs or its farewell. Raises ServerError when
        stopped.
        """
        if self._stop.is_set():
            raise refused(SERVER_SHUTDOWN, "08S01", "binlake serve is shutting down")
        while self._channel.has_input():
            sequence = self._channel.sequence
            said = self._channel.read(_MAX_ACK_BYTES, time.monotonic() + _ACK_SECONDS)
            self._channel.sequence = sequence
            if said[:1] == bytes((SEMI_SYNC_MAGIC,)):
                self._acknowledge(said)
            elif said[:1] == bytes((_COM_QUIT,)):
                raise PeerGoneError("left")
            else:
                raise refused(MALFORMED_PACKET, "HY000", "Malformed communication packet")

    def _acknowledge(self, said: bytes) -> None:
        try:
            ack = Ack.decode(said)
        except FormatError:
            raise refused(MALFORMED_PACKET, "HY000", "Malformed communication packet") from None
        self._progress.acks += 1
        self._progress.acknowledged = f"{ack.file}:{ack.offset}"
