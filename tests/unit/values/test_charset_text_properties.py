"""Character sets: what decodes encodes to the same text; what does not is an error, never another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import MalformedError
from binlake.events.body.collated_text import collation_text
from binlake.format import column_types as ct
from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.table.types.base import Target
from binlake.values.charset_text import decode, encode
from binlake.values.options import ReadOptions
from support.logs.mutations import IS_THOROUGH
from support.values.column_types import array_of, kind_of

#: Sets in which every byte is a character.
TOTAL = {"armscii8", "latin1", "latin2", "latin5", "latin7", "koi8r", "koi8u", "cp850", "cp852", "cp866", "keybcs2",
         "macce", "macroman"}  # fmt: skip
COLLATION_OF = {collation.charset: number for number, collation in COLLATIONS.items()}


@pytest.mark.parametrize("charset", CHARSETS)
@given(raw=st.binary(max_size=24))
@settings(max_examples=150 if IS_THOROUGH else 50, deadline=None)
def test_any_bytes(charset: str, raw: bytes) -> None:
    try:
        text = decode(charset, raw)
    except UnicodeDecodeError as error:
        assert raw[error.start : error.end]
        return
    assert decode(charset, encode(charset, text)) == text
    assert "\ufffd" not in text or decode(charset, encode(charset, "\ufffd")) == "\ufffd"
    assert not any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("charset", CHARSETS)
@given(text=st.text(max_size=12))
def test_any_text(charset: str, text: str) -> None:
    try:
        raw = encode(charset, text)
    except UnicodeEncodeError:
        return
    assert decode(charset, raw) == text


def invalid_in(charset: str) -> bytes | None:
    """The first bytes, of those below, that are not valid; None for a set that has no such."""
    single = [bytes((code,)) for code in range(256)]
    # half a surrogate pair, beyond Unicode, a lead without its trail
    wide = [b"\xd8\x00", b"\x00\xd8", b"\x00\x11\x00\x00", b"\x81\xff", b"\x81", b"\x00"]
    for raw in (*single, *wide):
        try:
            decode(charset, raw)
        except UnicodeDecodeError:
            return raw
    return None


def test_which_sets_hold_any_bytes() -> None:
    assert {charset for charset in CHARSETS if invalid_in(charset) is None} == TOTAL


@pytest.mark.parametrize("charset", sorted({*CHARSETS} - TOTAL - {"utf8"}))
@pytest.mark.parametrize("code", [ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_STRING, ct.MYSQL_TYPE_BLOB])
@pytest.mark.parametrize("target", Target)
def test_invalid_bytes_are_an_error_or_tagged_hex(charset: str, code: int, target: Target) -> None:
    """For every set, type and target, a value is complete or reported as invalid, never repaired."""
    bad = invalid_in(charset)
    assert bad is not None
    good = encode(charset, "A")
    length = 1 if code == ct.MYSQL_TYPE_BLOB else 40
    column: dict[str, Any] = {"length": length, "collation_id": COLLATION_OF[charset]}
    wire = [bytes((len(raw),)) + raw for raw in (good, bad, b"")]
    strict, _ = kind_of(target, code, **column)
    with pytest.raises(MalformedError) as caught:
        array_of(strict, *wire)
    assert bad.hex() in str(caught.value)
    assert f"not valid {charset}" in str(caught.value)
    assert caught.value.row == 1
    tagged, warnings = kind_of(target, code, ReadOptions(invalid="hex"), **column)
    assert array_of(tagged, *wire).to_pylist() == ["A", f"_{charset} 0x{bad.hex()}", ""]
    assert len(warnings) == 1
    assert "shown as hex" in warnings[0]


@pytest.mark.parametrize("charset", sorted({*CHARSETS} - TOTAL - {"utf8"}))
def test_invalid_bytes_elsewhere(charset: str) -> None:
    """In a COMPRESSED column; in names, members and variables, which are shown as hex."""
    bad = invalid_in(charset)
    assert bad is not None
    column: dict[str, Any] = {"length": 2, "collation_id": COLLATION_OF[charset]}
    kind, _ = kind_of(Target.TEXT, ct.MYSQL_TYPE_BLOB_COMPRESSED, **column)
    stored = b"\x00" + bad  # not compressed
    with pytest.raises(MalformedError):
        array_of(kind, len(stored).to_bytes(2, "little") + stored)
    assert collation_text(COLLATION_OF[charset], bad) == "0x" + bad.hex()
