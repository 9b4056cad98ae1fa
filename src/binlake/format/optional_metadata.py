"""The optional metadata fields of TABLE_MAP events (type u8, length lenenc, value).

Sources: MySQL 9.7.4 `libs/mysql/binlog/event/rows_event.h` (enum_optional_metadata_type) and
`sql/log_event.cc` (init_*_field); MariaDB 11.8.6 `sql/log_event_server.cc`. MySQL before 8.0.1
and MariaDB with `binlog_row_metadata=NO_LOG` (its default) write none.
"""

from __future__ import annotations

SIGNEDNESS = 1  # a bit per numeric column, MSB first, 1 = unsigned
DEFAULT_CHARSET = 2  # collation, then (index among character columns, collation) pairs
COLUMN_CHARSET = 3  # a collation per character column
COLUMN_NAME = 4  # a length-prefixed name per column
SET_STR_VALUE = 5  # per SET column: count, length-prefixed members
ENUM_STR_VALUE = 6  # per ENUM column: count, length-prefixed members
GEOMETRY_TYPE = 7  # per geometry column
SIMPLE_PRIMARY_KEY = 8  # column indexes
PRIMARY_KEY_WITH_PREFIX = 9  # (column index, prefix length in characters, 0 = whole) pairs
ENUM_AND_SET_DEFAULT_CHARSET = 10  # as 2, over ENUM and SET columns
ENUM_AND_SET_COLUMN_CHARSET = 11  # as 3, over ENUM and SET columns
COLUMN_VISIBILITY = 12  # a bit per column, MSB first, 1 = visible; MySQL 8.0.23
VECTOR_DIMENSIONALITY = 13  # per VECTOR column; MySQL 9
