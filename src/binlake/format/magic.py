"""The bytes at the start of a log file, and where its first event is."""

from __future__ import annotations

#: Every binary log and relay log since MySQL 3.23 starts with these bytes.
BINLOG_MAGIC = b"\xfebin"
#: A log file that MySQL 8.0.14 or newer encrypts as a whole starts with these bytes instead.
ENCRYPTED_MAGIC = b"\xfdbin"
#: The offset of the first event, in bytes: it follows the magic.
FIRST_EVENT = len(BINLOG_MAGIC)
