"""JSON differences applied to documents; PARTIAL_UPDATE_ROWS images around them."""

from __future__ import annotations

import struct

import pytest

from binlake.core.rows.table_sink import BothImages, CurrentRow, TableBuffers, TableSink, unwanted
from binlake.core.values.json_diff import (
    MARK,
    Difference,
    apply_differences,
    differences_text,
    parse_json,
    write_json,
)
from binlake.errors import BinlogError, MalformedError, UnsupportedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import table_map
from support.values.core_walk import column, frames_of, log_of, numbers, plain_of, walk, walker
from support.values.json_bytes import document

# id, j JSON, k JSON
PLANS = (
    ColumnPlan(ColumnDefinition(0, "id", 3), Kernel.INT, 4),
    ColumnPlan(ColumnDefinition(1, "j", 245), Kernel.JSON, 4),
    ColumnPlan(ColumnDefinition(2, "k", 245), Kernel.JSON, 4),
)
ALL, ID, JSON_ONLY = 0b111, 0b001, 0b110
REPLACE, INSERT, REMOVE = 0, 1, 2


def one(operation: str, path: str, value: str = "") -> list[Difference]:
    return [Difference(operation, path, value)]


@pytest.mark.parametrize(
    ("before", "differences", "after"),
    [
        ('{"a": 1}', one("replace", "$.a", '"x"'), '{"a": "x"}'),
        ('{"a": 1}', one("replace", "$", "[1, 2]"), "[1, 2]"),
        # keys are ordered by length, then by bytes
        ('{"b": 1, "aa": 2}', one("insert", "$.c", "3"), '{"b": 1, "c": 3, "aa": 2}'),
        ('{"é": 1}', one("insert", "$.zz", "2"), '{"zz": 2, "é": 1}'),
        ("[1, 2]", one("insert", "$[1]", "9"), "[1, 9, 2]"),
        ("[1, 2]", one("insert", "$[7]", "9"), "[1, 2, 9]"),
        ("[1, 2, 3]", one("remove", "$[0]"), "[2, 3]"),
        ('{"a": [{"b": 1}]}', one("remove", "$.a[0].b"), '{"a": [{}]}'),
        ('{"a.b": {"]\\"": 1}}', one("replace", '$."a.b"."]\\""', "2"), '{"a.b": {"]\\"": 2}}'),
        # what a difference does not touch stays as it is written
        ('{"a": 1, "n": 1.10, "e": 1e30}', one("remove", "$.a"), '{"n": 1.10, "e": 1e30}'),
        ('["\\u0001\\n\\\\", "é"]', one("insert", "$[0]", "0.50"), '[0.50, "\\u0001\\n\\\\", "é"]'),
        ("[0]", [*one("insert", "$[0]", "1"), *one("remove", "$[1]")], "[1]"),
        ('{"a": 1}', [], '{"a": 1}'),
    ],
)
def test_differences_are_applied(before: str, differences: list[Difference], after: str) -> None:
    assert apply_differences(before, differences) == after


@pytest.mark.parametrize(
    ("before", "difference"),
    [
        ("1", one("replace", "$.a", "2")),
        ('{"a": 1}', one("replace", "$.b", "2")),
        ('{"a": 1}', one("insert", "$.a", "2")),
        ('{"a": 1}', one("insert", "$[0]", "2")),
        ("[1]", one("remove", "$[1]")),
        ("[1]", one("insert", "$.a", "1")),
        ("[1]", one("remove", "$")),
        ("[[1]]", one("remove", "$[0][4]")),
        ('{"a": "[0]"}', one("remove", "$.a[0]")),
    ],
)
def test_a_difference_that_does_not_fit(before: str, difference: list[Difference]) -> None:
    with pytest.raises(MalformedError, match="does not fit its document"):
        apply_differences(before, difference)


@pytest.mark.parametrize(
    "path", ["", "a", "$a", "$.", "$..a", "$[", "$[x]", "$[-1]", '$."a', "$[²]", "$[99999999999]"]
)
def test_a_malformed_path(path: str) -> None:
    with pytest.raises(MalformedError, match="malformed path"):
        apply_differences('{"a": [1]}', one("remove", path))


def test_the_text_of_differences_is_marked_and_complete() -> None:
    text = differences_text([Difference("replace", "$.a", "1.10"), Difference("remove", "$.b", "")])
    assert text == (
        'JSON_DIFF [{"op": "replace", "path": "$.a", "value": 1.10}, '
        '{"op": "remove", "path": "$.b"}]'
    )
    assert write_json(parse_json(text.removeprefix(MARK))) == text.removeprefix(MARK)


# --- the images ---


def prefixed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def difference(operation: int, path: str, value: object = None) -> bytes:
    raw = path.encode()
    data = b"" if operation == REMOVE else document(value)
    return bytes((operation, len(raw))) + raw + (bytes((len(data),)) + data if data else b"")


def body(
    differences: bytes, *, before: int = ALL, after: int = ALL, options: bytes = b"\1\1"
) -> bytes:
    """An update of one row: `j` by differences, `k` as a whole, `id` as it was."""
    old = {
        ID: struct.pack("<I", 7),
        ALL: struct.pack("<I", 7) + 2 * prefixed(document({"a": 1, "b": [1, 2]})),
    }
    new = prefixed(differences) + prefixed(document("new"))
    if after == ALL:
        new = struct.pack("<I", 7) + new
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", 1, 2, 3) + bytes((before, after))
    return head + b"\0" + old[before] + options + b"\0" + new


def changed(sink: TableSink, event: bytes) -> TableBuffers:
    return walk(log_of([(TABLE_MAP, table_map()), (39, event)]), sink)


DIFFERENCES = (
    difference(REPLACE, "$.a", 2.5)
    + difference(INSERT, "$.b[1]", "x")
    + difference(REMOVE, "$.b[0]")
)
_HEAD_BYTES = 13  # of the event, before its rows
APPLIED = b'{"a": 2.5, "b": ["x", 2]}'


@pytest.mark.parametrize("make", [BothImages, CurrentRow])
def test_the_after_image_is_whole_when_the_before_image_is(make: type[TableSink]) -> None:
    found = changed(make(PLANS), body(DIFFERENCES))
    assert column(found.after.columns[0], "i") == [7]
    assert column(found.after.columns[1], "") == [APPLIED]
    assert column(found.after.columns[2], "") == [b'"new"']
    assert column(found.before.columns[1], "") == [b'{"a": 1, "b": [1, 2]}']
    assert found.unknown_documents == 0


def test_an_unchanged_document_has_no_differences() -> None:
    found = changed(BothImages(PLANS), body(b""))
    assert column(found.after.columns[1], "") == column(found.before.columns[1], "")


def test_the_document_is_found_in_an_unwanted_before_image() -> None:
    found = changed(CurrentRow(PLANS, unwanted(PLANS)), body(DIFFERENCES))
    assert column(found.after.columns[1], "") == [APPLIED]
    assert found.before.columns == (None, None, None)


def test_without_the_document_the_differences_are_the_value() -> None:
    sink = CurrentRow(PLANS)
    found = changed(sink, body(DIFFERENCES, before=ID, after=JSON_ONLY))
    (text,) = column(found.after.columns[1], "")
    assert text == (
        b'JSON_DIFF [{"op": "replace", "path": "$.a", "value": 2.5}, '
        b'{"op": "insert", "path": "$.b[1]", "value": "x"}, {"op": "remove", "path": "$.b[0]"}]'
    )
    assert column(found.after.columns[0], "i") == [7]
    assert found.unknown_documents == 1
    assert changed(sink, body(DIFFERENCES)).unknown_documents == 0


def test_a_row_without_partial_values() -> None:
    whole = document([1])
    found = changed(BothImages(PLANS), body(whole, options=b"\0"))
    assert column(found.after.columns[1], "") == [b"[1]"]


def test_unwanted_columns_are_stepped_over() -> None:
    plans = (PLANS[0], *unwanted(PLANS[1:2]), PLANS[2])
    found = changed(BothImages(plans), body(DIFFERENCES))
    assert found.after.columns[1] is None
    assert column(found.after.columns[2], "") == [b'"new"']


def test_unwanted_partial_rows_of_a_payload_are_numbered() -> None:
    made, _ = walker(CurrentRow(PLANS, operations=(0,)))
    data = log_of([(TABLE_MAP, table_map()), (39, body(DIFFERENCES))])
    block = frames_of(data)
    made.enter_payload(4, 1000)
    assert made.run_groups(data, 0, plain_of(data, block), 0, len(block)) == len(block)
    assert made.finish().tables == ()


@pytest.mark.parametrize("operations", [(0, 1, 2), (0,)])
def test_a_huge_event_of_partial_rows_comes_in_pieces(operations: tuple[int, ...]) -> None:
    event = body(DIFFERENCES)
    event += event[_HEAD_BYTES:] * 999
    made, _ = walker(BothImages(PLANS, operations=operations), limit_bytes=5_000)
    data = log_of([(TABLE_MAP, table_map()), (39, event)])
    block = frames_of(data)
    at, flushes = 0, 0
    texts: list[object] = []
    ordinals: list[int] = []
    while at < len(block):
        at = made.run_groups(data, 0, plain_of(data, block), at, len(block))
        assert made.held_bytes < 6_000
        for _, found in made.finish().tables:
            texts += column(found.after.columns[1], "")
            ordinals += numbers(found.row, "I")
        flushes += 1
    if operations == (0,):
        assert flushes == 1
        assert made.rows == 0
    else:
        assert flushes > 10
        assert texts == [APPLIED] * 1000
        assert ordinals == list(range(1000))
        assert made.decoded_bytes == block.length[3] - 23


def test_unknown_value_options() -> None:
    with pytest.raises(UnsupportedError, match="value options 0x3") as caught:
        changed(BothImages(PLANS), body(DIFFERENCES, options=b"\3\1"))
    assert caught.value.event_type == "PARTIAL_UPDATE_ROWS_EVENT"


def test_every_cut_and_every_changed_byte() -> None:
    event = body(DIFFERENCES)
    for end in range(len(event)):
        with pytest.raises(BinlogError):
            changed(BothImages(PLANS), event[:end])
    for at in range(len(event)):
        for value in (0, 1, 0x7F, 0x80, 0xFB, 0xFF, event[at] ^ 1, event[at] + 1 & 0xFF):
            try:
                changed(BothImages(PLANS), event[:at] + bytes((value,)) + event[at + 1 :])
            except BinlogError as error:
                assert error.event_pos is not None
