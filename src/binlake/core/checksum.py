"""CRC32 of events: verified in one pass over a block of frames, without the interpreter.

An event's checksum is zlib's CRC32 of all its bytes before the last four, which hold it,
little-endian. A FORMAT_DESCRIPTION event is computed with the flag BINLOG_IN_USE (0x0001 of
the header flags) cleared, since a server clears that flag when it closes the file and leaves
the checksum alone (MySQL `sql/binlog.cc`, MariaDB `sql/log_event.cc`).
"""

from __future__ import annotations

import cython

from binlake.core.frames import FrameBlock

if not cython.compiled:
    from zlib import crc32

__all__ = ["CHECKSUM_BYTES", "event_crc32", "first_bad", "stored_crc32"]

CHECKSUM_BYTES = 4
FORMAT_DESCRIPTION_TYPE = cython.declare(cython.int, 15)


def first_bad(
    data: cython.const[cython.uchar][::1],
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
            if start < 0 or end > size or end - start < 23:
                outside = index
                break
            if _event_crc(data, start, end) != _stored(data, end):
                bad = index
                break
    if outside >= 0:
        raise IndexError(f"frame {outside} is not wholly in the data")
    return bad


def event_crc32(data: cython.const[cython.uchar][::1]) -> int:
    """The CRC32 that the event in `data` (header to checksum) should store.

    Raises IndexError if it is shorter than a header and a checksum.
    """
    if len(data) < 23:
        raise IndexError(f"an event with a checksum has at least 23 bytes, not {len(data)}")
    return _event_crc(data, 0, len(data))


def stored_crc32(data: cython.const[cython.uchar][::1]) -> int:
    """The CRC32 stored in the last four bytes of the event in `data`. Raises IndexError."""
    if len(data) < 4:
        raise IndexError(f"no checksum in {len(data)} bytes")
    return _stored(data, len(data))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stored(data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> cython.uint:
    return (
        data[end - 4]
        | (data[end - 3] << 8)
        | (data[end - 2] << 16)
        | (cython.cast(cython.uint, data[end - 1]) << 24)
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _event_crc(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uint:
    """CRC32 of `data[start:end - 4]` by the rule for its type."""
    crc: cython.uint
    flag: cython.uchar[1]
    if data[start + 4] != FORMAT_DESCRIPTION_TYPE:
        return _crc(0, data, start, end - 4)
    crc = _crc(0, data, start, start + 17)
    if cython.compiled:
        flag[0] = data[start + 17] & 0xFE
        crc = crc32(crc, cython.address(flag[0]), 1)
    else:
        crc = crc32(bytes([data[start + 17] & 0xFE]), crc)
    return _crc(crc, data, start + 18, end - 4)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _crc(
    crc: cython.uint,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.uint:
    """zlib's crc32 continued over `data[start:end]`, which the caller has checked to exist."""
    if cython.compiled:
        if end <= start:
            return crc
        # Both ends are indexed, hence checked, before zlib gets the address.
        if cython.address(data[end - 1]) < cython.address(data[start]):
            return crc
        return crc32(crc, cython.address(data[start]), cython.cast(cython.uint, end - start))
    return crc32(data[start:end], crc)
