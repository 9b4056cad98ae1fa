"""The client/server protocol of both servers: capability flags (include/mysql_com.h) and the longest packet."""

from __future__ import annotations

LONG_PASSWORD = 0x1
LONG_FLAG = 0x4
CONNECT_WITH_DB = 0x8
COMPRESS = 0x20
PROTOCOL_41 = 0x200
SSL = 0x800
TRANSACTIONS = 0x2000
SECURE_CONNECTION = 0x8000
PLUGIN_AUTH = 0x80000
CONNECT_ATTRS = 0x100000
PLUGIN_AUTH_LENENC = 0x200000
ZSTD_COMPRESSION = 0x4000000

#: A packet of this length continues in the next one.
MAX_PACKET_BYTES = (1 << 24) - 1
