"""JSON text back to the binary document: the server's own documents, gaps, and hostile bytes."""

from __future__ import annotations

import random
import struct

import pytest

from binlake.core.values.json_binary import render
from binlake.errors import MalformedError
from binlake.format import column_types as ct
from binlake.table.types.base import Target
from binlake.table.types.json_wire import document_bytes
from support.values.column_types import array_of, kind_of
from support.values.json_documents import SERVER_TEXTS


@pytest.mark.parametrize(("data", "server_text"), SERVER_TEXTS)
def test_the_servers_documents(data: str, server_text: str) -> None:
    raw = bytes.fromhex(data)
    assert document_bytes(server_text, raw).hex() == data


def large(kind: int, *entries: bytes) -> bytes:
    head = struct.pack("<II", len(entries), 8 + 5 * len(entries))
    return bytes((kind,)) + head + b"".join(entries)


def test_integers_and_literals_in_entries_of_large_containers() -> None:
    array = large(
        0x03,
        b"\x07" + struct.pack("<i", -70000),
        b"\x08" + struct.pack("<I", 1 << 31),
        b"\x05" + struct.pack("<i", -5),
        b"\x04" + struct.pack("<I", 1),
    )
    shown = render(array, 0, len(array)).decode()
    assert shown == "[-70000, 2147483648, -5, true]"
    assert document_bytes(shown, array) == array


def test_an_empty_document() -> None:
    assert document_bytes("null", b"") == b""


# what a partial update left of a value that became shorter
GAP = b"\x02" + struct.pack("<HH", 1, 15) + b"\x0c" + struct.pack("<H", 12) + b"old!!" + b"\x02ab"


def test_gaps_are_closed() -> None:
    assert document_bytes('["ab"]', GAP).hex() == "0201000a000c0700026162"


@pytest.mark.parametrize(
    ("shown", "data"),
    [
        ("70000", "05ffff"),  # does not fit
        ('"1"', "05ffff"),
        ("1", "0c0131"),
        ("[1]", "0000000400"),
        ("{}", "0200000400"),
        ("[1, 2]", "0201000700050100"),  # the stored one has one element
        ("7", "10"),
        ("2", "0401"),
        ('"base64:type15:QQ=="', "0ffc0141"),  # of another type
        ('"text"', "0ffc0141"),
        ('"2026-13"', "0f0a080000000000000000"),
    ],
)
def test_a_text_of_another_document(shown: str, data: str) -> None:
    with pytest.raises(ValueError):
        document_bytes(shown, bytes.fromhex(data))


def test_any_document_that_has_a_text_gives_bytes_or_a_value_error() -> None:
    rng = random.Random(5)
    samples = [bytes.fromhex(data) for data, _ in SERVER_TEXTS]
    compared = 0
    for _ in range(20_000):
        changed = bytearray(rng.choice(samples))
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        raw = bytes(changed)
        try:
            shown = render(raw, 0, len(raw)).decode()
        except MalformedError:
            continue
        try:
            made = document_bytes(shown, raw)
        except ValueError:
            continue
        assert render(made, 0, len(made)).decode() == shown
        compared += 1
    assert compared > 1000


def test_the_column_compares_documents_and_keeps_those_with_gaps() -> None:
    kind, _ = kind_of(Target.TEXT, ct.MYSQL_TYPE_JSON, length=4)
    for raw in (GAP, bytes.fromhex(SERVER_TEXTS[-1][0]), b""):
        wire = len(raw).to_bytes(4, "little") + raw
        (value,) = array_of(kind, wire).to_pylist()
        assert kind.end_of_same(memoryview(wire), 0, value) == len(wire)
        assert kind.end_of_same(memoryview(wire[:-1]), 0, value) == -1
    # minus zero as an integer: no server stores that
    other = b"\x03\0\0\0\x05\x07\0"
    assert kind.end_of_same(memoryview(other), 0, "8") == -1
