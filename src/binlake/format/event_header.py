"""The common header that every event begins with, and the checksum that follows an event.

All numbers are little-endian:

    at  size  field
     0  4     timestamp      seconds since 1970
     4  1     type code
     5  4     server id
     9  4     length         of the whole event: header, body, checksum
    13  4     log_pos        end position as the writer knew it, modulo 2**32
    17  2     flags          `format.flags.EVENT_FLAGS`

Before MySQL 4.0 (binary log version 1) the header ends after the length. A FORMAT_DESCRIPTION event
gives the length of the headers of all events but its own and that of ROTATE; all servers so far
write 19.

Sources: MySQL 9.7.4 `libs/mysql/binlog/event/binlog_event.h` (LOG_EVENT_HEADER_LEN, OLD_HEADER_LEN,
EVENT_TYPE_OFFSET and the other offsets, BINLOG_CHECKSUM_LEN); MariaDB 11.8.6 `sql/log_event.h`.

`core/events/format_constants.pxd` has the same numbers as C constants.
"""

from __future__ import annotations

import struct

#: The bytes of the header since MySQL 4.0.
HEADER_BYTES = 19
#: The bytes of the header in logs of version 1.
HEADER_BYTES_V1 = 13
#: The bytes of the CRC32 at the end of an event, little-endian.
CHECKSUM_BYTES = 4

# Offsets of the fields, in bytes.
TIMESTAMP_AT = 0
TYPE_AT = 4
SERVER_ID_AT = 5
LENGTH_AT = 9
LOG_POS_AT = 13
FLAGS_AT = 17

#: The fields of the header, in the order of the table.
HEADER = struct.Struct("<IBIIIH")
#: The fields of the header in logs of version 1.
HEADER_V1 = struct.Struct("<IBII")
#: A field of four bytes: a timestamp, server id, length, log_pos or checksum.
U32 = struct.Struct("<I")
