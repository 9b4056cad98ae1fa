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
The tagged GTID event (42) has a layout of its own: events/gtid_tagged.py.
"""

from __future__ import annotations

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.core.number_text import write_number
from binlake.format.flags import (
    FL_COMMIT_ALTER,
    FL_COMPLETED_XA,
    FL_EXTRA_MULTI_ENGINE,
    FL_EXTRA_THREAD_ID,
    FL_GROUP_COMMIT_ID,
    FL_PREPARED_XA,
    FL_ROLLBACK_ALTER,
)

__all__ = ["GtidFields"]

# The bits that decide the layout, as C numbers.
LOGICAL_CLOCK = cython.declare(
    cython.int, 2
)  # LOGICAL_TIMESTAMP_TYPECODE, the only clock type ever written
HAS_ORIGINAL_COMMIT_US = cython.declare(cython.ulonglong, 1 << 55)
HAS_ORIGINAL_VERSION = cython.declare(cython.ulonglong, 1 << 31)
GROUP_COMMIT_ID = cython.declare(cython.int, FL_GROUP_COMMIT_ID)
HAS_XID = cython.declare(cython.int, FL_PREPARED_XA | FL_COMPLETED_XA)
MULTI_ENGINE = cython.declare(cython.int, FL_EXTRA_MULTI_ENGINE)
ENDS_ALTER = cython.declare(cython.int, FL_COMMIT_ALTER | FL_ROLLBACK_ALTER)
HAS_THREAD_ID = cython.declare(cython.int, FL_EXTRA_THREAD_ID)


@cython.final
@cython.cclass
class GtidFields:
    """The fields of one GTID event; one object is reused for many events.

    A field that the event does not hold is 0 (b"" for bytes, -1 for `xid_format`,
    `flags_extra` and `thread_id`, where 0 can be a value). Times are microseconds since 1970;
    `original_commit_us` and `original_server_version` equal the immediate ones unless the
    event carries its own.
    """

    def __init__(self) -> None:
        self._text_sid = b""
        self._text = b""
        self.sid = b""
        self.xid_gtrid = b""
        self.xid_bqual = b""
        self.flags = 0
        self.gno = 0
        self.clock_type = 0
        self.last_committed = 0
        self.sequence_number = 0
        self.immediate_commit_us = 0
        self.original_commit_us = 0
        self.transaction_length = 0
        self.immediate_server_version = 0
        self.original_server_version = 0
        self.commit_group_ticket = 0
        self.seq_no = 0
        self.domain_id = 0
        self.commit_id = 0
        self.xid_format = -1
        self.flags_extra = -1
        self.extra_engines = 0
        self.start_alter_seq_no = 0
        self.thread_id = -1

    def parse_mysql(self, cursor: Cursor) -> int:
        """Read MySQL's body at the cursor; returns 0.

        Every field after `gno` is optional from the end. Raises TruncatedError for a field
        that is there in part.
        """
        self.flags = cursor.u8()
        self.sid = cursor.take(16)
        self.gno = cursor.i64()
        self.last_committed = 0
        self.sequence_number = 0
        self.immediate_commit_us = 0
        self.original_commit_us = 0
        self.transaction_length = 0
        self.immediate_server_version = 0
        self.original_server_version = 0
        self.commit_group_ticket = 0
        self.clock_type = cursor.u8() if cursor.left() else 0
        if self.clock_type == LOGICAL_CLOCK:
            self._parse_mysql_tail(cursor)
        return 0

    def _parse_mysql_tail(self, cursor: Cursor) -> int:
        value: cython.ulonglong
        self.last_committed = cursor.i64()
        self.sequence_number = cursor.i64()
        if cursor.left():
            value = cursor.le_uint(7)
            self.immediate_commit_us = value & (HAS_ORIGINAL_COMMIT_US - 1)
            self.original_commit_us = self.immediate_commit_us
            if value & HAS_ORIGINAL_COMMIT_US:
                self.original_commit_us = cursor.u56()
        if cursor.left():
            self.transaction_length = cursor.lenenc()
        if cursor.left():
            value = cursor.le_uint(4)
            self.immediate_server_version = value & (HAS_ORIGINAL_VERSION - 1)
            self.original_server_version = self.immediate_server_version
            if value & HAS_ORIGINAL_VERSION:
                self.original_server_version = cursor.u32()
        if cursor.left():
            self.commit_group_ticket = cursor.u64()
        return 0

    def parse_mariadb(self, cursor: Cursor) -> int:
        """Read MariaDB's body at the cursor; returns 0. Raises TruncatedError."""
        self.seq_no = cursor.u64()
        self.domain_id = cursor.u32()
        self.flags = cursor.u8()
        self.commit_id = cursor.u64() if self.flags & GROUP_COMMIT_ID else 0
        self.xid_format = -1
        self.xid_gtrid = b""
        self.xid_bqual = b""
        if self.flags & HAS_XID:
            self.xid_format = cursor.u32()
            gtrid_bytes: cython.int = cursor.u8()
            bqual_bytes: cython.int = cursor.u8()
            self.xid_gtrid = cursor.take(gtrid_bytes)
            self.xid_bqual = cursor.take(bqual_bytes)
        self.flags_extra = -1
        self.extra_engines = 0
        self.start_alter_seq_no = 0
        self.thread_id = -1
        if cursor.left():
            self._parse_mariadb_extra(cursor)
        return 0

    def _parse_mariadb_extra(self, cursor: Cursor) -> int:
        self.flags_extra = cursor.u8()
        if self.flags_extra & MULTI_ENGINE:
            self.extra_engines = cursor.u8()
        if self.flags_extra & ENDS_ALTER:
            self.start_alter_seq_no = cursor.u64()
        if self.flags_extra & HAS_THREAD_ID:
            self.thread_id = cursor.u32()
        return 0

    def write_mysql(self, out: ByteBuffer) -> int:
        """Append `uuid:gno` as MySQL spells it, ASCII; returns 0."""
        if self.sid != self._text_sid:  # the UUID is nearly always that of the event before
            digits = self.sid.hex().encode()
            self._text = b"-".join(
                (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            )
            self._text_sid = self.sid
        out.put(self._text)
        out.put(b":")
        if self.gno < 0:
            out.put(b"-")
            return write_number(out, -self.gno)
        return write_number(out, self.gno)

    def write_mariadb(self, out: ByteBuffer, server_id: cython.Py_ssize_t) -> int:
        """Append `domain-server-sequence` as MariaDB spells it, ASCII; returns 0.

        `server_id` is the header's.
        """
        write_number(out, self.domain_id)
        out.put(b"-")
        write_number(out, server_id)
        out.put(b"-")
        return write_number(out, self.seq_no)
