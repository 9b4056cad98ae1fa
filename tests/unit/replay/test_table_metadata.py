"""Columns of tables as comments: what the tools print, where no golden log has it."""

from __future__ import annotations

import struct

import pytest

from binlake.events.body.reader import BodyReader
from binlake.events.common.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.format.flags import TM_GENERATED_INVISIBLE_PK_F
from binlake.replay.table_metadata import metadata_lines
from binlake.values.frame import EventFormat, Frame

UNSIGNED = bytes((1, 1, 0x80))
NAMES = bytes((4, 12)) + b"\x09my_row_id\x01a"
KEY = bytes((8, 1, 0))
VISIBLE = bytes((12, 1, 0x40))


@pytest.mark.parametrize(
    ("optional", "column"),
    [(UNSIGNED, b"INT"), (UNSIGNED + NAMES + KEY + VISIBLE, b"`a` INT")],
    ids=["minimal", "full"],
)
def test_a_key_that_the_server_made(optional: bytes, column: bytes) -> None:
    """sql_generate_invisible_primary_key: as mysqlbinlog 9.7 prints it, whatever the metadata."""
    body = (7).to_bytes(6, "little") + struct.pack("<H", TM_GENERATED_INVISIBLE_PK_F)
    body += b"\x04shop\0\x01t\0" + bytes((2, ct.MYSQL_TYPE_LONGLONG, ct.MYSQL_TYPE_LONG))
    body += bytes((0, 2)) + optional
    fmt = EventFormat(4, "9.7.4", "mysql", (9, 7, 4), 19, bytes((0,) * 18 + (8,)), 1, 4)
    event = TableMapEvent.decode(Frame(0, 19, len(body), 0, 0, 0, 0), BodyReader(body), fmt)
    assert b"".join(metadata_lines(event)).splitlines() == [
        b"# Columns(`my_row_id` BIGINT UNSIGNED NOT NULL INVISIBLE AUTO_INCREMENT,",
        b"#         " + column + b")",
        b"# Primary Key(my_row_id)",
    ]
