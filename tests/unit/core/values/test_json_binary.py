from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest

from binlake.core.values.json_binary import MAX_DEPTH, render
from binlake.errors import MalformedError
from support.values.json_bytes import document
from support.values.json_documents import SERVER_TEXTS


def text(data: bytes) -> str:
    return render(data, 0, len(data)).decode()


@pytest.mark.parametrize(("data", "server_text"), SERVER_TEXTS)
def test_the_text_is_the_servers(data: str, server_text: str) -> None:
    assert text(bytes.fromhex(data)) == server_text


def test_an_empty_document_is_null() -> None:
    assert render(b"", 0, 0) == b"null"


def test_a_document_inside_other_bytes() -> None:
    data = document({"a": "x"})
    assert render(b"\xff" * 7 + data + b"\xff" * 9, 7, 7 + len(data)) == b'{"a": "x"}'
    assert render(memoryview(data), 0, len(data)) == b'{"a": "x"}'


def _random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-(1 << 40), 1 << 40) if rng.random() < 0.5 else rng.randrange(-99, 99)
    if kind == 2:
        return rng.choice([0.5, 1e300, -1 / 3, 123456.789, 1e-9])
    if kind < 5:
        return "".join(rng.choice('ab"\\\n\x01é€😀') for _ in range(rng.choice([0, 1, 5, 130])))
    items = [_random_value(rng, depth - 1) for _ in range(rng.randrange(5))]
    return items if kind < 6 else {f"{i}ключ": item for i, item in enumerate(items)}


@pytest.mark.parametrize("width", [2, 4])
def test_documents_read_back(width: int) -> None:
    rng = random.Random(7)
    for _ in range(500):
        value = _random_value(rng, 4)
        assert json.loads(text(document(value, width))) == value


def test_integers_in_entries_of_large_containers() -> None:
    entries = b"\x07" + struct.pack("<i", -70000) + b"\x08" + struct.pack("<I", 1 << 31)
    array = b"\x03" + struct.pack("<II", 2, 8 + len(entries)) + entries
    assert text(array) == "[-70000, 2147483648]"


def test_a_document_may_have_gaps() -> None:
    # a partial update leaves the old bytes of a value that became shorter
    array = (
        b"\x02" + struct.pack("<HH", 1, 15) + b"\x0c" + struct.pack("<H", 12) + b"old!!" + b"\x02ab"
    )
    assert text(array) == '["ab"]'


def test_doubles_read_back_and_are_shortest() -> None:
    rng = random.Random(8)
    for _ in range(20_000):
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if rng.random() < 0.7:
            value = rng.randrange(10 ** rng.randrange(1, 18)) / 10 ** rng.randrange(25)
        if value - value == 0:
            shown = text(b"\x0b" + struct.pack("<d", value))
            assert float(shown) == value
            digits = shown.lstrip("-").partition("e")[0].replace(".", "").strip("0")
            shortest = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
            assert digits == shortest


@pytest.mark.parametrize(
    "data",
    [
        "0403",  # a literal that is none
        "06",  # no number
        "0bffffffffffffff7f",  # not a number
        "0b000000000000f07f",  # infinite
        "0c05616263",  # a string beyond the end
        "0c8080808080",  # a length without end
        "0dff",  # no such type
        "10",
        "0c01ff",  # not UTF-8
        "0c02c080",  # longer than needed
        "0c03eda080",  # a surrogate
        "0c04f4908080",  # beyond Unicode
        "0c02e282",
        "00ffffffff",  # more elements than bytes
        "02010003000400",  # larger than it says
        "020100ff0004",
        "0201000a000c00000161",  # the value is in the entries
        "0201000a000cff000161",  # the value is behind the end
        "0001000e000200010005010061",  # the key is in the entries
        "0ff6",
        "0ff6020a0b",  # a DECIMAL without digits
        "0ff6040a027b01",  # with too few
        "0ff6060603ffffffff",  # with groups that are no digits
        "0f0a08ffffffffffffff7f",  # no date
        "0f0b08ffffffffffffff7f",  # no time
        "0f0c080000003e00000000",  # minute 62
    ],
)
def test_malformed(data: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(MalformedError) as caught:
        render(raw, 0, len(raw))
    assert 0 <= caught.value.offset <= len(raw)


def test_nesting_as_deep_as_a_server_allows() -> None:
    value: Any = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert text(document(value)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    with pytest.raises(MalformedError, match="inside each other"):
        text(document([value]))


def test_values_that_share_bytes_are_refused() -> None:
    # both elements of each array are the same array further on: 2 ** 60 elements in the end
    data = struct.pack("<HH", 0, 4)
    for _ in range(60):
        data = struct.pack("<HH", 2, 10 + len(data)) + 2 * (b"\x02" + struct.pack("<H", 10)) + data
    with pytest.raises(MalformedError, match="overlap"):
        render(b"\x02" + data, 0, 1 + len(data))


def test_cuts_and_changes_give_text_or_malformed() -> None:
    rng = random.Random(9)
    whole = document({"a": [1, "déjà", 2.5, {"b": None}], "c": "x" * 200, "d": 1 << 40})
    samples = [whole, *(bytes.fromhex(data) for data, _ in SERVER_TEXTS)]
    for data in samples:
        for size in range(1, len(data)):
            _text_or_malformed(data[:size])
    for _ in range(20_000):
        changed = bytearray(rng.choice(samples))
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        _text_or_malformed(bytes(changed))


def _text_or_malformed(data: bytes) -> None:
    try:
        made = render(data, 0, len(data))
    except MalformedError:
        return
    assert made.decode()  # UTF-8
    assert len(made) <= 8 * len(data) + 90
