"""The status variables of QUERY events: the data after each code.

A status variable is a code byte and data without a length field, so a reader has to know
every code; an unknown one ends the parsing (the statement begins at a known place).
Sources: MySQL 9.7.4 `libs/mysql/binlog/event/statement_events.h` and `.cpp`, MariaDB 11.8.6
`sql/log_event.h` and `log_event.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Q_FLAGS2_CODE = 0
Q_SQL_MODE_CODE = 1
Q_CATALOG_CODE = 2
Q_AUTO_INCREMENT = 3
Q_CHARSET_CODE = 4
Q_TIME_ZONE_CODE = 5
Q_CATALOG_NZ_CODE = 6
Q_LC_TIME_NAMES_CODE = 7
Q_CHARSET_DATABASE_CODE = 8
Q_TABLE_MAP_FOR_UPDATE_CODE = 9
Q_MASTER_DATA_WRITTEN_CODE = 10
Q_INVOKER = 11
Q_UPDATED_DB_NAMES = 12
Q_MICROSECONDS = 13
Q_COMMIT_TS = 14
Q_COMMIT_TS2 = 15
Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
Q_DDL_LOGGED_WITH_XID = 17
Q_DEFAULT_COLLATION_FOR_UTF8MB4 = 18
Q_SQL_REQUIRE_PRIMARY_KEY = 19
Q_DEFAULT_TABLE_ENCRYPTION = 20
Q_ENABLE_CASCADE_TRIGGERS = 21
Q_HRNOW = 128
Q_XID = 129
Q_GTID_FLAGS3 = 130
Q_CHARACTER_SET_COLLATIONS = 131
Q_DUMMY = 255

OVER_MAX_DBS_IN_EVENT_MTS = 254  # count byte of UPDATED_DB_NAMES: too many, no names follow


class StatusVariable(NamedTuple):
    """One status variable: `name`, and the widths in bytes of its fixed integers, in order.

    `widths` is None for a layout that fixed integers cannot describe; `layout` names it.
    """

    code: int
    name: str
    widths: tuple[int, ...] | None
    layout: str = "integers"


_TABLE: tuple[StatusVariable, ...] = (
    StatusVariable(Q_FLAGS2_CODE, "flags2", (4,)),
    StatusVariable(Q_SQL_MODE_CODE, "sql_mode", (8,)),
    StatusVariable(Q_CATALOG_CODE, "catalog", None, "text8_nul"),  # 5.0.0 to 5.0.3
    StatusVariable(Q_AUTO_INCREMENT, "auto_increment", (2, 2)),  # increment, offset
    StatusVariable(Q_CHARSET_CODE, "charset", (2, 2, 2)),  # client, connection, server collation
    StatusVariable(Q_TIME_ZONE_CODE, "time_zone", None, "text8"),
    StatusVariable(Q_CATALOG_NZ_CODE, "catalog", None, "text8"),
    StatusVariable(Q_LC_TIME_NAMES_CODE, "lc_time_names", (2,)),
    StatusVariable(Q_CHARSET_DATABASE_CODE, "charset_database", (2,)),
    StatusVariable(Q_TABLE_MAP_FOR_UPDATE_CODE, "table_map_for_update", (8,)),
    StatusVariable(Q_MASTER_DATA_WRITTEN_CODE, "master_data_written", (4,)),
    StatusVariable(Q_INVOKER, "invoker", None, "text8_twice"),  # user, host
    StatusVariable(Q_UPDATED_DB_NAMES, "updated_db_names", None, "nul_texts"),
    StatusVariable(Q_MICROSECONDS, "microseconds", (3,)),
    StatusVariable(Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP, "explicit_defaults_for_timestamp", (1,)),
    StatusVariable(Q_DDL_LOGGED_WITH_XID, "ddl_logged_with_xid", (8,)),
    StatusVariable(Q_DEFAULT_COLLATION_FOR_UTF8MB4, "default_collation_for_utf8mb4", (2,)),
    StatusVariable(Q_SQL_REQUIRE_PRIMARY_KEY, "sql_require_primary_key", (1,)),
    StatusVariable(Q_DEFAULT_TABLE_ENCRYPTION, "default_table_encryption", (1,)),
    StatusVariable(Q_ENABLE_CASCADE_TRIGGERS, "enable_cascade_triggers", (1,)),  # MySQL 9
    StatusVariable(Q_HRNOW, "hrnow", (3,)),  # MariaDB: microseconds of the statement's time
    StatusVariable(Q_XID, "xid", (8,)),  # MariaDB
    StatusVariable(Q_GTID_FLAGS3, "gtid_flags3", None, "gtid_flags3"),  # MariaDB
    StatusVariable(
        Q_CHARACTER_SET_COLLATIONS, "character_set_collations", None, "collation_pairs"
    ),  # MariaDB
    StatusVariable(Q_DUMMY, "dummy", None, "padding"),  # MariaDB: the rest is padding
)

#: All status variables by code. The layouts that are not integers:
#: text8 (length u8, text), text8_nul (the same and a NUL, which an empty text lacks),
#: text8_twice (two of text8), nul_texts (count u8, that many NUL-ended texts; none for count
#: 254), gtid_flags3 (u8, and u64 when bit 4 or 8 is set), collation_pairs (count u8, pairs of
#: u16), padding (up to the end). COMMIT_TS and COMMIT_TS2 never were in a release.
STATUS_VARIABLES: Mapping[int, StatusVariable] = MappingProxyType(
    {variable.code: variable for variable in _TABLE}
)
