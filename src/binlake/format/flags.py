"""Names of bits: one table per bit field of the log.

Each table maps a bit to its name; `flag_names` turns a value into a list of names, and keeps
bits without a name as hexadecimal text, so nothing is lost.

Sources: MySQL 9.7.4 `libs/mysql/binlog/event/{binlog_event,rows_event,control_events}.h`,
`sql/query_options.h`, `sql/system_variables.h`; MariaDB 11.8.6 `sql/log_event.h`,
`sql/sql_class.h`, `sql/sql_priv.h`.
"""

from __future__ import annotations

from collections.abc import Mapping

FlagTable = Mapping[int, str]

# the common header of every event (u16)
LOG_EVENT_BINLOG_IN_USE_F = 0x0001
LOG_EVENT_THREAD_SPECIFIC_F = 0x0004
LOG_EVENT_SUPPRESS_USE_F = 0x0008
LOG_EVENT_ARTIFICIAL_F = 0x0020
LOG_EVENT_RELAY_LOG_F = 0x0040
LOG_EVENT_IGNORABLE_F = 0x0080
LOG_EVENT_SKIP_REPLICATION_F = 0x8000

EVENT_FLAGS: FlagTable = {
    LOG_EVENT_BINLOG_IN_USE_F: "BINLOG_IN_USE",  # only FORMAT_DESCRIPTION: not closed cleanly
    0x0002: "FORCED_ROTATE",  # 4.x
    LOG_EVENT_THREAD_SPECIFIC_F: "THREAD_SPECIFIC",
    LOG_EVENT_SUPPRESS_USE_F: "SUPPRESS_USE",
    0x0010: "UPDATE_TABLE_MAP_VERSION",  # 5.1
    LOG_EVENT_ARTIFICIAL_F: "ARTIFICIAL",  # must not advance a position
    LOG_EVENT_RELAY_LOG_F: "RELAY_LOG",  # written by a replica's receiver thread
    LOG_EVENT_IGNORABLE_F: "IGNORABLE",  # readers that do not know the type may skip it
    0x0100: "NO_FILTER",  # MySQL
    0x0200: "MTS_ISOLATE",  # MySQL
    0x4000: "ACCEPT_OWN",  # MariaDB
    LOG_EVENT_SKIP_REPLICATION_F: "SKIP_REPLICATION",  # MariaDB
}

# rows events (u16)
ROWS_STMT_END_F = 0x0001
ROWS_USE_SQL_FOREIGN_KEY_F = 0x0010
ROWS_NO_CHECK_CONSTRAINT_CHECKS_F = 0x0080

ROWS_FLAGS: FlagTable = {
    ROWS_STMT_END_F: "STMT_END",
    0x0002: "NO_FOREIGN_KEY_CHECKS",
    0x0004: "RELAXED_UNIQUE_CHECKS",
    0x0008: "COMPLETE_ROWS",
    ROWS_USE_SQL_FOREIGN_KEY_F: "USE_SQL_FOREIGN_KEY",  # MySQL 9
    ROWS_NO_CHECK_CONSTRAINT_CHECKS_F: "NO_CHECK_CONSTRAINT_CHECKS",  # MariaDB
}

# TABLE_MAP (u16)
TM_GENERATED_INVISIBLE_PK_F = 0x0004
TM_BIT_HAS_TRIGGERS_F = 0x4000

TABLE_MAP_FLAGS: FlagTable = {
    0x0001: "BIT_LEN_EXACT",
    0x0002: "REFERRED_FK_DB",
    TM_GENERATED_INVISIBLE_PK_F: "GENERATED_INVISIBLE_PK",  # MySQL 8.0.30: first column hidden
    TM_BIT_HAS_TRIGGERS_F: "HAS_TRIGGERS",  # MariaDB
}

# GTID_LOG, ANONYMOUS_GTID_LOG, GTID_TAGGED_LOG (u8)
FLAG_MAY_HAVE_SBR = 0x01

#: The only clock type of MySQL's GTID events; servers do not read the fields after another one.
LOGICAL_TIMESTAMP_TYPECODE = 2

MYSQL_GTID_FLAGS: FlagTable = {FLAG_MAY_HAVE_SBR: "MAY_HAVE_SBR"}

# MariaDB's GTID event: flags2 (u8) and flags_extra (u8)
FL_STANDALONE = 0x01
FL_GROUP_COMMIT_ID = 0x02
FL_TRANSACTIONAL = 0x04
FL_ALLOW_PARALLEL = 0x08
FL_WAITED = 0x10
FL_DDL = 0x20
FL_PREPARED_XA = 0x40
FL_COMPLETED_XA = 0x80

MARIADB_GTID_FLAGS: FlagTable = {
    FL_STANDALONE: "STANDALONE",
    FL_GROUP_COMMIT_ID: "GROUP_COMMIT_ID",
    FL_TRANSACTIONAL: "TRANSACTIONAL",
    FL_ALLOW_PARALLEL: "ALLOW_PARALLEL",
    FL_WAITED: "WAITED",
    FL_DDL: "DDL",
    FL_PREPARED_XA: "PREPARED_XA",
    FL_COMPLETED_XA: "COMPLETED_XA",
}

FL_EXTRA_MULTI_ENGINE = 0x01
FL_START_ALTER = 0x02
FL_COMMIT_ALTER = 0x04
FL_ROLLBACK_ALTER = 0x08
FL_EXTRA_THREAD_ID = 0x10

MARIADB_GTID_EXTRA_FLAGS: FlagTable = {
    FL_EXTRA_MULTI_ENGINE: "MULTI_ENGINE",
    FL_START_ALTER: "START_ALTER",
    FL_COMMIT_ALTER: "COMMIT_ALTER",
    FL_ROLLBACK_ALTER: "ROLLBACK_ALTER",
    FL_EXTRA_THREAD_ID: "THREAD_ID",
}

# QUERY status variable FLAGS2 (u32): the option bits that replicate
OPTION_AUTO_IS_NULL = 1 << 14
OPTION_NOT_AUTOCOMMIT = 1 << 19
OPTION_NO_FOREIGN_KEY_CHECKS = 1 << 26
OPTION_RELAXED_UNIQUE_CHECKS = 1 << 27

MYSQL_OPTION_FLAGS: FlagTable = {
    OPTION_AUTO_IS_NULL: "OPTION_AUTO_IS_NULL",
    OPTION_NOT_AUTOCOMMIT: "OPTION_NOT_AUTOCOMMIT",
    OPTION_NO_FOREIGN_KEY_CHECKS: "OPTION_NO_FOREIGN_KEY_CHECKS",
    OPTION_RELAXED_UNIQUE_CHECKS: "OPTION_RELAXED_UNIQUE_CHECKS",
}

# bits 24 to 30 read off logs of MariaDB 11.8, one variable set at a time
MARIADB_OPTION_FLAGS: FlagTable = {
    **MYSQL_OPTION_FLAGS,
    1 << 24: "OPTION_EXPLICIT_DEF_TIMESTAMP",
    1 << 28: "OPTION_IF_EXISTS",
    1 << 30: "OPTION_INSERT_HISTORY",
}

# QUERY status variable SQL_MODE (u64)
MODE_REAL_AS_FLOAT = 1
MODE_ANSI_QUOTES = 1 << 2
MODE_ORACLE = 1 << 9
MODE_MAXDB = 1 << 12
MODE_NO_AUTO_VALUE_ON_ZERO = 1 << 19
MODE_NO_BACKSLASH_ESCAPES = 1 << 20
MODE_EMPTY_STRING_IS_NULL = 1 << 32  # of MariaDB

_COMMON_SQL_MODES: FlagTable = {
    MODE_REAL_AS_FLOAT: "REAL_AS_FLOAT",
    1 << 1: "PIPES_AS_CONCAT",
    MODE_ANSI_QUOTES: "ANSI_QUOTES",
    1 << 3: "IGNORE_SPACE",
    1 << 5: "ONLY_FULL_GROUP_BY",
    1 << 6: "NO_UNSIGNED_SUBTRACTION",
    1 << 7: "NO_DIR_IN_CREATE",
    # bits 8 to 17 and 28: gone in MySQL 8, still MariaDB's
    1 << 8: "POSTGRESQL",
    MODE_ORACLE: "ORACLE",
    1 << 10: "MSSQL",
    1 << 11: "DB2",
    MODE_MAXDB: "MAXDB",
    1 << 13: "NO_KEY_OPTIONS",
    1 << 14: "NO_TABLE_OPTIONS",
    1 << 15: "NO_FIELD_OPTIONS",
    1 << 16: "MYSQL323",
    1 << 17: "MYSQL40",
    1 << 18: "ANSI",
    MODE_NO_AUTO_VALUE_ON_ZERO: "NO_AUTO_VALUE_ON_ZERO",
    MODE_NO_BACKSLASH_ESCAPES: "NO_BACKSLASH_ESCAPES",
    1 << 21: "STRICT_TRANS_TABLES",
    1 << 22: "STRICT_ALL_TABLES",
    1 << 23: "NO_ZERO_IN_DATE",
    1 << 24: "NO_ZERO_DATE",
    1 << 25: "ALLOW_INVALID_DATES",
    1 << 26: "ERROR_FOR_DIVISION_BY_ZERO",
    1 << 27: "TRADITIONAL",
    1 << 28: "NO_AUTO_CREATE_USER",
    1 << 29: "HIGH_NOT_PRECEDENCE",
    1 << 30: "NO_ENGINE_SUBSTITUTION",
    1 << 31: "PAD_CHAR_TO_FULL_LENGTH",
}

MYSQL_SQL_MODES: FlagTable = {
    **_COMMON_SQL_MODES,
    1 << 32: "TIME_TRUNCATE_FRACTIONAL",
    1 << 33: "INTERPRET_UTF8_AS_UTF8MB4",
}

MARIADB_SQL_MODES: FlagTable = {
    **_COMMON_SQL_MODES,
    1 << 4: "IGNORE_BAD_TABLE_OPTIONS",
    MODE_EMPTY_STRING_IS_NULL: "EMPTY_STRING_IS_NULL",
    1 << 33: "SIMULTANEOUS_ASSIGNMENT",
    1 << 34: "TIME_ROUND_FRACTIONAL",
}


def flag_names(table: FlagTable, value: int) -> list[str]:
    """The names of the bits set in `value`, lowest first; a bit without a name as "0x…"."""
    names = []
    while value:
        bit = value & -value
        names.append(table.get(bit, f"0x{bit:X}"))
        value ^= bit
    return names
