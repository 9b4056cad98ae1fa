"""The packets of a replication stream: runs of whole plain events, without their wrapping.

A source sends an event as one packet (MySQL sql/rpl_binlog_sender.cc, MariaDB
sql/sql_repl.cc):

    3   length of what follows, little-endian
    1   sequence number
    1   status: 0, an event
    2   semi-synchronous connections: 0xEF, and 1 where an acknowledgement is waited for
    n   the event

Nearly all events can be copied unchanged. `copy_events` does that, and stops at the first event
about the stream itself, which Python handles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if not cython.compiled:  # compiled, they are the C constants of format_constants.pxd
    from binlake.format.event_header import FLAGS_AT, HEADER_BYTES, LENGTH_AT, LOG_POS_AT, TYPE_AT
    from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F
if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

# Why a run of packets ended.
MORE = 0  # the next packet is not wholly in the data
FULL = 1  # there is no room for the next event
SPECIAL = 2  # the next packet is no plain event that follows the one before it

PACKET_HEADER_BYTES = 4
MASK32 = cython.declare(cython.longlong, 0xFFFFFFFF)
LARGEST = cython.declare(cython.Py_ssize_t, 0xFFFFFF)  # a packet of this length goes on in the next
SEMI_SYNC_MAGIC = cython.declare(cython.int, 0xEF)


def copy_events(
    data: Buffer,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    out: Buffer,
    out_pos: cython.Py_ssize_t,
    offset: cython.longlong,
    wrapped: cython.Py_ssize_t,
    plain: Buffer,
) -> tuple[int, int, int]:
    """Copy the events of whole plain packets in `data[pos:end]` to `out[out_pos:]`.

    `offset` is where the next event lies in the source's file, `wrapped` how many bytes stand
    between a packet's header and its event (1, semi-synchronous 3), `plain[type]` is not 0 for the
    types that need no check. A plain packet holds one whole event of such a type, not
    artificial, whose log_pos is where it ends, modulo 2**32.

    Returns (next pos, next out_pos, why it stopped): MORE, FULL or SPECIAL. Raises IndexError
    for places outside of the buffers.
    """
    if not 0 <= pos <= end <= len(data) or not 0 <= out_pos <= len(out) or len(plain) != 256:
        raise IndexError(f"[{pos}, {end}) of {len(data)} bytes to {out_pos} of {len(out)}")
    if wrapped not in (1, 3):
        raise IndexError(f"{wrapped} bytes before an event")
    room: cython.Py_ssize_t = len(out)
    reason: cython.int
    with cython.nogil:
        pos, out_pos, reason = _copy(data, pos, end, out, out_pos, room, offset, wrapped, plain)
    return pos, out_pos, reason


def _copy(
    data: Buffer,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    out: Buffer,
    out_pos: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    offset: cython.longlong,
    wrapped: cython.Py_ssize_t,
    plain: Buffer,
) -> tuple[int, int, int]:
    """The loop of `copy_events`, whose arguments have been checked."""
    size: cython.Py_ssize_t
    length: cython.Py_ssize_t
    at: cython.Py_ssize_t
    while True:
        if end - pos < 4 + wrapped + HEADER_BYTES:
            # shorter than any event: a packet of another kind, unless more is to come
            if end - pos >= 4:
                size = data[pos] | (data[pos + 1] << 8) | (data[pos + 2] << 16)
                if end - pos - 4 >= size:
                    return pos, out_pos, 2
            return pos, out_pos, 0
        size = data[pos] | (data[pos + 1] << 8) | (data[pos + 2] << 16)
        if size >= LARGEST or data[pos + 4] != 0:
            return pos, out_pos, 2
        if wrapped == 3 and (data[pos + 5] != SEMI_SYNC_MAGIC or data[pos + 6] != 0):
            return pos, out_pos, 2
        at = pos + 4 + wrapped
        length = size - wrapped
        if (
            length < HEADER_BYTES
            or _u32(data, at + LENGTH_AT) != length
            or plain[data[at + TYPE_AT]] == 0
            or data[at + FLAGS_AT] & LOG_EVENT_ARTIFICIAL_F
            or _u32(data, at + LOG_POS_AT) != ((offset + length) & MASK32)
        ):
            return pos, out_pos, 2
        if end - at < length:
            return pos, out_pos, 0
        if room - out_pos < length:
            return pos, out_pos, 1
        _copy_bytes(out, out_pos, data, at, length)
        out_pos += length
        offset += length
        pos = at + length


def _copy_bytes(
    out: Buffer,
    out_pos: cython.Py_ssize_t,
    data: Buffer,
    at: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> int:
    """`out[out_pos:][:length] = data[at:][:length]`; the caller has checked that both exist."""
    # The ends are indexed, hence bounds-checked, before memcpy gets addresses and a size.
    first: cython.p_const_uchar = cython.address(data[at])
    last: cython.p_const_uchar = cython.address(data[at + length - 1])
    target: cython.p_uchar = cython.address(out[out_pos])
    target_last: cython.p_uchar = cython.address(out[out_pos + length - 1])
    if last - first == target_last - target:
        memcpy(  # noqa: F821 - cimported in packets.pxd
            target, first, cython.cast(cython.size_t, last - first + 1)
        )
    return 0


def _u32(data: Buffer, at: cython.Py_ssize_t) -> int:
    return (
        data[at]
        | (data[at + 1] << 8)
        | (data[at + 2] << 16)
        | (cython.cast(cython.uint, data[at + 3]) << 24)
    )
