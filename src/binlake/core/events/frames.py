"""The frame scan: common headers of a part of a log, as columns.

A frame is one event's common header (`format/event_header.py`) and the place where the event lies.

This module does not interpret events. `scan` walks from header to header and stops at the first
incomplete event, so a caller only gets complete events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.values.frame import Frame

if not cython.compiled:  # compiled, they are the C constants of format_constants.pxd
    from binlake.format.event_header import (
        FLAGS_AT,
        HEADER_BYTES,
        HEADER_BYTES_V1,
        LENGTH_AT,
        LOG_POS_AT,
        SERVER_ID_AT,
        TIMESTAMP_AT,
        TYPE_AT,
    )
    from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT
if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

MASK32 = cython.declare(cython.longlong, 0xFFFFFFFF)

# Why a scan stopped.
MORE = 0  # the next event is not wholly in the data
BAD_LENGTH = 1  # the next header claims less than a header's length: not a header
FORMAT = 2  # the event just appended is a FORMAT_DESCRIPTION: the format may change


@cython.final
@cython.cclass
class FrameBlock:
    """Columns of frames: `offset`, `type_code`, `length`, `timestamp`, `server_id`, `log_pos`,
    `flags`; entry i of each belongs to frame i, for i < `count`.

    `offset` is the absolute byte offset in the file (64 bits). The columns grow as frames are
    appended (27 bytes a frame); a view of one taken before is then stale.
    """

    if not cython.compiled:  # declared in frames.pxd
        offset: memoryview
        type_code: memoryview
        length: memoryview
        timestamp: memoryview
        server_id: memoryview
        log_pos: memoryview
        flags: memoryview

    def __init__(self, capacity: cython.Py_ssize_t = 1024) -> None:
        if capacity < 1:
            raise ValueError("capacity must be positive")
        self.count = 0
        self.capacity = 0
        self._allocate(capacity)

    def _allocate(self, capacity: cython.Py_ssize_t) -> None:
        """Move the frames to columns of `capacity` entries."""
        offset = memoryview(bytearray(8 * capacity)).cast("q")
        type_code = memoryview(bytearray(capacity))
        words = [memoryview(bytearray(4 * capacity)).cast("I") for _ in range(4)]
        flags = memoryview(bytearray(2 * capacity)).cast("H")
        length, timestamp, server_id, log_pos = words
        if self.count:
            count: cython.Py_ssize_t = self.count
            offset[:count] = self.offset[:count]
            type_code[:count] = self.type_code[:count]
            length[:count] = self.length[:count]
            timestamp[:count] = self.timestamp[:count]
            server_id[:count] = self.server_id[:count]
            log_pos[:count] = self.log_pos[:count]
            flags[:count] = self.flags[:count]
        self.offset = offset
        self.type_code = type_code
        self.length = length
        self.timestamp = timestamp
        self.server_id = server_id
        self.log_pos = log_pos
        self.flags = flags
        self.capacity = capacity

    def _reserve(self) -> None:
        """Make room for at least one more frame."""
        if self.count == self.capacity:
            self._allocate(2 * self.capacity)

    def __len__(self) -> int:
        return self.count

    def frame(self, index: cython.Py_ssize_t) -> Frame:
        """Frame `index` as a value. Raises IndexError."""
        if not 0 <= index < self.count:
            raise IndexError(f"frame {index} of {self.count}")
        return Frame(
            self.offset[index],
            self.type_code[index],
            self.length[index],
            self.timestamp[index],
            self.server_id[index],
            self.log_pos[index],
            self.flags[index],
        )

    def end(self, index: cython.Py_ssize_t) -> int:
        """Offset of the byte after frame `index`. Raises IndexError."""
        if not 0 <= index < self.count:
            raise IndexError(f"frame {index} of {self.count}")
        return self.offset[index] + self.length[index]

    def find(self, offset: cython.longlong) -> int:
        """Index of the first frame at or after `offset` (`count` if none)."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if self.offset[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate(self, count: cython.Py_ssize_t) -> None:
        """Forget the frames from index `count` on."""
        if not 0 <= count <= self.count:
            raise IndexError(f"cannot truncate {self.count} frames to {count}")
        self.count = count

    def types(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> list[int]:
        """How many of the frames [first, last) have each type code: 256 counts."""
        if not 0 <= first <= last <= self.count:
            raise IndexError(f"frames [{first}, {last}) of {self.count}")
        counts = memoryview(bytearray(8 * 256)).cast("q")
        of_type: cython.longlong[::1] = counts
        index: cython.Py_ssize_t
        with cython.nogil:
            for index in range(first, last):
                of_type[self.type_code[index]] += 1
        return counts.tolist()


def scan(
    data: Buffer,
    base: cython.longlong,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    header_length: cython.uint,
    block: FrameBlock,
) -> tuple[int, int]:
    """Append the whole frames of `data[pos:end]` to `block`; return (next pos, why it stopped).

    `base` is the file offset of `data[0]`; `header_length` the smallest length that an event
    can have here (common header, and checksum where there is one). The reason is MORE,
    BAD_LENGTH or FORMAT; `data[next pos]` is the first byte not taken.
    """
    if not 0 <= pos <= end <= len(data):
        raise IndexError(f"[{pos}, {end}) of {len(data)} bytes")
    minimum: cython.uint = max(HEADER_BYTES, header_length)
    reason: cython.int = -1
    while reason < 0:
        block._reserve()
        with cython.nogil:
            pos, reason = _scan(data, base, pos, end, minimum, block)
    return pos, reason


# The loop asks once for each frame whether it is there, and whether it has room.
@cython.boundscheck(False)
def _scan(
    data: Buffer,
    base: cython.longlong,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    minimum: cython.uint,
    block: FrameBlock,
) -> tuple[int, int]:
    """The loop of `scan`; reason -1 when the block is full."""
    count: cython.Py_ssize_t = block.count
    capacity: cython.Py_ssize_t = block.capacity
    reason: cython.int = 0
    length: cython.uint
    type_code: cython.uchar
    while end - pos >= HEADER_BYTES:
        length = _u32(data, pos + LENGTH_AT)
        if length < minimum:
            reason = 1
            break
        if length > end - pos:
            break
        if count == capacity:
            reason = -1
            break
        type_code = data[pos + TYPE_AT]
        block.offset[count] = base + pos
        block.type_code[count] = type_code
        block.length[count] = length
        block.timestamp[count] = _u32(data, pos + TIMESTAMP_AT)
        block.server_id[count] = _u32(data, pos + SERVER_ID_AT)
        block.log_pos[count] = _u32(data, pos + LOG_POS_AT)
        block.flags[count] = data[pos + FLAGS_AT] | (data[pos + FLAGS_AT + 1] << 8)
        count += 1
        pos += length
        if type_code == FORMAT_DESCRIPTION_EVENT:
            reason = 2
            break
    block.count = count
    return pos, reason


def scan_v1(
    data: Buffer,
    base: cython.longlong,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    block: FrameBlock,
) -> tuple[int, int]:
    """`scan` for a log of version 1: log_pos and flags, which its headers lack, are 0.

    The reason is MORE or BAD_LENGTH.
    """
    if not 0 <= pos <= end <= len(data):
        raise IndexError(f"[{pos}, {end}) of {len(data)} bytes")
    length: cython.uint
    count: cython.Py_ssize_t
    while end - pos >= HEADER_BYTES_V1:
        length = _u32(data, pos + LENGTH_AT)
        if length < HEADER_BYTES_V1:
            return pos, BAD_LENGTH
        if length > end - pos:
            break
        block._reserve()
        count = block.count
        block.offset[count] = base + pos
        block.type_code[count] = data[pos + TYPE_AT]
        block.length[count] = length
        block.timestamp[count] = _u32(data, pos + TIMESTAMP_AT)
        block.server_id[count] = _u32(data, pos + SERVER_ID_AT)
        block.log_pos[count] = 0
        block.flags[count] = 0
        block.count = count + 1
        pos += length
    return pos, MORE


def read_frame(data: Buffer, base: cython.longlong, pos: cython.Py_ssize_t) -> Frame:
    """The header at `data[pos]`, without checks; the event's body may be missing.

    Raises IndexError if the header is not complete.
    """
    if pos < 0 or len(data) - pos < HEADER_BYTES:
        raise IndexError(f"no header at {pos} of {len(data)} bytes")
    return Frame(
        base + pos,
        data[pos + TYPE_AT],
        _u32(data, pos + LENGTH_AT),
        _u32(data, pos + TIMESTAMP_AT),
        _u32(data, pos + SERVER_ID_AT),
        _u32(data, pos + LOG_POS_AT),
        data[pos + FLAGS_AT] | (data[pos + FLAGS_AT + 1] << 8),
    )


def find_anchor(
    data: Buffer,
    base: cython.longlong,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    header_length: cython.uint,
) -> int:
    """The first position in `data[pos:end]` that looks like a header by its own arithmetic, or -1.

    That is: a complete header whose length is at least `header_length` and whose log_pos is
    where the event ends in the file, modulo 2**32. Random bytes pass once in four billion.
    """
    if not 0 <= pos <= end <= len(data):
        raise IndexError(f"[{pos}, {end}) of {len(data)} bytes")
    minimum: cython.uint = max(HEADER_BYTES, header_length)
    found: cython.Py_ssize_t = -1
    last: cython.Py_ssize_t = end - HEADER_BYTES
    if pos > last:
        return -1
    # Both words slide over the data one byte at a time: two loads a position, not eight.
    length: cython.uint = _u32(data, pos + LENGTH_AT)
    log_pos: cython.uint = _u32(data, pos + LOG_POS_AT)
    here: cython.uint = cython.cast(cython.uint, (base + pos) & MASK32)
    with cython.nogil:
        while True:
            if ((log_pos - length) & MASK32) == here and length >= minimum:
                found = pos
                break
            pos += 1
            if pos > last:
                break
            here = (here + 1) & MASK32
            length = (length >> 8) | (cython.cast(cython.uint, data[pos + LENGTH_AT + 3]) << 24)
            log_pos = (log_pos >> 8) | (cython.cast(cython.uint, data[pos + LOG_POS_AT + 3]) << 24)
    return found


def find_pair(
    data: Buffer,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    header_length: cython.uint,
    known_types: Buffer,
) -> int:
    """The first position in `data[pos:end]` of two events that follow one another, or -1.

    Each has a type whose entry in the 256 bytes of `known_types` is not 0 and a length of at
    least `header_length`; the first ends, and the second's header lies, in `data[:end]`. Much
    weaker than `find_anchor`: for logs whose log_pos is another file's.
    """
    if not 0 <= pos <= end <= len(data) or len(known_types) != 256:
        raise IndexError(f"[{pos}, {end}) of {len(data)} bytes")
    minimum: cython.uint = max(HEADER_BYTES, header_length)
    length: cython.uint
    after: cython.Py_ssize_t
    with cython.nogil:
        while end - pos >= 2 * HEADER_BYTES:
            if known_types[data[pos + TYPE_AT]]:
                length = _u32(data, pos + LENGTH_AT)
                if minimum <= length <= end - pos - HEADER_BYTES:
                    after = pos + length
                    if (
                        known_types[data[after + TYPE_AT]]
                        and _u32(data, after + LENGTH_AT) >= minimum
                    ):
                        break
            pos += 1
    return pos if end - pos >= 2 * HEADER_BYTES else -1


def first_unanchored(block: FrameBlock, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> int:
    """Index of the first frame of [first, last) whose log_pos is not where it ends, or -1.

    A log_pos of 0 (artificial events) passes.
    """
    if not 0 <= first <= last <= block.count:
        raise IndexError(f"frames [{first}, {last}) of {block.count}")
    index: cython.Py_ssize_t
    for index in range(first, last):
        if (
            block.log_pos[index] != 0
            and (block.offset[index] + block.length[index]) & MASK32 != block.log_pos[index]
        ):
            return index
    return -1


# The callers have checked that there are four bytes.
@cython.boundscheck(False)
def _u32(data: Buffer, at: cython.Py_ssize_t) -> int:
    return (
        data[at]
        | (data[at + 1] << 8)
        | (data[at + 2] << 16)
        | (cython.cast(cython.uint, data[at + 3]) << 24)
    )
