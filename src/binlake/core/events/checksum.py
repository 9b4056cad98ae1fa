"""CRC32 of events: verified in one pass over a block of frames, without the interpreter.

An event's checksum is zlib's CRC32 of all its bytes before the last four, which hold it,
little-endian. A FORMAT_DESCRIPTION event is computed with the flag BINLOG_IN_USE (0x0001 of
the header flags) cleared, since a server clears that flag when it closes the file and leaves
the checksum alone (MySQL `sql/binlog.cc`, MariaDB `sql/log_event.cc`).

`setup.py` links libdeflate, which computes the CRC of short events seven times as fast as zlib
(12.7 against 1.9 GB/s for events of 340 bytes); without it at build time, zlib serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.core.events.frames import FrameBlock

if not cython.compiled:  # compiled, they are the C constants of format_constants.pxd
    from binlake.format.event_header import CHECKSUM_BYTES, FLAGS_AT, HEADER_BYTES, TYPE_AT
    from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT
    from binlake.format.flags import LOG_EVENT_BINLOG_IN_USE_F
if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

POLYNOMIAL = cython.declare(cython.uint, 0xEDB88320)
MASK32 = cython.declare(cython.uint, 0xFFFFFFFF)


def first_bad(
    data: Buffer,
    base: cython.longlong,
    block: FrameBlock,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
) -> int:
    """Index of the first frame of [first, last) whose checksum is wrong, or -1.

    `base` is the file offset of `data[0]`; every frame must lie wholly in `data` and end in
    a checksum. Raises IndexError otherwise. Runs without the GIL.
    """
    if not 0 <= first <= last <= block.count:
        raise IndexError(f"frames [{first}, {last}) of {block.count}")
    size: cython.Py_ssize_t = len(data)
    index: cython.Py_ssize_t
    start: cython.longlong
    end: cython.longlong
    bad: cython.Py_ssize_t = -1
    outside: cython.Py_ssize_t = -1
    with cython.nogil:
        for index in range(first, last):
            start = block.offset[index] - base
            end = start + block.length[index]
            if start < 0 or end > size or end - start < HEADER_BYTES + CHECKSUM_BYTES:
                outside = index
                break
            if _event_crc(data, start, end) != _stored(data, end):
                bad = index
                break
    if outside >= 0:
        raise IndexError(f"frame {outside} is not wholly in the data")
    return bad


def crc32_library() -> str:
    """Name and version of the library that computes CRC32 here: libdeflate or zlib."""
    name: bytes = binlake_crc32_library()  # noqa: F821 - in checksum.pxd
    return name.decode()


def event_crc32(data: Buffer) -> int:
    """The CRC32 that the event in `data` (header to checksum) should store.

    Raises IndexError if it is shorter than a header and a checksum.
    """
    if len(data) < HEADER_BYTES + CHECKSUM_BYTES:
        raise IndexError(f"no room for a header and a checksum in {len(data)} bytes")
    return _event_crc(data, 0, len(data))


def stored_crc32(data: Buffer) -> int:
    """The CRC32 stored in the last four bytes of the event in `data`. Raises IndexError."""
    if len(data) < CHECKSUM_BYTES:
        raise IndexError(f"no checksum in {len(data)} bytes")
    return _stored(data, len(data))


# The callers have checked that there are four bytes.
@cython.boundscheck(False)
def _stored(data: Buffer, end: cython.Py_ssize_t) -> int:
    return (
        data[end - 4]
        | (data[end - 3] << 8)
        | (data[end - 2] << 16)
        | (cython.cast(cython.uint, data[end - 1]) << 24)
    )


def _event_crc(data: Buffer, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
    """CRC32 of `data[start:end - CHECKSUM_BYTES]` by the rule for its type."""
    if data[start + TYPE_AT] != FORMAT_DESCRIPTION_EVENT:
        return _crc(0, data, start, end - CHECKSUM_BYTES)
    crc: cython.uint = _crc(0, data, start, start + FLAGS_AT)
    crc = _crc_of_byte(crc, data[start + FLAGS_AT] & ~LOG_EVENT_BINLOG_IN_USE_F)
    return _crc(crc, data, start + FLAGS_AT + 1, end - CHECKSUM_BYTES)


def _crc_of_byte(crc: cython.uint, byte: cython.uint) -> int:
    """`crc` continued over one byte, bit by bit (the reflected polynomial of zlib)."""
    _: cython.int
    crc = (crc ^ MASK32) ^ byte
    for _ in range(8):
        crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ MASK32


def _crc(
    crc: cython.uint,
    data: Buffer,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> int:
    """CRC32 `crc` continued over `data[start:end]`; the caller has checked that they exist."""
    if start >= end:
        return crc
    # Both ends are indexed, hence bounds-checked, before the library gets an address and a size.
    first: cython.p_const_uchar = cython.address(data[start])
    last: cython.p_const_uchar = cython.address(data[end - 1])
    return binlake_crc32(crc, first, last - first + 1)  # noqa: F821 - in checksum.pxd
