r"""The rows of INSERT statements, as dumps have them, as values of the server's text.

    for row in insert_rows(text, columns): ...

Literals are numbers, strings with backslash escapes and perhaps an introducer (`_binary 'a\0'`),
0x…, x'…', b'…' and NULL. Anything else, such as an expression, is an error: its value is not in the text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.errors import SourceError
from binlake.format.sql_names import ANSI_NAME_BYTES, unquoted_name
from binlake.table.types.base import ColumnType
from binlake.table.types.bit import BitType
from binlake.table.types.enum_set import EnumType, SetType

_FLOAT_BYTES = 4
_HEAD = re.compile(
    rb"(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY)\s+)?(?:IGNORE\s+)?(?:INTO\s+)?"
    rb"(?:(?P<database>" + ANSI_NAME_BYTES + rb")\s*\.\s*)?(?P<table>" + ANSI_NAME_BYTES + rb")\s*"
    rb"(?:\((?P<columns>(?:" + ANSI_NAME_BYTES + rb"|[\s,]++)*+)\)\s*)?(?P<values>VALUES?\s*)?",
    re.IGNORECASE,
)
_NAME = re.compile(ANSI_NAME_BYTES)
_VALUE = re.compile(
    rb"\s*+(?:(?P<null>NULL)|(?:_(?P<introducer>\w{1,32})\s*+)?'(?P<text>(?:[^'\\]|\\.|'')*+)'"
    rb"|(?:0x(?P<hex>[0-9a-f]*)|x'(?P<quoted_hex>[0-9a-f]*)')|(?:b'(?P<bits>[01]*)')"
    rb"|(?P<number>[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?))\s*+(?P<end>[,)])",
    re.IGNORECASE | re.DOTALL,
)
_ROW = re.compile(rb"\s*+(,?)\s*+\(")
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPED = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}


class InsertHead(NamedTuple):
    """The head of an INSERT. `columns` is None if it lists none; `end` is the start of its rows,
    -1 if it has no VALUES.
    """

    database: str | None
    table: str
    columns: tuple[str, ...] | None
    end: int


class DumpLiteral(NamedTuple):
    """A literal that is not NULL: its bytes; of a number, and of b'…', its digits and their base."""

    raw: bytes
    base: int = 0


def insert_head(text: bytes) -> InsertHead | None:
    """Parse the beginning of an INSERT; None for other text."""
    found = _HEAD.match(text)
    if found is None:
        return None
    columns = None
    if found["columns"] is not None:
        columns = tuple(_unquoted(name) for name in _NAME.findall(found["columns"]))
    database = None if found["database"] is None else _unquoted(found["database"])
    end = -1 if found["values"] is None else found.end()
    return InsertHead(database, _unquoted(found["table"]), columns, end)


def insert_rows(text: bytes, start: int, count: int) -> Iterator[list[DumpLiteral | None]]:
    """Yield the rows of an INSERT that begin at `start`, each of `count` values.

    Raises SourceError with the `offset` of a text that is not a literal.
    """
    at = start
    more = False
    while (row := _ROW.match(text, at)) is not None and bool(row[1]) == more:
        at, values, end = row.end(), [], b","
        while end == b",":
            found = _VALUE.match(text, at)
            if found is None:
                raise SourceError(f"expected a literal, found {_shown(text, at)}", offset=at)
            values.append(_literal(found))
            at, end = found.end(), found["end"]
        if len(values) != count:
            raise SourceError(f"a row has {len(values)} values for {count} columns", offset=at)
        yield values
        more = True
    rest = text[at : at + 80].strip()
    if rest or not more:
        raise SourceError(f"expected a row of values, found {_shown(text, at)}", offset=at)


def _shown(text: bytes, at: int) -> str:
    return repr(text[at : at + 40].decode("utf-8", "replace")) if at < len(text) else "the end"


def _literal(found: re.Match[bytes]) -> DumpLiteral | None:
    if found["number"] is not None:
        return DumpLiteral(found["number"], 10)
    if found["text"] is not None:
        text = found["text"]
        if b"\\" in text or b"''" in text:
            text = _ESCAPE.sub(_escaped, text)
        return DumpLiteral(text)
    if found["null"] is not None:
        return None
    if found["bits"] is not None:
        return DumpLiteral(found["bits"] or b"0", 2)
    digits = (found["hex"] if found["hex"] is not None else found["quoted_hex"]).decode()
    return DumpLiteral(bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0")))


def _escaped(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return b"'"
    if found[1] in (b"%", b"_"):
        return found[0]
    return _ESCAPED.get(found[1], found[1])


def _unquoted(name: bytes) -> str:
    return unquoted_name(name.decode("utf-8", "replace"))


# -- values of columns -----------------------------------------------------------------------------


def value_reader(kind: ColumnType) -> Callable[[DumpLiteral], Any]:
    """Return a function that converts a literal to a value of a column. It raises ValueError for one that the
    column cannot hold.
    """
    if isinstance(kind, BitType):
        return _bits
    if isinstance(kind, EnumType) and not isinstance(kind, SetType):
        return _enum_reader(kind)
    arrow = kind.arrow_type
    if pa.types.is_list(arrow):
        return _floats
    if pa.types.is_binary(arrow):
        return _bytes
    if pa.types.is_integer(arrow):
        return lambda literal: int(_bytes(literal))
    if pa.types.is_floating(arrow):
        return lambda literal: float(_bytes(literal))
    return lambda literal: _bytes(literal).decode("utf-8")


def _bytes(literal: DumpLiteral) -> bytes:
    if literal.base == 2:
        raise ValueError("bits are not expected here")
    return literal.raw


def _bits(literal: DumpLiteral) -> int:
    if literal.base:
        return int(literal.raw, literal.base)
    return int.from_bytes(literal.raw, "big")


def _floats(literal: DumpLiteral) -> list[float]:
    raw = _bytes(literal)
    return list(struct.unpack(f"<{len(raw) // _FLOAT_BYTES}f", raw))


def _enum_reader(kind: EnumType) -> Callable[[DumpLiteral], Any]:
    members = list(kind.members or ())
    by_index = not pa.types.is_string(kind.arrow_type)

    def read(literal: DumpLiteral) -> Any:
        text = _bytes(literal).decode("utf-8")
        if not by_index:
            return text
        if text == "":
            raise ValueError("'' may be a member, or an invalid value")
        return members.index(text) + 1

    return read
