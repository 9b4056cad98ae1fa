"""The data that statements are logged with: variables, files of LOAD DATA; and group replication's events."""

from __future__ import annotations

from typing import Any

import pytest

from binlake.errors import MalformedError, TruncatedError, UnsupportedError
from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.format import event_types as types
from support.logs.event_bytes import event_of
from support.logs.event_samples import LOAD_SQL, SAMPLES, UUID, u, user_var


def fields(name: str) -> dict[str, Any]:
    return event_of(*SAMPLES[name]).to_fields()


@pytest.mark.parametrize(
    ("name", "type_name", "value", "unsigned", "data_type"),
    [
        ("user_var_null", None, None, None, None),
        ("user_var_text", "STRING", "café", None, None),
        ("user_var_int", "INT", -5, False, None),
        ("user_var_unsigned", "INT", 18446744073709551615, True, None),
        ("user_var_real", "REAL", -1.5, None, None),
        ("user_var_decimal", "DECIMAL", "123.456", None, None),
        ("user_var_typed", "STRING", "abc", None, "inet6"),
    ],
)
def test_user_variables(
    name: str, type_name: str | None, value: object, unsigned: bool | None, data_type: str | None
) -> None:
    event = event_of(*SAMPLES[name])
    assert isinstance(event, UserVarEvent)
    assert (event.type, event.value) == (type_name, value)
    assert (event.unsigned, event.data_type) == (unsigned, data_type)


@pytest.mark.parametrize(
    ("type_code", "value", "error"),
    [
        (1, bytes(4), MalformedError),
        (2, bytes(9), MalformedError),
        (4, b"\x06", MalformedError),
        (4, b"\x06\x03\x80", TruncatedError),
        (4, b"\x03\x06\x80\x00\x00\x00", MalformedError),
    ],
)
def test_numbers_of_the_wrong_size(type_code: int, value: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        event_of(types.USER_VAR_EVENT, user_var(type_code, 63, value))


def test_a_type_that_is_not_known_keeps_its_number() -> None:
    event = event_of(types.USER_VAR_EVENT, user_var(9, 63, b"\xff"))
    assert isinstance(event, UserVarEvent)
    assert (event.type, event.value) == ("UNKNOWN_9", "0xff")
    assert event_of(types.INTVAR_EVENT, b"\x07" + bytes(8)).to_fields()["variable"] == "UNKNOWN_7"


LOAD_FIELDS = {
    "thread_id": 12,
    "exec_time": 3,
    "skip_lines": 1,
    "database": "shop",
    "table": "orders",
    "fields": ["id", "state"],
    "file": "/tmp/x",
}


def test_load_of_3_23() -> None:
    assert fields("load") == LOAD_FIELDS | {
        "opt_flags": ["REPLACE"],
        # the fourth is stored as a zero byte and said to be empty
        "delimiters": {
            "field_term": ",", "enclosed": '"', "line_term": "\n", "line_start": "", "escaped": "\\",
        },
    }  # fmt: skip


def test_load_with_longer_delimiters() -> None:
    assert fields("new_load") == LOAD_FIELDS | {
        "opt_flags": ["OPT_ENCLOSED", "IGNORE"],
        "delimiters": {
            "field_term": "||", "enclosed": "", "line_term": "\r\n", "line_start": "", "escaped": "\\",
        },
    }  # fmt: skip


def test_create_file_has_the_first_block() -> None:
    event = event_of(*SAMPLES["create_file"])
    assert isinstance(event, CreateFileEvent)
    assert (event.file_id, event.block) == (77, b"1,2\n")
    assert {k: v for k, v in event.to_fields().items() if k in LOAD_FIELDS} == LOAD_FIELDS


def test_load_claims_more_fields_than_there_are_bytes() -> None:
    body = bytearray(SAMPLES["load"][1])
    body[14:18] = u(0xFFFFFFFF, 4)
    with pytest.raises(TruncatedError) as caught:
        event_of(types.LOAD_EVENT, bytes(body))
    assert caught.value.field == "field_lengths"


def test_load_event_keeps_its_type() -> None:
    event = event_of(*SAMPLES["load"])
    assert isinstance(event, LoadEvent)
    assert not isinstance(event, CreateFileEvent)
    assert event.empty_flags == 8


def test_blocks_are_counted_not_shown() -> None:
    assert fields("append_block") == {"file_id": 77, "block_bytes": 4}
    assert fields("begin_load_query") == {"file_id": 78, "block_bytes": 5}
    assert fields("exec_load") == fields("delete_file") == {"file_id": 77}


def test_execute_load_query_is_a_query_about_a_file() -> None:
    event = event_of(*SAMPLES["execute_load_query"])
    assert isinstance(event, ExecuteLoadQueryEvent)
    assert event.sql_raw == LOAD_SQL
    assert event.sql[event.file_name_start : event.file_name_end] == " INFILE '/tmp/x'"
    shown = event.to_fields()
    assert (shown["file_id"], shown["duplicate_handling"]) == (78, "REPLACE")
    assert (shown["database"], shown["status"]["time_zone"]) == ("shop", "SYSTEM")


def test_transaction_context() -> None:
    assert fields("transaction_context") == {
        "thread_id": 9,
        "gtid_specified": 1,
        "write_set": ["616263", ""],
        "read_set": ["6465"],
        "server_uuid": UUID,
        "snapshot": f"{UUID}:1-5",
    }


def test_view_change() -> None:
    assert fields("view_change") == {
        "sequence_number": 5,
        "view_id": "14869:2",
        "certification_info": {"abc": f"{UUID}:1-5", "k": "0xfeff"},
    }


@pytest.mark.parametrize(
    ("name", "at"), [("transaction_context", 10), ("transaction_context", 14), ("view_change", 48)]
)
def test_counts_are_bounded_by_the_bytes(name: str, at: int) -> None:
    code, body, fmt = SAMPLES[name]
    claimed = body[:at] + u(0xFFFFFFFF, 4) + body[at + 4 :]
    with pytest.raises(TruncatedError):
        event_of(code, claimed, fmt)


def test_large_transaction_header() -> None:
    assert fields("large_transaction_header") == {
        "version": 1,
        "terminating_event_offset": 1 << 33,
        "terminating_event_type": "XID_EVENT",
    }
    with pytest.raises(UnsupportedError, match="version 2"):
        event_of(types.LARGE_TRANSACTION_HEADER_EVENT, b"\x02" + bytes(20))


def test_fragments_of_rows() -> None:
    assert fields("partial_row_data") == {
        "total": 3, "sequence": 1, "flags": ["ORIG_EVENT_SIZE"], "original_size": 1000,
        "chunk_bytes": 5,
    }  # fmt: skip
    assert fields("partial_row_data_last")["original_size"] is None


def test_start_of_a_log_before_5_0() -> None:
    assert fields("start_v3") == {"binlog_version": 3, "created": 9, "server_version": "4.1.22-log"}
