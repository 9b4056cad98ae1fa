"""JSON differences: what PARTIAL_UPDATE_ROWS holds in the place of a document.

A value is a u32 length and, in these bytes, differences one after the other:

    operation u8    0 REPLACE, 1 INSERT, 2 REMOVE
    path            lenenc length, a JSON path in UTF-8: `$.a[3]."b c"`
    value           lenenc length, a binary JSON document; not of REMOVE

They are applied in order to the document of the before-image. They are applied to the server's text
of both, which loses nothing: a number is kept as it is written, and the texts of
parts make the text of the whole. Source: sql/json_diff.cc (apply_json_diffs), where a
difference that does not fit its document stops a replica, too.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import cython

from binlake.core.memory.cursor import Cursor
from binlake.core.values.json_binary import render
from binlake.errors import MalformedError

#: The prefix of a list of differences whose document is not in the log. No JSON text begins with it.
MARK = "JSON_DIFF "

_OPERATIONS = ("replace", "insert", "remove")
_REMOVE = 2


class Number(str):
    """A JSON number as it is written: 1.10 is not 1.1."""


class Difference(NamedTuple):
    """`operation` (replace, insert, remove) at a `path`; `value` is JSON text, "" for remove."""

    operation: str
    path: str
    value: str


def read_differences(c: Cursor) -> list[Difference]:
    """The differences at the cursor, which steps over them and their length.

    Raises MalformedError, TruncatedError.
    """
    size: cython.Py_ssize_t = c.u32()
    if size > c.left():
        c.need(size)
    end: cython.Py_ssize_t = c.pos + size
    found = []
    while c.pos < end:
        at: cython.Py_ssize_t = c.pos - c.start
        code: cython.int = c.u8()
        if code >= len(_OPERATIONS):
            raise MalformedError(f"no JSON difference has operation {code}", offset=at)
        path = _text(c.take(c.length()), at)
        value = ""
        if code != _REMOVE:
            stop: cython.Py_ssize_t = c.length()
            stop += c.pos
            value = render(c.view, c.pos, stop, c.start).decode()
            c.skip(stop - c.pos)
        found.append(Difference(_OPERATIONS[code], path, value))
    if c.pos != end:
        raise MalformedError("a JSON difference is longer than its value", offset=end - c.start)
    return found


def differences_text(differences: list[Difference]) -> str:
    """The differences themselves, marked as such: the document that they change is not known."""
    entries = []
    for difference in differences:
        entry = {"op": difference.operation, "path": difference.path}
        if difference.operation != "remove":
            entry["value"] = parse_json(difference.value)
        entries.append(entry)
    return MARK + write_json(entries)


def apply_differences(document: str, differences: list[Difference]) -> str:
    """The text of `document` (JSON as the server writes it) after the differences.

    Raises MalformedError for one that does not fit.
    """
    root = parse_json(document)
    for difference in differences:
        legs = _legs(difference.path)
        value = parse_json(difference.value) if difference.operation != "remove" else None
        if not legs:
            if difference.operation != "replace":
                raise _unfit(difference, "the document itself can only be replaced")
            root = value
            continue
        *way, last = legs
        holder = root
        for leg in way:
            holder = _at(holder, leg, difference)
        _change(holder, last, value, difference)
    return write_json(root)


def _change(holder: Any, leg: str | int, value: Any, difference: Difference) -> None:
    """Do the difference to the member or cell `leg` of `holder`."""
    if difference.operation != "insert":
        _at(holder, leg, difference)
        if difference.operation == "remove":
            del holder[leg]
        else:
            holder[leg] = value
    elif isinstance(holder, list) and isinstance(leg, int):
        holder.insert(leg, value)  # beyond the end: at the end, as the server does
    elif isinstance(holder, dict) and isinstance(leg, str) and leg not in holder:
        holder[leg] = value
        # the order of keys in the binary format: shorter ones first, then by bytes
        keys = sorted(holder, key=_key_order)
        members = [(key, holder[key]) for key in keys]
        holder.clear()
        holder.update(members)
    else:
        raise _unfit(difference, "nothing can be inserted there")


def _at(holder: Any, leg: str | int, difference: Difference) -> Any:
    """The member or cell `leg` of `holder`."""
    if isinstance(leg, int):
        if isinstance(holder, list) and leg < len(holder):
            return holder[leg]
    elif isinstance(holder, dict) and leg in holder:
        return holder[leg]
    raise _unfit(difference, "the document has no such place")


def _unfit(difference: Difference, why: str) -> MalformedError:
    return MalformedError(
        f"a JSON difference does not fit its document: {difference.operation} at"
        f" {difference.path}: {why}"
    )


def _key_order(key: str) -> tuple[int, bytes]:
    raw = key.encode()
    return len(raw), raw


def _legs(path: str) -> list[str | int]:
    """The members (text) and cells (number) that a JSON path goes through."""
    legs: list[str | int] = []
    at: cython.Py_ssize_t = 1
    end: cython.Py_ssize_t
    try:
        if path[:1] != "$":
            raise ValueError("a path begins with $")
        while at < len(path):
            if path[at] == "[":
                end = path.index("]", at)
                legs.append(_cell(path[at + 1 : end]))
                at = end + 1
            elif path[at] != ".":
                raise ValueError("neither member nor cell")
            elif path[at + 1 : at + 2] == '"':
                member, end = json.decoder.scanstring(path, at + 2, True)
                legs.append(member)
                at = end
            else:
                end = at + 1
                while end < len(path) and path[end] != "." and path[end] != "[":
                    end += 1
                if end == at + 1:
                    raise ValueError("a member without a name")
                legs.append(path[at + 1 : end])
                at = end
    except ValueError as error:
        raise MalformedError(f"malformed path of a JSON difference, {path}: {error}") from None
    return legs


def _cell(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise ValueError("no number of a cell")
    return int(text)


def _text(raw: bytes, at: cython.Py_ssize_t) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedError("the path of a JSON difference is not UTF-8", offset=at) from None


def parse_json(text: str) -> Any:
    """JSON text as Python values; numbers as they are written."""
    return json.loads(text, parse_int=Number, parse_float=Number)


def write_json(value: Any) -> str:
    """Such values as JSON text, as the server writes it."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ", ".join([f"{write_json(k)}: {write_json(v)}" for k, v in value.items()]) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join([write_json(v) for v in value]) + "]"
    return json.dumps(value, ensure_ascii=False)  # a string, true, false, null
