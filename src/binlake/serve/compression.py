"""The compressed protocol, from the server's side: packets within packets, zlib or zstd.

    length as sent (3), sequence (1), length inflated (3; 0: not compressed), bytes

Layout: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html. The
content is the bytes of plain packets, cut anywhere. Compressed packets have their own numbers,
which start again with each command.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

from binlake.errors import ServerError
from binlake.serve.answers import NET_PACKET_TOO_LARGE
from binlake.source.replica.receiver import COMPRESSED_HEADER, compressed_packet, inflated

_PIECE_BYTES = 1 << 20  # the size of one packet: a window of events
_ZLIB_LEVEL = 6
_MOST_LEVEL = 9
_DAMAGED = 1157  # ER_NET_UNCOMPRESS_ERROR


class Compression:
    """The compression of one connection; `algorithm` is zlib or zstd. `level`, for zstd, is the
    client's choice, up to `_MOST_LEVEL`: higher levels take much memory and time of the server.
    """

    def __init__(self, algorithm: str, level: int = 3) -> None:
        self.algorithm = algorithm
        self._sequence = 0
        self._held = bytearray()
        self._at = 0
        if algorithm == "zstd":
            packer = zstandard.ZstdCompressor(level=min(max(level, 1), _MOST_LEVEL))
            self._pack: Callable[[bytes], bytes] = packer.compress
            self._unpacker: zstandard.ZstdDecompressor | None = zstandard.ZstdDecompressor()
        else:
            self._pack = lambda data: zlib.compress(data, _ZLIB_LEVEL)
            self._unpacker = None

    @property
    def held(self) -> int:
        """How many bytes have been received and not taken."""
        return len(self._held) - self._at

    def packed(self, packets: bytes | bytearray) -> bytes:
        """Packets, compressed."""
        out = bytearray()
        for at in range(0, len(packets), _PIECE_BYTES):
            piece = bytes(packets[at : at + _PIECE_BYTES])
            out += compressed_packet(piece, self._sequence, self._pack)
            self._sequence = self._sequence + 1 & 0xFF
        return bytes(out)

    def take(self, count: int, receive: Callable[[int], bytes], max_bytes: int) -> bytes:
        """Return the next `count` bytes of plain packets; `receive` returns that many of the sent
        bytes.

        Raises the errors of `receive`; ServerError for damaged data and for data that is larger
        than `max_bytes` when inflated, before allocating memory for it.
        """
        while self.held < count:
            head = receive(COMPRESSED_HEADER.size)
            low, high, sequence, size_low, size_high = COMPRESSED_HEADER.unpack(head)
            length, size = low | high << 16, size_low | size_high << 16
            if max(length, size) > max_bytes:
                raise ServerError(
                    f"a compressed packet of {max(length, size)} bytes exceeds the limit of"
                    f" {max_bytes} bytes",
                    code=NET_PACKET_TOO_LARGE, sqlstate="08S01",
                )  # fmt: skip
            self._sequence = sequence + 1 & 0xFF
            data = receive(length)
            del self._held[: self._at]
            self._at = 0
            self._held += self._inflated(data, size) if size else data
        self._at += count
        return bytes(self._held[self._at - count : self._at])

    def _inflated(self, data: bytes, size: int) -> bytes:
        try:
            return inflated(data, size, self._unpacker)
        except ValueError:
            raise ServerError(
                "Could not uncompress communication packet", code=_DAMAGED, sqlstate="08S01"
            ) from None
