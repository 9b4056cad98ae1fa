from __future__ import annotations

import struct

import pytest

from binlake.format import column_types, event_header, event_types, flags, query_status
from binlake.format.event_types import EVENT_TYPES, Role, codes_of, event_name


def test_every_type_of_both_enumerations_is_in_the_table() -> None:
    assert sorted(EVENT_TYPES) == [*range(44), *range(160, 173)]
    assert len({known.name for known in EVENT_TYPES.values()}) == len(EVENT_TYPES)


def test_the_constants_are_the_table() -> None:
    constants = {n: v for n, v in vars(event_types).items() if n.isupper() and type(v) is int}
    assert constants == {known.name: code for code, known in EVENT_TYPES.items()}


# What servers list in their FORMAT_DESCRIPTION events, from type 1 on.
_LISTED = {
    "MySQL 5.6.24": ("380d0008001200040404041200005c00041a08000000080808020000000a0a0a191900"),
    "MySQL 9.7.4": (
        "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
    ),
    "MariaDB 11.8.6": (
        "380d000800120004040404120000e400041a08000000080808020000000a0a0a"
        + 128 * "00"
        + "041304000d0808080a0a0a"
    ),
}
# 15: its length grows with the number of types. 33, 34: 25 bytes in 5.6. 40: the list says 40,
# and the server does not mean it; nor does MariaDB, which writes none of 39 to 41.
_LISTED_OTHERWISE = {
    "MySQL 5.6.24": {15, 33, 34},
    "MySQL 9.7.4": {15, 40},
    "MariaDB 11.8.6": {15, 39, 40, 41},
}


@pytest.mark.parametrize("server", _LISTED)
def test_post_header_lengths_are_those_that_servers_list(server: str) -> None:
    for code, listed in enumerate(bytes.fromhex(_LISTED[server]), 1):
        # 0 is also what a server lists for types that it no longer writes
        if listed and code not in _LISTED_OTHERWISE[server]:
            assert EVENT_TYPES[code].post_header_length == listed, event_name(code)


@pytest.mark.parametrize(
    ("name", "operation", "version", "compressed"),
    [
        ("PRE_GA_WRITE_ROWS_EVENT", "insert", 0, False),
        ("UPDATE_ROWS_EVENT_V1", "update", 1, False),
        ("DELETE_ROWS_EVENT", "delete", 2, False),
        ("PARTIAL_UPDATE_ROWS_EVENT", "update", 2, False),
        ("WRITE_ROWS_COMPRESSED_EVENT_V1", "insert", 1, True),
        ("DELETE_ROWS_COMPRESSED_EVENT", "delete", 2, True),
    ],
)
def test_rows_events(name: str, operation: str, version: int, compressed: bool) -> None:
    known = EVENT_TYPES[getattr(event_types, name)]
    assert known.role is Role.ROWS
    assert (known.operation, known.rows_version, known.compressed) == (
        operation,
        version,
        compressed,
    )


def test_only_rows_events_have_an_operation() -> None:
    with_operation = {code for code, known in EVENT_TYPES.items() if known.operation}
    assert with_operation == codes_of(Role.ROWS)


def test_names_of_unknown_types() -> None:
    assert event_name(34) == "ANONYMOUS_GTID_LOG_EVENT"
    assert event_name(44) == "UNKNOWN_EVENT_44"
    assert column_types.column_type_name(99) == "MYSQL_TYPE_99"


def test_flag_names_keep_unknown_bits() -> None:
    assert flags.flag_names(flags.EVENT_FLAGS, 0x0081) == ["BINLOG_IN_USE", "IGNORABLE"]
    assert flags.flag_names(flags.ROWS_FLAGS, 0x8001) == ["STMT_END", "0x8000"]
    assert flags.flag_names(flags.MYSQL_SQL_MODES, 0) == []


def test_the_flavours_disagree_about_high_sql_modes() -> None:
    bit = 1 << 32
    assert flags.flag_names(flags.MYSQL_SQL_MODES, bit) == ["TIME_TRUNCATE_FRACTIONAL"]
    assert flags.flag_names(flags.MARIADB_SQL_MODES, bit) == ["EMPTY_STRING_IS_NULL"]


def test_flag_tables_hold_single_bits() -> None:
    tables = [
        table for name, table in vars(flags).items() if isinstance(table, dict) and name.isupper()
    ]
    assert len(tables) >= 10
    for table in tables:
        assert all(bit > 0 and bit & (bit - 1) == 0 for bit in table)


def test_status_variables() -> None:
    known = query_status.STATUS_VARIABLES
    assert sorted(known) == [*range(14), *range(16, 22), 128, 129, 130, 131, 255]
    assert sum(known[query_status.Q_CHARSET_CODE].widths or ()) == 6
    assert all((v.widths is None) == (v.layout != "integers") for v in known.values())


def test_character_types_of_the_flavours() -> None:
    vector, geometry, json = 242, 255, 245
    assert column_types.is_character_type(vector, "mysql")
    assert not column_types.is_character_type(geometry, "mysql")
    assert column_types.is_character_type(geometry, "mariadb")
    assert not column_types.is_character_type(json, "mysql")


def test_fraction_bytes() -> None:
    assert [column_types.fraction_bytes(fsp) for fsp in range(7)] == [0, 1, 1, 2, 2, 3, 3]


def test_the_offsets_of_the_header_are_those_of_its_fields() -> None:
    fields = event_header.HEADER.format
    offsets = [struct.calcsize(fields[:end]) for end in range(1, len(fields) + 1)]
    assert offsets == [
        event_header.TIMESTAMP_AT,
        event_header.TYPE_AT,
        event_header.SERVER_ID_AT,
        event_header.LENGTH_AT,
        event_header.LOG_POS_AT,
        event_header.FLAGS_AT,
        event_header.HEADER_BYTES,
    ]
    assert fields.startswith(event_header.HEADER_V1.format)
    assert event_header.HEADER_V1.size == event_header.HEADER_BYTES_V1
