"""Runs of consecutive GTID events, so that many small transactions cost little.

A source numbers its transactions, so nearly all GTID events continue the one before. `gtid_runs`
finds the exceptions; only these need Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.core.events.frames import FrameBlock
from binlake.format.event_types import GTID_EVENT, GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT

if not cython.compiled:  # compiled, it is the C constant of format_constants.pxd
    from binlake.format.event_header import HEADER_BYTES
if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

_MYSQL = cython.declare(cython.int, GTID_LOG_EVENT)
_TAGGED = cython.declare(cython.int, GTID_TAGGED_LOG_EVENT)
_MARIADB = cython.declare(cython.int, GTID_EVENT)
_MYSQL_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES + 1 + 16 + 8)  # to the end of gno
_MARIADB_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES + 8 + 4)  # to the end of domain_id


def gtid_runs(data: Buffer, base: cython.longlong, block: FrameBlock) -> list[tuple[int, int]]:
    """(first frame, last frame) of each run of GTID events among the frames of `block`.

    `base` is the file offset of `data[0]`, which holds all frames. In a run each event of MySQL
    has the sid of the one before it and the next gno, each of MariaDB its domain and server.
    Tagged events, and events that are too short, are separate runs. Raises IndexError for frames that
    do not lie in `data`.
    """
    runs: list[tuple[int, int]] = []
    size: cython.Py_ssize_t = len(data)
    first: cython.Py_ssize_t = -1
    last: cython.Py_ssize_t = -1
    before: cython.Py_ssize_t = -1  # where the event `last` begins; -1: nothing continues it
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    kind: cython.int
    for index in range(block.count):
        kind = block.type_code[index]
        if kind != _MYSQL and kind != _MARIADB and kind != _TAGGED:
            continue
        at = block.offset[index] - base
        if at < 0 or at + block.length[index] > size:
            raise IndexError(f"frame {index} is not wholly in the data")
        if (
            before >= 0
            and block.type_code[last] == kind
            and _continues(data, before, at, block, last, index)
        ):
            last = index
            before = at
            continue
        if first >= 0:
            runs.append((first, last))
        first = index
        last = index
        before = at
        if (
            kind == _TAGGED
            or (kind == _MYSQL and block.length[index] < _MYSQL_BYTES)
            or (kind == _MARIADB and block.length[index] < _MARIADB_BYTES)
        ):
            before = -1
    if first >= 0:
        runs.append((first, last))
    return runs


def _continues(
    data: Buffer,
    before: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    block: FrameBlock,
    last: cython.Py_ssize_t,
    index: cython.Py_ssize_t,
) -> bool:
    """Return whether the event at `at` is the next transaction of the server that wrote the one at `before`."""
    byte: cython.Py_ssize_t
    if block.type_code[index] == _MARIADB:
        if block.length[index] < _MARIADB_BYTES or block.server_id[index] != block.server_id[last]:
            return False
        for byte in range(HEADER_BYTES + 8, HEADER_BYTES + 12):
            if data[before + byte] != data[at + byte]:
                return False
        return True
    if block.length[index] < _MYSQL_BYTES:
        return False
    for byte in range(HEADER_BYTES + 1, HEADER_BYTES + 17):
        if data[before + byte] != data[at + byte]:
            return False
    gno_at: cython.Py_ssize_t = HEADER_BYTES + 17
    return _u64(data, at + gno_at) == _u64(data, before + gno_at) + 1


def _u64(data: Buffer, at: cython.Py_ssize_t) -> int:
    value: cython.ulonglong = 0
    byte: cython.Py_ssize_t
    for byte in range(8):
        value |= cython.cast(cython.ulonglong, data[at + byte]) << (8 * byte)
    return value
