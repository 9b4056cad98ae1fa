"""MySQL's JSON documents as SQL: text, if a server that parses it gets the same document.

A number in a document may be a DECIMAL, whose digits (1.50, or 65 of them) a parser would not
keep, since it makes a DOUBLE of them. Those are inserted separately, as SQL literals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.values.json_diff import MARK, Number, parse_json, write_json
from binlake.core.values.number_text import double_text, read_back_the_same
from binlake.source.arrays import array
from binlake.table.text.sql_text import string_literal, string_text

_FUNCTIONS = {"replace": "JSON_REPLACE", "insert": "JSON_INSERT", "remove": "JSON_REMOVE"}
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)


def document_literals(documents: pa.Array) -> pa.Array:
    """Return documents (the server's text) as string literals, or as expressions if a literal is
    not exact.
    """
    text = documents.cast(pa.large_string())
    literals = string_literal(text)
    if len(text) == 0:
        return literals
    _, ends, data = text.buffers()
    offsets = memoryview(ends).cast("B")[8 * text.offset :]
    same = read_back_the_same(memoryview(data or b"").cast("B"), offsets, len(text))
    if all(same):
        return literals
    made = [
        None if is_same or not document.is_valid else document_sql(document.as_py())
        for document, is_same in zip(text, same, strict=True)
    ]
    return pc.coalesce(array(made, pa.large_string()), literals)


def document_sql(text: str) -> str:
    """Return one document: a string literal, or JSON_REPLACE of the numbers that it cannot
    contain.
    """
    numbers = [
        f", {string_text(path)}, {number}"
        for path, number in _numbers(parse_json(text), "$")
        if not _survives(number)
    ]
    literal = string_text(text)
    return f"JSON_REPLACE({literal}{''.join(numbers)})" if numbers else literal


def differences_sql(column: str, differences: str) -> str:
    """Return the expression that applies differences (`JSON_DIFF [...]`) to the document of a
    column.
    """
    made = column
    for difference in parse_json(differences.removeprefix(MARK)):
        path = difference["path"]
        function = _FUNCTIONS[difference["op"]]
        if difference["op"] == "insert" and path.endswith("]"):
            function = "JSON_ARRAY_INSERT"  # before the existing cell
        made = f"{function}({made}, {string_text(path)}"
        if difference["op"] != "remove":
            made += f", CAST({document_sql(write_json(difference['value']))} AS JSON)"
        made += ")"
    return made


def _numbers(value: Any, path: str) -> Iterator[tuple[str, Number]]:
    """Yield every number of a document, with its path."""
    if isinstance(value, Number):
        yield path, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _numbers(member, f"{path}.{json.dumps(key, ensure_ascii=False)}")
    elif isinstance(value, list):
        for cell, member in enumerate(value):
            yield from _numbers(member, f"{path}[{cell}]")


def _survives(number: Number) -> bool:
    """Whether a server that parses the text writes the same text again."""
    if _INTEGER.fullmatch(number):
        return True
    if number.lstrip("-").isdigit():
        return -(1 << 63) <= int(number) < 1 << 64
    return double_text(abs(float(number))) == number.lstrip("-")
