"""Packets: reading them from a stream, and making them.

A payload of 2**24 - 1 bytes or more is split; every packet of exactly that length continues in the
next, which may be empty. Both directions: `PacketReader` is the client's, `framed` and
`event_packet` are a source's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binlake.core.events.packets import FULL, PACKET_HEADER_BYTES, SPECIAL, copy_events
from binlake.errors import ServerError
from binlake.format.event_header import HEADER_BYTES, LENGTH_AT, U32
from binlake.format.protocol import MAX_PACKET_BYTES
from binlake.source.replica.commands import ACK_FLAG, SEMI_SYNC_MAGIC
from binlake.source.replica.receiver import Receiver

OK_STATUS = 0x00
ERROR_STATUS = 0xFF
EOF_STATUS = 0xFE

_MAX_EOF_BYTES = 9
_MAX_OTHER_BYTES = 64 << 10  # an ERR packet is a sentence


class Answer(NamedTuple):
    """One packet of a stream that is not a plain event: `status` is OK_STATUS with an event,
    ERROR_STATUS with an ERR packet, EOF_STATUS with nothing. `wants_ack`: the source waits for an
    acknowledgement.
    """

    status: int
    raw: bytes
    wants_ack: bool = False


class PacketReader:
    """Takes the packets of a stream out of a receiver.

    `plain[type]` is not 0 for event types that need no inspection. With `semi_sync` two more bytes
    precede each event. An event longer than `max_event_bytes` is refused.
    """

    def __init__(
        self, receiver: Receiver, plain: bytes, max_event_bytes: int, *, semi_sync: bool
    ) -> None:
        self.receiver = receiver
        self._plain = plain
        self._wrapped = 3 if semi_sync else 1
        self._max_event_bytes = max_event_bytes

    def copy_plain(self, out: bytearray, out_pos: int, offset: int) -> tuple[int, int]:
        """Copy plain received events to `out[out_pos:]`; return the next out_pos, and why that
        ended.

        `offset` is where the next event lies in the source's file. Receives nothing.
        """
        receiver = self.receiver
        receiver.start, out_pos, reason = copy_events(
            receiver.data, receiver.start, receiver.end, out, out_pos, offset,
            self._wrapped, self._plain,
        )  # fmt: skip
        if reason == FULL and not out_pos:
            reason = SPECIAL  # longer than the whole of `out`: taken as one event
        return out_pos, reason

    def has_whole(self) -> bool:
        """Whether the next packet is complete."""
        receiver = self.receiver
        if receiver.held < PACKET_HEADER_BYTES:
            return False
        head = receiver.data[receiver.start : receiver.start + 3]
        return receiver.held - PACKET_HEADER_BYTES >= int.from_bytes(head, "little")

    def take(self) -> Answer:
        """Return the next packet; receive the missing rest. Raises ServerError, OSError."""
        receiver = self.receiver
        size = self._header()
        if size == 0:
            raise ServerError("the source sends an empty packet")
        status = receiver.take(1)[0]
        left = size - 1
        if status == ERROR_STATUS or (status == EOF_STATUS and size < _MAX_EOF_BYTES):
            if size > _MAX_OTHER_BYTES:
                raise ServerError(f"the source sends an error of {size} bytes")
            return Answer(status, bytes([status]) + receiver.take(left))
        if status != OK_STATUS:
            raise ServerError(f"the source sends a packet with the unknown status 0x{status:02x}")
        wants_ack = False
        if self._wrapped == 3:
            if left < 2 or (mark := receiver.take(2))[0] != SEMI_SYNC_MAGIC:
                raise ServerError(
                    "the source announced semi-synchronous replication, but does not use it"
                )
            wants_ack = mark[1] == ACK_FLAG
            left -= 2
        return Answer(OK_STATUS, self._event(left, size), wants_ack)

    def _header(self) -> int:
        head = self.receiver.take(PACKET_HEADER_BYTES)
        return head[0] | head[1] << 8 | head[2] << 16

    def _event(self, size: int, packet_bytes: int) -> bytes:
        """Return an event of which `size` bytes are in the current packet of `packet_bytes`, perhaps more in the
        next.
        """
        goes_on = packet_bytes == MAX_PACKET_BYTES
        if size < HEADER_BYTES:
            raise ServerError(f"the source sends an event of {size} bytes")
        head = self.receiver.take(HEADER_BYTES)
        (length,) = U32.unpack_from(head, LENGTH_AT)
        if length > self._max_event_bytes:
            raise ServerError(
                f"the source sends an event of {length} bytes, more than the "
                f"{self._max_event_bytes} that are taken"
            )
        pieces, have = [head], HEADER_BYTES
        part = size - HEADER_BYTES
        while True:
            if have + part > length:
                break
            pieces.append(self.receiver.take(part))
            have += part
            most = self.receiver.most_inflated
            if most is not None and have > most:
                raise ServerError(
                    f"the source sends an event of {length} bytes, which is out of proportion to "
                    "the bytes of the compressed connection",
                    hint="connect without the option compress",
                )
            if not goes_on:
                break
            part = self._header()
            goes_on = part == MAX_PACKET_BYTES
        if have != length or have + (part if goes_on else 0) > length:
            raise ServerError(
                f"the source sends an event whose header declares a wrong length of {length} bytes"
            )
        return b"".join(pieces)


def framed(payload: bytes | memoryview, sequence: int = 0) -> Iterator[bytes | memoryview]:
    """Return the packets of a payload, headers and pieces of it, in the order of sending."""
    view = memoryview(payload)
    at = 0
    while True:
        piece = view[at : at + MAX_PACKET_BYTES]
        yield len(piece).to_bytes(3, "little") + bytes([sequence & 0xFF])
        yield piece
        at += len(piece)
        sequence += 1
        if len(piece) < MAX_PACKET_BYTES:
            return


def event_packet(
    event: bytes | memoryview, sequence: int, *, semi_sync: bool = False, wants_ack: bool = False
) -> bytes:
    """Return an event as a source sends it, whole packets with their headers."""
    mark = bytes([OK_STATUS]) + (
        bytes([SEMI_SYNC_MAGIC, ACK_FLAG * wants_ack]) if semi_sync else b""
    )
    return b"".join(framed(mark + bytes(event), sequence))
