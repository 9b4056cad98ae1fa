"""Binary JSON of any shape: text and back, differences applied, and bytes that are none."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.core.memory.cursor import Cursor
from binlake.core.values.json_binary import render
from binlake.core.values.json_diff import (
    Difference,
    apply_differences,
    differences_text,
    parse_json,
    read_differences,
    write_json,
)
from binlake.errors import BinlogError
from binlake.table.types.json_wire import document_bytes
from support.values.json_bytes import document

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


def members(of: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects in the order of the binary format: shorter keys first, then by bytes."""
    order = st.dictionaries(texts, of, max_size=5).map(
        lambda made: sorted(
            made.items(), key=lambda item: (len(item[0].encode()), item[0].encode())
        )
    )
    return order.map(dict)


values = st.recursive(scalars, lambda of: st.lists(of, max_size=5) | members(of), max_leaves=20)


def text_of(raw: bytes) -> str:
    return render(raw, 0, len(raw)).decode()


@given(values, st.sampled_from([2, 4]))
@settings(max_examples=300, deadline=None)
def test_a_document_is_its_text_and_its_bytes_again(value: Any, width: int) -> None:
    raw = document(value, width)
    shown = text_of(raw)
    assert json.loads(shown) == value
    assert document_bytes(shown, raw) == raw


@given(values, st.data())
@settings(max_examples=300, deadline=None)
def test_changed_documents_are_json_or_an_error(value: Any, data: st.DataObject) -> None:
    raw = bytearray(document(value))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        shown = text_of(bytes(raw))
    except BinlogError:
        return
    json.loads(shown)


@given(st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_json_or_an_error(raw: bytes) -> None:
    try:
        shown = text_of(raw)
    except BinlogError:
        return
    json.loads(shown)


@given(values)
def test_text_is_read_and_written_without_loss(value: Any) -> None:
    shown = text_of(document(value))
    assert write_json(parse_json(shown)) == shown


# --- differences ---


def places(value: Any, path: str = "$") -> list[tuple[str, Any, Any]]:
    """Every member and cell: its path, its holder, its key there."""
    found: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict):
        for key, item in value.items():
            at = f"{path}.{json.dumps(key)}"
            found += [(at, value, key), *places(item, at)]
    elif isinstance(value, list):
        for number, item in enumerate(value):
            at = f"{path}[{number}]"
            found += [(at, value, number), *places(item, at)]
    return found


@given(values, values, st.data())
@settings(max_examples=300, deadline=None)
def test_differences_change_text_and_values_equally(
    value: Any, new: Any, data: st.DataObject
) -> None:
    changed = copy.deepcopy(value)
    differences = []
    for _ in range(3):
        found = places(changed)
        if not found:
            break
        path, holder, key = data.draw(st.sampled_from(found))
        operation = data.draw(st.sampled_from(["replace", "remove", "insert"]))
        if operation == "insert" and not isinstance(holder, list):
            operation = "replace"
        fresh = copy.deepcopy(new)
        if operation == "replace":
            holder[key] = fresh
        elif operation == "insert":
            holder.insert(key, fresh)
        else:
            del holder[key]
        shown = "" if operation == "remove" else text_of(document(new))
        differences.append(Difference(operation, path, shown))
    again = read_differences(Cursor(wire(differences, new)))
    assert again == differences
    assert json.loads(apply_differences(text_of(document(value)), again)) == changed
    assert differences_text(again).startswith("JSON_DIFF [")


def wire(differences: list[Difference], value: Any) -> bytes:
    """The differences as a log has them; `value` is what those that have one hold."""
    body = b""
    for operation, path, _ in differences:
        raw = path.encode()
        body += bytes((("replace", "insert", "remove").index(operation),)) + lenenc(raw)
        body += lenenc(document(value)) if operation != "remove" else b""
    return struct.pack("<I", len(body)) + body


def lenenc(raw: bytes) -> bytes:
    assert len(raw) < 1 << 16
    return (bytes((len(raw),)) if len(raw) < 251 else b"\xfc" + struct.pack("<H", len(raw))) + raw


@given(st.binary(max_size=40), values)
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_differences_or_an_error(raw: bytes, value: Any) -> None:
    stored = struct.pack("<I", len(raw)) + raw
    try:
        found = read_differences(Cursor(stored))
        json.loads(apply_differences(text_of(document(value)), found))
    except BinlogError:
        pass
