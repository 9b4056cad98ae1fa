"""Decompress .gz and .zst inputs as a stream, and distinguish every kind of bad ending.

Both formats are sequences of members (gzip) or frames (zstd). The generators yield as much as they
can and then raise: TruncatedError if the input ends inside a member, MalformedError if it is
damaged or if other data follows the last member. They never hold more than one piece of output,
whose size is bounded by the format.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import zstandard

from binlake.errors import MalformedError, TruncatedError

# A reader of compressed bytes: at most so many, b"" at the end.
Read = Callable[[int], bytes]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: How many bytes `decompressor_for` needs.
MAGIC_BYTES = 4

_GZIP_INPUT_BYTES = 64 << 10
_GZIP_OUTPUT_BYTES = 256 << 10
# zstd has no bound on the output of one call; a block of 4 input bytes can become 128 KiB, so
# small pieces of input keep even the most hostile frame below 2048 / 4 * 128 KiB at once.
_ZSTD_INPUT_BYTES = 2 << 10
_ZSTD_OUTPUT_BYTES = 128 << 10


def decompressor_for(start: bytes) -> Callable[[Read], Iterator[bytes]] | None:
    """Return the decompressor for an input that begins with `start`, or None if it is not
    compressed.
    """
    if start[:2] == GZIP_MAGIC:
        return _gunzip
    if start[:4] == ZSTD_MAGIC or _is_skippable(start):
        return _unzstd
    return None


def _is_skippable(start: bytes) -> bool:
    """Whether a zstd skippable frame (0x184D2A50 to 0x184D2A5F) begins here; pzstd writes them."""
    return len(start) >= 4 and start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5


def _gunzip(read: Read) -> Iterator[bytes]:
    data = read(_GZIP_INPUT_BYTES)
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            data = data or read(_GZIP_INPUT_BYTES)
            if not data:
                rest = member.flush()
                if rest:
                    yield rest
                raise TruncatedError("the gzip data ends inside a member")
            try:
                piece = member.decompress(data, _GZIP_OUTPUT_BYTES)
            except zlib.error as error:
                raise MalformedError(f"the gzip data is damaged: {error}") from error
            data = member.unconsumed_tail
            if piece:
                yield piece
        # Members may follow each other; padding with zero bytes (tapes, block devices) may too.
        data = (member.unused_data or read(_GZIP_INPUT_BYTES)).lstrip(b"\0")
        while not data:
            more = read(_GZIP_INPUT_BYTES)
            if not more:
                return
            data = more.lstrip(b"\0")
        if len(data) == 1:
            data += read(_GZIP_INPUT_BYTES)
        if data[:2] != GZIP_MAGIC:
            raise MalformedError("other data follows the end of the gzip data")


def _unzstd(read: Read) -> Iterator[bytes]:
    data = read(_ZSTD_INPUT_BYTES)
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj(write_size=_ZSTD_OUTPUT_BYTES)
        while not frame.eof:
            data = data or read(_ZSTD_INPUT_BYTES)
            if not data:
                raise TruncatedError("the zstd data ends inside a frame")
            try:
                piece = frame.decompress(data)
            except zstandard.ZstdError as error:
                raise MalformedError(f"the zstd data is damaged: {error}") from error
            data = b""
            if piece:
                yield piece
        data = frame.unused_data or read(_ZSTD_INPUT_BYTES)
        while 0 < len(data) < MAGIC_BYTES:
            more = read(_ZSTD_INPUT_BYTES)
            if not more:
                break
            data += more
        if data and decompressor_for(data) is not _unzstd:
            raise MalformedError("other data follows the end of the zstd data")
