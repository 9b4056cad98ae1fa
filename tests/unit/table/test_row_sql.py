"""Literals of SQL: what a server reads is the value, bit for bit."""

from __future__ import annotations

import json
import struct
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.values.number_text import double_text
from binlake.errors import SourceError
from binlake.format.sql_names import quoted_name
from binlake.table.sql.backwards import BackwardsFile
from binlake.table.text.json_sql import differences_sql, document_literals, document_sql
from binlake.table.text.sql_text import (
    bytes_literal,
    float_literal,
    string_literal,
    string_text,
)

STRINGS = {
    "": "''",
    "it's": "'it''s'",
    "a\\b": r"'a\\b'",
    "\\'": r"'\\'''",
    '\0\n\r\x1a\t"': "'\\0\\n\\r\\Z\t\"'",
    "é漢😀": "'é漢😀'",
}


def test_strings() -> None:
    texts = list(STRINGS)
    assert string_literal(pa.array([*texts, None])).to_pylist() == [*STRINGS.values(), None]
    assert [string_text(text) for text in texts] == list(STRINGS.values())
    assert string_literal(pa.array(texts).slice(1, 2)).to_pylist() == list(STRINGS.values())[1:3]


def test_bytes_and_names() -> None:
    assert bytes_literal(pa.array([b"", b"\0\xff", None])).to_pylist() == ["x''", "x'00ff'", None]
    assert quoted_name("a`b") == "`a``b`"


def test_floats_are_the_doubles_that_a_server_compares() -> None:
    singles = [0.1, 1e-45, 3.4028234663852886e38, 16777216.0, 0.0]
    values = pa.array([*singles, -0.0, None], pa.float32())
    literals = float_literal(values).to_pylist()
    assert literals[-2:] == ["'-0'", None]
    assert literals[0] == "0.10000000149011612e0"
    for literal, value in zip(literals, values.to_pylist(), strict=True):
        if literal is not None and not literal.startswith("'"):
            assert "e" in literal  # else a server would take it for a DECIMAL
            assert struct.pack("<f", float(literal)) == struct.pack("<f", value)
    doubles = [0.1, 5e-324, 1.7976931348623157e308, 1e22, 9007199254740993.0, -1.5]
    for literal, value in zip(float_literal(pa.array(doubles)).to_pylist(), doubles, strict=True):
        assert float(literal) == value


@pytest.mark.parametrize(
    ("document", "sql"),
    [
        ('{"a": 1, "b": [1.0, 1e300, "1.50"]}', None),
        ("18446744073709551615", None),
        ("1.2345678901234568e17", None),
        ('{"p": 1.50}', """JSON_REPLACE('{"p": 1.50}', '$."p"', 1.50)"""),
        ('[0, {"k y": -0.00}]', """JSON_REPLACE('[0, {"k y": -0.00}]', '$[1]."k y"', -0.00)"""),
        ("12345678901234567890123", "JSON_REPLACE('12345678901234567890123', '$', 12345678901234567890123)"),
        ("1234567.1234567890", "JSON_REPLACE('1234567.1234567890', '$', 1234567.1234567890)"),
        ("1234567.12345678901", "JSON_REPLACE('1234567.12345678901', '$', 1234567.12345678901)"),
        (r'{"1.50\"2.50": 0.1, "a": 0.30000000000000004}', None),
    ],
)  # fmt: skip
def test_documents_keep_decimals(document: str, sql: str | None) -> None:
    assert document_sql(document) == (sql or string_text(document))
    column = pa.array(["[]", None, document, "{}"])
    expected = ["'[]'", None, sql or string_text(document), "'{}'"]
    assert document_literals(column).to_pylist() == expected
    assert document_literals(column[1:]).to_pylist() == expected[1:]


def _written(value: object) -> str:
    if isinstance(value, float):
        return double_text(abs(value))
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)


_FINITE: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}


@given(st.lists(st.integers() | st.floats(**_FINITE) | st.decimals(**_FINITE) | st.text()))
def test_columns_of_documents_keep_the_decimals_that_each_document_keeps(
    values: list[object],
) -> None:
    written = [_written(value) for value in values]
    document = f"[{', '.join(written)}]"
    assert document_literals(pa.array([document])).to_pylist() == [document_sql(document)]


def test_differences_are_functions() -> None:
    text = (
        'JSON_DIFF [{"op": "replace", "path": "$.a", "value": "x\'"}, {"op": "insert", "path": '
        '"$.b[0]", "value": 1}, {"op": "insert", "path": "$.c", "value": {}}, '
        '{"op": "remove", "path": "$.d"}]'
    )
    assert differences_sql("`j`", text) == (
        "JSON_REMOVE(JSON_INSERT(JSON_ARRAY_INSERT(JSON_REPLACE(`j`, '$.a', CAST('\"x''\"' AS JSON)), "
        "'$.b[0]', CAST('1' AS JSON)), '$.c', CAST('{}' AS JSON)), '$.d')"
    )


def test_chunks_come_back_last_first() -> None:
    with BackwardsFile(read_bytes=3) as kept:
        assert list(kept.backwards()) == []
        for chunk in (b"first", b"", pa.py_buffer(b"second"), b"3"):
            kept.append(chunk)
        assert b"".join(kept.backwards()) == b"3secondfirst"


def test_a_full_disk_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full.open("w+b", buffering=0))
    with BackwardsFile() as kept, pytest.raises(SourceError, match="No space left"):
        kept.append(b"x")
