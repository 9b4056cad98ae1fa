"""The bodies of GTID events with a fixed layout: MySQL's (33, 34) and MariaDB's (162).

MySQL, GTID_LOG_EVENT and ANONYMOUS_GTID_LOG_EVENT (source:
libs/mysql/binlog/event/control_events.cpp, Gtid_event::Gtid_event), little-endian:
    size    name                      since
    1       flags                     5.6; bit 0: may hold statement-based changes
    16      sid                       5.6; the UUID, zero when anonymous
    8       gno                       5.6; zero when anonymous
    1       clock_type                5.7; when it is not 2 the rest is ignored
    8 + 8   last_committed, sequence_number   5.7.5
    7       immediate_commit_us       8.0.1; bit 55: original_commit_us (7) follows
    lenenc  transaction_length        8.0.2
    4       immediate_server_version  8.0.14; bit 31: original_server_version (4) follows
    8       commit_group_ticket       8.0.31, only when it is not 0

MariaDB, GTID_EVENT (source: sql/log_event.cc, Gtid_log_event):
    8       seq_no
    4       domain_id
    1       flags
    8       commit_id                 when flags has FL_GROUP_COMMIT_ID
    4+1+1+n xid                       when flags has FL_PREPARED_XA or FL_COMPLETED_XA:
                                      format id, gtrid length, bqual length, data
    1       flags_extra               when bytes are left, then by its bits
    1       extra_engines             FL_EXTRA_MULTI_ENGINE
    8       start_alter_seq_no        FL_COMMIT_ALTER or FL_ROLLBACK_ALTER
    4       thread_id                 FL_EXTRA_THREAD_ID
    rest    zero padding, of any size
The tagged GTID event (42) has a layout of its own: events/tagged_gtid.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.core.memory.cursor import Cursor
from binlake.format.flags import (
    FL_COMMIT_ALTER,
    FL_COMPLETED_XA,
    FL_EXTRA_MULTI_ENGINE,
    FL_EXTRA_THREAD_ID,
    FL_GROUP_COMMIT_ID,
    FL_PREPARED_XA,
    FL_ROLLBACK_ALTER,
    LOGICAL_TIMESTAMP_TYPECODE,
)

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

# The bits that decide the layout, as C numbers.
LOGICAL_CLOCK = cython.declare(cython.int, LOGICAL_TIMESTAMP_TYPECODE)
HAS_ORIGINAL_COMMIT_US = cython.declare(cython.ulonglong, 1 << 55)
HAS_ORIGINAL_VERSION = cython.declare(cython.ulonglong, 1 << 31)
GROUP_COMMIT_ID = cython.declare(cython.int, FL_GROUP_COMMIT_ID)
HAS_XID = cython.declare(cython.int, FL_PREPARED_XA | FL_COMPLETED_XA)
MULTI_ENGINE = cython.declare(cython.int, FL_EXTRA_MULTI_ENGINE)
ENDS_ALTER = cython.declare(cython.int, FL_COMMIT_ALTER | FL_ROLLBACK_ALTER)
HAS_THREAD_ID = cython.declare(cython.int, FL_EXTRA_THREAD_ID)
_SID_BYTES = cython.declare(cython.Py_ssize_t, 16)
_LENENC = cython.declare(cython.Py_ssize_t, -2)  # the field needs a length-encoded integer


def _signed(value: cython.ulonglong) -> int:
    """Eight bytes as a signed number."""
    return cython.cast(cython.Py_ssize_t, value)


@cython.final
@cython.cclass
class GtidFields:
    """The fields of one GTID event; one object is reused for many events.

    A field that the event does not contain is 0 (b"" for bytes, -1 for `clock_type`, `xid_format`,
    `flags_extra` and `thread_id`, where 0 can be a value). Times are microseconds since 1970;
    `original_commit_us` and `original_server_version` equal the immediate ones unless the event
    contains them. `reached` counts the parts that MySQL's body has after the clock: the
    commit times, the transaction's length, the server versions, the ticket.
    """

    def __init__(self) -> None:
        # the other numbers begin as 0
        self.sid = b""
        self.xid_gtrid = b""
        self.xid_bqual = b""
        self.clock_type = -1
        self.xid_format = -1
        self.flags_extra = -1
        self.thread_id = -1

    def parse_mysql(self, cursor: Cursor) -> int:
        """Read MySQL's body at the cursor; returns 0.

        Every field after `gno` is optional from the end. Raises TruncatedError for a field
        that is there in part.
        """
        if self.read_mysql(cursor.data, cursor.pos, cursor.end) < 0:
            self._raise_cut(cursor)
        self.sid = bytes(cursor.view[self.sid_at : self.sid_at + _SID_BYTES])
        return cursor.skip(self._at - cursor.pos)

    def parse_mariadb(self, cursor: Cursor) -> int:
        """Read MariaDB's body at the cursor; returns 0. Raises TruncatedError."""
        if self.read_mariadb(cursor.data, cursor.pos, cursor.end) < 0:
            self._raise_cut(cursor)
        middle: cython.Py_ssize_t = self._xid_at + self._gtrid_bytes
        self.xid_gtrid = bytes(cursor.view[self._xid_at : middle])
        self.xid_bqual = bytes(cursor.view[middle : middle + self._bqual_bytes])
        return cursor.skip(self._at - cursor.pos)

    def _raise_cut(self, cursor: Cursor) -> int:
        """Raise the error at the place where reading stopped."""
        cursor.skip(self._at - cursor.pos)
        if self._needed == _LENENC:
            cursor.lenenc()
        return cursor.need(self._needed)

    # -- the layouts, read without the interpreter ------------------------------------------

    def read_mysql(self, data: Buffer, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Read MySQL's body, `data[start:end]`; -1 if a field of it is cut.

        All fields are set but the UUID, which is `data[sid_at : sid_at + 16]`.
        """
        self._at = start
        self._end = end
        self._clear_mysql()
        if self._lacks(1 + _SID_BYTES + 8):
            return -1
        self.flags = cython.cast(cython.int, self._uint(data, 1))
        self.sid_at = self._at
        self._at += _SID_BYTES
        self.gno = _signed(self._uint(data, 8))
        if self._at == end:
            return 0
        self.clock_type = cython.cast(cython.int, self._uint(data, 1))
        if self.clock_type != LOGICAL_CLOCK:
            return 0
        if self._lacks(16):
            return -1
        self.last_committed = _signed(self._uint(data, 8))
        self.sequence_number = _signed(self._uint(data, 8))
        if self._at < end and self._read_commit_times(data) < 0:
            return -1
        if self._at < end:
            self.reached = 2
            if self._read_length(data) < 0:
                return -1
        if self._at < end and self._read_server_versions(data) < 0:
            return -1
        if self._at < end:
            if self._lacks(8):
                return -1
            self.reached = 4
            self.commit_group_ticket = self._uint(data, 8)
        return 0

    def _clear_mysql(self) -> None:
        """Set the fields that MySQL's body need not contain to the values of missing ones."""
        self.last_committed = 0
        self.sequence_number = 0
        self.immediate_commit_us = 0
        self.original_commit_us = 0
        self.transaction_length = 0
        self.immediate_server_version = 0
        self.original_server_version = 0
        self.commit_group_ticket = 0
        self.clock_type = -1
        self.reached = 0

    def _read_commit_times(self, data: Buffer) -> int:
        """Read one or two commit times; -1 if one is cut."""
        value: cython.ulonglong
        if self._lacks(7):
            return -1
        self.reached = 1
        value = self._uint(data, 7)
        self.immediate_commit_us = cython.cast(
            cython.Py_ssize_t, value & (HAS_ORIGINAL_COMMIT_US - 1)
        )
        self.original_commit_us = self.immediate_commit_us
        if value & HAS_ORIGINAL_COMMIT_US:
            if self._lacks(7):
                return -1
            self.original_commit_us = cython.cast(cython.Py_ssize_t, self._uint(data, 7))
        return 0

    def _read_server_versions(self, data: Buffer) -> int:
        """Read one or two versions of servers; -1 if one is cut."""
        value: cython.ulonglong
        if self._lacks(4):
            return -1
        self.reached = 3
        value = self._uint(data, 4)
        self.immediate_server_version = cython.cast(
            cython.Py_ssize_t, value & (HAS_ORIGINAL_VERSION - 1)
        )
        self.original_server_version = self.immediate_server_version
        if value & HAS_ORIGINAL_VERSION:
            if self._lacks(4):
                return -1
            self.original_server_version = cython.cast(cython.Py_ssize_t, self._uint(data, 4))
        return 0

    def _read_length(self, data: Buffer) -> int:
        """The transaction's length, a length-encoded integer; -1 if it is cut, or none."""
        first: cython.int = data[self._at]
        width: cython.int = 0
        if first == 0xFC:
            width = 2
        elif first == 0xFD:
            width = 3
        elif first == 0xFE:
            width = 8
        elif first >= 0xFB:
            self._needed = _LENENC
            return -1
        if self._lacks(1 + width):
            return -1
        if width:
            self._at += 1
            self.transaction_length = self._uint(data, width)
        else:
            self.transaction_length = self._uint(data, 1)
        return 0

    def read_mariadb(self, data: Buffer, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Read MariaDB's body, `data[start:end]`; -1 if a field of it is cut.

        All fields are set but the bytes of an XID.
        """
        self._at = start
        self._end = end
        self.commit_id = 0
        self.xid_format = -1
        self._xid_at = start
        self._gtrid_bytes = 0
        self._bqual_bytes = 0
        self.flags_extra = -1
        self.extra_engines = 0
        self.start_alter_seq_no = 0
        self.thread_id = -1
        if self._lacks(13):
            return -1
        self.seq_no = self._uint(data, 8)
        self.domain_id = cython.cast(cython.Py_ssize_t, self._uint(data, 4))
        self.flags = cython.cast(cython.int, self._uint(data, 1))
        if self.flags & GROUP_COMMIT_ID:
            if self._lacks(8):
                return -1
            self.commit_id = self._uint(data, 8)
        if self.flags & HAS_XID:
            if self._lacks(6):
                return -1
            self.xid_format = cython.cast(cython.Py_ssize_t, self._uint(data, 4))
            self._gtrid_bytes = cython.cast(cython.int, self._uint(data, 1))
            self._bqual_bytes = cython.cast(cython.int, self._uint(data, 1))
            if self._lacks(self._gtrid_bytes + self._bqual_bytes):
                return -1
            self._xid_at = self._at
            self._at += self._gtrid_bytes + self._bqual_bytes
        if self._at == end:
            return 0
        self.flags_extra = cython.cast(cython.int, self._uint(data, 1))
        if self.flags_extra & MULTI_ENGINE:
            if self._lacks(1):
                return -1
            self.extra_engines = cython.cast(cython.int, self._uint(data, 1))
        if self.flags_extra & ENDS_ALTER:
            if self._lacks(8):
                return -1
            self.start_alter_seq_no = self._uint(data, 8)
        if self.flags_extra & HAS_THREAD_ID:
            if self._lacks(4):
                return -1
            self.thread_id = cython.cast(cython.Py_ssize_t, self._uint(data, 4))
        return 0

    def _lacks(self, count: cython.Py_ssize_t) -> bool:
        """Whether the body ends before `count` more bytes."""
        self._needed = count
        return self._end - self._at < count

    def _uint(self, data: Buffer, width: cython.int) -> int:
        """The next `width` bytes, which are there, little-endian."""
        value: cython.ulonglong = 0
        k: cython.int
        for k in range(width):
            value |= cython.cast(cython.ulonglong, data[self._at + k]) << (8 * k)
        self._at += width
        return value
