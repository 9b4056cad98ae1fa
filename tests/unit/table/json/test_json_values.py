"""Arrow columns as JSON values: checked by reading what is written with the standard library."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.text.text_rows import (
    RowTemplate,
    ValueColumn,
    ValueForm,
    write_rows,
    write_values,
)
from binlake.table.text import json_values

WIDTHS = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.uint64(): (0, 2**64 - 1),
}


def written(make: Callable[[pa.Array], ValueColumn], array: pa.Array) -> list[str]:
    template = RowTemplate(len(array))
    template.add(b"", make(array))
    texts: list[str] = json_values.as_array(template).to_pylist()
    return texts


def read_back(make: Callable[[pa.Array], ValueColumn], array: pa.Array) -> list[Any]:
    return [json.loads(text) for text in written(make, array)]


@given(st.lists(st.none() | st.text()), st.integers(0, 3))
def test_strings_read_back(texts: list[str | None], skip: int) -> None:
    texts = [t if t is None else t.encode("utf-8", "replace").decode() for t in texts]
    for kind in (pa.string(), pa.large_string()):
        assert read_back(json_values.strings, pa.array(texts, kind).slice(skip)) == texts[skip:]


@pytest.mark.parametrize("char", [chr(code) for code in range(128)])
@pytest.mark.parametrize("lead", range(10))
def test_every_ascii_character_is_escaped_as_the_standard_library_does(
    char: str, lead: int
) -> None:
    text = "é" * lead + char + "x" * lead + char
    assert written(json_values.strings, pa.array([text, None, ""])) == [
        json.dumps(text, ensure_ascii=False),
        "null",
        '""',
    ]


@given(st.lists(st.none() | st.binary()), st.integers(0, 3))
def test_hex_and_base64_read_back(values: list[bytes | None], skip: int) -> None:
    array = pa.array(values, pa.binary()).slice(skip)
    kept = values[skip:]
    assert read_back(json_values.hex_values, array) == [
        v if v is None else f"0x{v.hex()}" for v in kept
    ]
    assert [
        v if v is None else base64.b64decode(v) for v in read_back(json_values.base64_values, array)
    ] == kept


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
def test_integers_of_every_width_keep_all_digits(kind: pa.DataType) -> None:
    low, high = WIDTHS[kind]
    values = [low, high, 0, None, 7, 10, 99, 100]
    assert read_back(json_values.integers, pa.array(values, kind)) == values
    assert read_back(json_values.integers, pa.array(values, kind).slice(2, 3)) == [0, None, 7]


def test_rows_choose_their_value_and_their_variant() -> None:
    template = RowTemplate(3)
    which, variant = pa.array([1, 0, 1], pa.int32()), pa.array([0, -1, 1], pa.int32())
    shared = json_values.strings(pa.array(["a", "b"]))
    template.add(b"<", shared, json_values.row_index(which))
    template.add(b"none", variant_of=json_values.row_index(variant), variant=-1)
    template.add(b"one", variant_of=json_values.row_index(variant), variant=1)
    template.add(b">")
    assert bytes(write_rows([template])) == b'<"b"><"a"none><"b"one>'
    assert bytes(write_rows([template], limit=2)) == b'<"b"><"a"none>'


def test_rows_of_several_tables_are_written_in_the_order_given() -> None:
    templates = []
    for letter, count in (("a", 3), ("b", 0), ("c", 2)):
        template = RowTemplate(count)
        numbers = pa.array(range(count), pa.int64())
        template.add(letter.encode(), json_values.integers(numbers))
        templates.append(template)
    order = pa.array([3, 0, 4, 1, 2], pa.int64()).buffers()[1]
    assert bytes(write_rows(templates, order)) == b"c0a0c1a1a2"
    assert bytes(write_rows(templates, order, 3)) == b"c0a0c1"
    assert bytes(write_rows(templates)) == b"a0a1a2c0c1"
    assert bytes(write_rows([])) == b""


def test_offsets_outside_the_buffers_are_rejected() -> None:
    numbers = pa.array([1, 2], pa.int64())
    with pytest.raises(ValueError, match="bytes of data for 3 numbers"):
        ValueColumn(ValueForm.INTEGER, 3, None, None, numbers.buffers()[1].slice(0, 16), width=8)
    with pytest.raises(ValueError, match="bytes of offsets"):
        ValueColumn(ValueForm.RAW, 3, None, bytes(12), b"")
    with pytest.raises(ValueError, match="bytes of validity"):
        ValueColumn(ValueForm.RAW, 9, b"\0", bytes(40), b"")
    for offsets in ((0, 4), (2, 1), (-1, 1)):
        bad = ValueColumn(
            ValueForm.RAW, 1, None, pa.array(offsets, pa.int32()).buffers()[1], b"abc"
        )
        template = RowTemplate(1)
        template.add(b"", bad)
        with pytest.raises(IndexError):
            write_values([template])
    for wrong in (2, -1):
        template = RowTemplate(1)
        index = json_values.row_index(pa.array([wrong], pa.int32()))
        template.add(b"", json_values.integers(numbers), index)
        with pytest.raises(IndexError):
            write_rows([template])
        template = RowTemplate(1)
        order = pa.array([0, wrong + 7], pa.int64()).buffers()[1]
        with pytest.raises(IndexError):
            write_rows([template, RowTemplate(1)], order)
    template = RowTemplate(2)
    with pytest.raises(ValueError, match="for 2 entries"):
        template.add(b"", json_values.integers(numbers), bytes(4))
