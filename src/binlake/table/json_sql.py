"""MySQL's JSON documents as SQL: text where a server that parses it gets the same document.

A number in a document may be a DECIMAL, whose digits (1.50, or 65 of them) a parser would not
keep, since it makes a DOUBLE of them. Those are put in by themselves, as SQL literals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.buffers import ByteBuffer
from binlake.core.json_diff import MARK, Number, parse_json, write_json
from binlake.core.number_text import write_double
from binlake.table.sql_text import string_literal, string_text

__all__ = ["differences_sql", "document_literals", "document_sql"]

_FUNCTIONS = {"replace": "JSON_REPLACE", "insert": "JSON_INSERT", "remove": "JSON_REMOVE"}
# what a text has in which a number could be written otherwise than a parser's DOUBLE is
_SUSPECT = r"\.\d*0|\d{15}"
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)


def document_literals(documents: pa.Array) -> pa.Array:
    """Documents (the server's text) as string literals, or as expressions where one would not do."""
    literals = string_literal(documents)
    suspect = pc.match_substring_regex(documents, _SUSPECT)
    if not pc.any(suspect).as_py():
        return literals
    made = [
        document_sql(text.as_py()) if doubt.as_py() else None
        for text, doubt in zip(documents, suspect, strict=True)
    ]
    return pc.if_else(suspect, pa.array(made, pa.large_string()), literals)


def document_sql(text: str) -> str:
    """One document: a string literal, or JSON_REPLACE of the numbers that it cannot say."""
    numbers = [
        f", {string_text(path)}, {number}"
        for path, number in _numbers(parse_json(text), "$")
        if not _survives(number)
    ]
    literal = string_text(text)
    return f"JSON_REPLACE({literal}{''.join(numbers)})" if numbers else literal


def differences_sql(column: str, differences: str) -> str:
    """What makes differences (`JSON_DIFF [...]`) in the document of a column."""
    made = column
    for difference in parse_json(differences.removeprefix(MARK)):
        path = difference["path"]
        function = _FUNCTIONS[difference["op"]]
        if difference["op"] == "insert" and path.endswith("]"):
            function = "JSON_ARRAY_INSERT"  # before the cell that is there
        made = f"{function}({made}, {string_text(path)}"
        if difference["op"] != "remove":
            made += f", CAST({document_sql(write_json(difference['value']))} AS JSON)"
        made += ")"
    return made


def _numbers(value: Any, path: str) -> Iterator[tuple[str, Number]]:
    """Every number of a document, with its path."""
    if isinstance(value, Number):
        yield path, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _numbers(member, f"{path}.{json.dumps(key, ensure_ascii=False)}")
    elif isinstance(value, list):
        for cell, member in enumerate(value):
            yield from _numbers(member, f"{path}[{cell}]")


def _survives(number: Number) -> bool:
    """Whether a server that parses the text writes it the same again."""
    if _INTEGER.fullmatch(number):
        return True
    if number.lstrip("-").isdigit():
        return -(1 << 63) <= int(number) < 1 << 64
    out = ByteBuffer()
    write_double(out, abs(float(number)))
    return bytes(out.detach()).decode() == number.lstrip("-")
