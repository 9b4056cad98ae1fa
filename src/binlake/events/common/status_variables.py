"""The status variables of QUERY events: reading, writing and showing them.

Codes, names and layouts: format/query_status.py. A variable is kept as (code,
value), in the log's order: a tuple of integers, bytes, a tuple of those. An unknown code ends
the parsing, since the length of its data is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from binlake.errors import MalformedError
from binlake.events.base import text_or_hex
from binlake.events.body.fields import REST, FieldFormat
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.flags import FL_COMMIT_ALTER, FL_ROLLBACK_ALTER
from binlake.format.query_status import (
    OVER_MAX_DBS_IN_EVENT_MTS,
    Q_AUTO_INCREMENT,
    Q_CHARSET_CODE,
    STATUS_VARIABLES,
)

#: Code and value of one variable.
StatusItem = tuple[int, Any]

# GTID_FLAGS3 carries the sequence number of a START ALTER with these bits (FL_COMMIT_ALTER_E1,
# FL_ROLLBACK_ALTER_E1 of MariaDB's GTID event)
_ALTER_END = FL_COMMIT_ALTER | FL_ROLLBACK_ALTER

_PARTS = {
    Q_AUTO_INCREMENT: ("increment", "offset"),
    Q_CHARSET_CODE: ("client", "connection", "server"),
}


class _Layout(NamedTuple):
    """How the data of a variable is read, written and shown."""

    wire: FieldFormat
    show: Callable[[Any], Any]


def _integers(code: int, widths: Sequence[int]) -> _Layout:
    """The layout of as many integers as `widths` has."""
    parts = _PARTS.get(code)

    def read(reader: BodyReader, name: str) -> tuple[int, ...]:
        cursor = reader.at(name)
        return tuple(cursor.le_uint(width) for width in widths)

    def write(writer: BodyWriter, name: str, value: tuple[int, ...]) -> None:
        for width, number in zip(widths, value, strict=True):
            writer.le_uint(name, width, number)

    def show(value: tuple[int, ...]) -> Any:
        return dict(zip(parts, value, strict=True)) if parts else value[0]

    return _Layout(FieldFormat(read, write), show)


def _read_text_nul(reader: BodyReader, name: str) -> bytes:
    value = reader.short(name)
    if value:
        reader.nul(name)
    return value


def _write_text_nul(writer: BodyWriter, name: str, value: bytes) -> None:
    writer.short(name, value)
    if value:
        writer.nul(name)


def _write_user(writer: BodyWriter, name: str, value: tuple[bytes, bytes]) -> None:
    for part in value:
        writer.short(name, part)


def _read_names(reader: BodyReader, name: str) -> tuple[bytes, ...] | None:
    count = reader.u8(name)
    if count == OVER_MAX_DBS_IN_EVENT_MTS:
        return None
    return tuple(reader.until_nul(name) for _ in range(count))


def _write_names(writer: BodyWriter, name: str, value: tuple[bytes, ...] | None) -> None:
    if value is not None and len(value) == OVER_MAX_DBS_IN_EVENT_MTS:
        raise MalformedError("too many databases to name them", field=name)
    writer.u8(name, OVER_MAX_DBS_IN_EVENT_MTS if value is None else len(value))
    for database in value or ():
        writer.until_nul(name, database)


def _read_flags3(reader: BodyReader, name: str) -> tuple[int, ...]:
    flags = reader.u8(name)
    return (flags, reader.u64(name)) if flags & _ALTER_END else (flags,)


def _write_flags3(writer: BodyWriter, name: str, value: tuple[int, ...]) -> None:
    if bool(value[0] & _ALTER_END) != (len(value) == 2):
        raise MalformedError("the flags and the number contradict each other", field=name)
    writer.u8(name, value[0])
    for number in value[1:]:
        writer.u64(name, number)


def _read_pairs(reader: BodyReader, name: str) -> tuple[tuple[int, int], ...]:
    return tuple((reader.u16(name), reader.u16(name)) for _ in range(reader.u8(name)))


def _write_pairs(writer: BodyWriter, name: str, value: tuple[tuple[int, int], ...]) -> None:
    writer.u8(name, len(value))
    for number in chain.from_iterable(value):
        writer.u16(name, number)


#: The layouts of `StatusVariable.layout` that are not integers.
_OTHERS = {
    "text8": _Layout(FieldFormat(BodyReader.short, BodyWriter.short), text_or_hex),
    "text8_nul": _Layout(FieldFormat(_read_text_nul, _write_text_nul), text_or_hex),
    "text8_twice": _Layout(
        FieldFormat(lambda reader, name: (reader.short(name), reader.short(name)), _write_user),
        lambda value: {"user": text_or_hex(value[0]), "host": text_or_hex(value[1])},
    ),
    "nul_texts": _Layout(
        FieldFormat(_read_names, _write_names),
        lambda value: None if value is None else [text_or_hex(name) for name in value],
    ),
    "gtid_flags3": _Layout(
        FieldFormat(_read_flags3, _write_flags3),
        lambda value: dict(zip(("flags", "start_alter_seq_no"), value, strict=False)),
    ),
    "collation_pairs": _Layout(
        FieldFormat(_read_pairs, _write_pairs),
        lambda value: [
            {"charset": charset, "collation": collation} for charset, collation in value
        ],
    ),
    "padding": _Layout(REST, len),
}

_LAYOUTS = {
    code: _integers(code, variable.widths) if variable.widths else _OTHERS[variable.layout]
    for code, variable in STATUS_VARIABLES.items()
}


def decode_status(reader: BodyReader, status_bytes: int) -> tuple[tuple[StatusItem, ...], bytes]:
    """Read the variables in `status_bytes` bytes, and the undecoded rest from an unknown code on.

    Raises TruncatedError, MalformedError.
    """
    items: list[StatusItem] = []
    unknown = b""
    with reader.block("status", status_bytes):
        while reader.left:
            code = reader.u8("status")
            variable = STATUS_VARIABLES.get(code)
            if variable is None:
                unknown = bytes((code,)) + reader.rest("status")
                break
            items.append((code, _LAYOUTS[code].wire.read(reader, variable.name)))
    return tuple(items), unknown


def encode_status(items: tuple[StatusItem, ...], unknown: bytes) -> bytes:
    """The bytes that `decode_status` reads. Raises MalformedError."""
    writer = BodyWriter()
    for code, value in items:
        writer.u8("status", code)
        _LAYOUTS[code].wire.write(writer, STATUS_VARIABLES[code].name, value)
    writer.rest("status", unknown)
    return bytes(writer.data)


def status_values(items: tuple[StatusItem, ...]) -> dict[str, Any]:
    """The variables by name: numbers and texts, several of them as dicts and lists."""
    shown: dict[str, Any] = {}
    for code, value in items:
        shown[STATUS_VARIABLES[code].name] = _LAYOUTS[code].show(value)
    return shown
