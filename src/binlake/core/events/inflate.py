"""The zlib data of MariaDB's compressed events (165 to 171).

Source: MariaDB sql/log_event.cc, binlog_get_uncompress_len and binlog_buf_uncompress.
Layout:
    1     0x80 | algorithm << 4 | k    algorithm 0 = zlib; k = 1 to 4
    k     uncompressed length, big-endian
    rest  one zlib stream, to the end
"""

from __future__ import annotations

import zlib

from binlake.errors import MalformedError, UnsupportedError

# deflate cannot shrink more than this (zlib's technical notes); a claim beyond it is refused
# before memory is taken
MAX_RATIO = 1032
_SLACK_BYTES = 1024


def refuse_inflated(claimed: int, most: int) -> None:
    """Raises UnsupportedError for an event that would inflate to more than `most` bytes."""
    if claimed > most:
        raise UnsupportedError(
            f"a compressed event inflates to {claimed:,} bytes, and option max_memory allows {most:,}",
            hint="set the option max_memory to more than four times as much",
        )


def inflate_event_data(data: bytes | bytearray | memoryview, most: int = 1 << 30) -> bytes:
    """The uncompressed bytes of `data`, which begins with the head byte; at most `most`.

    Raises MalformedError when the head, the stream or the length is wrong, UnsupportedError
    for an algorithm that no server has, and for more bytes.
    """
    view = memoryview(data)
    if view.nbytes < 2:
        raise MalformedError("the compressed data has no head", field="compressed")
    head = view[0]
    width = head & 0x07
    if head & 0x80 == 0 or not 1 <= width <= 4 or view.nbytes < 1 + width:
        raise MalformedError(f"0x{head:02X} does not begin compressed data", field="compressed")
    if head & 0x70:
        raise UnsupportedError(f"unknown compression algorithm {head >> 4 & 0x07}")
    claimed = int.from_bytes(view[1 : 1 + width], "big")
    packed = view[1 + width :]
    if claimed > packed.nbytes * MAX_RATIO + _SLACK_BYTES:
        raise MalformedError(
            f"{packed.nbytes} compressed bytes cannot become {claimed}", field="compressed"
        )
    refuse_inflated(claimed, most)
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(packed, claimed + 1)
    except zlib.error as error:
        raise MalformedError(
            f"the compressed data is corrupt: {error}", field="compressed"
        ) from error
    if not stream.eof or len(plain) != claimed or stream.unused_data:
        raise MalformedError(
            f"the compressed data does not contain the {claimed} bytes that its header claims",
            field="compressed",
        )
    return plain
