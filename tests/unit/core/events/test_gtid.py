"""The native parse of GTID events: boundary values, optional tails, reuse of one object."""

from __future__ import annotations

import pytest

from binlake.core.events.gtid import GtidFields
from binlake.core.memory.cursor import Cursor
from binlake.errors import TruncatedError

SID = bytes(range(16))


def u(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")


FULL = (
    b"\x01" + SID + u((1 << 63) - 2, 8) + b"\x02" + u((1 << 63) - 1, 8) + u(1, 8)
    + u((1 << 55) - 1 | 1 << 55, 7) + u((1 << 56) - 1, 7)
    + b"\xfe" + u((1 << 64) - 1, 8)
    + u(0xFFFFFFFF, 4) + u(0xFFFFFFFF, 4)
    + u((1 << 64) - 1, 8)
)  # fmt: skip

#: Lengths at which a server's event may end.
WHOLE = (25, 26 + 16, 26 + 16 + 14, 26 + 16 + 14 + 9, 26 + 16 + 14 + 9 + 8, len(FULL))


def parsed(body: bytes) -> GtidFields:
    fields = GtidFields()
    fields.parse_mysql(Cursor(body))
    return fields


def test_largest_values() -> None:
    fields = parsed(FULL)
    assert fields.flags == 1
    assert fields.sid == SID
    assert fields.gno == (1 << 63) - 2
    assert (fields.last_committed, fields.sequence_number) == ((1 << 63) - 1, 1)
    assert fields.immediate_commit_us == (1 << 55) - 1
    assert fields.original_commit_us == (1 << 56) - 1
    assert fields.transaction_length == (1 << 64) - 1
    assert fields.immediate_server_version == (1 << 31) - 1
    assert fields.original_server_version == (1 << 32) - 1
    assert fields.commit_group_ticket == (1 << 64) - 1


def test_an_event_ends_with_a_whole_field() -> None:
    for length in range(len(FULL) + 1):
        if length in WHOLE:
            parsed(FULL[:length])
        else:
            with pytest.raises(TruncatedError):
                parsed(FULL[:length])


def test_other_clocks_are_left_alone() -> None:
    fields = parsed(FULL[:25] + b"\x01" + b"whatever")
    assert (fields.clock_type, fields.last_committed, fields.transaction_length) == (1, 0, 0)


def test_a_missing_clock_differs_from_a_clock_of_type_0() -> None:
    assert parsed(FULL[:25]).clock_type == -1
    assert parsed(FULL[:25] + b"\0").clock_type == 0


def test_one_object_for_many_events() -> None:
    fields = GtidFields()
    data = FULL + FULL[:25].replace(SID, SID[::-1]) + FULL[:25]
    cursor = Cursor(data)
    sids = []
    for start, end in [
        (0, len(FULL)),
        (len(FULL), len(FULL) + 25),
        (len(FULL) + 25, len(data)),
    ]:
        cursor.enter(start, end)
        fields.parse_mysql(cursor)
        sids.append(fields.sid)
    assert sids == [SID, SID[::-1], SID]
    assert fields.commit_group_ticket == fields.immediate_commit_us == fields.last_committed == 0


MARIADB = (
    u((1 << 64) - 1, 8) + u(0xFFFFFFFF, 4) + b"\x82"
    + u((1 << 64) - 1, 8)
    + u(0xFFFFFFFF, 4) + b"\x02\x03" + b"gtbqu"
    + b"\x19\xff" + u((1 << 64) - 1, 8) + u(0xFFFFFFFF, 4)
)  # fmt: skip


def test_mariadb_largest_values() -> None:
    fields = GtidFields()
    fields.parse_mariadb(Cursor(MARIADB + bytes(4000)))  # padding of a renamed cache file
    assert (fields.domain_id, fields.seq_no) == ((1 << 32) - 1, (1 << 64) - 1)
    assert fields.commit_id == (1 << 64) - 1
    assert (fields.xid_format, fields.xid_gtrid, fields.xid_bqual) == (0xFFFFFFFF, b"gt", b"bqu")
    assert (fields.flags_extra, fields.extra_engines) == (0x19, 255)
    assert fields.start_alter_seq_no == (1 << 64) - 1
    assert fields.thread_id == 0xFFFFFFFF


def test_mariadb_each_part_has_its_own_flag() -> None:
    fields = GtidFields()
    fields.parse_mariadb(Cursor(MARIADB))
    fields.parse_mariadb(Cursor(u(7, 8) + u(1, 4) + b"\x00" + bytes(6)))
    assert (fields.domain_id, fields.seq_no) == (1, 7)
    assert (fields.commit_id, fields.xid_format, fields.xid_gtrid) == (0, -1, b"")
    assert (fields.flags_extra, fields.thread_id, fields.start_alter_seq_no) == (0, -1, 0)
    fields.parse_mariadb(Cursor(u(7, 8) + u(1, 4) + b"\x40" + u(1, 4) + b"\x01\x00x"))
    assert (fields.commit_id, fields.xid_gtrid, fields.flags_extra) == (0, b"x", -1)


def test_mariadb_cuts() -> None:
    whole = {13 + 8 + 6 + 5, len(MARIADB)}
    for length in range(len(MARIADB)):
        if length not in whole:
            with pytest.raises(TruncatedError):
                GtidFields().parse_mariadb(Cursor(MARIADB[:length]))
