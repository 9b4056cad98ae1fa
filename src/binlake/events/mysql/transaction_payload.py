"""TRANSACTION_PAYLOAD_EVENT (40): a whole transaction, compressed (MySQL 8.0.20).

Source: libs/mysql/binlog/event/codecs/binary.cpp, Transaction_payload. The FDE
lists a post-header of 40 bytes for it; there is none. MariaDB: no such event.
Body: fields of lenenc type, lenenc length, value, until type 0; then the payload:
    1  payload size
    2  compression         0 = zstd, 255 = none
    3  uncompressed size   advisory
The payload is one or more zstd frames; inside are whole events from BEGIN to XID, with
19-byte headers, log_pos 0 and no checksums whatever the FDE says. Payloads do not nest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import zstandard

from binlake.core.memory.cursor import Cursor
from binlake.errors import FormatError, MalformedError, UnsupportedError
from binlake.events.base import HIDDEN, Event
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter, lenenc_bytes
from binlake.values.frame import EventFormat, Frame

_END = 0
_SIZE = 1
_COMPRESSION = 2
_UNCOMPRESSED_SIZE = 3

#: The names of the compressions, by their numbers in the log.
COMPRESSIONS = {0: "ZSTD", 255: "NONE"}

#: The largest zstd window that is accepted. The server compresses at levels 1 to 22, whose
#: windows are at most 128 MiB; a larger window is an attack on memory.
MAX_WINDOW_BYTES = 1 << 27

_INPUT_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 20

_RLE_BLOCK = 1
_RESERVED_BLOCK = 3
_ZSTD_CHECKSUM_BYTES = 4


@dataclass(slots=True)
class TransactionPayloadEvent(Event):
    """A compressed transaction; `inflate` gives its events' bytes.

    `payload` is a view of the decoded buffer, `payload_size` its length in bytes.
    `uncompressed_size` is what the header claims (None when it does not), never trusted. `fields`
    are the header's as (type, value), in its order, those of later servers among them; the value
    of one that is known is in its own field, and b"" here.
    """

    renders = {
        "compression": lambda value: COMPRESSIONS.get(value, f"UNKNOWN_{value}"),
        "fields": HIDDEN,
        "payload": HIDDEN,
    }
    extra_fields = ("payload_size",)

    compression: int
    uncompressed_size: int | None
    fields: tuple[tuple[int, bytes], ...]
    payload: memoryview

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        size: int | None = None
        compression = 255  # the defaults of missing fields
        uncompressed: int | None = None
        fields: list[tuple[int, bytes]] = []
        while True:
            kind = reader.lenenc("field_type")
            if kind == _END:
                break
            value = b""
            with reader.block("field_value", reader.at("field_length").length()):
                if kind == _SIZE:
                    size = reader.lenenc("payload_size")
                elif kind == _COMPRESSION:
                    compression = reader.lenenc("compression")
                elif kind == _UNCOMPRESSED_SIZE:
                    uncompressed = reader.lenenc("uncompressed_size")
                else:
                    value = reader.rest("field_value")
            fields.append((kind, value))
        with reader.block("payload", reader.left if size is None else size):
            payload = reader.rest_view("payload")
        return cls(frame, compression, uncompressed, tuple(fields), payload)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        known = {
            _SIZE: self.payload.nbytes,
            _COMPRESSION: self.compression,
            _UNCOMPRESSED_SIZE: self.uncompressed_size or 0,
        }
        for kind, value in self.fields:
            writer.lenenc("field_type", kind)
            writer.counted("field_value", lenenc_bytes(known[kind]) if kind in known else value)
        writer.lenenc("field_type", _END)
        writer.rest("payload", self.payload)

    @property
    def payload_size(self) -> int:
        """Size of the payload in the log, in bytes."""
        return self.payload.nbytes

    def inflate(self, max_window_bytes: int = MAX_WINDOW_BYTES) -> Iterator[memoryview | bytes]:
        """The payload's events as chunks of at most 1 MiB, in order, decompressed as asked for.

        Memory is bounded by the zstd window (`max_window_bytes`) whatever the payload claims.
        Raises MalformedError for corrupt or trailing data, TruncatedError for a frame that
        does not end, UnsupportedError for an unknown compression.
        """
        if self.compression == 255:
            return _slices(self.payload)
        if self.compression != 0:
            raise UnsupportedError(
                f"unknown payload compression {self.compression}",
                event_pos=self.frame.offset,
                event_type=self.name,
            )
        return self._inflate_zstd(max_window_bytes)

    def _inflate_zstd(self, max_window_bytes: int) -> Iterator[bytes]:
        try:
            yield from _zstd_frames(self.payload, max_window_bytes)
        except FormatError as error:
            error.at(event_pos=self.frame.offset, event_type=self.name, field="payload")
            raise


def _slices(payload: memoryview) -> Iterator[memoryview]:
    for start in range(0, payload.nbytes, _OUTPUT_BYTES):
        yield payload[start : start + _OUTPUT_BYTES]


def _zstd_frames(payload: memoryview, max_window_bytes: int) -> Iterator[bytes]:
    # Read through a stream, not a decompressobj: the stream bounds what one read returns, so
    # a small payload that inflates to gigabytes costs no more memory than any other. It takes
    # a frame that is cut for the end, though: the frames are walked first.
    _check_zstd_frames(payload)
    decompressor = zstandard.ZstdDecompressor(max_window_size=max_window_bytes)
    try:
        with decompressor.stream_reader(
            payload, read_size=_INPUT_BYTES, read_across_frames=True
        ) as stream:
            while chunk := stream.read(_OUTPUT_BYTES):
                yield chunk
    except zstandard.ZstdError as error:
        raise MalformedError(f"the compressed transaction is corrupt: {error}") from error


def _check_zstd_frames(payload: memoryview) -> None:
    """Walk the frames by their block headers (RFC 8878, §3.1.1): they must fill the payload."""
    cursor = Cursor(payload)
    while cursor.left():
        try:
            header_bytes = zstandard.frame_header_size(payload[cursor.pos :])
            parameters = zstandard.get_frame_parameters(payload[cursor.pos :])
        except zstandard.ZstdError as error:
            raise MalformedError(
                f"the compressed transaction has no zstd frame here: {error}", offset=cursor.pos
            ) from error
        cursor.skip(header_bytes)
        last = 0
        while not last:
            block = cursor.u24()
            last = block & 1
            kind = block >> 1 & 3
            if kind == _RESERVED_BLOCK:
                raise MalformedError("a zstd block of the reserved type", offset=cursor.pos - 3)
            cursor.skip(1 if kind == _RLE_BLOCK else block >> 3)
        if parameters.has_checksum:
            cursor.skip(_ZSTD_CHECKSUM_BYTES)
